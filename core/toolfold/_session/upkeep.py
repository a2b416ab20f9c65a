"""How many sessions there may be, and when they end: one way for those in memory and those in a store.

An `Upkeep` admits the sessions of a kind under their limits, and ends those that were not used for their lifetime
(SPEC SES-3, SES-4, STO-7). Which there are, it asks a store, or the `OpenSessions` of a tool set. There is no clock
here: one is passed in where sessions time out (SPEC SAF-4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import takewhile
from math import ceil, inf
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, get_args
from weakref import WeakKeyDictionary, WeakSet

import anyio
from anyio.abc import TaskGroup
from attrs import field

from .._usercode import is_away
from .._values import frozen
from ..errors import ConfigError, QuotaExceeded, SessionClosed, ToolfoldError
from .events import SessionEnded, SessionOpened
from .observers import Observers, log
from .store import Created

if TYPE_CHECKING:
    from .session import Session

SWEEP = 30.0
"""Seconds between two sweeps, at most, for sessions that have expired, or whose process died during a transition.

A tenth of a session's lifetime if that is less."""
AT_ONCE = 100
"""How many sessions a sweep takes at once: their hooks may need a thread each."""
LATER = 30.0
"""Seconds after which to try again if all sessions are in use."""

K = TypeVar("K")

Caller = str | None
"""Where requests come from, such as a principal or an address; `None` where that is not known."""

WhenFull = Literal["refuse", "end_idlest"]


@frozen
class Limit:
    """The greatest number of something at a time; `None` for no limit.

    Attributes:
        total: How many there may be in all.
        per_caller: How many of them may belong to one caller, where callers are known.
        when_full: `"refuse"` a new one, or `"end_idlest"` of the same caller to make room.
    """

    total: int | None
    per_caller: int | None = None
    when_full: WhenFull = "refuse"

    def __attrs_post_init__(self) -> None:
        for count in (self.total, self.per_caller):
            if count is not None and count < 1:
                raise ConfigError(f"A limit must be at least 1, not {count}; None stands for no limit.")
        if self.when_full not in get_args(WhenFull):
            raise ConfigError(f"when_full must be one of 'refuse', 'end_idlest', not {self.when_full!r}.")


class Full(QuotaExceeded):
    """There is no room for one more, but there will be.

    Attributes:
        own: Whether the caller itself has as many as it may; otherwise there are too many in all.
        caller: Who was refused.
        retry_after: Seconds after which to try again.
        recorded: Whether it is logged and counted by now; whoever answers with it, it is one refusal.
    """

    def __init__(self, what: str, limit: int, own: bool, caller: Caller, seconds: float) -> None:
        self.recorded = False
        self.own = own
        self.caller = caller
        self.retry_after = max(1, ceil(seconds))
        whose, less = (" of one caller", "end one of them, or try") if own else (" in all", "try")
        unit = "second" if self.retry_after == 1 else "seconds"
        super().__init__(f"{what}{whose}", limit, f"{less} again in {self.retry_after} {unit}")


@frozen
class SessionKind:
    """A kind of sessions.

    Attributes:
        name: Its name, part of the keys in a store.
        what: What they are called in refusals.
        limit: How many there may be.
        lifetime: Seconds without use after which one ends.
        on_refused: Called with the refusal where there is no room, also where a tool answers with it (SPEC SAF-7).
    """

    name: str
    what: str
    limit: Limit
    lifetime: float = inf
    on_refused: Callable[[Full], None] = field(default=lambda full: None)


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

    async def admit(
        self, create: Callable[[], Coroutine[Any, Any, Created]], caller: Caller, most: int | None = None
    ) -> int | None:
        """Create a session, after others have ended if that makes room, and return its version (SPEC SES-4).

        `None` if there is one of its name. `most` is how many the caller may have, if that is fewer than others may.
        Raises `QuotaExceeded` if there is no room, and none is made.
        """
        while not isinstance(outcome := await create(), int):
            if outcome == "exists":
                return None
            if not await self._make_room(caller):
                raise await self._refusal(caller, own=outcome == "caller_full", most=most)
        return outcome

    async def _make_room(self, caller: Caller) -> bool:
        """End what is due, or else the idlest session of a caller if the limit says so; return whether any ended."""
        if await self.sweep():
            return True
        idlest = await self.idlest(caller) if self.kind.limit.when_full == "end_idlest" else None
        return idlest is not None and await self.end(idlest, True)

    async def _refusal(self, caller: Caller, *, own: bool, most: int | None) -> QuotaExceeded:
        what, limit = self.kind.what, self.kind.limit
        bound = (most or limit.per_caller if own else limit.total) or 0
        if self.kind.lifetime == inf:
            return QuotaExceeded(what, bound, "close one before you open another")
        seconds = await self.expiry(caller, own)
        full = Full(what, bound, own, caller, LATER if seconds is None else seconds)
        self.kind.on_refused(full)
        return full

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


