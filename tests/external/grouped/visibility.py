"""A FastMCP server that opens tools by its own visibility, and what its own clients are listed: prints JSON.

A and B are two clients of one server; A opens the orders, and each then lists the tools.
"""

# mypy: disable-error-code="untyped-decorator, misc"
# pyright: reportMissingImports=false

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any

from fastmcp import Client, Context, FastMCP
from fastmcp.exceptions import ToolError

from tests.process.ports import free_port


def shop() -> FastMCP[Any]:
    mcp = FastMCP("shop")

    @mcp.tool(tags={"orders"})
    def find(state: str) -> list[int]:
        """List orders."""
        return [4711]

    @mcp.tool
    async def open_orders(ctx: Context) -> str:
        """Open the tools for orders."""
        await ctx.enable_components(tags={"orders"})
        return "open"

    mcp.disable(tags={"orders"})
    return mcp


async def seen(target: Any, mode: Any) -> Any:
    """Return what A and B are listed once A has opened the orders, or why A can't."""
    async with AsyncExitStack() as stack:
        a, b = [await stack.enter_async_context(Client(target, mode=mode)) for _ in range(2)]
        try:
            await a.call_tool("open_orders", {})
        except ToolError as error:
            return str(error)
        return [sorted(tool.name for tool in await one.list_tools()) for one in (a, b)]


async def over_http(mode: str) -> Any:
    port = free_port()
    serving = asyncio.create_task(shop().run_http_async(host="127.0.0.1", port=port, show_banner=False))
    try:
        async with asyncio.timeout(60):
            while True:
                try:
                    return await seen(f"http://127.0.0.1:{port}/mcp", mode)
                except (OSError, RuntimeError):  # it does not listen yet
                    await asyncio.sleep(0)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def main() -> None:
    ways = {
        "in process, legacy": await seen(shop(), "legacy"),
        "in process, modern": await seen(shop(), "auto"),
        "over HTTP, legacy": await over_http("legacy"),
        "over HTTP, modern": await over_http("auto"),
    }
    print(json.dumps(ways))


asyncio.run(main())
