"""Sessions that are kept between requests, each for a bounded time after its last use (SPEC DEL-3, SES-3, SES-4)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from itertools import islice, takewhile

import anyio
from attrs import define

from toolfold import Session, ToolfoldError

from .callers import Caller
from .limits import Tally


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

    def find(self, key: str) -> Session | None:
        """Return the session of a key, which counts as a use; `None` if there is none or its time is over."""
        kept = self._kept.get(key)
        if kept is None or self._is_over(kept):
            return None
        kept.used = self._clock()
        self._kept.move_to_end(key)
        return kept.session

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

        try:
            yield keep
        finally:
            if not used:
                self._tally.give_back(caller)

    async def end_expired(self) -> None:
        """End the sessions whose time is over."""
        await self._end(self._expired())

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
        """End sessions, which nobody finds any more; the place of each is free once its hooks have run."""
        ending = [self._kept.pop(key) for key in keys]

        async def end_one(kept: _Kept) -> None:
            try:
                await end(kept.session)
            finally:
                self._tally.give_back(kept.caller)

        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for kept in ending:
                    tasks.start_soon(end_one, kept)

    def _is_over(self, kept: _Kept) -> bool:
        return not kept.session.is_open or kept.used <= self._clock() - self.lifetime

    def _retry_after(self, caller: Caller) -> Callable[[bool], float]:
        """Return what tells in how many seconds a session will end unless it is used: of the caller, or of all."""

        def seconds(own: bool) -> float:
            used = (kept.used for kept in self._kept.values() if not own or kept.caller == caller)
            return next(used, self._clock()) + self.lifetime - self._clock()

        return seconds


async def end_surplus(kept: KeptSessions) -> None:
    """End the kept sessions whose time is over, for ever; what their hooks raise is the observers' to hear."""
    while True:
        await anyio.sleep(kept.lifetime / 10)
        await kept.end_expired()


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
