"""A TARGET that is an existing server: one of the MCP SDK, or of FastMCP (SPEC INT-1)."""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from glob import escape
from typing import TYPE_CHECKING, Any

from toolfold import ConfigError, ToolSet

if TYPE_CHECKING:
    from toolfold_adapters.mcp.delivery.render import Definition

_KINDS = {("fastmcp", "FastMCP"), ("mcp", "MCPServer"), ("mcp", "Server")}


class Server(ABC):  # noqa: B024
    """An existing server; its class is recognised by name, so that neither package has to be imported."""

    @classmethod
    def __subclasshook__(cls, other: type, /) -> bool:
        """Return whether a class is that of a server."""
        return any((kind.__module__.partition(".")[0], kind.__name__) in _KINDS for kind in other.__mro__)


async def tools_of(server: Any) -> ToolSet:
    """Return the tool set that the groups of a server are of, all its tools registered.

    A server without groups is given some: those that its tools are marked or tagged with; else, if its tools have more
    tokens than a group may have, those that follow from their names (SPEC GWY-2).

    Raises:
        ConfigError: Its tools can't be grouped so.
    """
    from toolfold_adapters.mcp.existing.grouping import marked, tags_of
    from toolfold_adapters.mcp.existing.server import definitions_of, group_server, groups_of

    definitions = await definitions_of(server)
    if groups_of(server) is None:
        tagged = any(tags_of(definition.get("_meta") or {}) for definition in definitions)
        by: Any = "tags" if tagged else None if any(map(marked, definitions)) else _by_name(definitions)
        if _is_fastmcp(server):
            from toolfold_adapters.integrations.fastmcp import group_server as group_fastmcp

            group_fastmcp(server, by)
        else:
            group_server(server, by)
    grouped = groups_of(server)
    assert grouped is not None
    grouped.own.register([one for one in definitions if not grouped.is_control(str(one["name"]))])
    return grouped.tools


def check_options(text: str, given: Sequence[str]) -> None:
    """Raise `ConfigError` if options of tool sets are given for a server."""
    if given:
        option = given[0].replace("_", "-")
        raise ConfigError(f"--{option} is for tool sets; {text} is a server: give it to group_server there.")


def _is_fastmcp(server: object) -> bool:
    from toolfold_adapters.mcp.http.application import is_fastmcp

    return is_fastmcp(server)


def _by_name(definitions: Sequence[Definition]) -> dict[str, list[str]]:
    from toolfold_adapters.gateway.config.settings import BudgetsConfig
    from toolfold_adapters.gateway.grouping import Sized, divide
    from toolfold_adapters.tokens import approximate_tokens

    sized = [
        Sized(name=str(one["name"]), description=str(one.get("description", "")), tokens=approximate_tokens(dict(one)))
        for one in definitions
    ]
    budget = BudgetsConfig().group_tokens
    if sum(tool.tokens for tool in sized) <= budget:
        return {}
    return {path: [escape(name) for name in names] for path, names in divide(sized, budget).items()}
