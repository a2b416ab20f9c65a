"""Sessions that are kept between requests, each for a bounded time after its last use (SPEC DEL-3, SES-3, SES-4)."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice, takewhile
from weakref import WeakKeyDictionary

import anyio
from anyio.abc import TaskGroup
from attrs import define

from toolfold import Session, ToolfoldError

from .callers import Caller
from .limits import Tally

log = logging.getLogger("toolfold.mcp")


@define(eq=False)
class _Kept:
    session: Session
    caller: Caller
    used: float
    shared: bool


class KeptSessions:
    """Sessions kept between requests under a key.

    A full caller's idlest session makes room, if the limit says so; what others use, too, is ended by time alone.

    Args:
        lifetime: Seconds without use after which a session is ended.
        tally: Counts them, each until it has ended.
        clock: Tells the time in seconds.
    """

    def __init__(self, lifetime: float, tally: Tally, clock: Callable[[], float]) -> None:
        self.lifetime = lifetime
        self._tally = tally
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._keys: WeakKeyDictionary[Session, str] = WeakKeyDictionary()

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The sessions that are kept."""
        return tuple(kept.session for kept in self._kept.values())

    def find(self, key: str) -> Session | None:
        """Return the session of a key, which counts as a use of it and of the one that it inherits from.

        It is `None` if there is none, if its time is over, or if what it inherits has been closed.
        """
        kept = self._kept.get(key)
        if kept is None or self._is_over(kept):
            return None
        self._use(kept.session)
        return kept.session

    def _use(self, session: Session) -> None:
        """Note that a session is used, and then its owner, so that an owner is never idler than its heirs."""
        for used in (session, session.owner):
            key = "" if used is None else self._keys.get(used, "")
            kept = self._kept.get(key)
            if kept is not None and kept.session is used:
                kept.used = self._clock()
                self._kept.move_to_end(key)

    @asynccontextmanager
    async def place(
        self, key: str, caller: Caller, *, shared: bool = False
    ) -> AsyncGenerator[Callable[[Session], None]]:
        """Take a place for a session of a caller, and yield what keeps one in it; unless it is used, it is given back.

        Args:
            key: What the session is found by; one that was kept there before, and whose time is over, ends first.
            caller: Whose place it is.
            shared: Whether other callers use the session, too.

        Raises:
            Full: There is no room (SPEC SAF-4).
        """
        if key in self._kept:
            await self._end([key])
        if not self._tally.has_room(caller):
            await self.end_expired()
        if not self._tally.has_room(caller):
            await self._end(self._dispensable(caller))
        self._tally.take(caller, self._retry_after(caller))
        used = False

        def keep(session: Session) -> None:
            nonlocal used
            used = True
            self._kept[key] = _Kept(session, caller, self._clock(), shared)
            self._keys[session] = key
            self._use(session)

        try:
            yield keep
        finally:
            if not used:
                self._tally.give_back(caller)

    async def end_expired(self) -> None:
        """End the sessions whose time is over."""
        await self._end(self._expired())

    async def end_useless(self, key: str) -> None:
        """End the session of a key if it is not found any more."""
        if key in self._kept and self._is_over(self._kept[key]):
            await self._end([key])

    async def end_all(self) -> None:
        """End all sessions."""
        await self._end(list(self._kept))

    def check(self, caller: Caller) -> None:
        """Raise `Full` if there is no room for a session of a caller, and none would be made."""
        if not (self._tally.has_room(caller) or self._expired() or self._dispensable(caller)):
            self._tally.check(caller, self._retry_after(caller))

    def _expired(self) -> list[str]:
        return list(takewhile(lambda key: self._is_over(self._kept[key]), self._kept))

    def _dispensable(self, caller: Caller) -> list[str]:
        """Return the session, if any, that makes room for one of a caller."""
        if self._tally.limit.when_full == "refuse":
            return []
        own = (key for key, kept in self._kept.items() if kept.caller == caller and not kept.shared)
        return list(islice(own, 1))

    async def _end(self, keys: Iterable[str]) -> None:
        """End sessions, which nobody finds any more; the place of each is free once its hooks have run.

        They end side by side, but for those that others among them inherit from: these end after their heirs.
        """
        ending = [self._kept.pop(key) for key in keys]
        heirs: dict[Session | None, list[_Kept]] = {kept.session: [] for kept in ending}
        for kept in ending:
            if kept.session.owner in heirs:
                heirs[kept.session.owner].append(kept)

        async def end_one(kept: _Kept) -> None:
            async with anyio.create_task_group() as tasks:
                for heir in heirs[kept.session]:
                    tasks.start_soon(end_one, heir)
            try:
                await end(kept.session)
            finally:
                self._tally.give_back(kept.caller)

        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for kept in ending:
                    if kept.session.owner not in heirs:
                        tasks.start_soon(end_one, kept)

    def _is_over(self, kept: _Kept) -> bool:
        session = kept.session
        return not session.is_open or session.is_orphaned or kept.used <= self._clock() - self.lifetime

    def _retry_after(self, caller: Caller) -> Callable[[bool], float]:
        """Return what tells in how many seconds a session will end unless it is used: of the caller, or of all."""

        def seconds(own: bool) -> float:
            used = (kept.used for kept in self._kept.values() if not own or kept.caller == caller)
            return next(used, self._clock()) + self.lifetime - self._clock()

        return seconds


async def end_surplus(kept: KeptSessions, tasks: TaskGroup) -> None:
    """End the kept sessions whose time is over, for ever; what their hooks raise is the observers' to hear.

    Each time in a task of its own: hooks that hang hold up nothing that is over later.
    """
    while True:
        await anyio.sleep(kept.lifetime / 10)
        tasks.start_soon(kept.end_expired)


async def end_at_last(kept: KeptSessions, seconds: float) -> None:
    """End all kept sessions, and wait for that, but no longer than for so many seconds.

    A session whose hooks take longer is left behind. That needs a task that outlives this call, which only asyncio has;
    on trio there is no such limit.
    """
    sessions = kept.sessions
    with anyio.CancelScope(shield=True):
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            await kept.end_all()
            return
        task = asyncio.ensure_future(kept.end_all())
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            named = ", ".join(session.id for session in sessions if session.is_open)
            log.warning("hooks were still running after %g seconds, at the end of the server: %s", seconds, named)


async def end(session: Session) -> None:
    """End a session whose caller is gone."""
    try:
        await session.close()
    except (ExceptionGroup, ToolfoldError):
        return


class Turns:
    """Lets those who ask for the same come one after the other."""

    def __init__(self) -> None:
        self._locks: dict[str, anyio.Lock] = {}

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncGenerator[None]:
        """Wait for those who came before, and keep later ones waiting until the end."""
        lock = self._locks.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().locked and self._locks.get(key) is lock:
                del self._locks[key]
