"""One end-to-end scenario in every delivery, over every transport and in both eras (SPEC 18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import callers_of
from tests.adapters.mcp.shop import make_shop, shop_over
from tests.adapters.mcp.support import build_server, names_of, over_http, schemas_in
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, text_of
from toolfold_adapters.mcp import FollowingClient
from toolfold_adapters.names import HANDLE_META

ERAS = ("legacy", MODERN)
TRANSPORTS = ("memory", "stdio", "http")
DELIVERIES = [
    *(("session", transport, "legacy") for transport in TRANSPORTS),  # the modern era has none
    *(("following", transport, era) for transport in TRANSPORTS for era in ERAS),
    # In the legacy era the session is what a handle would name; over stdio nobody needs one (SPEC DEL-12).
    *(("handle", transport, MODERN) for transport in ("memory", "http")),
    *product(("lists once",), ("memory", "http"), ERAS),
    *product(("selection", "principal"), ["http"], ERAS),  # URLs, headers and authentication are those of HTTP
]


class Direct:
    """A client that lists again and calls tools by their names: sessions, principals, and clients that follow."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.progress: list[tuple[float, float | None, str | None]] = []

    async def report(self, progress: float, total: float | None, message: str | None) -> None:
        self.progress.append((progress, total, message))

    async def names(self) -> list[str]:
        return await names_of(self.client)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> types.CallToolResult:
        try:
            return await self.client.call_tool(name, arguments or {}, progress_callback=self.report)
        except MCPError as error:
            text = error.message if error.code == -32602 else f"{error.code}"
            return types.CallToolResult(content=[types.TextContent(text=text)], is_error=True)

    async def open(self, group: str) -> None:
        opened = await self.call(f"{group}.activate")
        assert not opened.is_error, text_of(opened)

    async def close(self, group: str) -> None:
        assert not (await self.call(f"{group}.deactivate")).is_error


class ByHandle(Direct):
    """A client of the modern era that passes its handle on, and lists under it."""

    handle: str | None = None

    async def names(self) -> list[str]:
        return list(await listed_under(self.client, self.handle)) if self.handle else await super().names()

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> types.CallToolResult:
        handle = {"handle": self.handle} if self.handle else {}
        given = {"name": name, "arguments": arguments or {}, **handle}
        result = await super().call("call_tool", given)
        self.handle = (result.meta or {}).get(HANDLE_META, self.handle)
        return result


class ListsOnce(ByHandle):
    """A client of either era that lists only once; further tools it learns from the texts of answers."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self.known: set[str] = set()

    async def names(self) -> list[str]:
        self.known = self.known or set(await names_of(self.client))
        return sorted(self.known)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> types.CallToolResult:
        assert "call_tool" in await self.names()
        result = await super().call(name, arguments)
        self.known |= {line.removeprefix("- ").partition(":")[0] for line in schemas_in(text_of(result))}
        return result


class BySelection(Direct):
    """A client that opens a group by connecting to another URL."""

    def __init__(self, url: str, era: str) -> None:
        self.url, self.era, self.groups = url, era, list[str]()
        self.progress = []

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Direct]:
        async with Client(f"{self.url}?groups={','.join(self.groups)}", mode=self.era) as client:
            yield Direct(client)

    async def names(self) -> list[str]:
        async with self.connected() as direct:
            return await direct.names()

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> types.CallToolResult:
        async with self.connected() as direct:
            result = await direct.call(name, arguments)
            self.progress += direct.progress
            return result

    async def open(self, group: str) -> None:
        self.groups.append(group)
        if {"cash", "credit"} <= set(self.groups):
            assert "can't be active together" in text_of(await self.call("hello"))
            self.groups.remove("cash")

    async def close(self, group: str) -> None:
        self.groups.remove(group)


@asynccontextmanager
async def client_for(delivery: str, transport: str, era: str) -> AsyncGenerator[Direct]:
    """Yield a client for a delivery."""
    async with AsyncExitStack() as stack:
        if delivery == "selection":
            yield BySelection(await stack.enter_async_context(over_http(make_shop())), era)
            return
        if delivery == "principal":
            server = build_server(make_shop(), delivery="principal")
            target = (await stack.enter_async_context(callers_of(server)))("ada")
        else:
            target = await stack.enter_async_context(shop_over(transport))
        kind = FollowingClient if delivery == "following" else Client
        client = await stack.enter_async_context(kind(target, mode=era))
        kinds = {"handle": ByHandle, "lists once": ListsOnce}
        yield kinds.get(delivery, Direct)(client)


@pytest.mark.spec("DEL-1", "DEL-2", "DEL-4", "DEL-6", "DEL-8", "DEL-10", "DEL-11")
@pytest.mark.parametrize(("delivery", "transport", "era"), DELIVERIES)
async def test_a_client_lists_is_refused_opens_calls_swaps_and_closes(delivery: str, transport: str, era: str) -> None:
    async with client_for(delivery, transport, era) as client:
        assert "stock.count" not in await client.names()
        refused = await client.call("stock.count", {"item": "x"})
        assert refused.is_error
        assert text_of(refused).startswith("Unknown tool: stock.count")  # a hint on handles may follow (SPEC CTL-8)

        await client.open("stock")
        assert "stock.count" in await client.names()
        assert (await client.call("stock.count", {"item": "x"})).structured_content == {"item": "x", "shelf": 1}
        assert client.progress == [(1, 2, "half")]
        assert "Invalid arguments for stock.count" in text_of(await client.call("stock.count", {"item": 5}))
        await client.open("stock.orders")
        assert text_of(await client.call("stock.orders.place", {"items": {"nails": 2}})) == "2"

        await client.open("cash")
        assert text_of(await client.call("cash.coins")) == "coins"
        await client.open("credit")
        assert text_of(await client.call("credit.card")) == "card"
        assert text_of(await client.call("cash.coins")).startswith("Unknown tool: cash.coins")

        await client.close("stock.orders")
        await client.close("stock")
        for name in ("stock.count", "stock.orders.place"):
            assert text_of(await client.call(name)).startswith(f"Unknown tool: {name}")
        assert text_of(await client.call("credit.card")) == "card"
        if delivery != "lists once":
            more = [name for name in await client.names() if name.startswith(("stock.", "cash.", "credit."))]
            assert [name for name in more if not name.endswith("activate")] == ["credit.card"]
