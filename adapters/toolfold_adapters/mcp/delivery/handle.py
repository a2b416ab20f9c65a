"""Handle delivery, for requests of the modern era, 2026-07-28, which has no sessions (SPEC DEL-2, DEL-7, DEL-11).

A list is a function of its request: of the groups that it selects or the handle that it carries, and of the application
state that predicates, modes and counts read. Opening a group changes no list; its answer has the definitions of the
tools that became available, and a handle under which `call_tool` calls them. A process that has one client has one
session for all calls of it, whether they give a handle or not (SPEC DEL-12); its lists are as constant.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import cached_property, partial
from typing import Any

from anyio.abc import TaskGroup
from attrs import define, evolve, field, frozen
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolfold import (
    Catalog,
    Component,
    HandleExpired,
    HandleInvalid,
    InvalidArguments,
    Session,
    Snapshot,
    StoreError,
    ToolNotFound,
    ToolResult,
    ToolSet,
    WireNames,
)
from toolfold.spi import HANDLE, Kind, RequestView, is_hidden, listed

from ...names import DISCARDED_META, HANDLE_HEADER, HANDLE_META, NO_HANDLE, STORE_AWAY_META
from ..handles import AGAIN, MAX_LENGTH, Reading, SharedSessions, SignedHandles, StoredHandles, is_signed
from ..request import (
    SELECTION_FAILURES,
    Selection,
    Selections,
    caller_of,
    name_called,
    one_client,
    principal_of,
    refusal_text,
)
from .answers import Answers, with_discarded
from .proxy import CallToolProxy, CallTools, Part, ToolCall, joined, make_calls, open_for, with_opened
from .render import Renderer, unknown_text, with_text

HANDLE_ERRORS = (HandleInvalid, HandleExpired)


@define
class RequestState:
    """The state of one request: its session, the snapshot before it, and the handle of a stored session.

    `draft` is the handle that the session is stored under if it is to outlive the request.
    """

    session: Session
    before: Snapshot
    stored: str | None = None
    discarded: tuple[str, ...] = ()
    draft: str | None = None


@frozen(eq=False)
class HandleDelivery:
    """Answers modern requests from the state that each request names.

    Args:
        tools: The tool set.
        wire: The names that clients see.
        selections: What requests select, or else what the server was built with.
        signed: Makes handles for catalogs without hooks.
        short: Whether to make no signed ones.
        stored: Makes the others.
        shared: The sessions that run the hooks of groups that requests select.
        proxies: The tools that call other tools, by name; the first calls any one.
        renderer: Puts results on the wire; control tools take a handle there.
        answers: Makes the library's own answers (SPEC CTL-4).
        tasks_of: Returns the task group of the running server, given the context of a request.
    """

    _tools: ToolSet
    _wire: WireNames
    _selections: Selections
    _signed: SignedHandles
    _short: bool
    _stored: StoredHandles
    _shared: SharedSessions
    _proxies: Mapping[str, CallToolProxy | CallTools]
    _renderer: Renderer
    _answers: Answers
    _tasks_of: Callable[[Any], TaskGroup]
    _own: str = field(init=False, factory=partial(secrets.token_urlsafe, 16))
    """The handle of the session of a process that has one client."""

    @cached_property
    def _listed_too(self) -> tuple[Component, ...]:
        return tuple(proxy.component for proxy in self._proxies.values())

    @cached_property
    def _call_tool(self) -> str:
        return next(iter(self._proxies))

    async def list(self, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of a list.

        It is private if it depends on anything that is not part of a cache's key: a handle, a header, a predicate.
        """
        try:
            handle = _handle_of(ctx)
            reading = await self._reading(ctx, handle)
        except HANDLE_ERRORS as error:
            raise _refused_handle(error) from error
        snapshot = reading.snapshot
        view = self._tools.runtime.view_of(snapshot, self._wire.to_wire)
        extra = self._listed_too if kind == "tool" and snapshot.catalog.groups else ()
        page = self._tools.runtime.page(view, kind, cursor, extra)
        meta: dict[str, Any] = {DISCARDED_META: list(reading.discarded)} if reading.discarded else {}
        if reading.store_away:
            meta[STORE_AWAY_META] = True
        shown = self._renderer.page(page, kind, meta)
        own = (
            handle is not None or self._selections.by_headers(ctx.request) or snapshot.catalog.components[kind].changing
        )
        return {**shown, "cacheScope": "private"} if own else shown

    async def call(self, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return the result of a tool, with the handle of the new state if it changed the state."""
        selection, own = self._selections.of(ctx.request), None
        proxy = self._proxies.get(name) if selection.catalog.groups else None
        call = ToolCall(name, dict(arguments or {}), None)
        state: RequestState | None = None
        try:
            own = _handle_of(ctx)
            call = call if proxy is None else proxy.unpack(arguments)
            if not isinstance(proxy, CallTools):
                call = self._take_handle(selection.catalog, call)
            call = evolve(call, handle=self._own_or(own) if one_client.get() else call.handle or own)
            async with self._state(ctx, selection, call.handle) as state:
                if isinstance(proxy, CallTools):
                    result = await self._several(ctx, call, state)
                else:
                    result = await self._answer(ctx, call, state, proxy)
        except HANDLE_ERRORS as error:
            result = ToolResult.of_text(str(error), is_error=True)
            result = evolve(result, meta={HANDLE_META: NO_HANDLE}) if call.handle == own else result
        except (*SELECTION_FAILURES, InvalidArguments, StoreError) as error:
            result = ToolResult.of_text(refusal_text(error), is_error=True)
        except ToolNotFound as error:
            if proxy is None:
                raise
            result = ToolResult.of_text(unknown_text(self._unknown(error, call), call.name), is_error=True)
        if state is not None and state.discarded:
            result = with_discarded(result, state.discarded)
        return self._renderer.result(result)

    async def prompt(self, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt."""
        async with self.session(ctx) as session:
            return self._renderer.plain(await session.get_prompt(name, arguments, ctx, self._view(session)))

    async def read(self, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource."""
        async with self.session(ctx) as session:
            contents = await session.read(uri, ctx, self._view(session))
        return self._renderer.contents(contents)

    # -- the state of a request ---------------------------------------------------------------------------------------

    async def _reading(self, ctx: Any, handle: str | None) -> Reading:
        selection = self._selections.of(ctx.request)
        if handle is None:
            return Reading(selection.start)
        if is_signed(handle):
            return self._signed_state(ctx, selection, handle)
        session = await self._session(ctx, selection, handle, reading=True)
        return Reading(session.snapshot, self._stored.discarded(session), session.executor.is_away)

    def _signed_state(self, ctx: Any, selection: Selection, handle: str) -> Reading:
        """Return the content of a signed handle; a catalog with hooks has no signed handles."""
        if selection.catalog.has_hooks:
            raise HandleInvalid(f"The handle is not one of this server, or was made before its groups changed. {AGAIN}")
        return self._signed.read(handle, selection.catalog, principal_of(ctx))

    async def _session(self, ctx: Any, selection: Selection, handle: str, *, reading: bool = False) -> Session:
        """Return the session of a stored handle; if the handle is no longer valid, end it."""
        if handle == self._own:
            return await self._shared.opened(self._own, selection, caller_of(ctx))
        try:
            return await self._stored.get(handle, principal_of(ctx), reading=reading)
        except HandleInvalid:
            self._tasks_of(ctx).start_soon(self._stored.end_if_over, handle, principal_of(ctx))
            raise

    @asynccontextmanager
    async def _state(self, ctx: Any, selection: Selection, handle: str | None) -> AsyncGenerator[RequestState]:
        """Yield a session in the state that the request names; unless it is stored, it ends with the request."""
        if handle is not None and not is_signed(handle):
            session = await self._session(ctx, selection, handle)
            try:
                yield RequestState(session, session.snapshot, handle, self._stored.discarded(session))
            finally:
                await self._stored.give_back(session)
            return
        caller = caller_of(ctx)
        if handle is not None:
            reading, owner = self._signed_state(ctx, selection, handle), None
        else:
            reading = Reading(selection.start)
            owner = await self._shared.session(selection, caller) if selection.catalog.has_hooks else None
        among, draft, name = None, None, ""
        if self._stores_sessions(reading.snapshot.catalog):
            among, (draft, name) = self._stored.sessions, self._stored.new(principal_of(ctx))
        async with self._tools.request_session(
            reading.snapshot, selection.profile, owner, caller, among=among, name=name
        ) as session:
            yield RequestState(session, reading.snapshot, discarded=reading.discarded, draft=draft)

    @asynccontextmanager
    async def session(self, ctx: Any) -> AsyncGenerator[Session]:
        """Yield the session of a request, or one that ends with it."""
        selection = self._selections.of(ctx.request)
        try:
            async with self._state(ctx, selection, self._own_or(_handle_of(ctx))) as state:
                yield state.session
        except HANDLE_ERRORS as error:
            raise _refused_handle(error) from error

    def _view(self, session: Session) -> RequestView:
        return session.view(to_wire=self._wire.to_wire)

    def _own_or(self, given: str | None) -> str | None:
        """Return the handle that a request itself carries, else that of the process if it has one client."""
        return given or (self._own if one_client.get() else None)

    # -- the answer ---------------------------------------------------------------------------------------------------

    async def _several(self, ctx: Any, call: ToolCall, state: RequestState) -> ToolResult:
        """Return the answer to several calls, which are made in one session; what they changed has one handle."""
        session, start, proxy = state.session, state.before, self._proxies[self._call_tool]
        assert isinstance(proxy, CallToolProxy)

        async def make(one: ToolCall, part: Part) -> ToolResult:
            try:
                one = evolve(self._take_handle(session.catalog, one), handle=call.handle)  # one inside is passed over
                return await self._answer(ctx, one, state, proxy, part)
            except ToolNotFound as error:
                raise self._unknown(error, one) from error

        room = self._answers.room(ctx)
        results = await make_calls(ctx, call.arguments, make, session.catalog, self._wire, room=room, modern=True)
        calls = call.arguments["calls"]
        if not _differ(start, session.snapshot):
            return joined(calls, results, room)
        handle, way = await self._handle(ctx, state)
        answer = joined(calls, results, room - len(f"{way}\n"))
        return with_text(answer, f"{way}\n", first=True, meta={HANDLE_META: handle})

    async def _answer(
        self, ctx: Any, call: ToolCall, state: RequestState, proxy: CallToolProxy | None, part: Part | None = None
    ) -> ToolResult:
        """Return the answer to a call; that of one of several has no handle, which all of them have together."""
        session = state.session
        name = name_called(session, self._wire, call.name)
        opens = proxy is not None and call.handle == self._own and proxy.calls(session.catalog.tools.get(name))
        opened = await open_for(session, name) if opens else ()
        state.before = session.snapshot if opened else state.before
        view, component = self._view(session), session.catalog.tools.get(name)
        if proxy is not None and (refused := proxy.refusal(call.name, component, view)) is not None:
            return refused
        control = component is not None and component.control is not None
        report = part.progress if part else ctx.session.report_progress
        result = await session.call(name, call.arguments, progress=report, request=ctx, view=view)
        before, now = state.before, session.snapshot
        changed = _differ(before, now)
        if not (changed or opened or control or result.is_error):
            return result
        room = part.room if part else self._answers.room(ctx)
        if not changed and (result.is_error or component is None or not component.may_change(call.arguments)):
            # Without a handle, every client has the same list (SPEC DEL-7).
            own = proxy is None and call.handle is None
            under = "." if call.handle == self._own else ", with the handle that you gave."
            way = "" if call.handle is None else f"Call the tools below by {self._call_tool}{under}"
            answer = self._answers.for_call(
                result, component, lambda one: own and not is_hidden(one, view), room, way=way
            )
            return with_opened(answer, opened, session.catalog, room) if opened else answer
        if part:
            state.before = now
        handle, way = (None, "") if part else await self._handle(ctx, state)
        if control:
            return self._answers.for_change(result, room, handle=handle, way=way)
        known = {component.name for component in listed(view.of(before), "tool")}
        new = [component for component in listed(session.view(view), "tool") if component.name not in known]
        return self._answers.with_new_tools(result, new, room, handle, way)

    def _take_handle(self, catalog: Catalog, call: ToolCall) -> ToolCall:
        """Return a call of a control tool with the handle removed from its arguments; any other call unchanged."""
        with suppress(ToolNotFound):  # which is refused where it is called
            return _take_handle(catalog.tools.get(self._wire.from_wire(call.name)), call)
        return call

    def _unknown(self, error: ToolNotFound, call: ToolCall) -> ToolNotFound:
        """Return the refusal of a name that is unknown in the state of a call: its handle may be the reason (CTL-8)."""
        if call.handle == self._own:
            return error
        give = f"give {self._call_tool} the last one that you were given"
        why, under = "the handle is missing", "without one"
        if call.handle is not None:
            why, under = "the handle was made before you opened its group", "under this one"
        hint = f"{why}: {give}; {under} {error.hint}" if error.hint else f"if you opened its group, {why}: {give}"
        return ToolNotFound(error.name, hint, error.kind)

    async def _handle(self, ctx: Any, state: RequestState) -> tuple[str, str]:
        """Return a handle of the current state, and its description for a model."""
        handle = await self._issued(ctx, state)
        if handle == self._own:
            return handle, f"Call the tools below by {self._call_tool}."
        return handle, (
            f"Handle: {handle}\nGive it as {HANDLE!r} to {self._call_tool}, which calls these tools, "
            "and to open or close more groups."
        )

    async def _issued(self, ctx: Any, state: RequestState) -> str:
        """Return a handle of the current state; the session is stored unless the handle is the state itself."""
        snapshot = state.session.snapshot
        if state.stored is None:
            if not self._stores_sessions(snapshot.catalog):
                handle = self._signed.issue(snapshot, principal_of(ctx))
                if len(handle) <= MAX_LENGTH:
                    return handle
            state.stored = await self._stored.issue(state.session, state.draft, principal_of(ctx))
        return state.stored

    def _stores_sessions(self, catalog: Catalog) -> bool:
        """Return whether all handles of a catalog name stored sessions, and not only those too long to be signed."""
        return self._short or catalog.has_hooks


def _differ(before: Snapshot, now: Snapshot) -> bool:
    return now is not before and (now.active != before.active or now.facts != before.facts)


def _handle_of(ctx: Any) -> str | None:
    """Return the handle that a request itself carries, in its `_meta` or a header (SPEC DEL-11); `""` is none.

    Raises:
        HandleInvalid: The one in its `_meta` is not a string.
    """
    given: Any = NO_HANDLE
    if ctx.meta and HANDLE_META in ctx.meta:
        given = ctx.meta[HANDLE_META]
    elif ctx.request is not None:
        given = ctx.request.headers.get(HANDLE_HEADER)
    if given is not None and not isinstance(given, str):
        raise HandleInvalid(f"The {HANDLE_META} in _meta is not a string. {AGAIN}")
    return given or None


def _take_handle(component: Component | None, call: ToolCall) -> ToolCall:
    """Return a call of a control tool with the handle removed from its arguments; any other call unchanged."""
    if component is None or component.control is None or HANDLE not in call.arguments:
        return call
    arguments = dict(call.arguments)
    handle = arguments.pop(HANDLE)
    if not isinstance(handle, str):
        raise InvalidArguments(component.name, {f"arguments.{HANDLE}": "a handle is a string"})
    return ToolCall(call.name, arguments, handle)


def _refused_handle(error: Exception) -> MCPError:
    """Return the refusal of a request whose own handle is invalid."""
    return MCPError(code=INVALID_PARAMS, message=str(error), data={HANDLE_META: NO_HANDLE})
