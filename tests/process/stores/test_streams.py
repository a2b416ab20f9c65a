"""Notifications over real connections: they reach a client's streams on whichever replica (SPEC STO-4, NTF-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import CHANGED, PATIENCE, Listener, names_of, over_http
from tests.process.adapters.mcp.test_principals import listening, principals
from tests.process.stores.servers import flushed
from toolfold import Store
from toolfold_adapters.stores import RedisStore, SQLiteStore

pytestmark = pytest.mark.spec("STO-4")


@pytest.fixture(params=["sqlite", "redis"])
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[list[Store]]:
    """Yield two stores on the same records, as two replicas have them."""
    if request.param == "sqlite":
        made: list[Any] = [SQLiteStore(tmp_path / "state.db") for _ in range(2)]
    else:
        url: str = request.getfixturevalue("redis_url")
        await flushed(url)
        made = [RedisStore(url) for _ in range(2)]
    async with made[0], made[1]:
        yield made


@pytest.mark.spec("DEL-6", "NTF-2")
async def test_a_change_reaches_the_callers_streams_on_every_replica(stores: list[Store]) -> None:
    async with (
        principals(make_desk(), store=stores[0]) as first,
        principals(make_desk(), store=stores[1]) as second,
        listening(first("ada")) as (ada, here),
        listening(second("ada")) as (_, there),
        listening(second("bob")) as (bob, others),
    ):
        await ada.call_tool("database.activate", {})
        assert await here.next() == await there.next() == CHANGED
        await bob.call_tool("mode_a.activate", {})
        assert await others.next() == CHANGED
        assert (here.changes, there.changes, others.changes) == (1, 1, 1)


class Divided(httpx2.AsyncHTTPTransport):
    """Sends requests to one replica, and opens the standing stream at another."""

    def __init__(self, posts: str, stream: str) -> None:
        super().__init__()
        self._posts = httpx2.URL(posts)
        self._stream = httpx2.URL(stream)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        chosen = self._stream if request.method == "GET" else self._posts
        request.url = request.url.copy_with(port=chosen.port)
        request.headers["host"] = f"{chosen.host}:{chosen.port}"
        return await super().handle_async_request(request)


@asynccontextmanager
async def divided(posts: str, stream: str) -> AsyncGenerator[tuple[Client, Listener]]:
    """Yield a legacy client whose requests and stream go to different replicas."""
    listener = Listener()
    async with AsyncExitStack() as stack:
        http = httpx2.AsyncClient(transport=Divided(posts, stream), timeout=PATIENCE)
        target = streamable_http_client(posts, http_client=await stack.enter_async_context(http))
        client = await stack.enter_async_context(Client(target, mode="legacy", message_handler=listener))
        stack.callback(listener.close)
        yield client, listener


@pytest.mark.spec("DEL-1", "NTF-1")
async def test_a_legacy_client_is_notified_once_though_its_stream_is_at_another_replica(stores: list[Store]) -> None:
    async with (
        over_http(make_desk(), store=stores[0]) as posts,
        over_http(make_desk(), store=stores[1]) as stream,
        divided(posts, stream) as (client, listener),
    ):
        for number, name in enumerate(("database.activate", "database.write.activate", "database.deactivate"), 1):
            await client.call_tool(name, {})
            assert await listener.next() == CHANGED
            await names_of(client)
            assert listener.changes == number
