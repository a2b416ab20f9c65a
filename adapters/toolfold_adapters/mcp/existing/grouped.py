"""Groups for an existing server: its tools, listed and called as a tool set says (SPEC INT-1).

The handlers of `tools/list` and `tools/call` are replaced by ones that ask the core what is listed and what may be
called, and have the server's own handlers do the rest. So its middleware, authentication, lifespan, validation and
injection work as before, and everything that is not a tool is untouched. Definitions and results are passed on
unchanged; what the server does not offer to a caller, groups can't show it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult

from toolfold import (
    ConfigError,
    Context,
    InvalidDefinition,
    ToolError,
    ToolfoldError,
    ToolResult,
    ToolSet,
    Visibility,
)
from toolfold.spi import ancestors

from ...sdk import when_http_is_served
from ..delivery.passing import Definition, Offer, dumped, offer_of, offering, passed, without_mounted_groups
from ..delivery.service import Service
from ..http_sessions import guard_sessions
from ..options import ServerSettings
from .grouping import Grouping, OwnNames, asking

log = logging.getLogger("toolfold.mcp")


RequestContext = ServerRequestContext[Any, Any]
T = TypeVar("T")


class RunningTasks:
    """The task group of a server that runs; in memory, each client runs the server, and has one."""

    def __init__(self) -> None:
        self.running: list[TaskGroup] = []

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Start a task in one of them; without any, there is nobody left whom it would serve."""
        if self.running:
            self.running[-1].start_soon(function, *arguments)


