"""Existing servers with groups as replicas that share a store: their legacy sessions go on (SPEC STO-4, INT-1)."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import MCPServer, Server

from tests.adapters.mcp.asgi import URL, endpoint_of
from tests.adapters.mcp.existing import listing, plain_tool, shop
from tests.adapters.mcp.support import RawLegacy, names_of
from tests.adapters.mcp.test_legacy_replicas import balanced
from toolfold import Store
from toolfold_adapters.mcp import Limit, Limits, group_server, in_group
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("STO-4", "INT-1")


def grouped(server: Any, store: Store, **options: Any) -> Any:
    return group_server(server, {"db": "db_*"}, store=store, **options)


def plain() -> Server[Any]:
    return listing(plain_tool("ping"), plain_tool("db_stock"))


async def test_groups_that_a_replica_learns_of_when_it_lists_are_open_there() -> None:
    def make() -> Any:
        server = listing(plain_tool("ping"), plain_tool("row", **in_group("files")), plain_tool("db_stock"))
        return grouped(server, store)

    store = MemoryStore()
    async with balanced(make(), make()) as (client, balancer, _):
        await names_of(client)
        for group in ("files", "db"):
            await client.call_tool("open_group", {"group": group})
        balancer.chosen = 1
        assert {"row", "db_stock"} <= set(await names_of(client))
        await client.call_tool("close_group", {"group": "db"})
        balancer.chosen = 0
        assert "row" in await names_of(client)
        assert "db_stock" not in await names_of(client)


async def subscribe(*_: Any) -> Any:
    return None


async def test_a_server_with_state_of_its_own_for_each_connection_keeps_its_sessions() -> None:
    def make() -> Any:
        async def tools(ctx: Any, params: Any) -> Any:
            return await given.handler(ctx, params)

        given: Any = plain().get_request_handler("tools/list")
        server = Server[Any]("s", on_list_tools=tools, on_call_tool=subscribe, on_subscribe_resource=subscribe)
        return grouped(server, store)

    store = MemoryStore()
    async with endpoint_of(make()) as first, endpoint_of(make()) as second:
        here, there = RawLegacy(first.connect(), URL), RawLegacy(second.connect(), URL)
        await here.initialize()
        there.headers = here.headers
        assert await here.request("tools/list")
        assert not await there.request("tools/list")


@pytest.mark.spec("SES-4", "STO-7")
async def test_sessions_in_the_store_are_bounded() -> None:
    store, limits = MemoryStore(), Limits(sessions=Limit(1, None, "end_idlest"))
    made: MCPServer[Any] = shop()
    async with endpoint_of(grouped(made, store, limits=limits)) as replica:
        first, second = (RawLegacy(replica.connect(), URL) for _ in range(2))
        await first.initialize()
        await second.initialize()
        assert await second.request("tools/list")
        assert "error" in (await first.request("tools/list") or [{"error": "unknown"}])[-1]
