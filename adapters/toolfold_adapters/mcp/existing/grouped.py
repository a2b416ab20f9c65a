"""`group_server`: an existing server, its tools listed and called as a tool set says (SPEC INT-1).

The handlers of `tools/list` and `tools/call` are replaced by ones that ask the core what is listed and what may be
called, and have the server's own handlers do the rest. So its middleware, authentication, lifespan, validation and
injection work as before, and everything that is not a tool is untouched. Definitions and results are passed on
unchanged; what the server does not offer to a caller, groups can't show it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, cast
from weakref import WeakKeyDictionary

import mcp_types as types
from anyio.abc import TaskGroup
from attrs import define
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server

from toolfold import ConfigError, Context, ToolError, ToolResult, ToolSet

from ..answer.render import ForeignDefinition, Offer, dumped, offer_of, offering, passed
from ..handlers import RequestHandlers
from ..http.application import is_fastmcp
from ..http.sessions import guard_sessions
from ..options import GroupedOptions, ServerSettings
from ..sdk import is_mcp_server, low_level_of, when_http_is_served
from .grouping import By, Grouping, OwnTools, asking

if TYPE_CHECKING:
    from mcp.server import MCPServer

RequestContext = ServerRequestContext[Any, Any]
T = TypeVar("T")
S = TypeVar("S", bound="Server[Any] | MCPServer[Any]")


@define
class RunningTasks:
    """The task groups of a server that runs; in memory, each client runs the server, and has one."""

    running: Sequence[TaskGroup] = ()

    def start_soon(self, function: Callable[..., Coroutine[Any, Any, Any]], *arguments: Any) -> None:
        """Start a task in one of them; without any, no client is left to serve."""
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

    Attributes:
        own: The server's own tools.

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
        self.own = OwnTools(server.name, tools, grouping, self._passing)
        self._tasks = RunningTasks()
        self._proxies = settings.added_tools
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
        self._handlers = RequestHandlers(
            tools,
            self.own.names,
            settings,
            lambda _: cast("TaskGroup", self._tasks),
            resumes=resumes,
        )
        self._tasks.running = self._handlers.subscriptions.running
        self._limit = settings.limits.sessions

    def install(self) -> None:
        """Put the groups in front of the server's own tools."""
        server, lifespan = self._server, self._server.lifespan
        self.own.add_groups()

        @asynccontextmanager
        async def running(low: Server[Any]) -> AsyncGenerator[Any]:
            async with lifespan(low) as context, self._handlers.running():
                yield context

        server.lifespan = running
        server.add_request_handler("tools/list", self._listed.params_type, self.list_tools)
        server.add_request_handler("tools/call", self._called.params_type, self.call_tool)
        self._handlers.attach(server)
        if (legacy := self._handlers.legacy).stored is not None:
            when_http_is_served(server, partial(guard_sessions, server, self._limit, legacy))
        _grouped[server] = self

    def is_control(self, name: str) -> bool:
        """Return whether a name on the wire is that of a tool that the groups brought with them."""
        return name in self._proxies or (self.own.knows(name) and name not in self.own.placed)

    # -- requests -----------------------------------------------------------------------------------------------------

    async def list_tools(self, ctx: RequestContext, params: Any) -> Any:
        """Answer `tools/list`: a page of what the server offers to the caller, as far as its groups are open.

        Pages are the server's own; the first has the tools that open and close groups, too.
        """
        offer = await self._page(ctx, dict(ctx.params or {}))
        self.own.take_note(await self._all(ctx) if offer.next_cursor and not self.own.complete else offer)
        with offering(offer):
            return await self._handlers.list("tool", ctx, None)

    async def call_tool(self, ctx: RequestContext, params: Any) -> Any:
        """Answer `tools/call`; a name that no list has had is the server's own to answer."""
        if self._is_own(params):
            return await self._answer(ctx, params)
        with await self._offered(ctx):
            if not self.own.knows(params.name) and params.name not in self._proxies:
                return await self._called.handler(ctx, params)
            return await self._answer(ctx, params)

    async def _answer(self, ctx: RequestContext, params: types.CallToolRequestParams) -> Any:
        answer: Any = await self._handlers.call(ctx, params)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def _is_own(self, params: types.CallToolRequestParams) -> bool:
        """Return whether a call is of a known tool of the server and opens nothing, so that no definition is needed."""
        named = (params.arguments or {}).get("name") if params.name in self._proxies else params.name
        return isinstance(named, str) and named in self.own.placed and not self.tools.catalog.opened_by

    async def _offered(self, ctx: RequestContext) -> AbstractContextManager[None]:
        """Return a context in which the definitions are those that the server offers to the caller of a request."""
        offer = await self._all(ctx)
        self.own.take_note(offer)
        return offering(offer)

    async def _all(self, ctx: RequestContext) -> Offer:
        """Return all that a server offers to the caller of a request."""
        asked: dict[str, Any] = {"_meta": ctx.params["_meta"]} if ctx.params and "_meta" in ctx.params else {}
        page = await self._page(ctx, asked)
        definitions: dict[str, ForeignDefinition] = dict(page.definitions)
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


