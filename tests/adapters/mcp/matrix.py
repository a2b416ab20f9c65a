"""A client of each delivery, over each transport and in both eras, by what they all can do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import product
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import callers_of, endpoint_of
from tests.adapters.mcp.shop import make_shop, shop_over
from tests.adapters.mcp.support import build_server, names_of, schemas_in
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, text_of
from toolfold_adapters.mcp import FollowingClient
from toolfold_adapters.names import HANDLE_META

ERAS = ("legacy", MODERN)


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
            text = error.message if error.code == -32602 else f"{error.code} {error.message} {error.data}"
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

    def __init__(self, target: Callable[[str], Any], era: str) -> None:
        self.target, self.era, self.groups = target, era, list[str]()
        self.progress = []

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[Direct]:
        async with Client(self.target(f"?groups={','.join(self.groups)}"), mode=self.era) as client:
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
            assert "can't be open together" in text_of(await self.call("hello"))
            self.groups.remove("cash")

    async def close(self, group: str) -> None:
        self.groups.remove(group)


KINDS = {"handle": ByHandle, "lists once": ListsOnce}


@asynccontextmanager
async def client_for(delivery: str, transport: str, era: str) -> AsyncGenerator[Direct]:
    """Yield a client for a delivery; "app" is HTTP without a socket, by which callers authenticate, too."""
    async with AsyncExitStack() as stack:
        target: Any
        if delivery == "principal":
            server = build_server(make_shop(), delivery="principal")
            target = (await stack.enter_async_context(callers_of(server)))("ada")
        elif transport == "app":
            endpoint = await stack.enter_async_context(endpoint_of(build_server(make_shop())))
            target = endpoint.target if delivery == "selection" else endpoint.target()
        else:
            target = await stack.enter_async_context(shop_over(transport))
        if delivery == "selection":
            yield BySelection(target if callable(target) else lambda query: f"{target}{query}", era)
            return
        kind = FollowingClient if delivery == "following" else Client
        yield KINDS.get(delivery, Direct)(await stack.enter_async_context(kind(target, mode=era)))


def ways(*transports: str) -> list[tuple[str, str, str]]:
    """Return delivery, transport and era of each client that there is over these transports."""
    over_http = [transport for transport in transports if transport in ("app", "http")]
    many_clients = [transport for transport in transports if transport != "stdio"]  # over stdio nobody needs a handle
    return [
        *(("session", transport, "legacy") for transport in transports),  # the modern era has none
        *product(("following",), transports, ERAS),
        *(("handle", transport, MODERN) for transport in many_clients),
        *product(("lists once",), many_clients, ERAS),
        *product(("selection",), over_http, ERAS),  # URLs, headers and authentication are those of HTTP
        *(("principal", transport, era) for transport in over_http if transport == "app" for era in ERAS),
    ]