class GroupedServer:
    """A low-level server whose tools are in groups.

    Args:
        server: The server; its handlers of `tools/list` and `tools/call`, its lifespan and its middleware are wrapped.
        tools: The tool set that its tools are registered in.
        grouping: Says which groups they belong to.
        settings: How they are delivered.
        resumes: Whether its legacy sessions are resumed from a store, if there is one.

    Raises:
        ConfigError: The server has no tools, or groups already; or a setting is wrong.
    """

    def __init__(
        self,
        server: Server[Any],
        tools: ToolSet,
        grouping: Grouping,
        settings: ServerSettings,
        *,
        resumes: bool,
    ) -> None:
        self.tools = tools
        self._server = server
        self._grouping = grouping
        self._checked = False
        self._names = OwnNames()
        self._placed: dict[str, tuple[str, ...]] = {}
        self._reported: set[str] = set()
        self._tasks = RunningTasks()
        self._proxies = settings.proxies
        listed, called = server.get_request_handler("tools/list"), server.get_request_handler("tools/call")
        if listed is None or called is None:
            raise ConfigError(
                f"The server {server.name!r} has no tools to group: give it on_list_tools and on_call_tool."
            )
        if server in _grouped:
            raise ConfigError(
                f"The server {server.name!r} has groups already: group_server is called once for a server."
            )
        if tools.runtime.page_size is not None:
            raise ConfigError(f"The server {server.name!r} pages its own list: leave page_size out of the ToolSet.")
        self._listed, self._called = listed, called
        self._service = Service(
            tools,
            self._names,
            settings,
            lambda _: cast("TaskGroup", self._tasks),
            own=self._names.own,
            resumes=resumes,
        )
        self._limit = settings.limits.sessions
        self._service.handlers.server = server

    def install(self) -> None:
        """Put the groups in front of the server's own tools."""
        server, lifespan = self._server, self._server.lifespan
        for path in self._grouping.patterns:
            self._add_group(path)

        @asynccontextmanager
        async def running(low: Server[Any]) -> AsyncGenerator[Any]:
            async with lifespan(low) as context, self._service.running() as tasks:
                self._tasks.running.append(tasks)
                try:
                    yield context
                finally:
                    self._tasks.running.remove(tasks)

        server.lifespan = running
        server.add_request_handler("tools/list", self._listed.params_type, self.list_tools)
        server.add_request_handler("tools/call", self._called.params_type, self.call_tool)
        server.middleware.append(self._introduce)
        if (stored := self._service.connections) is not None:
            stored.server = server
            server.middleware.append(stored.remember)
            when_http_is_served(server, partial(guard_sessions, server, self._limit, stored))
        _grouped[server] = self

    # -- what the server has ------------------------------------------------------------------------------------------

    def check(self, definitions: Sequence[Definition], *, complete: bool) -> None:
        """Register tools that are known before the server runs.

        Args:
            definitions: Their definitions.
            complete: Whether the server has no others.

        Raises:
            ConfigError: They can't be grouped as asked.
        """
        self._checked = complete
        problems = self._grouping.problems(self._server.name, definitions) if complete else []
        if problems:
            raise ConfigError(problems[0])
        self._register(definitions)

    def is_control(self, name: str) -> bool:
        """Return whether a name on the wire is that of a tool that the groups brought with them."""
        return name in self._proxies or (self._names.knows(name) and name not in self._placed)

    def register(self, definitions: Sequence[Definition]) -> None:
        """Register tools that the server is known to have, before a client asks for them."""
        self._register_each(definitions)

    def _register_each(self, definitions: Sequence[Definition]) -> None:
        """Register tools one by one; what is wrong with one is reported once."""
        for definition in definitions:
            try:
                self._register([definition])
            except ToolfoldError as error:
                self._warn(f"The tool {definition['name']!r} is left out: {error}")

    def _register(self, definitions: Sequence[Definition]) -> None:
        placed = {str(definition["name"]): self.paths(definition) for definition in definitions}
        for path in sorted({path for paths in placed.values() for path in paths}):
            self._add_group(path)
        for definition in definitions:
            name = str(definition["name"])
            if self._placed.get(name) != placed[name]:
                self._place(name, definition, placed[name])

    def _place(self, name: str, definition: Definition, paths: tuple[str, ...]) -> None:
        """Register a tool, or register it elsewhere."""
        registered = next((ours for ours, own in self._names.own.items() if own == name), None)
        if registered is None and self._names.knows(name):
            raise ConfigError(
                f"The server {self._server.name!r} has a tool {name!r}, and so have its groups: rename it, or choose "
                "another control= for the ToolSet in tools=."
            )
        if registered is not None:
            self.tools.unregister(registered)
            del self._placed[name]
        registered = registered or self._free_name(name)
        self._names.own[registered] = name
        try:
            self._register_own(registered, name, definition, paths)
        except BaseException:
            del self._names.own[registered]
            raise
        self._placed[name] = paths

    def _register_own(self, registered: str, name: str, definition: Definition, paths: tuple[str, ...]) -> None:
        several: Visibility | None = None
        for path in paths if len(paths) > 1 else ():
            several = Visibility.group(path) if several is None else several | Visibility.group(path)
        place: dict[str, Any] = {
            "group": paths[0] if paths else None,
            "visibility": several,
            "flat": True,
            "check_arguments": False,
        }
        try:
            described = _described(without_mounted_groups(definition))
            self.tools.register(registered, self._passing(name), **place, **described)
        except InvalidDefinition:  # it is the server's own, and shown in lists as the server has it
            self.tools.register(registered, self._passing(name), **place, input_schema={"type": "object"})

    def _free_name(self, name: str) -> str:
        """Return a name that a tool can be registered by: its own, if it can be that."""
        base = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:56] or "tool"
        taken, number, free = self.tools.catalog.tools, 1, name if len(name) <= 64 and base == name else base
        while free in taken:
            number += 1
            free = f"{base}_{number}"
        return free

    def _add_group(self, path: str) -> None:
        """Add a group and what contains it, without a description: not every caller may know what is in it."""
        for each in (*ancestors(path), path):
            if each not in self.tools.catalog.index:
                self.tools.register_group(each)

    def _warn(self, *sentences: str) -> None:
        for sentence in sentences:
            if sentence not in self._reported:
                self._reported.add(sentence)
                log.warning("%s", sentence)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: RequestContext, params: Any) -> Any:
        """Answer `tools/list`: a page of what the server offers to the caller, as far as its groups are open.

        Pages are the server's own; the first has the tools that open and close groups, too.
        """
        offer = await self._page(ctx, dict(ctx.params or {}))
        self._take_note(await self._all(ctx) if offer.next_cursor and not self._checked else offer)
        with offering(offer):
            return await self._service.handlers.list("tool", ctx, None)

    async def call_tool(self, ctx: RequestContext, params: Any) -> Any:
        """Answer `tools/call`; a name that no list has had is the server's own to answer."""
        if self._is_own(params):
            return await self._answer(ctx, params)
        with await self._offered(ctx):
            if not self._names.knows(params.name) and params.name not in self._proxies:
                return await self._called.handler(ctx, params)
            return await self._answer(ctx, params)

    async def _answer(self, ctx: RequestContext, params: types.CallToolRequestParams) -> Any:
        answer: Any = await self._service.handlers.call(ctx, params)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _is_own(self, params: types.CallToolRequestParams) -> bool:
        """Return whether a call is of a known tool of the server and opens nothing, so that no definition is needed."""
        named = (params.arguments or {}).get("name") if params.name in self._proxies else params.name
        return isinstance(named, str) and named in self._placed and not self.tools.catalog.opened_by

    async def _offered(self, ctx: RequestContext) -> AbstractContextManager[None]:
        """Return a context in which the definitions are those that the server offers to the caller of a request."""
        offer = await self._all(ctx)
        self._take_note(offer)
        return offering(offer)

    async def _all(self, ctx: RequestContext) -> Offer:
        """Return all that a server offers to the caller of a request."""
        asked: dict[str, Any] = {"_meta": ctx.params["_meta"]} if ctx.params and "_meta" in ctx.params else {}
        page = await self._page(ctx, asked)
        definitions: dict[str, Definition] = dict(page.definitions)
        cursors: set[str | None] = {None}
        while page.next_cursor not in cursors:
            cursors.add(page.next_cursor)
            page = await self._page(ctx, {**asked, "cursor": page.next_cursor})
            definitions |= page.definitions
        return Offer(definitions)

    async def _page(self, ctx: RequestContext, asked: dict[str, Any]) -> Offer:
        """Return what the server itself lists to the caller of a request, one page."""
        params = self._listed.params_type.model_validate(asked, by_name=False)
        with asking(self):
            result = await self._listed.handler(replace(ctx, method="tools/list", params=asked), params)
        return offer_of(result, self._server.cache_hints.get("tools/list"), first=asked.get("cursor") is None)

    def _take_note(self, offer: Offer) -> None:
        """Register the tools that are new."""
        if not self._checked and offer.first and offer.next_cursor is None:
            self._checked = True
            self._warn(*self._grouping.problems(self._server.name, list(offer.definitions.values())))
        self._register_each([one for name, one in offer.definitions.items() if self._is_new(name, one)])

    def _is_new(self, name: str, definition: Definition) -> bool:
        return self._placed.get(name) != self.paths(definition)

    def paths(self, definition: Definition) -> tuple[str, ...]:
        """Return the groups of a tool; one that can't be grouped as asked stays in view, and is reported once."""
        try:
            return self._grouping.paths(definition)
        except ConfigError as error:
            self._warn(str(error))
            return ()

    def _passing(self, name: str) -> Callable[[dict[str, Any], Context], Awaitable[ToolResult]]:
        """Return the handler of a server's own tool, by its own name."""

        async def handle(arguments: dict[str, Any], context: Context) -> ToolResult:
            if context.request is None:
                raise ToolError(f"{name} is a tool of an MCP server, and can be called by its clients only.")
            return await self._pass(context.request, name, arguments)

        return handle

    async def _pass(self, ctx: RequestContext, name: str, arguments: dict[str, Any]) -> ToolResult:
        given = dict(ctx.params or {})
        if given.get("name") != name:  # called by the call-tool proxy
            given = {**given, "name": name, "arguments": arguments}
            ctx = replace(ctx, params=given)
        try:
            outcome: Any = await self._called.handler(
                ctx, self._called.params_type.model_validate(given, by_name=False)
            )
        except Exception as error:
            return passed(error)
        return passed(outcome)

    async def _introduce(self, ctx: RequestContext, call_next: CallNext) -> HandlerResult:
        """Say in the answer to `initialize` and `server/discover` that lists change, and how groups are opened."""
        result = await call_next(ctx)
        if ctx.request_id is None or ctx.method not in ("initialize", "server/discover"):
            return result
        answer, modern = dumped(result), ctx.method == "server/discover"
        if text := self._service.instructions(answer.get("instructions"), modern=modern):
            answer["instructions"] = text
        if not modern:
            capabilities = answer.get("capabilities", {})
            changing = {**capabilities.get("tools", {}), "listChanged": True}
            answer["capabilities"] = {**capabilities, "tools": changing}
        return answer


_grouped: WeakKeyDictionary[Server[Any], GroupedServer] = WeakKeyDictionary()


def grouped(server: Server[Any]) -> GroupedServer | None:
    """Return the groups of a low-level server, if it has any."""
    return _grouped.get(server)


def _described(definition: Definition) -> dict[str, Any]:
    """Return a definition as options of `ToolSet.register`, for what is said of tools outside of requests."""
    return {
        "title": definition.get("title"),
        "description": definition.get("description"),
        "input_schema": definition.get("inputSchema"),
        "output_schema": definition.get("outputSchema"),
        "check_output": False,
        "annotations": definition.get("annotations"),
        "icons": definition.get("icons"),
        "meta": definition.get("_meta"),
    }
