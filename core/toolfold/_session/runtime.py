"""What the sessions of one tool set share: the newest catalog, the settings, the observers."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from attrs import define, field

from .._catalog.catalog import Catalogs
from .._catalog.components import Component, Kind
from .._catalog.rules import StateReader
from .._limits import quoted
from .._names import ToWire
from .._snapshot import Snapshot
from .._usercode import on_loop
from .._view.listing import Page, page_of
from .._view.reasons import reason_for, refusal
from .._view.visibility import RequestView
from ..errors import ToolNotFound
from .events import Listed, PredicateFailed, Refused
from .observers import Observers, log
from .upkeep import OpenSessions

if TYPE_CHECKING:
    from .._toolset.toolset import ToolSet


@define(eq=False)
class Runtime:
    """What the sessions of one tool set share.

    Attributes:
        catalogs: The newest catalog.
        observers: The observers to notify.
        hook_timeout: Seconds that a hook may take; `None` for no limit (SPEC HOOK-6).
        page_size: The greatest number of items in a page of a list.
        hints: Whether a refusal names the group to open first (SPEC CALL-1).
        read_state: Supplies the application state of a request (SPEC MOD-3).
    """

    catalogs: Catalogs
    observers: Observers
    hook_timeout: float | None = None
    page_size: int | None = None
    hints: bool = False
    read_state: StateReader | None = None
    pool: OpenSessions = field(init=False)
    tools: ToolSet = field(init=False)
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
        if Listed in self.observers.listeners:
            place = cursor is None, page.next_cursor is None
            self.observers.notify(Listed(session, kind, page.items, view.snapshot.catalog, *place))
        return page

    def refused(self, session: str, name: str, view: RequestView | None) -> None:
        """Log that a session was refused a tool by the one reason for it, if that is counted (SPEC EXP-1, EXP-3).

        Without a view, there is nothing of that name: an adapter knows no tool that it calls so.
        """
        if Refused in self.observers.listeners:
            reason = None if view is None else reason_for(name, "tool", view)
            self.observers.notify(Refused(session, "unknown" if reason is None else reason.why))
            text = "There is no tool of this name." if reason is None else reason.text
            log.info("session %s: %s can't be called: %s", session, quoted(name), text)

    def unknown_tool(self, session: str, name: str, view: RequestView) -> ToolNotFound:
        """Return the refusal of a name that no tool has in the caller's form, counted as any other (SPEC EXP-3)."""
        self.refused(session, name, None)
        return refusal(None, "tool", name, view, groups=self.hints)

    @on_loop
    def _report(self, component: Component, error: BaseException, mode: str | None) -> None:
        reported = self._reported.setdefault(component, set())
        if mode not in reported:
            reported.add(mode)
            of = "" if mode is None else f"mode {mode!r} of "
            log.error("a predicate or count of %s%s %r failed", of, component.kind, component.name, exc_info=error)
            self.observers.notify(PredicateFailed(component.kind, component.name, error, mode))
