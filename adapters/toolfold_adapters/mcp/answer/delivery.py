"""The one delivery: a request is answered from its state (SPEC DEL-1, DEL-2, DEL-5, DEL-6, DEL-7, DEL-12).

    request → address → session and reference → view → list | call → answer

Deliveries differ in how a request names its session (the address), and in how its caller refers to that afterwards
(the reference). A legacy client, up to 2025-11-25, has a session for each connection, and with
`delivery="principal"` an authenticated caller of the modern era has one on all connections: a group that a request
opens stays open there, and the client's list changes. Without sessions, a list is a function of its request: of the
groups that it selects or the handle that it carries, and of the application state that predicates, modes and counts
read. Opening a group changes no list then; its answer has the definitions of the tools that became available, and a
handle under which `call_tool` calls them. A client of an extension for groups opens none.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from typing import Any

from attrs import define, evolve, field

from toolfold import (
    Catalog,
    Component,
    InvalidArguments,
    Session,
    Snapshot,
    StoreError,
    ToolNotFound,
    ToolResult,
    ToolSet,
)
from toolfold.spi import HANDLE, Full, Kind, RequestView, available, frozen, listed, opened_for

from ...names import DISCARDED_META, HANDLE_META, NO_HANDLE, STORE_AWAY_META
from ..address.handle import HandleStates
from ..address.reference import ListedSessions, ListSource, Reference
from ..extensions.groups import Disclosure
from ..request import (
    HANDLE_ERRORS,
    SELECTION_FAILURES,
    Request,
    component_called,
    own_client,
    record_refusal,
    refusal_text,
)
from .answers import Answers, with_discarded
from .long_results import READ_RESULT, LongResults
from .proxy import CallToolProxy, CallTools, Part, ToolCall, joined, make_calls, open_for, with_opened
from .render import Renderer, unknown_text, with_text

Address = ListedSessions | HandleStates | Disclosure

Listed = tuple[Component, Mapping[str, Any]]
"""What is listed, and its definition on the wire."""
Check = Callable[[Request, Component], None]
"""What is asked before a tool is called for a request, and raises `MCPError` to refuse that."""


@define(eq=False)
class Asked:
    """A request to call a tool, or several: what it says, the session that it names, and how it does.

    `reported` is the state that its caller knows of: before, or after what the answer to one of several calls says.
    """

    request: Request
    session: Session
    reference: Reference
    reported: Snapshot
    proxy: CallToolProxy | CallTools | None


@frozen(eq=False)
class Delivery:
    """Answers requests from their sessions.

    Args:
        tools: The tool set.
        address: Finds the session of a request, and what a list of it depends on.
        renderer: Puts results on the wire, and has the names there.
        answers: Makes the library's own answers (SPEC CTL-4).
        proxies: The tools that call other tools, by name, if there are any; the first calls any one (SPEC DEL-8).
        long_results: The results that can be read on, if any can (SPEC GWY-17).
        checks: What is asked before a tool is called, whatever calls it.
    """

    _tools: ToolSet
    address: Address
    _renderer: Renderer
    _answers: Answers
    proxies: Mapping[str, CallToolProxy | CallTools] = field(factory=dict[str, CallToolProxy | CallTools])
    _long_results: LongResults | None = None
    _checks: Sequence[Check] = ()

    @cached_property
    def _listed_too(self) -> tuple[Component, ...]:
        return tuple(proxy.component for proxy in self.proxies.values())

    @cached_property
    def _call_tool(self) -> str | None:
        return next(iter(self.proxies), None)

    async def list(self, request: Request, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of a list.

        It is private if it depends on anything that is not part of a cache's key: a handle, a header, a predicate.
        """
        async with self.address.reading(request) as source:
            catalog, session = source.snapshot.catalog, source.session
            view = self._tools.runtime.view_of(source.snapshot, self._renderer.names.to_wire)
            extra = self._extra(request, kind, catalog)
            page = self._tools.runtime.page(view, kind, cursor, extra, "" if session is None else session.id)
            if kind == "tool" and source.listing is not None:
                source.listing.listed(page, cursor)
            meta: dict[str, Any] = {DISCARDED_META: [*source.discarded]} if source.discarded else {}
            if session is not None and session.is_away:
                meta[STORE_AWAY_META] = True
            answer = self._renderer.page(page, kind, meta)
            private = source.private or catalog.components[kind].changing or self._long_results is not None
            if self._renderer.modern and private:
                answer["cacheScope"] = "private"
            return answer

    async def everything(self, request: Request, kind: Kind) -> tuple[ListSource, tuple[Component, ...]]:
        """Return what a list is made from now, and all that it has; nobody is told that it was listed."""
        async with self.address.reading(request) as source:
            view = self._tools.runtime.view_of(source.snapshot, self._renderer.names.to_wire)
            return source, (*listed(view, kind), *self._extra(request, kind, source.snapshot.catalog))

    def rendered(self, components: Iterable[Component]) -> tuple[Listed, ...]:
        """Return what of that can be listed, and its definitions."""
        each = ((component, self._renderer.definition(component)) for component in components)
        return tuple((component, one) for component, one in each if one is not None)

    def _extra(self, request: Request, kind: Kind, catalog: Catalog) -> tuple[Component, ...]:
        """Return what is listed beside the components of a catalog."""
        extra = self._listed_too if kind == "tool" and catalog.groups else ()
        if kind == "tool" and self._long_results is not None and self._long_results.listed_for(request):
            extra = (*extra, self._long_results.component)
        return extra

    async def call(self, request: Request, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a tool, with the handle of the new state if that is how the state is found again."""
        proxy = self.proxies.get(name)
        if proxy is not None and not self._tools.catalog.groups:
            proxy = None
        own: str | None = None
        handle: str | None = None
        discarded: tuple[str, ...] = ()
        try:
            own = handle = self._handle(request)
            call = ToolCall(name, dict(arguments or {}), None) if proxy is None else proxy.unpack(arguments)
            call = call if isinstance(proxy, CallTools) else self._take_handle(call)
            handle = self._handle(request, call.handle) if call.handle else own
            async with self.address.state(request, "tool", call.name, handle) as (session, reference):
                discarded = reference.discarded
                result = await self._answered(Asked(request, session, reference, session.snapshot, proxy), call)
        except HANDLE_ERRORS as error:
            result = ToolResult.of_text(str(error), is_error=True)
            result = evolve(result, meta={HANDLE_META: NO_HANDLE}) if handle == own else result
        except (*SELECTION_FAILURES, InvalidArguments, StoreError) as error:
            if isinstance(error, Full):
                record_refusal(error)
            result = ToolResult.of_text(refusal_text(error), is_error=True)
        if discarded:
            result = with_discarded(result, discarded)
        return self._renderer.result(result)

    async def prompt(self, request: Request, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt."""
        async with self.session(request, "prompt", name) as session:
            return self._renderer.plain(await session.get_prompt(name, arguments, request.ctx, self._view(session)))

    async def read(self, request: Request, uri: str) -> Any:
        """Return the contents of a resource."""
        async with self.session(request, "resource", uri) as session:
            return self._renderer.contents(await session.read(uri, request.ctx, self._view(session)))

    @asynccontextmanager
    async def session(self, request: Request, kind: Kind = "tool", name: str = "") -> AsyncGenerator[Session]:
        """Yield the session of a request, or one that ends with it."""
        async with self.address.state(request, kind, name, self._handle(request)) as (session, _):
            yield session

    def _view(self, session: Session) -> RequestView:
        return self._tools.runtime.view_of(session.snapshot, self._renderer.names.to_wire)

    # -- calls --------------------------------------------------------------------------------------------------------

    async def _answered(self, asked: Asked, call: ToolCall) -> ToolResult:
        proxy = asked.proxy
        if proxy is not None and not asked.reported.catalog.groups:
            raise ToolNotFound(proxy.name)
        try:
            if isinstance(proxy, CallTools):
                return await self._several(asked, call)
            return await self._called(asked, call, proxy)
        except InvalidArguments as error:
            return ToolResult.of_text(str(error), is_error=True)
        except ToolNotFound as error:
            if proxy is None:
                raise
            unknown = asked.reference.unknown(error, self._call_tool)
            return ToolResult.of_text(unknown_text(unknown, call.name), is_error=True)

    async def _several(self, asked: Asked, call: ToolCall) -> ToolResult:
        """Return the answer to several calls, which are made in one session; what they changed has one handle."""
        session, reference, start, proxy = (
            asked.session,
            asked.reference,
            asked.reported,
            self.proxies[self._call_tool or ""],
        )
        assert isinstance(proxy, CallToolProxy)

        async def make(one: ToolCall, part: Part) -> ToolResult:
            try:  # a handle inside is passed over
                return await self._called(asked, self._take_handle(one), proxy, part)
            except ToolNotFound as error:
                raise reference.unknown(error, self._call_tool) from error

        room, modern, calls = self._answers.room(asked.request.host), self._renderer.modern, call.arguments["calls"]
        controls = [self._control(start.catalog, one["name"]) is not None for one in calls]
        results = await make_calls(asked.request.ctx, call.arguments, make, controls, room=room, modern=modern)
        rest_of = partial(self._rest_of, asked)
        if not reference.issues or not _differ(start, session.snapshot):
            return joined(calls, results, room, rest_of)
        tools = bool(_new_tools(start, session.snapshot, self._view(session)))
        handle, way = await self._issued(reference, session.snapshot, tools=tools)
        answer = joined(calls, results, room - len(f"{way}\n"), rest_of)
        return with_text(answer, f"{way}\n" if way else "", first=True, meta={HANDLE_META: handle})

    def _rest_of(self, asked: Asked, text: str) -> str:
        """Return how the rest of a text is read that is cut in the answer to several calls."""
        if self._long_results is None or asked.request.host.passes is None:
            return "call it alone"
        return self._long_results.rest_of(text, _owner(asked), asked.request.caller) or "call it alone"

    async def _called(
        self, asked: Asked, call: ToolCall, proxy: CallToolProxy | None, part: Part | None = None
    ) -> ToolResult:
        """Return the answer to a call; that of one of several has no handle, which all of them have together."""
        session, reference, ctx = asked.session, asked.reference, asked.request.ctx
        if call.name == READ_RESULT and self._long_results is not None:
            request = asked.request
            return await self._long_results.read(call.arguments, _owner(asked), request.host, request.caller)
        relists = reference.relists  # before it may be notified of this call's own changes
        name, snapshot = self._name(session, call.name), session.snapshot
        component = snapshot.catalog.tools.get(name)
        opens = proxy is not None and reference.opens and proxy.calls(component)
        if self._checks and component is not None:
            before = self._tools.runtime.view_of(snapshot, self._renderer.names.to_wire)
            if available(component, before) or (opens and opened_for(name, before)):
                for check in self._checks:
                    check(asked.request, component)
        opened = await open_for(session, name) if opens else ()
        if opened:
            snapshot = asked.reported = session.snapshot
        view = self._tools.runtime.view_of(snapshot, self._renderer.names.to_wire)
        if proxy is not None and (refused := proxy.refusal(call.name, component, view)) is not None:
            return refused
        report = part.progress if part else ctx.session.report_progress
        result = await session.call(name, call.arguments, progress=report, request=ctx, view=view)
        now = session.snapshot
        changed = reference.issues and _differ(asked.reported, now)
        control = component is not None and component.control is not None
        room = part.room if part else self._answers.room(asked.request.host)
        if self._long_results is not None and not control:
            own = proxy is None and component is not None and "outputSchema" in component.definition
            less = None if part is not None else room if changed else 0
            result = await self._long_results.fitted(result, _owner(asked), asked.request, validated=own, less=less)
        if not (changed or opened or control or result.is_error):
            return result
        if changed or (reference.issues and not result.is_error and component and component.may_change(call.arguments)):
            return await self._changed(asked, result, now, view, room, control=control, alone=part is None)

        def was_listed(one: Component) -> bool:
            return proxy is None and reference.was_listed(one, view)

        host = asked.request.host
        way = "" if relists else reference.way(self._call_tool, host, component)
        read, shown = host.shows_meta, reference.shown
        answer = self._answers.for_call(
            result, component, was_listed, room, relists=relists, way=way, read=read, shown=shown
        )
        return with_opened(answer, opened, session.catalog, room) if opened else answer

    async def _changed(
        self,
        asked: Asked,
        result: ToolResult,
        now: Snapshot,
        view: RequestView,
        room: int,
        *,
        control: bool,
        alone: bool,
    ) -> ToolResult:
        """Return the answer to a call that changed what its caller has to refer to by a handle from now on."""
        before, asked.reported = asked.reported, now
        reference, host = asked.reference, asked.request.host
        new = [] if control else _new_tools(before, now, view)
        structured: Any = result.structured or {}
        tools = bool(structured.get("tools") if control else new)
        handle, way = await self._issued(reference, now, tools=tools) if alone else (None, "")
        if control:
            read, shown = host.shows_meta, reference.shown
            return self._answers.for_change(result, room, handle=handle, way=way, read=read, shown=shown)
        if handle is not None and handle == reference.handle:  # its caller has just given it
            way = reference.way(self._call_tool, host, None) if new else ""
        return self._answers.with_new_tools(result, new, room, handle, way, reference.shown)

    async def _issued(self, reference: Reference, now: Snapshot, *, tools: bool) -> tuple[str | None, str]:
        """Return a handle of the state as it is now, if there are handles, and what a model reads of it."""
        return await reference.issued(self._call_tool, tools=tools, groups=bool(now.catalog.groups))

    # -- what is called -----------------------------------------------------------------------------------------------

    def _name(self, session: Session, name: str) -> str:
        """Return what a tool that is called by a name on the wire is registered as.

        Raises `ToolNotFound` if there is none, which counts as a refusal of any other tool does (SPEC EXP-3), with
        names near it.
        """
        try:
            return self._renderer.names.from_wire(name)
        except ToolNotFound:
            raise self._tools.runtime.unknown_tool(session.id, name, self._view(session)) from None

    def _handle(self, request: Request, given: str | None = None) -> str | None:
        """Return the handle that names the session of a request, if handles do."""
        handle_of = self.address.handle_of
        return None if handle_of is None else handle_of(request, given)

    def _take_handle(self, call: ToolCall) -> ToolCall:
        """Return a call of a control tool with the handle removed from its arguments, where there are handles."""
        if self.address.handle_of is None or HANDLE not in call.arguments:
            return call
        if (component := self._control(self._tools.catalog, call.name)) is None:
            return call
        arguments = dict(call.arguments)
        handle = arguments.pop(HANDLE)
        handle = None if handle in (None, "", "null") else handle  # as hosts write what they leave out
        if handle is not None and not isinstance(handle, str):
            raise InvalidArguments(component.name, {f"arguments.{HANDLE}": "a handle is a string"})
        return ToolCall(call.name, arguments, handle or call.handle)

    def _control(self, catalog: Catalog, name: str) -> Component | None:
        """Return the tool of a name on the wire if it is one that opens or closes groups."""
        component = component_called(catalog, self._renderer.names, name)
        return None if component is None or component.control is None else component


def _owner(asked: Asked) -> str:
    """Return whose the results are that a request brings: a session's, or where there is none a caller's."""
    request = asked.request
    return (own_client.get() or request.caller or "") if request.modern else asked.session.id


def _differ(before: Snapshot, now: Snapshot) -> bool:
    return now is not before and (now.active != before.active or now.facts != before.facts)


def _new_tools(before: Snapshot, now: Snapshot, view: RequestView) -> list[Component]:
    """Return the tools that are listed now and were not before."""
    known = {component.name for component in listed(view.of(before), "tool")}
    return [component for component in listed(view.of(now), "tool") if component.name not in known]
