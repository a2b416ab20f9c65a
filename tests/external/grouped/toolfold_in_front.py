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
    group_server(self, {}, tools=ToolSet("front", control="none"))


FastMCP.__init__ = _grouped
