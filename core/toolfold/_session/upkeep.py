"""What runs beside the requests of stored sessions: leases are renewed, what is due is swept, and changes are followed.

One of them runs for each kind of sessions in a process (SPEC STO-2 to STO-4).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import anyio
from anyio.abc import TaskGroup
from attrs import field, frozen

from ..errors import StoreUnavailable, ToolfoldError
from .journal import Journal
from .observers import log
from .session import Session
from .store import Store

SWEEP = 30.0
"""Seconds between two sweeps, at most, for sessions that have expired, or that a process left in the middle of a step.

A tenth of a session's lifetime if that is less."""
AT_ONCE = 100
"""How many sessions a sweep takes at once: their hooks may need a thread each."""
FIRST_PAUSE, LAST_PAUSE = 0.1, 10.0
"""Seconds until a store that does not answer is asked for changes again: they grow from the first to the last."""


@frozen
class Upkeep:
    """The work beside requests for the stored sessions of one kind.

    Attributes:
        store: Where they are.
        kind: The kind, as the store knows it.
        lifetime: Seconds without use after which a session of that kind ends.
        leased: The journals whose leases this process holds.
        cached: The sessions that this process has, by key.
        take_over: Undoes what a process left of a step, ends the session if it has expired, and returns whether so.
        heirs: The work for those that inherit groups from these, which so end first.
    """

    store: Store
    kind: str
    lifetime: float
    leased: dict[Journal, None]
    cached: Mapping[str, Session]
    take_over: Callable[[str], Coroutine[Any, Any, bool]]
    heirs: list[Upkeep] = field(factory=list["Upkeep"])

    def start(self, tasks: TaskGroup, *, local: bool, inherits: bool) -> None:
        """Start what runs beside requests: sweeping, and in a store with other processes, leases and their changes.

        Those that inherit groups are swept with their owners.
        """
        if not inherits:
            tasks.start_soon(self._sweep_repeatedly, tasks)
        for work in () if local else (self._renew_leases, self._follow):
            tasks.start_soon(work)

    async def _renew_leases(self) -> None:
        """Renew leases, at the end as long as there are some: hooks that no cancellation stops still run under them."""
        try:
            while True:
                await self._renew_all()
        finally:
            with anyio.CancelScope(shield=True):
                while self.leased:
                    await self._renew_all()

    async def _renew_all(self) -> None:
        await anyio.sleep(self.store.lease / 4)
        async with anyio.create_task_group() as tasks:  # one that is not answered must not delay the others
            for journal in tuple(self.leased):
                tasks.start_soon(journal.renew)

    async def _sweep_repeatedly(self, tasks: TaskGroup) -> None:
        """Sweep now and then, each time in a task of its own, since hooks may hang."""
        while True:
            tasks.start_soon(self._sweep)
            await anyio.sleep(min(SWEEP, self.lifetime / 10))

    async def _sweep(self) -> None:
        try:
            await self.sweep()
        except ToolfoldError as error:
            log.warning("stored sessions can't be swept now: %s", error)

    async def sweep(self) -> bool:
        """Roll back what processes have left, and end the sessions that have expired; return whether any ended.

        See SPEC SES-3, STO-3.
        """
        any_ended = False
        for heirs in self.heirs:
            await heirs.sweep()
        while True:
            due = await self.store.due(self.kind, AT_ONCE)
            ended: list[str] = []
            async with anyio.create_task_group() as tasks:
                for key in due:
                    tasks.start_soon(self._sweep_up, key, ended)
            any_ended = any_ended or bool(ended)
            if not ended or len(due) < AT_ONCE:
                return any_ended

    async def _sweep_up(self, key: str, ended: list[str]) -> None:
        try:
            if await self.take_over(key):
                ended.append(key)
        except ToolfoldError as error:
            log.warning("the stored session %s can't be ended now: %s", key, error)
        except Exception:  # whatever is in a record harms its own session alone (SPEC STO-8)
            log.exception("the stored session %s can't be ended", key)

    async def _follow(self) -> None:
        """Take over changes of the sessions that have listeners, as they happen."""
        pause = FIRST_PAUSE
        while True:
            try:
                async for key in self.store.changes():
                    pause = FIRST_PAUSE
                    for session in [self.cached.get(key)] if key is not None else list(self.cached.values()):
                        if session is not None and session.executor.is_followed:
                            await self._refresh(session)
            except ToolfoldError as error:
                log.warning("changes of stored sessions can't be followed now: %s", error)
                await anyio.sleep(pause)
                pause = min(2 * pause, LAST_PAUSE)

    async def _refresh(self, session: Session) -> None:
        journal = session.executor.stored
        try:
            record = await self.store.read(journal.key)
            if record is None:
                return
            await session.executor.load(record)
        except StoreUnavailable:
            raise
        except Exception as error:  # its next request is refused for it; the others are followed on (SPEC STO-8)
            log.warning("changes of the stored session %s can't be followed: %s", journal.key, error)
            return
        if journal.client is not None and journal.content.owed:
            journal.client(frozenset())
