"""Servers of the MCP SDK as people have them, without groups: for the tests of `group_server`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from toolfold_adapters.mcp import in_group

OBJECT = {"type": "object"}


class Row(BaseModel):
    """What `db_row` answers."""

    table: str
    number: int


class Recorder:
    """A middleware that records what it sees."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def __call__(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        self.seen.append(ctx.method)
        return await call_next(ctx)


def shop(*middleware: Any) -> MCPServer[dict[str, int]]:
    """Return a server that uses what `MCPServer` has: lifespan, context, structured results, prompts, resources."""

    @asynccontextmanager
    async def lifespan(server: MCPServer[dict[str, int]]) -> AsyncGenerator[dict[str, int]]:
        yield {"stock": 3}

    server = MCPServer("shop", instructions="A shop.", lifespan=lifespan, middleware=middleware, version="1")

    @server.tool()
    def ping() -> str:
        """Answer."""
        return "pong"

    @server.tool()
    async def db_stock(ctx: Context[dict[str, int]]) -> int:
        """Return the stock, from the lifespan."""
        return ctx.request_context.lifespan_context["stock"]

    @server.tool(title="A row")
    def db_row(table: str, number: int = 1) -> Row:
        """Return a row."""
        return Row(table=table, number=number)

    @server.tool()
    def db_drop(table: str) -> str:
        """Fail as its author says."""
        raise ToolError(f"{table} can't be dropped")

    @server.tool()
    def db_crash() -> str:
        """Fail otherwise."""
        raise MCPError(code=-32077, message="no such luck", data={"code": 77})

    @server.tool(meta=in_group("mail.out"), annotations=types.ToolAnnotations(open_world_hint=True))
    async def send(to: str, ctx: Context[dict[str, int]]) -> list[types.ContentBlock]:
        """Send a letter."""
        await ctx.report_progress(1, 2, "half")
        return [
            types.TextContent(type="text", text=to, annotations=types.Annotations(priority=1)),
            types.ImageContent(type="image", data="AAAA", mime_type="image/png"),
        ]

    @server.prompt()
    def greet(name: str) -> str:
        """Greet."""
        return f"Hello {name}"

    @server.resource("shop://hours")
    def hours() -> str:
        """Return the hours."""
        return "9 to 5"

    @server.resource("shop://{item}")
    def item(item: str) -> str:
        """Describe an item."""
        return f"a {item}"

    return server


CALLS: Sequence[tuple[str, dict[str, Any] | None]] = (
    ("ping", None),
    ("db_stock", {}),
    ("db_row", {"table": "cups", "number": "7"}),
    ("db_row", {"number": 1}),
    ("db_row", {"table": "cups", "unknown": True}),
    ("db_drop", {"table": "cups"}),
    ("db_crash", {}),
    ("send", {"to": "Ada"}),
    ("nothing", {}),
)
"""Calls of the tools of `shop`, wrong ones among them."""


def listing(*tools: types.Tool, pages: int = 1) -> Server[Any]:
    """Return a low-level server with these tools, which answer with their arguments and `boom` fails."""

    async def list_tools(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        number = int(params.cursor) if params and params.cursor else 0
        size = -(-len(tools) // pages)
        page = list(tools[number * size : (number + 1) * size])
        following = str(number + 1) if (number + 1) * size < len(tools) else None
        return types.ListToolsResult(tools=page, next_cursor=following)

    async def call_tool(ctx: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name == "boom":
            raise ValueError("boom")
        text = types.TextContent(type="text", text=f"{params.name} {params.arguments}")
        return types.CallToolResult(content=[text], _meta={"by": "low"})

    return Server("low", version="1", on_list_tools=list_tools, on_call_tool=call_tool)


def plain_tool(name: str, **meta: Any) -> types.Tool:
    """Return the definition of a tool of `listing`."""
    return types.Tool(name=name, description=f"About {name}.", input_schema=OBJECT, _meta=meta or None)


async def listed(client: Client) -> list[str]:
    """Return the names of the tools that a client is listed."""
    return [tool.name for tool in (await client.list_tools(cache_mode="bypass")).tools]


async def answer(client: Client, name: str, arguments: dict[str, Any] | None = None) -> Any:
    """Return what a call is answered, result or error, as data."""
    try:
        result = await client.call_tool(name, arguments)
    except MCPError as error:
        return {"code": error.code, "message": error.message, "data": error.data}
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)
