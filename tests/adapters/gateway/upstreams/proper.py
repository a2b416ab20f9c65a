"""A well-behaved server: over stdio, or with `http` or `sse` over one of these, its port printed first."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as t
import uvicorn
from mcp.server import Server, ServerRequestContext
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

Context = ServerRequestContext[Any, Any]
OBJECT = {"type": "object"}
HEADED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
MISMARKED = {"type": "object", "properties": {"region": {"type": "array", "x-mcp-header": "Region"}}}


def text(value: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=value)])


async def fail(ctx: Context, arguments: dict[str, Any]) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text="it broke")], is_error=True)


async def structured(ctx: Context, arguments: dict[str, Any]) -> t.CallToolResult:
    # The answer does not fit the output schema, which is between the client and this server.
    content: list[t.ContentBlock] = [t.TextContent(type="text", text="{}")]
    return t.CallToolResult(content=content, structured_content={"n": "none"}, _meta={"example.org/cost": 3})


async def environment(ctx: Context, arguments: dict[str, Any]) -> t.CallToolResult:
    return text(json.dumps({"variables": dict(os.environ), "folder": str(Path.cwd())}))


async def meta(ctx: Context, arguments: dict[str, Any]) -> t.CallToolResult:
    return text(json.dumps({key: value for key, value in (ctx.meta or {}).items() if key.startswith("example.org")}))


async def region(ctx: Context, arguments: dict[str, Any]) -> t.CallToolResult:
    return text(str(ctx.request.headers.get("mcp-param-region")) if ctx.request else "no request")


async def token(ctx: Context, arguments: dict[str, Any]) -> t.CallToolResult:
    return text(str(ctx.request.headers.get("x-token")) if ctx.request else "no request")


FUNCTIONS = (fail, structured, environment, meta, region, token)
TOOLS = {tool.__name__: tool for tool in FUNCTIONS}


async def list_tools(ctx: Context, params: t.PaginatedRequestParams | None) -> t.ListToolsResult:
    listed = [t.Tool(name=name, input_schema=HEADED if name == "region" else OBJECT) for name in TOOLS]
    listed.append(t.Tool(name="mismarked", input_schema=MISMARKED))
    listed[5].output_schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    return t.ListToolsResult(tools=listed)


async def call_tool(ctx: Context, params: t.CallToolRequestParams) -> t.CallToolResult:
    return await TOOLS[params.name](ctx, params.arguments or {})


server: Server[Any] = Server("proper", version="2.0", on_list_tools=list_tools, on_call_tool=call_tool)


async def over_stdio() -> None:
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def sse_app() -> Starlette:
    transport = SseServerTransport("/messages/")

    class Stream:
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            async with transport.connect_sse(scope, receive, send) as (read, write):
                await server.run(read, write, server.create_initialization_options())

    return Starlette(routes=[Route("/mcp", Stream()), Mount("/messages/", transport.handle_post_message)])


def over_http(app: Starlette) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app, log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    if sys.argv[1:] == ["http"]:
        over_http(server.streamable_http_app())
    elif sys.argv[1:] == ["sse"]:
        over_http(sse_app())
    else:
        anyio.run(over_stdio)
