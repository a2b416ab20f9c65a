"""The one delivery: a request is answered from its state (SPEC DEL-1, DEL-2, DEL-5, DEL-6, DEL-7, DEL-12).

    request → states.state → view → list | call → answer

Deliveries differ in whose state that is. A legacy client, up to 2025-11-25, has a session for each connection, and with
`delivery="principal"` an authenticated caller of the modern era has one on all connections: a group that a request
opens stays open there, and the client's list changes. Without sessions, a list is a function of its request: of the
groups that it selects or the handle that it carries, and of the application state that predicates, modes and counts
read. Opening a group changes no list then; its answer has the definitions of the tools that became available, and a
handle under which `call_tool` calls them. A client of an extension for groups opens none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from attrs import evolve, field, frozen

from toolfold import (
    Catalog,
    Component,
    InvalidArguments,
    Page,
    Session,
    Snapshot,
    StoreError,
    ToolNotFound,
    ToolResult,
    ToolSet,
)
from toolfold.spi import HANDLE, Kind, RequestView, is_hidden, listed

from ...hosts import lists_again, shows_meta
from ...names import DISCARDED_META, HANDLE_META, NO_HANDLE, STORE_AWAY_META
from ..address.handle import HandleStates, carried_handle
from ..address.legacy import LegacySessions
from ..address.principal import PrincipalSessions
from ..extensions.groups import Disclosure
from ..request import (
    HANDLE_ERRORS,
    SELECTION_FAILURES,
    RequestState,
    client_of,
    component_called,
    name_called,
    refusal_text,
)
from .answers import Answers, with_discarded
from .proxy import CallToolProxy, CallTools, Part, ToolCall, joined, make_calls, open_for, with_opened
from .render import Renderer, unknown_text, with_text

States = LegacySessions | PrincipalSessions | HandleStates | Disclosure


@frozen(eq=False)
class Delivery:
    """Answers requests from their states.

    Args:
        tools: The tool set.
        states: Finds the state of a request, and what a list of it depends on.
        renderer: Puts results on the wire, and has the names there.
        answers: Makes the library's own answers (SPEC CTL-4).
        proxies: The tools that call other tools, by name, if there are any; the first calls any one (SPEC DEL-8).
    """

    _tools: ToolSet
    states: States
    _renderer: Renderer
    _answers: Answers
    _proxies: Mapping[str, CallToolProxy | CallTools] = field(factory=dict[str, CallToolProxy | CallTools])
    _histories: WeakKeyDictionary[Session, ListingHistory] = field(
        init=False, factory=lambda: WeakKeyDictionary[Session, ListingHistory]()
    )

    @cached_property
    def _listed_too(self) -> tuple[Component, ...]:
        return tuple(proxy.component for proxy in self._proxies.values())

    @cached_property
    def _call_tool(self) -> str:
        return next(iter(self._proxies))

    @cached_property
    def _handles(self) -> HandleStates | None:
        return self.states if isinstance(self.states, HandleStates) else None

    async def list(self, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of a list.

        It is private if it depends on anything that is not part of a cache's key: a handle, a header, a predicate.
        """
        async with self.states.reading(ctx) as state:
            catalog, session = state.snapshot.catalog, state.found
            view = self._tools.runtime.view_of(state.snapshot, self._renderer.names.to_wire)
            extra = self._listed_too if kind == "tool" and catalog.groups else ()
            page = self._tools.runtime.page(view, kind, cursor, extra, "" if session is None else session.id)
            if kind == "tool" and (history := self._history(state)) is not None:
                history.listed(page, cursor)
            meta: dict[str, Any] = {DISCARDED_META: [*state.discarded]} if state.discarded else {}
            if session is not None and session.executor.is_away:
                meta[STORE_AWAY_META] = True
            answer = self._renderer.page(page, kind, meta)
            if self._renderer.modern and (state.private or catalog.components[kind].changing):
                answer["cacheScope"] = "private"
            return answer

    async def call(self, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a tool, with the handle of the new state if that is how the state is found again."""
        proxy = self._proxies.get(name)
        if proxy is not None and not self._tools.catalog.groups:
            proxy = None
        call, own = ToolCall(name, dict(arguments or {}), None), None
        state: RequestState | None = None
        try:
            own = None if self._handles is None else carried_handle(ctx)
            call = call if proxy is None else proxy.unpack(arguments)
            if self._handles is not None:
                call = self._handles.addressed(call if isinstance(proxy, CallTools) else self._take_handle(call), own)
            async with self.states.state(ctx, "tool", call.name, call.handle) as state:
                result = await self._answered(ctx, call, state, proxy)
        except HANDLE_ERRORS as error:
            result = ToolResult.of_text(str(error), is_error=True)
            result = evolve(result, meta={HANDLE_META: NO_HANDLE}) if call.handle == own else result
        except (*SELECTION_FAILURES, InvalidArguments, StoreError) as error:
            result = ToolResult.of_text(refusal_text(error), is_error=True)
        if state is not None and state.discarded:
            result = with_discarded(result, state.discarded)
        return self._renderer.result(result)

    async def prompt(self, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt."""
        async with self.session(ctx, "prompt", name) as session:
            return self._renderer.plain(await session.get_prompt(name, arguments, ctx, self._view(session)))

    async def read(self, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource."""
        async with self.session(ctx, "resource", uri) as session:
            return self._renderer.contents(await session.read(uri, ctx, self._view(session)))

    @asynccontextmanager
    async def session(self, ctx: Any, kind: Kind = "tool", name: str = "") -> AsyncGenerator[Session]:
        """Yield the session of a request, or one that ends with it."""
        handle = None if self._handles is None else self._handles.of_process(carried_handle(ctx))
        async with self.states.state(ctx, kind, name, handle) as state:
            yield state.session

    def _view(self, session: Session) -> RequestView:
        return session.view(to_wire=self._renderer.names.to_wire)

    def _history(self, state: RequestState) -> ListingHistory | None:
        return self._histories.setdefault(state.session, ListingHistory()) if state.lists else None

    # -- calls --------------------------------------------------------------------------------------------------------

    async def _answered(
        self, ctx: Any, call: ToolCall, state: RequestState, proxy: CallToolProxy | CallTools | None
    ) -> ToolResult:
        if proxy is not None and not state.session.catalog.groups:
            raise ToolNotFound(proxy.name)
        try:
            if isinstance(proxy, CallTools):
                return await self._several(ctx, call, state)
            return await self._called(ctx, call, state, proxy)
        except InvalidArguments as error:
            return ToolResult.of_text(str(error), is_error=True)
        except ToolNotFound as error:
            if proxy is None:
                raise
            return ToolResult.of_text(unknown_text(self._unknown(error, state), call.name), is_error=True)

    async def _several(self, ctx: Any, call: ToolCall, state: RequestState) -> ToolResult:
        """Return the answer to several calls, which are made in one session; what they changed has one handle."""
        session, start, proxy = state.session, state.snapshot, self._proxies[self._call_tool]
        assert isinstance(proxy, CallToolProxy)

        async def make(one: ToolCall, part: Part) -> ToolResult:
            try:  # a handle inside is passed over
                return await self._called(ctx, self._take_handle(one), state, proxy, part)
            except ToolNotFound as error:
                raise self._unknown(error, state) from error

        room, modern, calls = self._answers.room(ctx), self._renderer.modern, call.arguments["calls"]
        controls = [self._control(session.catalog, one["name"]) is not None for one in calls]
        results = await make_calls(ctx, call.arguments, make, controls, room=room, modern=modern)
        if state.issue is None or not _differ(start, session.snapshot):
            return joined(calls, results, room)
        handle, way = await self._issued(state)
        answer = joined(calls, results, room - len(f"{way}\n"))
        return with_text(answer, f"{way}\n", first=True, meta={HANDLE_META: handle})

    async def _called(
        self, ctx: Any, call: ToolCall, state: RequestState, proxy: CallToolProxy | None, part: Part | None = None
    ) -> ToolResult:
        """Return the answer to a call; that of one of several has no handle, which all of them have together."""
        session, history = state.session, self._history(state)
        name, relists = name_called(session, self._renderer.names, call.name), history is not None and history.relists
        component = session.catalog.tools.get(name)
        opens = proxy is not None and state.opens and proxy.calls(component)
        opened = await open_for(session, name) if opens else ()
        state.snapshot = session.snapshot if opened else state.snapshot
        view = self._view(session)
        if proxy is not None and (refused := proxy.refusal(call.name, component, view)) is not None:
            return refused
        report = part.progress if part else ctx.session.report_progress
        result = await session.call(name, call.arguments, progress=report, request=ctx, view=view)
        changed = state.issue is not None and _differ(state.snapshot, session.snapshot)
        control = component is not None and component.control is not None
        if not (changed or opened or control or result.is_error):
            return result
        room, read = part.room if part else self._answers.room(ctx), shows_meta(client_of(ctx))
        if changed or (state.issue and not result.is_error and component and component.may_change(call.arguments)):
            return await self._changed(result, state, view, room, control=control, alone=part is None, read=read)

        def was_listed(one: Component) -> bool:
            if proxy is not None or state.handle is not None:
                return False
            return not is_hidden(one, view) if history is None else history.was_listed(one)

        way = self._way(ctx, state, component, relists=relists)
        answer = self._answers.for_call(result, component, was_listed, room, relists=relists, way=way, read=read)
        return with_opened(answer, opened, session.catalog, room) if opened else answer

    async def _changed(
        self,
        result: ToolResult,
        state: RequestState,
        view: RequestView,
        room: int,
        *,
        control: bool,
        alone: bool,
        read: bool,
    ) -> ToolResult:
        """Return the answer to a call that changed what its caller has to refer to by a handle from now on."""
        handle, way = await self._issued(state) if alone else (None, "")
        before, state.snapshot = state.snapshot, state.session.snapshot
        if control:
            return self._answers.for_change(result, room, handle=handle, way=way, read=read)
        known = {component.name for component in listed(view.of(before), "tool")}
        new = [component for component in listed(view.of(state.snapshot), "tool") if component.name not in known]
        return self._answers.with_new_tools(result, new, room, handle, way)

    # -- what the caller has to know ----------------------------------------------------------------------------------

    def _take_handle(self, call: ToolCall) -> ToolCall:
        """Return a call of a control tool with the handle removed from its arguments, where there are handles."""
        if self._handles is None or HANDLE not in call.arguments:
            return call
        if (component := self._control(self._tools.catalog, call.name)) is None:
            return call
        arguments = dict(call.arguments)
        handle = arguments.pop(HANDLE) or None
        if handle is not None and not isinstance(handle, str):
            raise InvalidArguments(component.name, {f"arguments.{HANDLE}": "a handle is a string"})
        return ToolCall(call.name, arguments, handle or call.handle)

    def _control(self, catalog: Catalog, name: str) -> Component | None:
        """Return the tool of a name on the wire if it is one that opens or closes groups."""
        component = component_called(catalog, self._renderer.names, name)
        return None if component is None or component.control is None else component

    def _way(self, ctx: Any, state: RequestState, component: Component | None, *, relists: bool) -> str:
        """Return how tools are called that the caller's list does not have; what an author words gets no more."""
        if not state.lists:
            under = "." if state.opens else ", with the handle that you gave."
            return "" if state.handle is None else f"Call the tools below by {self._call_tool}{under}"
        worded = component is not None and component.loader is not None and component.loader.texts is not None
        if relists or worded or not self._proxies:
            return ""
        if not lists_again(client_of(ctx)):
            return f"Call the tools below by {self._call_tool}."
        return f"Call the tools below by name, or by {self._call_tool} if they are not in your list."

    def _unknown(self, error: ToolNotFound, state: RequestState) -> ToolNotFound:
        """Return the refusal of a name that is unknown in a state: its handle may be the reason (CTL-8)."""
        if state.issue is None or state.opens:
            return error
        give = f"give {self._call_tool} the last one that you were given"
        why, under = "the handle is missing", "without one"
        if state.handle is not None:
            why, under = "the handle was made before you opened its group", "under this one"
        if error.hint and error.hint.endswith("?"):  # other names that it may stand for
            return ToolNotFound(error.name, f"{error.hint} Or, if you opened its group, {why}: {give}", error.kind)
        hint = f"{why}: {give}; {under} {error.hint}" if error.hint else f"if you opened its group, {why}: {give}"
        return ToolNotFound(error.name, hint, error.kind)

    async def _issued(self, state: RequestState) -> tuple[str, str]:
        """Return a handle of a state as it is now, and its description for a model."""
        assert state.issue is not None
        handle = await state.issue()
        if state.opens:
            return handle, f"Call the tools below by {self._call_tool}."
        return handle, (
            f"Handle: {handle}\nGive it as {HANDLE!r} to {self._call_tool}, which calls these tools, "
            "and to open or close more groups."
        )


def _differ(before: Snapshot, now: Snapshot) -> bool:
    return now is not before and (now.active != before.active or now.facts != before.facts)


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
