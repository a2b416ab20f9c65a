"""A FastMCP server that uses what FastMCP has: tags, marks, middleware, injection, mounts, a lifespan."""

# mypy: disable-error-code="untyped-decorator, misc"
# pyright: reportMissingImports=false

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Context, FastMCP
from fastmcp.server.middleware import Middleware, MiddlewareContext

from toolfold_adapters.integrations.fastmcp import in_group

called: list[str] = []


class Journal(Middleware):
    """Records calls by name."""

    async def on_call_tool(self, context: MiddlewareContext[Any], call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        called.append(context.message.name)
        return await call_next(context)


class Secret(Middleware):
    """Lists no tool that is tagged `secret`."""

    async def on_list_tools(self, context: MiddlewareContext[Any], call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        return [tool for tool in await call_next(context) if "secret" not in tool.tags]


@asynccontextmanager
async def lifespan(server: FastMCP[Any]) -> AsyncGenerator[dict[str, int]]:
    """Keep a stock."""
    yield {"stock": 3}


shop = FastMCP("shop", instructions="A shop.", middleware=[Journal(), Secret()], lifespan=lifespan)
child = FastMCP("child")


@shop.tool
def ping() -> str:
    """Answer."""
    return "pong"


@shop.tool(tags={"database"})
async def stock(ctx: Context) -> int:
    """Return the stock, from the lifespan."""
    return int(ctx.lifespan_context["stock"])


@shop.tool(tags={"database", "admin"})
def drop(table: str) -> str:
    """Fail."""
    raise ValueError(f"{table} can't be dropped")


@shop.tool(tags={"secret", "admin"})
def hidden() -> str:
    """Be unknown."""
    return "hidden"


@shop.tool(meta=in_group("mail.out"))
def send(to: str) -> dict[str, str]:
    """Send a letter."""
    return {"to": to}


@shop.tool
def journal() -> list[str]:
    """Return the names of the tools that were called."""
    return list(called)


@child.tool(tags={"play"})
def roll(sides: int = 6) -> int:
    """Roll a die."""
    return sides


shop.mount(child, namespace="games")


@shop.prompt
def greet(name: str) -> str:
    """Greet."""
    return f"Hello {name}"


@shop.resource("shop://{item}")
def item(item: str) -> str:
    """Describe an item."""
    return f"a {item}"
