"""Session delivery: requests are answered from a session, of a connection or of a caller (SPEC DEL-1, DEL-6).

A group that a request opens stays open in its session, and the client's list changes. A legacy client, up to
2025-11-25, has a session for each connection. With `delivery="principal"` an authenticated caller of the modern era has
one, on all connections; its lists are private, and changes are sent to that caller's subscriptions only.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cached_property, partial
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from attrs import field, frozen

from toolfold import (
    Component,
    InvalidArguments,
    Page,
    Session,
    StoredSessions,
    StoreError,
    ToolNotFound,
    ToolResult,
    ToolSet,
    WireNames,
)
from toolfold.spi import Kind

from ...names import STORE_AWAY_META
from ..request import (
    SELECTION_FAILURES,
    Selections,
    caller_of,
    is_list,
    name_called,
    one_client,
    principal_of,
    refusal_text,
)
from ..subscriptions import Subscriptions, unauthenticated
from .answers import Answers
from .proxy import CallToolProxy, CallTools, Part, ToolCall, joined, make_calls, open_for, with_opened
from .render import Renderer, unknown_text


@frozen(eq=False)
class SessionDelivery:
    """Answers requests from their sessions.

    Args:
        tools: The tool set.
        wire: The names that clients see.
        session: Returns a context manager that yields the session of a request, opened if need be.
        renderer: Renders results.
        answers: Makes the library's own answers.
        proxies: The tools that call other tools, by name, for clients that never list again, if there are any; the
            first calls any one (SPEC DEL-8).
    """

    _tools: ToolSet
    _wire: WireNames
    session: Callable[[Any], AbstractAsyncContextManager[Session]]
    _renderer: Renderer
    _answers: Answers
    _proxies: Mapping[str, CallToolProxy | CallTools] = field(factory=dict[str, CallToolProxy | CallTools])
    _histories: WeakKeyDictionary[Session, ListingHistory] = field(
        init=False, factory=lambda: WeakKeyDictionary[Session, ListingHistory]()
    )

    @cached_property
    def _listed_too(self) -> tuple[Component, ...]:
        return tuple(proxy.component for proxy in self._proxies.values())

    async def list(self, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of what the session lists."""
        async with self.session(ctx) as session:
            view = session.view(to_wire=self._wire.to_wire)
            extra = self._listed_too if kind == "tool" and session.catalog.groups else ()
            page = self._tools.runtime.page(view, kind, cursor, extra, session.id)
            if kind == "tool":
                self._history(session).listed(page, cursor)
            return self._renderer.page(page, kind, {STORE_AWAY_META: True} if session.executor.is_away else {})

    async def call(self, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a tool in the session."""
        try:
            async with self.session(ctx) as session:
                result = await self._answer(ctx, session, name, arguments)
        except (*SELECTION_FAILURES, StoreError) as error:
            result = ToolResult.of_text(refusal_text(error), is_error=True)
        return self._renderer.result(result)

    async def prompt(self, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt in the session."""
        async with self.session(ctx) as session:
            return self._renderer.plain(
                await session.get_prompt(name, arguments, ctx, session.view(to_wire=self._wire.to_wire))
            )

    async def read(self, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource in the session."""
        async with self.session(ctx) as session:
            return self._renderer.contents(await session.read(uri, ctx, session.view(to_wire=self._wire.to_wire)))

    async def _answer(self, ctx: Any, session: Session, name: str, arguments: dict[str, Any] | None) -> ToolResult:
        proxy = self._proxies.get(name) if session.catalog.groups else None
        call = ToolCall(name, dict(arguments or {}), None)
        try:
            call = call if proxy is None else proxy.unpack(arguments)
            if isinstance(proxy, CallTools):
                return await self._several(ctx, session, call)
            return await self._called(ctx, session, call, proxy)
        except InvalidArguments as error:
            return ToolResult.of_text(str(error), is_error=True)
        except ToolNotFound as error:
            if proxy is None:
                raise
            return ToolResult.of_text(unknown_text(error, call.name), is_error=True)

    async def _several(self, ctx: Any, session: Session, call: ToolCall) -> ToolResult:
        proxy = next(iter(self._proxies.values()))
        assert isinstance(proxy, CallToolProxy)

        async def make(one: ToolCall, part: Part) -> ToolResult:
            return await self._called(ctx, session, one, proxy, part)

        room, modern = self._answers.room(ctx), self._renderer.modern
        results = await make_calls(ctx, call.arguments, make, session.catalog, self._wire, room=room, modern=modern)
        return joined(call.arguments["calls"], results, room)

    async def _called(
        self, ctx: Any, session: Session, call: ToolCall, proxy: CallToolProxy | None, part: Part | None = None
    ) -> ToolResult:
        """Return the answer to a call of a tool; if a proxy makes it, the caller may not know the schema."""
        report = part.progress if part else ctx.session.report_progress
        name, history = name_called(session, self._wire, call.name), self._history(session)
        component, relists = session.catalog.tools.get(name), history.relists
        opens = proxy is not None and one_client.get() and proxy.calls(component)
        opened = await open_for(session, name) if opens else ()
        view = session.view(to_wire=self._wire.to_wire)
        if proxy is not None and (refused := proxy.refusal(call.name, component, view)) is not None:
            return refused
        result = await session.call(name, call.arguments, progress=report, request=ctx, view=view)
        if not (opened or result.is_error or (component is not None and component.control is not None)):
            return result
        room = part.room if part else self._answers.room(ctx)
        answer = self._answers.for_call(
            result,
            component,
            lambda component: proxy is None and history.was_listed(component),
            room,
            relists=relists,
            way="" if relists or _is_worded(component) else self._way,
        )
        return with_opened(answer, opened, session.catalog, room) if opened else answer

    @cached_property
    def _way(self) -> str:
        """How tools are called that the caller's list does not have, for clients that are offered a proxy."""
        by = f"Call the tools below by name, or by {next(iter(self._proxies), None)} if they are not in your list."
        return by if self._proxies else ""

    def _history(self, session: Session) -> ListingHistory:
        return self._histories.setdefault(session, ListingHistory())


class ListingHistory:
    """What the client of one session has listed, and whether it lists again when its list has changed."""

    def __init__(self) -> None:
        self.relists = False
        self._before: dict[str | None, Page] = {}
        self._latest: dict[str | None, Page] = {}

    def listed(self, page: Page, cursor: str | None) -> None:
        """Record a page of tools that the client was sent; one without a cursor begins a new list."""
        if cursor is None:
            self._before, self._latest = self._latest, {}
        before = self._before.get(cursor)
        if not self.relists and before is not None and before.items is not page.items:
            self.relists = before.names != page.names
        self._latest[cursor] = page

    def was_listed(self, component: Component) -> bool:
        """Return whether the client was sent the definition of a tool."""
        registered = component.origin or component
        pages = (*self._latest.values(), *self._before.values())
        return any(registered is (one.origin or one) for page in pages for one in page.items)


@frozen(eq=False)
class PrincipalSessions:
    """The sessions of authenticated callers.

    Args:
        selections: The initial state of a caller's session is what the server was built with.
        sessions: Where these are.
        subscriptions: The subscriptions of the callers.
    """

    _selections: Selections
    _sessions: StoredSessions
    _subscriptions: Subscriptions
    _followed: WeakSet[Session] = field(init=False, factory=WeakSet[Session])

    @asynccontextmanager
    async def session(self, ctx: Any) -> AsyncGenerator[Session]:
        """Yield the session of the caller of a request."""
        session = await self.follow(ctx)
        try:
            yield session
        finally:
            await session.flush()

    async def follow(self, ctx: Any) -> Session:
        """Return the session of the caller of a request, whose changes its subscribers are notified of."""
        caller = principal_of(ctx)
        if not caller:
            raise unauthenticated()
        default = self._selections.default
        session = await self._sessions.get_or_create(
            caller, default.profile, default.paths, caller_of(ctx), reading=is_list(ctx)
        )
        if session not in self._followed:
            self._followed.add(session)
            session.on_list_changed(partial(self._subscriptions.announce, caller=caller))
            self._subscriptions.follow(caller, session)
        return session


def _is_worded(component: Component | None) -> bool:
    """Return whether a tool opens groups with texts of its author's, to which only what must be is added (GRP-3)."""
    return component is not None and component.loader is not None and component.loader.texts is not None
