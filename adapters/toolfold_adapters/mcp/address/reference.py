"""How the caller of a request refers to its session afterwards (SPEC CTL-4, CTL-8): what its answer depends on.

    ByList    what it opens stays open, and its list has that  connections, principals
    ByHandle  a handle has it, and its list stays as it is     handles, and what a request selects
    ThisCall  it is open for one call                          clients that fetch groups

An address returns one with each session. All have the same names, and deliveries differ in nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import ClassVar
from weakref import WeakKeyDictionary

from attrs import define, field

from toolfold import Component, Page, Session, Snapshot, ToolNotFound
from toolfold.spi import HANDLE, Described, RequestView, frozen, is_hidden

from ...hosts import Host
from ..request import Request, own_client


@define(eq=False)
class ByList:
    """The caller's list has what is open. One for each session, which knows what its client has listed.

    Attributes:
        opens: Whether the proxies open the groups of what they call, since the process has one client (SPEC DEL-12).
        relists: Whether the client lists again when its list has changed.
    """

    opens: bool = field(factory=lambda: bool(own_client.get()))
    relists: bool = False
    _before: dict[str | None, Page] = field(init=False, factory=dict[str | None, Page])
    _latest: dict[str | None, Page] = field(init=False, factory=dict[str | None, Page])

    issues: ClassVar[bool] = False
    discarded: ClassVar[tuple[str, ...]] = ()
    handle: ClassVar[None] = None
    shown: ClassVar[None] = None

    def listed(self, page: Page, cursor: str | None) -> None:
        """Record a page of tools that the client was sent; one without a cursor begins a new list."""
        if cursor is None:
            self._before, self._latest = self._latest, {}
        before = self._before.get(cursor)
        if not self.relists and before is not None and before.items is not page.items:
            self.relists = before.names != page.names
        self._latest[cursor] = page

    def was_listed(self, component: Component, view: RequestView) -> bool:
        """Return whether the client was sent the definition of a tool."""
        registered = component.origin or component
        pages = (*self._latest.values(), *self._before.values())
        return any(registered is (one.origin or one) for page in pages for one in page.items)

    def way(self, call_tool: str | None, host: Host, component: Component | None) -> str:
        """Return how tools are called that the list lacks, if what `component` says is not its author's wording."""
        worded = component is not None and component.loader is not None and component.loader.texts is not None
        if worded or call_tool is None:
            return ""
        if not host.lists_again:
            return f"Call the tools below by {call_tool}."
        return f"Call the tools below by name, or by {call_tool} if they are not in your list."

    def unknown(self, error: ToolNotFound, call_tool: str | None) -> ToolNotFound:
        """Return the refusal of a name that is unknown: as it is."""
        return error

    async def issued(self, call_tool: str | None, *, tools: bool, groups: bool) -> tuple[str | None, str]:
        """Return that there is no handle, and nothing to say of it."""
        return None, ""


