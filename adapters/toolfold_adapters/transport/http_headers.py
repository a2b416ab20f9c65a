"""The headers of messages over streamable HTTP, which repeat what is in their bodies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)

from toolfold.spi import table

_TASKS = ("tasks/get", "tasks/update", "tasks/cancel")
_NAMED: Mapping[str, str] = {**NAME_BEARING_METHODS, "groups/get": "name", **dict.fromkeys(_TASKS, "taskId")}
"""The parameter that names what a request is about, by its method."""


class ModernHeaders:
    """The HTTP headers of requests in the modern era, which repeat what is in their bodies (SPEC GWY-1, GWY-10).

    Those of the arguments that a tool's schema marks are among them.
    """

    def __init__(self) -> None:
        self._marked: dict[str, Mapping[tuple[str, ...], str]] = {}

    def learn(self, tool: str, input_schema: Any) -> str | None:
        """Note which arguments of a tool are headers, too; return what is wrong with the marks, if anything."""
        problem = find_invalid_x_mcp_header(input_schema)
        if problem is None and (marked := x_mcp_header_map(input_schema)):
            self._marked[tool] = marked
        return problem

    def of(self, version: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers of a request."""
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        name = params.get(_NAMED.get(method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
            if method == "tools/call" and name in self._marked:
                headers |= mcp_param_headers(self._marked[name], table(params.get("arguments")) or {})
        return headers
