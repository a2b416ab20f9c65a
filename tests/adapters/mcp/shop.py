"""A tool set without hooks, and a server of it as a process of its own: `python shop.py stdio`, or `http`."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp import StdioServerParameters

from tests.adapters.mcp.support import target_of
from tests.preloaded import forked
from toolfold import Context, ProtocolError, ToolError, ToolSet, Visibility
from toolfold_adapters.mcp import serve

SHOP = Path(__file__)
PYTHONPATH = ":".join(part for part in sys.path if part)


def make_shop(ran: list[str] | None = None, **settings: Any) -> ToolSet:
    """Return a shop with orders below its stock, and two ways to pay that exclude one another.

    The names of the tools that run are noted in `ran`.
    """
    note = (list[str]() if ran is None else ran).append
    tools = ToolSet("shop", **settings)
    tools.register_group("stock", "What there is")
    tools.register_group("orders", "What is to come", parent="stock")
    tools.register_group("cash", "Paying in coins")
    tools.register_group("credit", "Paying by card")
    tools.register_exclusion("cash", "credit")
    tools.register_prompt("advise", lambda: "Advise me.", group="stock")
    tools.register_resource("shop:///shelves", lambda: "three", group="stock")

    @tools.tool()
    def hello() -> str:
        """Say hello."""
        note("hello")
        return "hello"

    @tools.tool(group="stock")
    async def count(item: str, context: Context, shelf: int = 1) -> dict[str, Any]:
        """Count an item."""
        note("count")
        await context.report_progress(1, 2, "half")
        return {"item": item, "shelf": shelf}

    @tools.tool(group="stock")
    def fail() -> None:
        """Fail."""
        raise ToolError("the shelf is empty")

    @tools.tool(group="stock")
    def reject() -> None:
        """Answer with an error of the protocol."""
        raise ProtocolError(-32050, "not today", {"until": "tomorrow"})

    @tools.tool(group="stock.orders")
    def place(items: dict[str, int]) -> int:
        """Place an order."""
        note("place")
        return sum(items.values())

    @tools.tool(group="cash")
    def coins() -> str:
        """Pay in coins."""
        return "coins"

    @tools.tool(group="credit")
    def card() -> str:
        """Pay by card."""
        return "card"

    @tools.tool()
    async def open_stock(context: Context) -> str:
        """Open the stock through the context."""
        await context.activate("stock")
        return "opened"

    @tools.tool()
    async def open_everything(context: Context) -> str:
        """Ask for more than can be."""
        await context.session.transition(activate=["stock", "cash", "credit"])
        return "never"

    @tools.tool()
    def join(context: Context) -> str:
        """Become a member."""
        context.set_fact("member", True)
        return "joined"

    @tools.tool(visibility=Visibility.when(lambda view: bool(view.facts.get("member"))))
    def discount() -> str:
        """Ask for a discount."""
        return "ten percent"

    return tools


@asynccontextmanager
async def shop_over(transport: str, **options: Any) -> AsyncGenerator[Any]:
    """Yield what a client connects to; over stdio that is a process with a shop of its own."""
    if transport == "stdio":
        command, *arguments = forked(str(SHOP), "stdio", json.dumps(options))
        yield StdioServerParameters(command=command, args=arguments, env={"PYTHONPATH": PYTHONPATH})
    else:
        async with target_of(transport, make_shop(), **options) as target:
            yield target


async def _main(transport: str, options: str = "{}") -> None:
    """Serve; over HTTP the URL is printed once it is ready."""
    if transport == "stdio":
        await serve(make_shop(), separator=".", **json.loads(options))
    else:
        ready = functools.partial(print, flush=True)
        await serve(make_shop(), transport="http", port=0, on_ready=ready, separator=".", **json.loads(options))


if __name__ == "__main__":
    anyio.run(functools.partial(_main, *sys.argv[1:]))
