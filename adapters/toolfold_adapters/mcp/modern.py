"""Handle delivery, for requests of the modern era, 2026-07-28, which has no sessions (SPEC DEL-2, DEL-7, DEL-11).

A list is a function of its request: of what the request selects, or of the handle that it carries, and of the
application state where predicates, modes or counts look at that. Opening a group changes no list; it answers with the
definitions of what became available and with a handle, under which `call_tool` calls.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from attrs import define, evolve
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from toolfold import (
    HandleExpired,
    HandleInvalid,
    InvalidArguments,
    Session,
    Snapshot,
    ToolNotFound,
    ToolResult,
    ToolSet,
    WireNames,
)
from toolfold.catalog import Kind
from toolfold.listing import listed, page_of
from toolfold.visibility import is_hidden

from .answers import AnswerOptions, Answers
from .callers import caller_of, principal_of
from .handles import SignedHandles, StoredHandles
from .kept import end
from .render import Renderer, unknown
from .selection import UNUSABLE, Selection, Starts, by_header, refusal, selected
from .through import HANDLE, HANDLE_HEADER, HANDLE_META, NO_HANDLE, Asked, CallThrough, take_handle, with_handle

STALE = (HandleInvalid, HandleExpired)


@define
class State:
    """What one request is about: a session, the state that it starts from, and the handle that it is kept under."""

    session: Session
    before: Snapshot
    stored: str | None = None


class HandleDelivery:
    """Answers modern requests from the state that they name themselves.

    Args:
        tools: What is delivered.
        wire: The names that clients see.
        built: What the server was built to begin with.
        signed: Makes handles for catalogs without hooks.
        stored: Makes handles for catalogs with hooks.
        starts: Sets up what selections begin with.
        through: The tool that calls other tools.
        options: How tools are described in answers (SPEC CTL-4).
    """

    def __init__(
        self,
        tools: ToolSet,
        wire: WireNames,
        built: Selection,
        signed: SignedHandles,
        stored: StoredHandles,
        starts: Starts,
        through: CallThrough,
        options: AnswerOptions,
    ) -> None:
        self._tools = tools
        self._wire = wire
        self._built = built
        self._signed = signed
        self._stored = stored
        self._starts = starts
        self._through = through
        self._renderer = Renderer(wire, modern=True, adjust=with_handle)
        self._answers = Answers(self._renderer, options)

    async def list(self, server: Any, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of the list that the request is about.

        It is for this caller alone if what caches do not compare has a say in it: a handle, a header, a predicate.
        """
        handle = _handle_of(ctx)
        try:
            snapshot = self._snapshot(ctx, handle)
        except STALE as error:
            raise _stale(error) from error
        extra = (self._through.spec,) if kind == "tool" and snapshot.catalog.groups else ()
        page = page_of(self._tools.view_of(snapshot), kind, cursor, self._tools.page_size, extra, self._wire.to_wire)
        shown = self._renderer.page(page, kind)
        own = handle is not None or by_header(ctx.request) or snapshot.catalog.shelves[kind].changing
        return {**shown, "cacheScope": "private"} if own else shown

    async def call(self, server: Any, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return what a tool answers, and the handle of what it has changed."""
        selection, own = selected(self._tools, self._built, ctx.request), _handle_of(ctx)
        catalog = self._tools.catalog_under(selection.profile)
        through = name == self._through.name and bool(catalog.groups)
        asked = Asked(name, dict(arguments or {}), None)
        try:
            asked = self._through.unpack(arguments) if through else asked
            asked = take_handle(catalog.tools.get(self._wire.from_wire(asked.name)), asked)
            asked = asked if asked.handle is not None else evolve(asked, handle=own)
            async with self._state(ctx, selection, asked.handle) as state:
                result = await self._answer(ctx, asked, state, through)
        except STALE as error:
            result = ToolResult.of_text(str(error), is_error=True)
            result = evolve(result, meta={HANDLE_META: NO_HANDLE}) if asked.handle == own else result
        except (*UNUSABLE, InvalidArguments) as error:
            result = ToolResult.of_text(refusal(error), is_error=True)
        except ToolNotFound as error:
            if not through:
                raise
            result = ToolResult.of_text(unknown(error, asked.name), is_error=True)
        return self._renderer.result(result)

    async def prompt(self, server: Any, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt."""
        async with self._readable(ctx) as session:
            return self._renderer.other(await session.get_prompt(name, arguments, ctx, self._wire.to_wire))

    async def read(self, server: Any, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource."""
        async with self._readable(ctx) as session:
            contents = await session.read(uri, ctx, self._wire.to_wire)
        return self._renderer.contents(contents)

    # -- which state --------------------------------------------------------------------------------------------------

    def _snapshot(self, ctx: Any, handle: str | None) -> Snapshot:
        selection = selected(self._tools, self._built, ctx.request)
        if handle is None:
            return selection.start(self._tools)
        catalog = self._tools.catalog_under(selection.profile)
        if catalog.has_hooks:
            return self._stored.get(handle, principal_of(ctx)).snapshot
        return self._signed.read(handle, catalog, principal_of(ctx))

    @asynccontextmanager
    async def _state(self, ctx: Any, selection: Selection, handle: str | None) -> AsyncGenerator[State]:
        """Yield a session in the state that the request is about; what it opened is closed again unless it is kept."""
        catalog = self._tools.catalog_under(selection.profile)
        if not catalog.has_hooks:
            snapshot = (
                selection.start(self._tools)
                if handle is None
                else self._signed.read(handle, catalog, principal_of(ctx))
            )
            yield State(self._tools.request_session(snapshot, selection.profile), snapshot)
        else:
            caller = caller_of(ctx)
            start, lender = await self._starts.open(selection, caller)
            if handle is not None:
                session = self._stored.get(handle, principal_of(ctx))
                yield State(session, session.snapshot, handle)
                return
            state = State(self._tools.request_session(start, selection.profile, lender, caller), start)
            try:
                yield state
            finally:
                if state.stored is None:
                    await end(state.session)

    @asynccontextmanager
    async def _readable(self, ctx: Any) -> AsyncGenerator[Session]:
        selection = selected(self._tools, self._built, ctx.request)
        try:
            async with self._state(ctx, selection, _handle_of(ctx)) as state:
                yield state.session
        except STALE as error:
            raise _stale(error) from error

    # -- the answer ---------------------------------------------------------------------------------------------------

    async def _answer(self, ctx: Any, asked: Asked, state: State, through: bool) -> ToolResult:
        name = self._wire.from_wire(asked.name)
        session = state.session
        view, spec = session.view(), session.catalog.tools.get(name)
        control = spec is not None and spec.control is not None
        if control and state.stored is None and session.catalog.has_hooks:
            self._stored.check(session.caller)  # before hooks run in vain
        result = await session.call(
            name,
            asked.arguments,
            progress=ctx.session.report_progress,
            request=ctx,
            spell=self._wire.to_wire,
            view=view,
        )
        changed = session.active != state.before.active or session.snapshot.facts != state.before.facts
        if not changed and (not control or result.is_error):
            # Without a handle, what is listed is listed to everybody (SPEC DEL-7).
            own = not through and asked.handle is None
            return self._answers.of_call(result, spec, lambda one: own and not is_hidden(one, view))
        handle = await self._handle(ctx, state)
        guide = f"Handle: {handle}\nGive it as {HANDLE!r} to {self._through.name}, and when you open or close groups."
        if control:
            return self._answers.of_change(result, handle=handle, guide=guide)
        before = {spec.name for spec in listed(view.of(state.before), "tool")}
        new = [spec for spec in listed(session.view(view), "tool") if spec.name not in before]
        return self._answers.with_news(result, new, handle, guide)

    async def _handle(self, ctx: Any, state: State) -> str:
        """Return a handle of the present state; a session that ran hooks is kept for it from now on."""
        snapshot = state.session.snapshot
        if not snapshot.catalog.has_hooks:
            return self._signed.issue(snapshot, principal_of(ctx))
        if state.stored is None:
            async with self._stored.place(state.session.caller, principal_of(ctx)) as put:
                await self._tools.pool.admit(state.session)
                state.stored = put(state.session)
        return state.stored


def _handle_of(ctx: Any) -> str | None:
    """Return the handle that a request itself carries, in its `_meta` or a header (SPEC DEL-11)."""
    given: Any = ctx.meta.get(HANDLE_META) if ctx.meta else None
    if given is None and ctx.request is not None:
        given = ctx.request.headers.get(HANDLE_HEADER)
    return given if isinstance(given, str) else None


def _stale(error: Exception) -> MCPError:
    """Return the refusal of a request by the handle that it carries."""
    return MCPError(code=INVALID_PARAMS, message=str(error), data={HANDLE_META: NO_HANDLE})
