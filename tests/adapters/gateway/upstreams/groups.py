"""A server with an extension for groups, which says what a test has it say; in the modern era only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mcp_types as t
from attrs import define, field
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from pydantic import ConfigDict

DRAFT = "io.modelcontextprotocol/groups"
TOOLBOX = "com.google.cloud/toolbox.v1"


def tool(name: str, description: str = "") -> dict[str, Any]:
    return {"name": name, "description": description, "inputSchema": {"type": "object"}}


class _Params(t.RequestParams):
    model_config = ConfigDict(extra="allow")


@define(eq=False)
class Grouped:
    """Such a server.

    `pages` are those of `groups/list`, `answers` what `groups/get` answers by name, `tools` those in its list, and
    `asked` the requests for groups. Those and calls are refused unless they declare the extension.
    """

    pages: Sequence[Sequence[Any]] = ()
    answers: Mapping[str, Any] = field(factory=dict[str, Any])
    tools: Sequence[Any] = ()
    extension: str = DRAFT
    asked: list[tuple[str, Any]] = field(factory=list[tuple[str, Any]])
    server: Server[Any] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.server = Server("library", version="1", on_list_tools=self.list_tools, on_call_tool=self.call)
        self.server.extensions[self.extension] = {}
        self.server.add_request_handler("groups/list", _Params, self.list_groups)
        self.server.add_request_handler("groups/get", _Params, self.get_group)

    def _declared(self, ctx: ServerRequestContext[Any, Any]) -> None:
        if not ctx.session.check_client_capability(t.ClientCapabilities(extensions={self.extension: {}})):
            raise MCPError(t.MISSING_REQUIRED_CLIENT_CAPABILITY, "not declared")

    async def list_groups(self, ctx: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        self._declared(ctx)
        number = int((params.model_extra or {}).get("cursor", 0))
        self.asked.append(("groups/list", number))
        more = {"nextCursor": str(number + 1)} if number + 1 < len(self.pages) else {}
        return {"resultType": "complete", "groups": list(self.pages[number]) if self.pages else None, **more}

    async def get_group(self, ctx: ServerRequestContext[Any, Any], params: Any) -> dict[str, Any]:
        self._declared(ctx)
        name = (params.model_extra or {})["name"]
        self.asked.append(("groups/get", name))
        if name not in self.answers:
            raise MCPError(t.INVALID_PARAMS, f"Unknown group: {name}")
        return {"resultType": "complete", **self.answers[name]}

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool.model_validate(one) for one in self.tools])

    async def call(self, ctx: ServerRequestContext[Any, Any], params: t.CallToolRequestParams) -> t.CallToolResult:
        self._declared(ctx)
        return t.CallToolResult(content=[t.TextContent(type="text", text=f"{params.name} of {self.extension}")])
