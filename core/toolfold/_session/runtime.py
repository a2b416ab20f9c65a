"""What the sessions of one tool set share: the newest catalog, the settings, the observers, and which are open.

There is no clock here: one is passed in where sessions time out (SPEC SES-3, SES-4, SAF-4).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import anyio
from attrs import define, field

from .._catalog.catalog import Catalogs
from .._catalog.components import Component, Kind
from .._catalog.rules import StateReader
from .._limits import quoted
from .._names import ToWire
from .._quota import Caller, Full, Limit, Tally
from .._snapshot import Snapshot
from .._usercode import is_away, on_loop
from .._view.listing import Page, page_of
from .._view.reasons import reason_for
from .._view.visibility import RequestView
from ..errors import ConfigError, QuotaExceeded, ReentrantTransition
from .events import Listed, PredicateFailed, SessionEnded, SessionOpened
from .observers import Observers, log
from .usage import Usage

if TYPE_CHECKING:
    from .session import Session

AT_ONCE = 100
"""How many idle sessions are ended at once: their hooks may need a thread each."""


@define(eq=False)
class Runtime:
    """What the sessions of one tool set share.

    Attributes:
        tools: The tool set, which is of a later layer.
        catalogs: The newest catalog.
        observers: The observers to notify.
        pool: The open sessions.
        hook_timeout: Seconds that a hook may take; `None` for no limit (SPEC HOOK-6).
        page_size: The greatest number of items in a page of a list.
        hints: Whether a refusal names the group to open first (SPEC CALL-1).
        read_state: Supplies the application state of a request (SPEC MOD-3).
        usage: The counters, if use is counted (SPEC EXP-3).
    """

    tools: Any
    catalogs: Catalogs
    observers: Observers
    pool: OpenSessions
    hook_timeout: float | None = None
    page_size: int | None = None
    hints: bool = False
    read_state: StateReader | None = None
    usage: Usage | None = None
    _identities: count[int] = field(factory=lambda: count(1))
    _reported: WeakKeyDictionary[Component, set[str | None]] = field(
        factory=WeakKeyDictionary[Component, set[str | None]]
    )

    @property
    def name(self) -> str:
        """The name of the tool set."""
        return self.catalogs.name

    def new_identity(self, what: str = "") -> str:
        """Return the name in logs and events of a session that is given none."""
        return f"{self.name}-{what}{next(self._identities)}"

    def view_of(self, snapshot: Snapshot, to_wire: ToWire = str) -> RequestView:
        """Return a view of a snapshot for one request, whose caller knows tools by `to_wire` (SPEC VIS-3)."""
        return RequestView(snapshot, self.read_state, self._report, to_wire)

    def page(
        self,
        view: RequestView,
        kind: Kind,
        cursor: str | None = None,
        extra: tuple[Component, ...] = (),
        session: str = "",
    ) -> Page:
        """Return a page of what a view lists, for observers that of a session if it is one's; see `page_of`."""
        page = page_of(view, kind, cursor, self.page_size, extra)
        if self.usage is not None and kind == "tool":
            self.usage.listed(view.snapshot.catalog, page.items, begins=cursor is None)
        if self.observers.tracers:
            self.observers.trace(Listed(session, kind, page.items))
        return page

    def refused(self, session: str, name: str, view: RequestView | None) -> None:
        """Count and log that a session was refused a tool, by the one reason for it (SPEC EXP-1, EXP-3).

        Without a view, there is nothing of that name: an adapter knows no tool that it calls so.
        """
        if self.usage is not None:
            reason = None if view is None else reason_for(name, "tool", view)
            self.usage.refused["unknown" if reason is None else reason.why] += 1
            text = "There is no tool of this name." if reason is None else reason.text
            log.info("session %s: %s can't be called: %s", session, quoted(name), text)

    @on_loop
    def _report(self, component: Component, error: BaseException, mode: str | None) -> None:
        reported = self._reported.setdefault(component, set())
        if mode not in reported:
            reported.add(mode)
            of = "" if mode is None else f"mode {mode!r} of "
            log.error("a predicate or count of %s%s %r failed", of, component.kind, component.name, exc_info=error)
            self.observers.notify(PredicateFailed(component.kind, component.name, error, mode))


