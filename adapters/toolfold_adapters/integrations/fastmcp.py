"""`group_server`: a FastMCP server with its tools in groups (SPEC INT-1).

What FastMCP does before a tool runs, and what it makes of the result, is unchanged: groups come before it, where its
protocol handlers do, and FastMCP's own middleware sees each call under the tool's real name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

from toolfold import ConfigError, ToolSet
from toolfold.spi import extras_named

from .frameworks import require

with extras_named():
    import fastmcp  # pyright: ignore[reportMissingImports]

    _fastmcp: Any = fastmcp
    require("FastMCP", _fastmcp.__version__, "4.1", "fastmcp")
    import fastmcp.server.transforms  # pyright: ignore[reportMissingImports]

    from ..mcp.answer.render import ForeignDefinition, dumped
    from ..mcp.existing.grouped import GroupedServer, at_once, grouped_server
    from ..mcp.existing.grouping import By, in_group, is_asked_by_another
    from ..mcp.options import GroupedOptions
    from ..names import MOUNTED_META

__all__ = ["group_server", "in_group"]

S = TypeVar("S")


def group_server(
    server: S, by: By | None = None, *, tools: ToolSet | None = None, **options: Unpack[GroupedOptions]
) -> S:
    """Return the same server with its tools in groups that clients open and close.

    Its middleware, authentication, lifespan, context injection, prompts, resources, mounted servers and background
    tasks work as before; definitions and results are its own. Tools in no group stay in view. Group the server that
    runs: tools of servers that are mounted in it are grouped like the others, by the names that they have there. If a
    mounted server was grouped itself, its groups count for tools that would stay in view otherwise.

    SPEC INT-1.

    Args:
        server: The server.
        by: `"tags"`, or a mapping of groups, by path, to the names of their tools or patterns of them. A tool that is
            marked with `meta=in_group(...)` is in that group in any case.
        tools: A tool set whose groups, with their descriptions, exclusions, hooks and profiles, are used; groups that
            it lacks are added. By default one with a single control tool, `open_group`, beside `close_group`.
        options: Those of `build_server` that are about delivery; `call_tool` names the tool that calls other tools,
            where a transform of FastMCP has brought one of that name.

    Raises:
        ConfigError: It is no FastMCP server, or has groups already; or its tools can't be grouped so. Those of
            providers other than its own are grouped when they are first listed; what is wrong with them is logged.
    """
    given: Any = server
    if not isinstance(given, _fastmcp.FastMCP):
        raise ConfigError(
            f"{type(given).__name__} is no FastMCP server; for one of the MCP SDK import group_server from "
            "toolfold_adapters.mcp."
        )

    # FastMCP has no public way to put something before its handlers: its middleware can't return a result unchanged,
    # and a cache in it would give what one session lists to others.
    made = grouped_server(given._mcp_server, by, tools, options)
    own = given.local_provider
    made.own.check(_definitions(at_once(own.list_tools())), complete=all(one is own for one in given.providers))
    made.install()
    given.add_transform(_Mounted(made))
    return server


class _Mounted(_fastmcp.server.transforms.Transform):  # type: ignore[misc]
    """Adds the groups of a server's tools to them, for a server that it is mounted in."""

    def __init__(self, groups: GroupedServer) -> None:
        self._groups = groups

    async def list_tools(self, tools: Sequence[Any]) -> list[Any]:
        return [self._placed(tool) for tool in tools] if is_asked_by_another(self._groups) else list(tools)

    def _placed(self, tool: Any) -> Any:
        paths = self._groups.own.paths(dumped(tool.to_mcp_tool(name=tool.name)))
        return tool.model_copy(update={"meta": {**(tool.meta or {}), MOUNTED_META: list(paths)}}) if paths else tool


def _definitions(tools: Sequence[Any]) -> list[ForeignDefinition]:
    newest = {tool.name: tool for tool in reversed(list(tools))}  # of several versions clients are listed one
    return [dumped(tool.to_mcp_tool(name=name)) for name, tool in reversed(newest.items())]