_grouped: WeakKeyDictionary[Server[Any], GroupedServer] = WeakKeyDictionary()


def group_server(
    server: S, by: By | None = None, *, tools: ToolSet | None = None, **options: Unpack[GroupedOptions]
) -> S:
    """Return the same server with its tools in groups that clients open and close.

    Its middleware, authentication, lifespan, context injection, prompts and resources work as before; definitions and
    results are its own. Tools in no group stay in view. Call it once, after the server's tools are registered; those
    that come later are grouped when they are first listed.

    SPEC INT-1.

    Args:
        server: An `MCPServer` or a low-level `Server` of the MCP SDK.
        by: `"tags"`, or a mapping of groups, by path, to the names of their tools or patterns of them. A tool that is
            marked with `meta=in_group(...)` is in that group in any case.
        tools: A tool set whose groups, with their descriptions, exclusions, hooks and profiles, are used; groups that
            it lacks are added. By default one with a single control tool, `open_group`, beside `close_group`.
        options: Those of `build_server` that are about delivery.

    Raises:
        ConfigError: It is no such server, has no tools, or has groups already; or its tools can't be grouped so.
    """
    low = low_level_of(server)
    if low is None:
        hint = " Import group_server from toolfold_adapters.integrations.fastmcp." if is_fastmcp(server) else ""
        raise ConfigError(f"{type(server).__name__} is no server of the MCP SDK: give an MCPServer or a Server.{hint}")
    made = grouped_server(low, by, tools, options)
    if is_mcp_server(server):
        made.own.check(at_once(_definitions(server)), complete=True)
    made.install()
    return server


def grouped_server(server: Server[Any], by: By | None, tools: ToolSet | None, options: GroupedOptions) -> GroupedServer:
    """Return a low-level server with groups that are still to be installed; raises as `group_server`."""
    tools = tools or ToolSet(server.name, control="open_group", on_hidden="hint")
    stateful = is_fastmcp(server) or any(map(server.get_request_handler, ("resources/subscribe", "logging/setLevel")))
    return GroupedServer(server, tools, Grouping(by), ServerSettings(disclosure=False, **options), resumes=not stateful)


def groups_of(server: object) -> GroupedServer | None:
    """Return the groups of an existing server, if it has any."""
    low = low_level_of(server) or getattr(server, "_mcp_server", None)
    return None if low is None else _grouped.get(low)


async def definitions_of(server: Any) -> list[ForeignDefinition]:
    """Return the definitions of all tools of an existing server.

    A low-level server lists them to its clients only, so it is run for one; with groups, it lists what is in view.
    """
    if is_fastmcp(server):
        with asking(groups_of(server) or server):
            tools = await server.list_tools(run_middleware=False)
        return [dumped(tool.to_mcp_tool(name=tool.name)) for tool in tools]
    if is_mcp_server(server):
        return await _definitions(server)
    from mcp import Client

    found: list[ForeignDefinition] = []
    async with Client(server) as client:
        page = await client.list_tools()
        found += map(dumped, page.tools)
        while page.next_cursor is not None:
            page = await client.list_tools(cursor=page.next_cursor)
            found += map(dumped, page.tools)
    return found


def at_once(awaitable: Awaitable[T]) -> T:
    """Return the result of a coroutine that waits for nothing."""
    steps = awaitable.__await__()
    try:
        next(steps)
    except StopIteration as done:
        return cast("T", done.value)
    raise RuntimeError("the coroutine waits for something")


async def _definitions(server: MCPServer[Any]) -> list[ForeignDefinition]:
    return [dumped(tool) for tool in await server.list_tools()]
