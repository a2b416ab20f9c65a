"""`group_server`: an existing server of the MCP SDK, with its tools in groups (SPEC INT-1)."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar, Unpack, cast

from mcp import Client
from mcp.server import MCPServer, Server

from toolfold import ConfigError, ToolSet

from ...sdk import low_level_of
from ..delivery.passing import Definition, dumped
from ..http.application import is_fastmcp
from ..options import GroupedOptions, ServerSettings
from .grouped import GroupedServer, grouped
from .grouping import By, Grouping, asking

T = TypeVar("T")
S = TypeVar("S", bound=Server[Any] | MCPServer[Any])


def group_server(
    server: S, by: By | None = None, *, tools: ToolSet | None = None, **options: Unpack[GroupedOptions]
) -> S:
    """Return the same server with its tools in groups that clients open and close (SPEC INT-1).

    Its middleware, authentication, lifespan, context injection, prompts and resources work as before; definitions and
    results are its own. Tools in no group stay in view. Call it once, after the server's tools are registered; those
    that come later are grouped when they are first listed.

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
    if isinstance(server, MCPServer):
        made.check(at_once(_definitions(server)), complete=True)
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
    return None if low is None else grouped(low)


async def definitions_of(server: Any) -> list[Definition]:
    """Return the definitions of all tools of an existing server.

    A low-level server lists them to its clients only, so it is run for one; with groups, it lists what is in view.
    """
    if is_fastmcp(server):
        with asking(groups_of(server) or server):
            tools = await server.list_tools(run_middleware=False)
        return [dumped(tool.to_mcp_tool(name=tool.name)) for tool in tools]
    if isinstance(server, MCPServer):
        return await _definitions(server)  # pyright: ignore[reportUnknownArgumentType]
    found: list[Definition] = []
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


async def _definitions(server: MCPServer[Any]) -> list[Definition]:
    return [dumped(tool) for tool in await server.list_tools()]