class OpenSessions:
    """The open sessions of a tool set, the least recently used first where that matters.

    The `default` one, if it is open, is not counted and never idle.

    This is an index, and no store: with a key, a journal and a record, an open session would take seven times the
    memory.

    Args:
        limit: How many there may be in all. The idlest one of a caller may make room for a new one of the same caller.
        idle_timeout: Seconds without use after which a session is idle; `None` for never.
        clock: Returns the time in seconds.
        observers: Notified of each session that opens and ends.
    """

    def __init__(
        self, limit: Limit, idle_timeout: float | None, clock: Callable[[], float] | None, observers: Observers
    ) -> None:
        if idle_timeout is not None and clock is None:
            raise ConfigError("idle_timeout needs a clock in seconds, such as time.monotonic.")
        kind = SessionKind("open", "open sessions", limit, inf if idle_timeout is None else idle_timeout)
        self.upkeep = Upkeep(kind, self._due, self._idlest, self._expiry, self._end_idle)
        self._clock = clock or (lambda: 0.0)
        self._observers = observers
        self._used: dict[Session, float] = {}
        self.default: Session | None = None
        self._others: WeakKeyDictionary[Session, bool] = WeakKeyDictionary()
        self._owners: WeakSet[Session] = WeakSet()
        self._ending: set[Session] = set()
        self.is_ordered = idle_timeout is not None or limit.when_full == "end_idlest"

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The open sessions that outlive a request."""
        return (*self._used,) if self.default is None else (self.default, *self._used)

    @property
    def live(self) -> tuple[Session, ...]:
        """All open sessions that this process knows: what a change of the catalog must reach.

        Those of requests under way are among them, and those that it has met in a store.
        """
        return (*self.sessions, *self._others)

    async def admit(self, session: Session) -> None:
        """Admit a session, after others have ended if that makes room; raises `QuotaExceeded`."""

        async def create() -> Created:
            total = self.upkeep.kind.limit.total
            if total is not None and len(self._used) >= total:
                return "full"
            self._others.pop(session, None)
            self._used[session] = self._clock()
            self._observers.notify(SessionOpened(session.id))
            self.touch(session)
            return 1

        self._note_owner(session)
        await self.upkeep.admit(create, session.caller)

    def meet(self, session: Session) -> None:
        """Note a session that is neither counted nor idle here, without an event: one of a store, which has its own."""
        self._note_owner(session)
        self._others[session] = False

    @asynccontextmanager
    async def passing(self, session: Session) -> AsyncGenerator[Session]:
        """Yield the session of one request, which ends with it unless `admit` or `meet` is called before."""
        self._note_owner(session)
        self._others[session] = True
        try:
            yield session
        finally:
            if not self._others.get(session, False):
                pass
            elif session.is_stored or (session.state.journal is None and session.catalog.has_hooks):
                with anyio.CancelScope(shield=True):
                    await self.end(session)
            else:
                self.forget(session)

    def _note_owner(self, session: Session) -> None:
        if session.owner is not None:
            self._owners.add(session.owner)

    async def end(self, session: Session) -> None:
        """End a session; hooks that fail are logged, and observers were notified of them."""
        self._ending.add(session)
        try:
            with suppress(ExceptionGroup, SessionClosed):
                await session.close()
        finally:
            self._ending.discard(session)

    def is_ending(self, session: Session) -> bool:
        """Return whether a session is being ended: it is open still, and takes no new requests."""
        return session in self._ending

    def forget(self, session: Session) -> None:
        """End a session for this process alone, without hooks; one in a store goes on for others."""
        state = session.state
        state.status, state.listeners = "closed", ()
        if (journal := state.journal) is not None:
            journal.left(journal.key)
        self.remove(session)

    def remove(self, session: Session) -> None:
        """Take a session out: it has ended."""
        self._others.pop(session, None)
        default, self.default = self.default, None if session is self.default else self.default
        if self._used.pop(session, None) is not None or session is default:
            self._observers.notify(SessionEnded(session.id))

    def touch(self, session: Session) -> None:
        """Record that a session was used now, and with it the one that it inherits from, which so ends later.

        Requests of handlers and hooks in their threads are part of a request that was recorded.
        """
        if self.is_ordered and not is_away():
            for used in (session, session.owner):
                if used is not None and self._used.pop(used, None) is not None:
                    self._used[used] = self._clock()  # as the last one

    # -- which end ----------------------------------------------------------------------------------------------------

    def _lends(self, session: Session) -> bool:
        """Return whether others inherit from a session, which end before it."""
        return session in self._owners and any(other.owner is session for other in self.live)

    async def _due(self, count: int) -> Sequence[Session]:
        now, timeout = self._clock(), self.upkeep.kind.lifetime
        idle = [session for session, _ in takewhile(lambda one: now - one[1] >= timeout, self._used.items())]
        return [session for session in idle if session not in self._ending and not self._lends(session)][:count]

    async def _idlest(self, caller: Caller) -> Session | None:
        """Return the one of a caller that was used least recently; one that is ending only if there is no other."""
        ending = None
        for session in self._used:
            if session.caller == caller and not self._lends(session):
                if session not in self._ending:
                    return session
                ending = ending or session
        return ending

    async def _expiry(self, caller: Caller, own: bool) -> float:
        used = (used for session, used in self._used.items() if not own or session.caller == caller)
        return next(used, self._clock()) + self.upkeep.kind.lifetime - self._clock()

    async def _end_idle(self, session: Session, asked: bool) -> bool:
        await self.end(session)
        return True


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
