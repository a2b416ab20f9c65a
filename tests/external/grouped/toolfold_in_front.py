"""A pytest plugin for the tests of FastMCP: groups stand in front of every server, with all tools in view."""

# pyright: reportMissingImports=false

from typing import Any

import fastmcp

from toolfold import ToolSet
from toolfold_adapters.integrations.fastmcp import group_server

FastMCP: Any = fastmcp.FastMCP
_original = FastMCP.__init__


def _grouped(self: Any, *arguments: Any, **named: Any) -> None:
    _original(self, *arguments, **named)
    # FastMCP's transforms for search bring a tool that is called call_tool.
    group_server(self, {}, tools=ToolSet("front", control="none"), call_tool="call_tool_in_group")


FastMCP.__init__ = _grouped
