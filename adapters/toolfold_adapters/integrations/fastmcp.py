"""`group_server`: a FastMCP server with its tools in groups (SPEC INT-1).

What FastMCP does before a tool runs, and what it makes of the result, is unchanged: groups come before it, where its
protocol handlers do, and FastMCP's own middleware sees each call under the tool's real name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, Unpack

from toolfold import ConfigError, ToolSet
from toolfold.spi import extras_named

with extras_named():
    import fastmcp  # pyright: ignore[reportMissingImports]

    from ..mcp.existing import GroupedOptions, at_once, grouped_server
    from ..mcp.grouping import By, in_group
    from ..mcp.passing import Definition, dumped

__all__ = ["SUPPORTED", "group_server", "in_group"]

SUPPORTED = 4
"""The major version of FastMCP that this module is for."""

S = TypeVar("S")
_fastmcp: Any = fastmcp


def group_server(
    server: S, by: By | None = None, *, tools: ToolSet | None = None, **options: Unpack[GroupedOptions]
) -> S:
    """Return the same server with its tools in groups that clients open and close (SPEC INT-1).

    Its middleware, authentication, lifespan, context injection, prompts, resources, mounted servers and background
    tasks work as before; definitions and results are its own. Tools in no group stay in view. Group the server that
    runs, not one that is mounted in it: its tools can be grouped like the others, by the names that they have there.

    Args:
        server: The server.
        by: `"tags"`, or a mapping of groups, by path, to the names of their tools or patterns of them. A tool that is
            marked with `meta=in_group(...)` is in that group in any case.
        tools: A tool set whose groups, with their descriptions, exclusions, hooks and profiles, are used; groups that
            it lacks are added. By default one with a single control tool, `open_group`, beside `close_group`.
        options: Those of `build_server` that are about delivery; `call_tool` names the tool that calls other tools,
            where a transform of FastMCP has brought one of that name.

    Raises:
        ConfigError: It is no FastMCP server, is one of another version, or has groups already; or its tools can't be
            grouped so. Those of providers other than its own are grouped when they are first listed; what is wrong
            with them is logged.
    """
    check_version(_fastmcp.__version__)
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
    made.check(_definitions(at_once(own.list_tools())), complete=all(one is own for one in given.providers))
    made.install()
    return server


def check_version(version: str) -> None:
    """Raise `ConfigError` unless it is a version of FastMCP that this module is for."""
    if version.partition(".")[0] != str(SUPPORTED):
        raise ConfigError(
            f"FastMCP {version} is installed, and groups work with FastMCP {SUPPORTED}: "
            f'pip install "fastmcp>={SUPPORTED}.1,<{SUPPORTED + 1}"'
        )


def _definitions(tools: Sequence[Any]) -> list[Definition]:
    newest = {tool.name: tool for tool in reversed(list(tools))}  # of several versions clients are listed one
    return [dumped(tool.to_mcp_tool(name=name)) for name, tool in reversed(newest.items())]