class OpenSessions:
    """The open sessions, the least recently used first where that matters.

    Args:
        limit: How many there may be. The idlest session of a caller may make room for a new one of the same caller.
        idle_timeout: Seconds without use after which a session is idle; `None` for never.
        clock: Returns the time in seconds.
        observers: Notified of each session that opens and ends.
    """

    def __init__(
        self, limit: Limit, idle_timeout: float | None, clock: Callable[[], float] | None, observers: Observers
    ) -> None:
        if idle_timeout is not None and clock is None:
            raise ConfigError("idle_timeout needs a clock in seconds, such as time.monotonic.")
        self.idle_timeout = idle_timeout
        self._tally = Tally("open sessions", limit)
        self._clock = clock or (lambda: 0.0)
        self._observers = observers
        self._used: dict[Session, float] = {}
        self._persistent: dict[Session, None] = {}
        self._others: WeakKeyDictionary[Session, None] = WeakKeyDictionary()
        self._ending: set[Session] = set()
        self._ordered = idle_timeout is not None or limit.when_full == "end_idlest"

    @property
    def limit(self) -> Limit:
        """How many there may be."""
        return self._tally.limit

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The open sessions that outlive a request."""
        return (*self._persistent, *self._used)

    @property
    def live(self) -> tuple[Session, ...]:
        """All open sessions that this process knows: what a change of the catalog must reach.

        Those of requests under way are among them, and those that it has met in a store.
        """
        return (*self.sessions, *self._others)

    # -- admission ----------------------------------------------------------------------------------------------------

    async def admit(self, session: Session) -> None:
        """Admit a session, and end another to make room if that is needed and allowed (SPEC SES-4).

        Nothing happens if it is in here. Raises `QuotaExceeded` if there is no room, and none is made.
        """
        if session in self._used:
            return
        while not self._tally.has_room(session.caller):
            dispensable = self._dispensable(session)
            if dispensable is None:
                raise self._refusal(session.caller)
            await self._end(dispensable)
        self._others.pop(session, None)
        self._tally.add(session.caller)
        self._used[session] = self._clock()
        self._observers.notify(SessionOpened(session.id))
        self.touch(session)

    def add_persistent(self, session: Session) -> None:
        """Take a session in that is not counted and never idle."""
        self._persistent[session] = None
        self._observers.notify(SessionOpened(session.id))

    def discard(self, session: Session) -> None:
        """Take a session out: it has ended."""
        self._others.pop(session, None)
        counted = self._used.pop(session, None) is not None
        if counted:
            self._tally.give_back(session.caller)
        if counted or session in self._persistent:
            self._persistent.pop(session, None)
            self._observers.notify(SessionEnded(session.id))

    def meet(self, session: Session) -> None:
        """Note a session that is neither counted nor idle here, without an event: one of a request, or of a store."""
        self._others[session] = None

    async def end_request(self, session: Session) -> None:
        """End the session of a request, unless it was admitted; without hooks there is nothing to do but forget it."""
        if session in self._others:
            if session.catalog.has_hooks:
                await self._end(session)
            self._others.pop(session, None)

    def touch(self, session: Session) -> None:
        """Record that a session was used now, and with it the one that it inherits from, which so ends later.

        Requests of handlers and hooks in their threads are part of a request that was recorded.
        """
        if self._ordered and not is_away():
            for used in (session, session.owner):
                if used is not None and self._used.pop(used, None) is not None:
                    self._used[used] = self._clock()  # as the last one

    def is_idle(self, session: Session) -> bool:
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
        over = {session: anyio.Event() for session in idle}
        heirs: dict[Session | None, list[anyio.Event]] = {}
        for session in over:
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
                return  # requested within one of its hooks: it is in use
            finally:
                over[session].set()

        async with anyio.create_task_group() as tasks:
            for session in over:
                tasks.start_soon(end, session)
        return ended

    async def _end(self, session: Session) -> None:
        self._ending.add(session)
        try:
            await session.close()
        except ExceptionGroup:
            return  # logged, and observers were notified, for each hook
        finally:
            self._ending.discard(session)

    # -- internals ----------------------------------------------------------------------------------------------------

    def _dispensable(self, new: Session) -> Session | None:
        """Return the session that makes room for a new one; `None` for none.

        It is an idle one, or where the limit says so the one that its caller has used least recently. One that is
        ending for another new session is waited for only if there is no other: its hooks may take long.
        """
        in_use, ending = {new.owner, *(session.owner for session in self._ending)}, None
        end_own = self._tally.limit.when_full == "end_idlest"
        for session in self._used:
            own = end_own and session.caller == new.caller
            if session not in in_use and (own or self.is_idle(session)):
                if session not in self._ending:
                    return session
                ending = ending or session
        return ending

    def _refusal(self, caller: Caller) -> QuotaExceeded:
        limit, own = self._tally.exceeded(caller) or (0, False)
        if self.idle_timeout is None:
            return QuotaExceeded(self._tally.what, limit, "close one before you open another")
        idlest = next(iter(self._used.values()), self._clock())
        return Full(self._tally.what, limit, own, caller, idlest + self.idle_timeout - self._clock())
