"""Replicas that share a store, for clients with sessions: those up to 2025-11-25 (SPEC STO-4, SES-4)."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from attrs import define, field
from mcp import Client

from tests.adapters.mcp.asgi import URL, Endpoint, endpoint_of
from tests.adapters.mcp.callers import Patience
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import CHANGED, SHAKING_HANDS, RawLegacy, build_server, names_of
from tests.adapters.mcp.test_handle_delivery import received
from tests.adapters.mcp.test_replicas import Fragile, own_meta
from toolfold import Store
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.mcp.sdk import connection_of
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("STO-1", "STO-4")


@define
class Balancer(httpx2.AsyncBaseTransport):
    """Sends each request to the replica that is chosen when it comes."""

    replicas: list[Endpoint]
    chosen: int = 0
    _transports: list[httpx2.ASGITransport] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._transports = [httpx2.ASGITransport(replica.app) for replica in self.replicas]

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "GET":  # a transport in memory answers when the stream has ended
            return httpx2.Response(405)
        return await self._transports[self.chosen].handle_async_request(request)


@asynccontextmanager
async def balanced(*servers: Any) -> AsyncGenerator[tuple[Client, Balancer, list[str]]]:
    """Yield a legacy client of several replicas, what chooses between them, and the notifications that it gets."""
    from mcp.client.streamable_http import streamable_http_client

    notified: list[str] = []

    async def note(message: Any) -> None:
        if isinstance(method := getattr(message, "method", None), str):
            notified.append(method)

    async with AsyncExitStack() as stack:
        balancer = Balancer([await stack.enter_async_context(endpoint_of(server)) for server in servers])
        http = httpx2.AsyncClient(transport=balancer)
        target = streamable_http_client(URL, http_client=http)
        client = await stack.enter_async_context(Client(target, mode="legacy", message_handler=note))
        yield client, balancer, notified


@pytest.mark.spec("STO-5")
async def test_a_list_of_a_legacy_session_says_so_while_the_store_is_away() -> None:
    store: Any = Fragile(MemoryStore())
    async with balanced(build_server(make_desk(), store=store)) as (client, _, _):
        await client.call_tool("database.activate", {})
        assert own_meta((await client.list_tools()).meta) == {}
        store.away = True
        away = await client.list_tools()
        assert "database.query" in {tool.name for tool in away.tools}
        assert own_meta(away.meta) == {"dev.toolfold/store-away": True}
        store.away = False
        assert own_meta((await client.list_tools()).meta) == {}


async def test_a_legacy_session_goes_on_at_another_replica_and_is_notified_once(store: Store) -> None:
    journal: list[str] = []
    servers = [build_server(make_desk(journal), store=store) for _ in range(2)]
    async with balanced(*servers) as (client, balancer, notified):
        await client.call_tool("database.activate", {})
        assert notified == [CHANGED]
        balancer.chosen = 1
        assert "database.query" in await names_of(client)
        assert received(await client.call_tool("database.query", {"sql": "x"})) == {"ran": "x"}
        await client.call_tool("database.write.activate", {})
        assert notified == [CHANGED, CHANGED]
        balancer.chosen = 0
        assert "database.write.insert" in await names_of(client)
        assert notified == [CHANGED, CHANGED]
        await client.call_tool("database.deactivate", {})
        balancer.chosen = 1
        assert "database.query" not in await names_of(client)
        assert notified == [CHANGED] * 3
    assert journal == ["database on", "database off"]


# -- how many sessions of the era up to 2025-11-25 there may be --------------------------------------------------------


@asynccontextmanager
async def replicas(store: Store, limit: Limit, journal: list[str]) -> AsyncGenerator[Callable[[str, int], RawLegacy]]:
    """Yield what makes a legacy client of one of two replicas, at an address."""
    async with AsyncExitStack() as stack:
        limits = Limits(sessions=limit)
        servers = [build_server(make_desk(journal), store=store, limits=limits) for _ in range(2)]
        apps = [(await stack.enter_async_context(endpoint_of(server))).app for server in servers]

        def client(host: str, replica: int) -> RawLegacy:
            return RawLegacy(httpx2.AsyncClient(transport=httpx2.ASGITransport(apps[replica], client=(host, 1))), URL)

        yield client


def moved(client: RawLegacy, to: RawLegacy) -> RawLegacy:
    """Return a client of another replica that goes on with the session of one."""
    to.headers = client.headers
    return to


OPENING = {"name": "database.activate", "arguments": {}}


@pytest.mark.spec("SES-4", "SAF-4")
async def test_the_idlest_legacy_session_of_a_caller_ends_on_whichever_replica(store: Store) -> None:
    journal: list[str] = []
    async with replicas(store, Limit(None, 2, "end_idlest"), journal) as client:
        bob, idle, used = client("192.0.2.2", 0), client("192.0.2.1", 0), client("192.0.2.1", 0)
        for one in (bob, idle, used):
            await one.initialize()
            await one.request("tools/call", OPENING)
        newest = client("192.0.2.1", 1)
        await newest.initialize()
        assert journal == ["database on"] * 3 + ["database off"]
        for one in (bob, used, newest):
            assert "result" in (await one.request("tools/list"))[-1]
        assert "The session has ended" in (await idle.request("tools/list"))[-1]["error"]["message"]
        assert not await idle.request("tools/list")  # it is unknown by now, so clients initialize a new one
        assert journal == ["database on"] * 3 + ["database off"]


@pytest.mark.spec("SES-4", "SAF-4")
async def test_a_legacy_session_too_many_is_refused_until_one_ends_on_whichever_replica(store: Store) -> None:
    async with replicas(store, Limit(None, 1), []) as client:
        first = client("192.0.2.1", 0)
        await first.initialize()
        refused = await client("192.0.2.1", 1).request("initialize", SHAKING_HANDS)
        assert "The limit of 1 sessions of one caller is reached" in refused[-1]["error"]["message"]
        assert "result" in (await first.request("tools/list"))[-1]
        elsewhere = moved(first, client("192.0.2.1", 1))
        assert "result" in (await elsewhere.request("tools/list"))[-1]
        await elsewhere.end()
        for replica in (0, 1):
            again = client("192.0.2.1", replica)
            await again.initialize()
            assert "result" in (await again.request("tools/list"))[-1]
            await again.end()


async def test_what_a_replica_has_of_an_idle_session_makes_room_there_and_the_session_goes_on() -> None:
    journal: list[str] = []
    store = MemoryStore()
    async with (
        endpoint_of(build_server(make_desk(journal), store=store, limits=Limits(sessions=Limit(2)))) as large,
        endpoint_of(build_server(make_desk(journal), store=store, limits=Limits(sessions=Limit(1)))) as small,
    ):
        first, second = (RawLegacy(large.connect(), URL) for _ in range(2))
        for client in (first, second):
            await client.initialize()
            await client.request("tools/call", OPENING)
        for client in (first, second, first):
            answer = await moved(client, RawLegacy(small.connect(), URL)).request("tools/list")
            assert "database.query" in str(answer[-1]["result"])
    assert journal == ["database on"] * 2


@pytest.mark.spec("SES-4")
async def test_a_session_is_taken_up_whole_after_requests_that_were_cancelled_meanwhile() -> None:
    store, methods = MemoryStore(), defaultdict[Any, set[str]](set)
    there = build_server(make_desk(), store=store, limits=Limits(sessions=Limit(30)))

    async def note(ctx: Any, call_next: Any) -> Any:
        methods[connection_of(ctx)].add(ctx.method)
        return await call_next(ctx)

    there.middleware.append(note)
    async with endpoint_of(build_server(make_desk(), store=store)) as here, endpoint_of(there) as other:
        clients: list[RawLegacy] = []
        for steps in range(0, 60, 2):
            first = RawLegacy(here.connect(), URL)
            await first.initialize()
            clients.append(client := moved(first, RawLegacy(other.connect(), URL)))
            request = asyncio.ensure_future(client.request("tools/list"))
            for _ in range(steps):
                await asyncio.sleep(0)
            for _ in range(2):  # the second one interrupts what the first one has end
                request.cancel()
                await asyncio.sleep(0)
            for _ in range(3):
                assert "result" in (await client.request("tools/list"))[-1], steps
        assert all("notifications/initialized" in seen for seen in methods.values() if "tools/list" in seen)
        known = len(methods)
        for client in clients:  # there is room for all
            await client.request("tools/list")
        assert len(methods) == known


@pytest.mark.spec("SAF-7")
async def test_a_session_can_be_ended_at_a_replica_that_is_full() -> None:
    store, tools = MemoryStore(), Patience()
    async with (
        endpoint_of(build_server(Patience(), store=store)) as large,
        endpoint_of(build_server(tools, store=store, limits=Limits(sessions=Limit(1)))) as small,
        anyio.create_task_group() as tasks,
    ):
        first, second = RawLegacy(large.connect(), URL), RawLegacy(large.connect(), URL)
        for client in (first, second):
            await client.initialize()
        waiting = moved(first, RawLegacy(small.connect(), URL))
        tasks.start_soon(waiting.request, "tools/call", {"name": "wait", "arguments": {}})
        await tools.begun.reaches(1)
        http = small.connect()
        ended = await http.delete(URL, headers=second.headers)
        assert (ended.status_code, ended.text) == (200, "")
        assert (await http.delete(URL, headers=second.headers)).status_code == 404
        tools.proceed.set()