@frozen(eq=False)
class ByHandle:
    """A handle has what is open, and a new state has a new one.

    Attributes:
        handle: The handle of the request, if there is one.
        issue: Returns a handle of the state as it is by then.
        discarded: The groups of the handle that the newest catalog discards (SPEC PER-2).
        opens: Whether it is the handle of a process that has one client, which no caller has to give (SPEC DEL-12).
        shown: The definitions that its caller was answered with before, by name, as far as that is known (SPEC CTL-4).
    """

    handle: str | None
    _issue: Callable[[], Awaitable[str]]
    discarded: tuple[str, ...] = ()
    opens: bool = False
    shown: dict[str, Described] = field(factory=dict[str, Described])

    issues: ClassVar[bool] = True
    relists: ClassVar[bool] = False

    def was_listed(self, component: Component, view: RequestView) -> bool:
        """Return whether the caller knows the definition of a tool: if it is in the list that all have."""
        return self.handle is None and not is_hidden(component, view)

    def way(self, call_tool: str | None, host: Host, component: Component | None) -> str:
        """Return how tools are called that are open under the handle of the request."""
        under = "." if self.opens else ", with the handle that you gave."
        return "" if self.handle is None else f"Call the tools below by {call_tool}{under}"

    def unknown(self, error: ToolNotFound, call_tool: str | None) -> ToolNotFound:
        """Return the refusal of a name that is unknown under a handle, which may be the reason (SPEC CTL-8).

        It is, as far as is known, where a group is closed; who may not know that learns no more than of any name.
        """
        if self.opens or not error.hint or error.hint.endswith("?"):  # names that it may stand for
            return error
        give = f"give {call_tool} the last one that you were given"
        why, under = "the handle is missing", "without one"
        if self.handle is not None:
            why, under = "the handle was made before you opened its group", "under this one"
        return ToolNotFound(error.name, f"{why}: {give}; {under} {error.hint}", error.kind)

    async def issued(self, call_tool: str | None, *, tools: bool, groups: bool) -> tuple[str | None, str]:
        """Return a handle of the state as it is now, and what a model reads of it.

        Args:
            call_tool: What calls tools under it.
            tools: Whether tools follow the text.
            groups: Whether there are groups, which are opened under it too.
        """
        handle = await self._issue()
        if self.opens:
            return handle, f"Call the tools below by {call_tool}." if tools else ""
        which = ", which calls these tools" if tools else ""
        more = f"{',' if tools else ''} and to open or close more groups" if groups else ""
        return handle, f"Handle: {handle}\nGive it as {HANDLE!r} to {call_tool}{which}{more}."


@frozen(eq=False)
class ThisCall:
    """Nothing refers to the session afterwards."""

    opens: ClassVar[bool] = False
    issues: ClassVar[bool] = False
    relists: ClassVar[bool] = False
    discarded: ClassVar[tuple[str, ...]] = ()
    handle: ClassVar[None] = None
    shown: ClassVar[None] = None

    def was_listed(self, component: Component, view: RequestView) -> bool:
        """Return whether the caller knows the definition of a tool."""
        return not is_hidden(component, view)

    def way(self, call_tool: str | None, host: Host, component: Component | None) -> str:
        """Return nothing: its client knows how tools are called."""
        return ""

    def unknown(self, error: ToolNotFound, call_tool: str | None) -> ToolNotFound:
        """Return the refusal of a name that is unknown: as it is."""
        return error

    async def issued(self, call_tool: str | None, *, tools: bool, groups: bool) -> tuple[str | None, str]:
        """Return that there is no handle, and nothing to say of it."""
        return None, ""


Reference = ByList | ByHandle | ThisCall


@frozen(eq=False)
class ListSource:
    """What a list is made from.

    Attributes:
        snapshot: The state.
        session: The session, if it needed one.
        listing: What is notified of each page, if the list changes with what its caller opens.
        discarded: The groups of its handle that the newest catalog discards (SPEC PER-2).
        private: Whether the state depends on more than caches take into account: on a handle or a header.
    """

    snapshot: Snapshot
    session: Session | None = None
    listing: ByList | None = None
    discarded: tuple[str, ...] = ()
    private: bool = False


@define(eq=False)
class ListedSessions:
    """The sessions of an address whose lists have what is open: a list is made from the session of its request."""

    handle_of: ClassVar[None] = None

    _references: WeakKeyDictionary[Session, ByList] = field(init=False, factory=WeakKeyDictionary[Session, ByList])

    def reference(self, session: Session) -> ByList:
        """Return how the caller of a session refers to it."""
        return self._references.setdefault(session, ByList())

    def state(self, request: Request, *_: object) -> AbstractAsyncContextManager[tuple[Session, ByList]]:
        """Return what yields the session of a request."""
        raise NotImplementedError

    @asynccontextmanager
    async def reading(self, request: Request) -> AsyncGenerator[ListSource]:
        """Yield what a list is made from: the session of its request."""
        async with self.state(request) as (session, reference):
            yield ListSource(session.snapshot, session, reference)
