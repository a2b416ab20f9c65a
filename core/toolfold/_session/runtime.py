"""What the sessions of one tool set share: the newest catalog, the settings, the observers, and which are open.

There is no clock here: one is passed in where sessions time out (SPEC SES-3, SES-4, SAF-4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import count, takewhile
from math import inf
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, WeakSet

import anyio
from attrs import define, field

from .._catalog.catalog import Catalogs
from .._catalog.components import Component, Kind
from .._catalog.rules import StateReader
from .._limits import quoted
from .._names import ToWire
from .._quota import Caller, Limit
from .._snapshot import Snapshot
from .._usercode import is_away, on_loop
from .._view.listing import Page, page_of
from .._view.reasons import reason_for
from .._view.visibility import RequestView
from ..errors import ConfigError, SessionClosed
from .events import Listed, PredicateFailed, SessionEnded, SessionOpened
from .observers import Observers, log
from .store import Created
from .upkeep import SessionKind, Upkeep
from .usage import Usage

if TYPE_CHECKING:
    from .session import Session


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
    """The open sessions of a tool set, the least recently used first where that matters.

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
        self._persistent: dict[Session, None] = {}
        self._others: WeakKeyDictionary[Session, bool] = WeakKeyDictionary()
        self._owners: WeakSet[Session] = WeakSet()
        self._ending: set[Session] = set()
        self._ordered = idle_timeout is not None or limit.when_full == "end_idlest"

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

    def add_persistent(self, session: Session) -> None:
        """Take a session in that is not counted and never idle."""
        self._persistent[session] = None
        self._observers.notify(SessionOpened(session.id))

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
            executor = session.executor
            if not self._others.get(session, False):
                pass
            elif executor.is_stored or (executor.journal is None and session.catalog.has_hooks):
                with anyio.CancelScope(shield=True):
                    await self.end(session)
            else:
                session.forget()

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

    def remove(self, session: Session) -> None:
        """Take a session out: it has ended."""
        self._others.pop(session, None)
        if self._used.pop(session, None) is not None or session in self._persistent:
            self._persistent.pop(session, None)
            self._observers.notify(SessionEnded(session.id))

    def touch(self, session: Session) -> None:
        """Record that a session was used now, and with it the one that it inherits from, which so ends later.

        Requests of handlers and hooks in their threads are part of a request that was recorded.
        """
        if self._ordered and not is_away():
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
