"""A pytest plugin for the examples of the MCP SDK: groups stand in front of every server, with all tools in view."""

from __future__ import annotations

from typing import Any

from mcp.server import MCPServer, Server

from toolfold import ToolSet
from toolfold_adapters.mcp import group_server

_low_level, _high_level = Server.__init__, MCPServer.__init__
_inside: list[Any] = []


def _group(server: Any) -> None:
    group_server(server, {}, tools=ToolSet("front", control="none"))


def _made_low_level(self: Server[Any], *arguments: Any, **named: Any) -> None:
    _low_level(self, *arguments, **named)
    has_tools = self.get_request_handler("tools/list") and self.get_request_handler("tools/call")
    if has_tools and not _inside:
        _group(self)


def _made_high_level(self: MCPServer[Any], *arguments: Any, **named: Any) -> None:
    _inside.append(self)
    try:
        _high_level(self, *arguments, **named)
    finally:
        _inside.pop()
    _group(self)


Server.__init__ = _made_low_level  # type: ignore[method-assign]
MCPServer.__init__ = _made_high_level  # type: ignore[method-assign]
