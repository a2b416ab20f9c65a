"""Which sessions are open, which was used least recently, and which have been idle for too long (SPEC SES-3, SES-4).

It has no clock of its own: whoever wants sessions to time out brings one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

import anyio

from .._usercode import is_away
from ..errors import ConfigError, QuotaExceeded, ReentrantTransition
from .observers import Observers, SessionEnded, SessionOpened

if TYPE_CHECKING:
    from .session import Session


AT_ONCE = 100
"""How many idle sessions end at once: their hooks may need a thread each."""


class SessionPool:
    """The open sessions of a tool set, the least recently used first where that matters.

    Args:
        limit: The greatest number of sessions; `None` for no bound.
        end_idlest: Whether the idlest session of a caller makes room for a new one of the same caller; otherwise, or if
            it has none, the new one is refused.
        idle_timeout: Seconds without a request after which a session is idle; `None` for never.
        clock: Tells the time in seconds.
        observers: Are told of each session that comes and goes.
    """

    def __init__(
        self,
        limit: int | None,
        end_idlest: bool,
        idle_timeout: float | None,
        clock: Callable[[], float] | None,
        observers: Observers,
    ) -> None:
        if idle_timeout is not None and clock is None:
            raise ConfigError("idle_timeout needs a clock that tells the time in seconds, such as time.monotonic.")
        self.idle_timeout = idle_timeout
        self._limit = limit
        self._end_idlest = end_idlest
        self._clock = clock or (lambda: 0.0)
        self._observers = observers
        self._used: OrderedDict[Session, float] = OrderedDict()
        self._lasting: set[Session] = set()
        self._requests: dict[Session, None] = {}
        self._ending: set[Session] = set()

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The open sessions that outlive a request."""
        return tuple(self._used)

    @property
    def live(self) -> tuple[Session, ...]:
        """All open sessions, those of requests under way among them: what a change of the catalog must reach."""
        return (*self._used, *self._requests)

    def add(self, session: Session, *, lasting: bool = False) -> None:
        """Take a session in; a `lasting` one is neither counted nor ever idle."""
        self._requests.pop(session, None)
        self._used[session] = self._clock()
        if lasting:
            self._lasting.add(session)
        self._observers.notify(SessionOpened(session.id))

    def begin_request(self, session: Session) -> None:
        """Take in a session that ends with its request: it is not counted, never idle, and observers are not told."""
        self._requests[session] = None

    async def end_request(self, session: Session) -> None:
        """End the session of a request, unless it was kept; without hooks there is nothing to do but to forget it."""
        if session in self._requests:
            if session.catalog.has_hooks:
                await _end(session)
            self._requests.pop(session, None)

    def discard(self, session: Session) -> None:
        """Drop a session."""
        self._requests.pop(session, None)
        if self._used.pop(session, None) is not None:
            self._lasting.discard(session)
            self._observers.notify(SessionEnded(session.id))

    def touch(self, session: Session) -> None:
        """Take note that a session was used now, and with it the one that it inherits from: that one ends later.

        What handlers and hooks ask of it in their threads is part of a request that was.
        """
        if (self._end_idlest or self.idle_timeout is not None) and not is_away():
            for used in (session, session.owner):
                if used is not None and used in self._used:
                    self._used[used] = self._clock()
                    self._used.move_to_end(used)

    async def admit(self, session: Session) -> None:
        """Take a session in, ending the idlest one of the same caller to make room if that is allowed (SPEC SES-4).

        Raises:
            QuotaExceeded: There is no room, and none is made.
        """
        while self._limit is not None and len(self._used) - len(self._lasting) >= self._limit:
            idlest = self._idlest(session) if self._end_idlest else None
            if idlest is None:
                raise QuotaExceeded("open sessions", self._limit, "close one before you open another")
            await self._end(idlest)
        self.add(session)
        self.touch(session)

    def _idlest(self, new: Session) -> Session | None:
        """Return the idlest session of the caller of a new one; not the one that it inherits from.

        One that is ending for another new session is waited for only if there is no other: its hooks may take long.
        """
        in_use = {new.owner, *(session.owner for session in self._ending)}
        own = (session for session in self.sessions if session.caller == new.caller and session not in self._lasting)
        candidates = [session for session in own if session not in in_use]
        return next((session for session in candidates if session not in self._ending), next(iter(candidates), None))

    async def end_idle(self) -> int:
        """End the sessions that have had no request for `idle_timeout`, side by side; return how many.

        Hooks that take long hold up the end of no other session. One that others inherit from ends after these.
        """
        idle = [session for session in self.sessions if self.is_idle(session) and session not in self._ending]
        over = {session: anyio.Event() for session in idle}
        heirs: dict[Session | None, list[anyio.Event]] = {}
        for session in idle:
            heirs.setdefault(session.owner, []).append(over[session])
        limiter = anyio.CapacityLimiter(AT_ONCE)
        ended = 0

        async def end(session: Session) -> None:
            nonlocal ended
            try:
                for heir in heirs.get(session, ()):
                    await heir.wait()
                async with limiter:
                    if self.is_idle(session):  # it may have been used, or have ended, while others ended
                        await self._end(session)
                        ended += 1
            except ReentrantTransition:
                return  # asked within one of its hooks: it is at work
            finally:
                over[session].set()

        async with anyio.create_task_group() as tasks:
            for session in idle:
                tasks.start_soon(end, session)
        return ended

    async def _end(self, session: Session) -> None:
        self._ending.add(session)
        try:
            await _end(session)
        finally:
            self._ending.discard(session)

    def is_idle(self, session: Session) -> bool:
        """Return whether an open session has had no request for `idle_timeout`."""
        if self.idle_timeout is None or session not in self._used or session in self._lasting:
            return False
        return self._clock() - self._used[session] >= self.idle_timeout


async def _end(session: Session) -> None:
    try:
        await session.close()
    except ExceptionGroup:
        return  # the log and the observers have been told of each hook
