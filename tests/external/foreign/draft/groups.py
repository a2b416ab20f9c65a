"""A server on the plain Python SDK that speaks the draft extension `io.modelcontextprotocol/groups`, after its text.

It holds no state: a client that declares the extension fetches groups by `groups/list` and `groups/get`, is listed only
what is in no group, and calls everything. For other clients the groups are flattened into the list. An unknown group is
-32002, as the draft has it. It knows nothing of Toolfold. Run it over stdio, or with `http PORT`.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ClientCapabilities,
    ListToolsResult,
    PaginatedRequestParams,
    RequestParams,
    TextContent,
    Tool,
)

EXTENSION = "io.modelcontextprotocol/groups"
GROUP_NOT_FOUND = -32002


def tool(name: str, description: str, *arguments: str) -> Tool:
    schema = {"type": "object", "properties": {a: {"type": "string"} for a in arguments}, "required": list(arguments)}
    return Tool(name=name, description=description, input_schema=schema)


STATUS = tool("status", "Say that the server is up.")
SEARCH = tool("search", "Search for a text.", "text")
CLONE = tool("repo_clone", "Clone a repository.", "repository")
DELETE = tool("repo_delete", "Delete a repository.", "repository")
OPEN = tool("ticket_open", "Open a ticket.", "title")
CLOSE = tool("ticket_close", "Close a ticket.", "number")

DESCRIPTIONS = {
    "repositories": "Work with repositories.",
    "repositories-admin": "Do to repositories what cannot be undone.",
    "tickets": "Work with tickets.",
}
TOOLS = {
    "repositories": [SEARCH, CLONE],
    "repositories-admin": [DELETE],
    "tickets": [SEARCH, OPEN, CLOSE],
}
INSIDE = {"repositories": ["repositories-admin"]}
ALL = {each.name: each for tools in ([STATUS], *TOOLS.values()) for each in tools}


class GroupParams(RequestParams):
    name: str


def described(name: str) -> dict[str, Any]:
    return {"name": name, "description": DESCRIPTIONS[name]}


async def list_tools(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams | None) -> ListToolsResult:
    declared = ctx.session.check_client_capability(ClientCapabilities(extensions={EXTENSION: {}}))
    return ListToolsResult(tools=[STATUS] if declared else list(ALL.values()))


async def call_tool(ctx: ServerRequestContext[Any, Any], params: CallToolRequestParams) -> CallToolResult:
    if params.name not in ALL:
        raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name}")
    given = ", ".join(str(value) for value in (params.arguments or {}).values())
    return CallToolResult(content=[TextContent(text=f"{params.name}({given})")])


async def list_groups(ctx: ServerRequestContext[Any, Any], params: PaginatedRequestParams) -> dict[str, Any]:
    nested = {name for names in INSIDE.values() for name in names}
    return {"groups": [described(name) for name in DESCRIPTIONS if name not in nested]}


async def get_group(ctx: ServerRequestContext[Any, Any], params: GroupParams) -> dict[str, Any]:
    if params.name not in DESCRIPTIONS:
        raise MCPError(code=GROUP_NOT_FOUND, message=f"Group not found: {params.name}")
    tools = [each.model_dump(by_alias=True, exclude_none=True, mode="json") for each in TOOLS[params.name]]
    groups = [described(name) for name in INSIDE.get(params.name, [])]
    return {
        "instructions": DESCRIPTIONS[params.name],
        "contents": {"tools": tools, **({"groups": groups} if groups else {})},
    }


def make_server() -> Server[Any]:
    server: Server[Any] = Server("draft-groups", version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    server.extensions[EXTENSION] = {"listChanged": False}
    server.add_request_handler("groups/list", PaginatedRequestParams, list_groups)
    server.add_request_handler("groups/get", GroupParams, get_group)
    return server


async def over_stdio() -> None:
    server = make_server()
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


if __name__ == "__main__":
    if sys.argv[1:2] == ["http"]:
        uvicorn.run(make_server().streamable_http_app(), host="127.0.0.1", port=int(sys.argv[2]), log_level="warning")
    else:
        anyio.run(over_stdio)
