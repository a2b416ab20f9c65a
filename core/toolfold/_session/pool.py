"""The pool of sessions: which are open, under which keys, how many there may be, and when one is idle.

The pool of a tool set has all its open sessions. A server that retains some of them between requests, for its
handles say, makes a part of that pool, with keys, a limit and an idle time of its own; a session that ends leaves both.
A pool has no clock: one is passed in where sessions time out (SPEC SES-3, SES-4, SAF-4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from math import inf
from typing import Generic, Protocol, Self, TypeVar
from weakref import WeakSet

import anyio
from attrs import frozen

from .._quota import Caller, Full, Limit, Tally
from .._usercode import is_away
from ..errors import ConfigError, QuotaExceeded, ReentrantTransition
from .events import SessionEnded, SessionOpened
from .observers import Observers

AT_ONCE = 100
"""How many idle sessions are ended at once: their hooks may need a thread each."""


class Pooled(Protocol):
    """What a pool needs of a session."""

    id: str
    caller: str | None

    @property
    def owner(self) -> Self | None:
        """The session that it inherits groups from, if there is one."""
        ...

    @property
    def is_orphaned(self) -> bool:
        """Whether a group that it inherits is no longer open in its owner."""
        ...

    @property
    def has_hooks(self) -> bool:
        """Whether any transition, and so its end, runs hooks."""
        ...

    async def start(self) -> Self:
        """Open it."""
        ...

    async def close(self) -> None:
        """End it."""
        ...


S = TypeVar("S", bound=Pooled)


@frozen
class _Held:
    """What a part knows of a session that it holds: its key, its caller, and whether only time ends it."""

    key: str | None
    caller: Caller
    shared: bool


class SessionPool(Generic[S]):
    """Open sessions, the least recently used first where that matters.

    Args:
        limit: How many there may be. The idlest session of a caller may make room for a new one of the same caller.
        idle_timeout: Seconds without use after which a session is idle; `None` for never.
        clock: Returns the time in seconds.
        observers: Notified of each session that opens and ends.
        parent: The pool that this is a part of.
        what: What the sessions are called in refusals.
    """

    def __init__(
        self,
        limit: Limit,
        idle_timeout: float | None = None,
        clock: Callable[[], float] | None = None,
        observers: Observers | None = None,
        *,
        parent: SessionPool[S] | None = None,
        what: str = "open sessions",
    ) -> None:
        if idle_timeout is not None and clock is None:
            raise ConfigError("idle_timeout needs a clock in seconds, such as time.monotonic.")
        self.idle_timeout = idle_timeout
        self._tally = Tally(what, limit)
        self._clock = clock or (lambda: 0.0)
        self._observers = observers
        self._parent = parent
        self._parts: WeakSet[SessionPool[S]] = WeakSet()
        self._used: dict[S, float] = {}
        self._held: dict[S, _Held] = {}
        self._keys: dict[str, S] = {}
        self._persistent: dict[S, None] = {}
        self._requests: dict[S, None] = {}
        self._opening: dict[str, anyio.Lock] = {}
        self._ending: set[S] = set() if parent is None else parent._ending
        self._ordered = idle_timeout is not None or limit.when_full == "end_idlest"

    def part(self, what: str, limit: Limit, idle_timeout: float, clock: Callable[[], float]) -> SessionPool[S]:
        """Return a part of this pool, for sessions that are retained under keys."""
        part = SessionPool(limit, idle_timeout, clock, parent=self, what=what)
        self._parts.add(part)
        return part

    @property
    def sessions(self) -> tuple[S, ...]:
        """The open sessions that outlive a request."""
        return (*self._persistent, *self._used)

    @property
    def live(self) -> tuple[S, ...]:
        """All open sessions, those of requests under way among them: what a change of the catalog must reach."""
        return (*self.sessions, *self._requests)

    # -- admission ----------------------------------------------------------------------------------------------------

    async def admit(self, session: S, key: str | None = None, caller: Caller = None, *, shared: bool = False) -> None:
        """Admit a session, and end another to make room if that is needed and allowed (SPEC SES-4).

        Args:
            session: The session; nothing happens if it is in here.
            key: What `find` finds it by. A session that has the key ends first.
            caller: Whose quota it counts towards, unless it has a caller of its own.
            shared: Whether others use it, too, so that it does not end to make room.

        Raises:
            QuotaExceeded: There is no room, and none is made.
        """
        if session in self._used:
            return
        if key is not None and (before := self._keys.get(key)) is not None:
            await self._end(before)
        caller = caller or session.caller
        while not self._tally.has_room(caller):
            dispensable = self._dispensable(caller, session.owner)
            if dispensable is None:
                raise self._refusal(caller)
            await self._end(dispensable)
        if (key, caller, shared) != (None, session.caller, False):  # most sessions need no more than their own caller
            self._held[session] = _Held(key, caller, shared)
        self._enter(session, caller, key)
        if self._parent is not None:
            try:
                await self._parent.admit(session)
            except BaseException:
                self.discard(session)
                raise

    def add(self, session: S, *, persistent: bool = False) -> None:
        """Take a session in whatever the limit; a `persistent` one is not counted and never idle."""
        if persistent:
            self._persistent[session] = None
            self._notify(SessionOpened, session)
        else:
            self._enter(session, session.caller)

    def check(self, caller: Caller) -> None:
        """Raise `QuotaExceeded` if a session of a caller would not be admitted now."""
        if not self._tally.has_room(caller) and self._dispensable(caller) is None:
            raise self._refusal(caller)

    def discard(self, session: S) -> None:
        """Take a session out: it has ended."""
        self._requests.pop(session, None)
        counted = self._used.pop(session, None) is not None
        if counted:
            self._tally.give_back(self._caller(session))
            held = self._held.pop(session, None)
            if held is not None and held.key is not None:
                del self._keys[held.key]
        if counted or session in self._persistent:
            self._persistent.pop(session, None)
            self._notify(SessionEnded, session)
        for part in self._parts:
            part.discard(session)

    def begin_request(self, session: S) -> None:
        """Take in a session that ends with its request: it is neither counted nor idle, and observers get no event."""
        self._requests[session] = None

    async def end_request(self, session: S) -> None:
        """End the session of a request, unless it was admitted; without hooks there is nothing to do but forget it."""
        if session in self._requests:
            if session.has_hooks:
                await self._end(session)
            self._requests.pop(session, None)

    # -- keys and use -------------------------------------------------------------------------------------------------

    def find(self, key: str) -> S | None:
        """Return the session of a key, which counts as a use of it and of the one that it inherits from.

        It is `None` if there is none, if it is ending or idle, or if what it inherits has been closed.
        """
        session = self._keys.get(key)
        if session is None or session in self._ending or self._is_over(session):
            return None
        self.touch(session)
        return session

    async def get_or_open(
        self,
        key: str,
        make: Callable[[], S],
        caller: Caller = None,
        is_usable: Callable[[S], bool] = lambda session: True,
    ) -> S:
        """Return the session of a key, opened by the first who asks for it; time alone ends it.

        Args:
            key: What it is found by. Who asks for the same waits until it is open.
            make: Makes it, still to be started.
            caller: Whose quota it counts towards, unless it has a caller of its own.
            is_usable: Whether an open one will do; otherwise it ends before another opens.

        Raises:
            QuotaExceeded: There is no room for it.
            ToolfoldError: It can't be started.
        """
        async with self._turn(key):
            session = self.find(key)
            if session is None or not is_usable(session):
                session = make()
                await self.admit(session, key, caller, shared=True)
                await session.start()
            return session

    @asynccontextmanager
    async def _turn(self, key: str) -> AsyncGenerator[None]:
        """Serialise requests for one key."""
        lock = self._opening.setdefault(key, anyio.Lock())
        try:
            async with lock:
                yield
        finally:
            if not lock.statistics().locked and self._opening.get(key) is lock:
                del self._opening[key]

    def touch(self, session: S) -> None:
        """Record that a session was used now, and with it the one that it inherits from, which so ends later.

        Requests of handlers and hooks in their threads are part of a request that was recorded.
        """
        if self._ordered and not is_away():
            for used in (session, session.owner):
                if used is not None and self._used.pop(used, None) is not None:
                    self._used[used] = self._clock()  # as the last one

    def is_idle(self, session: S) -> bool:
        """Return whether an open session has not been used for `idle_timeout`."""
        used = self._used.get(session)
        if self.idle_timeout is None or used is None:
            return False
        return self._clock() - used >= self.idle_timeout

    # -- ending -------------------------------------------------------------------------------------------------------

    async def end_idle(self) -> int:
        """End the sessions that are idle, side by side; return how many.

        Slow hooks of one session delay no other. A session that others inherit from ends after these.
        """
        idle = [session for session in self._used if self.is_idle(session) and session not in self._ending]
        return await self._end_each(idle, self.is_idle, AT_ONCE)

    async def end_if_over(self, key: str) -> None:
        """End the session of a key if it is over."""
        session = self._keys.get(key)
        if session is not None and self._is_over(session):
            await self._end(session)

    async def end_all(self) -> None:
        """End all sessions, side by side, those that others inherit from after these."""
        await self._end_each(list(self._used), lambda session: True, inf)

    async def _end_each(self, sessions: Iterable[S], is_due: Callable[[S], bool], at_once: float) -> int:
        over = {session: anyio.Event() for session in sessions}
        heirs: dict[S | None, list[anyio.Event]] = {}
        for session in over:
            heirs.setdefault(session.owner, []).append(over[session])
        limiter = anyio.CapacityLimiter(at_once)
        ended = 0

        async def end(session: S) -> None:
            nonlocal ended
            try:
                for heir in heirs.get(session, ()):
                    await heir.wait()
                async with limiter:
                    if is_due(session):  # it may have been used, or have ended, while others ended
                        await self._end(session)
                        ended += 1
            except ReentrantTransition:
                return  # requested within one of its hooks: it is in use
            finally:
                over[session].set()

        async with anyio.create_task_group() as tasks:
            for session in over:
                tasks.start_soon(end, session)
        return ended

    async def _end(self, session: S) -> None:
        self._ending.add(session)
        try:
            await session.close()
        except ExceptionGroup:
            return  # logged, and observers were notified, for each hook
        finally:
            self._ending.discard(session)

    # -- internals ----------------------------------------------------------------------------------------------------

    def _enter(self, session: S, caller: Caller, key: str | None = None) -> None:
        self._requests.pop(session, None)
        self._tally.add(caller)
        self._used[session] = self._clock()
        if key is not None:
            self._keys[key] = session
        self._notify(SessionOpened, session)
        self.touch(session)

    def _caller(self, session: S) -> Caller:
        """Return the caller whose quota a session counts towards."""
        held = self._held.get(session)
        return session.caller if held is None else held.caller

    def _ends_for(self, caller: Caller, session: S) -> bool:
        """Return whether a session is the caller's own, and of no others besides."""
        held = self._held.get(session)
        return self._caller(session) == caller and (held is None or not held.shared)

    def _notify(self, event: type[SessionOpened | SessionEnded], session: S) -> None:
        if self._observers is not None:
            self._observers.notify(event(session.id))

    def _is_over(self, session: S) -> bool:
        """Return whether a session can't be used any more: it is idle, or what it inherits has been closed."""
        return session.is_orphaned or self.is_idle(session)

    def _dispensable(self, caller: Caller, owner: S | None = None) -> S | None:
        """Return the session that makes room for a new one of a caller, which inherits from `owner`; `None` for none.

        It is an idle one, or where the limit says so the one that this caller has used least recently. One that is
        ending for another new session is waited for only if there is no other: its hooks may take long.
        """
        in_use, ending = {owner, *(session.owner for session in self._ending)}, None
        end_own = self._tally.limit.when_full == "end_idlest"
        for session in self._used:
            own = end_own and self._ends_for(caller, session)
            if session not in in_use and (own or self.is_idle(session)):
                if session not in self._ending:
                    return session
                ending = ending or session
        return ending

    def _refusal(self, caller: Caller) -> QuotaExceeded:
        limit, own = self._tally.exceeded(caller) or (0, False)
        if self.idle_timeout is None:
            return QuotaExceeded(self._tally.what, limit, "close one before you open another")
        now = self._clock()
        used = next((used for one, used in self._used.items() if not own or self._caller(one) == caller), now)
        return Full(self._tally.what, limit, own, caller, used + self.idle_timeout - now)
