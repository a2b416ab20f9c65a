"""How many sessions there may be, and when they end: one way for those in memory and those in a store.

An `Upkeep` admits the sessions of a kind under their limits, and ends those that were not used for their lifetime
(SPEC SES-3, SES-4, STO-7). Which there are, it asks a store, or the `OpenSessions` of a tool set.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any, Generic, TypeVar

import anyio
from anyio.abc import TaskGroup
from attrs import field, frozen

from .._quota import Caller, Full, Limit
from ..errors import QuotaExceeded, ToolfoldError
from .observers import log
from .store import Created

SWEEP = 30.0
"""Seconds between two sweeps, at most, for sessions that have expired, or whose process died during a transition.

A tenth of a session's lifetime if that is less."""
AT_ONCE = 100
"""How many sessions a sweep takes at once: their hooks may need a thread each."""
LATER = 30.0
"""Seconds after which to try again if all sessions are in use."""

K = TypeVar("K")


@frozen
class SessionKind:
    """A kind of sessions.

    Attributes:
        name: Its name, part of the keys in a store.
        what: What they are called in refusals.
        limit: How many there may be.
        lifetime: Seconds without use after which one ends.
    """

    name: str
    what: str
    limit: Limit
    lifetime: float = inf


@frozen(eq=False)
class Upkeep(Generic[K]):
    """Admits and ends the sessions of one kind.

    Attributes:
        kind: What they are.
        due: Returns up to so many that have expired, or were left in the middle of a transition.
        idlest: Returns the one that a caller has used least recently and that may end; `None` for none.
        expiry: Returns the seconds until one expires that is not used until then, of a caller's own or of all.
        end: Undoes what was left of a transition; ends one if it has expired or if asked, and returns whether so.
        heirs: The upkeep of those that inherit groups from these, which so end first.
    """

    kind: SessionKind
    due: Callable[[int], Coroutine[Any, Any, Sequence[K]]]
    idlest: Callable[[Caller], Coroutine[Any, Any, K | None]]
    expiry: Callable[[Caller, bool], Coroutine[Any, Any, float | None]]
    end: Callable[[K, bool], Coroutine[Any, Any, bool]]
    heirs: list[Upkeep[K]] = field(factory=list["Upkeep[K]"])

    async def admit(self, create: Callable[[], Coroutine[Any, Any, Created]], caller: Caller) -> int | None:
        """Create a session, after others have ended if that makes room, and return its version (SPEC SES-4).

        `None` if there is one of its name. Raises `QuotaExceeded` if there is no room, and none is made.
        """
        while not isinstance(outcome := await create(), int):
            if outcome == "exists":
                return None
            if not await self._make_room(caller):
                raise await self._refusal(caller, own=outcome == "caller_full")
        return outcome

    async def _make_room(self, caller: Caller) -> bool:
        """End what is due, or else the idlest session of a caller if the limit says so; return whether any ended."""
        if await self.sweep():
            return True
        idlest = await self.idlest(caller) if self.kind.limit.when_full == "end_idlest" else None
        return idlest is not None and await self.end(idlest, True)

    async def _refusal(self, caller: Caller, *, own: bool) -> QuotaExceeded:
        what, limit = self.kind.what, self.kind.limit
        bound = (limit.per_caller if own else limit.total) or 0
        if self.kind.lifetime == inf:
            return QuotaExceeded(what, bound, "close one before you open another")
        seconds = await self.expiry(caller, own)
        return Full(what, bound, own, caller, LATER if seconds is None else seconds)

    def start(self, tasks: TaskGroup) -> None:
        """Start to sweep now and then, each time in a task of its own, since hooks may hang."""
        if self.kind.lifetime < inf:
            tasks.start_soon(self._sweep_repeatedly, min(SWEEP, self.kind.lifetime / 10), tasks)

    async def _sweep_repeatedly(self, seconds: float, tasks: TaskGroup) -> None:
        while True:
            tasks.start_soon(self._sweep)
            await anyio.sleep(seconds)

    async def _sweep(self) -> None:
        try:
            await self.sweep()
        except ToolfoldError as error:
            log.warning("%s can't be swept now: %s", self.kind.what, error)

    async def sweep(self) -> int:
        """End the sessions that are due, many side by side, and return how many ended (SPEC SES-3, STO-3)."""
        for heirs in self.heirs:
            await heirs.sweep()
        ended, tried = list[K](), set[K]()
        while due := [key for key in await self.due(AT_ONCE) if key not in tried]:
            tried.update(due)
            async with anyio.create_task_group() as tasks:
                for key in due:
                    tasks.start_soon(self._end, key, ended)
        return len(ended)

    async def _end(self, key: K, ended: list[K]) -> None:
        try:
            if await self.end(key, False):
                ended.append(key)
        except ToolfoldError as error:
            log.warning("the session %s can't be ended now: %s", key, error)
        except Exception:  # whatever is in a record harms its own session alone (SPEC STO-8)
            log.exception("the session %s can't be ended", key)


@asynccontextmanager
async def background() -> AsyncGenerator[TaskGroup]:
    """Yield a task group for work that outlives a request; it is cancelled at the end."""
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        try:
            yield tasks
        except Exception as error:  # to be raised unchanged, not in the exception group of this task group
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
