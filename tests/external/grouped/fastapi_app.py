"""Mounts a tool set and a grouped FastMCP server in FastAPI applications, and asks each for its list."""

# pyright: reportMissingImports=false

from typing import Any

import anyio
import httpx2
from fastapi import FastAPI  # type: ignore[import-not-found]
from shop import shop  # type: ignore[import-not-found]

from toolfold import ToolSet
from toolfold_adapters.integrations.fastmcp import group_server
from toolfold_adapters.mcp import http_app

HEADERS = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28"}
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": META}}

tools = ToolSet("desk", control="open_group")
tools.register_group("database", "Rows")
tools.register("ping", lambda: "pong", input_schema={"type": "object"})


async def names(app: Any) -> set[str]:
    """Return the names of the tools below `/tools` of an application that mounts them."""
    outer = FastAPI(lifespan=app.lifespan)
    outer.mount("/tools", app)
    async with outer.router.lifespan_context(outer):
        transport = httpx2.ASGITransport(outer)
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:
            response = await http.post("/tools/mcp", json=LIST, headers={**HEADERS, "mcp-method": "tools/list"})
    return {tool["name"] for tool in response.json()["result"]["tools"]}


async def main() -> None:
    """Print what both have."""
    for app in (http_app(tools), http_app(group_server(shop, "tags"))):
        print(*sorted(await names(app) & {"ping", "open_group"}, reverse=True))


anyio.run(main)
