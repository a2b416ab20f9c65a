"""`tools/list` through the SDK's in-memory client: a server built here against a bare one that lists the same tools."""

from contextlib import AsyncExitStack
from typing import Any, Literal

import anyio
import mcp_types as types
from mcp import Client
from mcp.server import Server

from toolfold_adapters.mcp import build_server

from .harness import Row, flat_forest, turn_by_turn

ERAS: tuple[Literal["legacy", "auto"], ...] = ("legacy", "auto")


def measure(*, quick: bool) -> list[Row]:
    """Return a row for each era."""
    return anyio.run(_measure, 300 if quick else 2000)


async def _measure(samples: int) -> list[Row]:
    tools = flat_forest()
    rows = []
    for era in ERAS:
        async with AsyncExitStack() as stack:
            ours = await stack.enter_async_context(Client(build_server(tools, active=["g7"]), mode=era, cache=None))
            listed = (await ours.list_tools()).tools
            bare = await stack.enter_async_context(Client(_bare(listed), mode=era, cache=None))
            rows.append(await _compare(era, ours, bare, samples))
    return rows


def _bare(listed: list[types.Tool]) -> Server[Any]:
    """Return a server of the SDK only, which lists the given tools."""

    async def list_tools(*_: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed, ttl_ms=0, cache_scope="public")

    return Server("bare", on_list_tools=list_tools)


async def _compare(era: str, ours: Client, bare: Client, samples: int) -> Row:
    listed = (await ours.list_tools()).tools
    assert listed == (await bare.list_tools()).tools
    mine, other = await turn_by_turn([ours.list_tools, bare.list_tools], samples=samples)
    return Row(
        what="tools/list against the bare SDK",
        value=mine / other,
        unit="×",
        target=1.15,
        note=f"{ours.protocol_version}: {mine * 1e6:,.0f} µs against {other * 1e6:,.0f} µs, {len(listed)} tools",
    )
