"""Changes that a client could not be notified of at once: it is, when it can be (SPEC NTF-1, NTF-2, STO-4).

Where responses are plain JSON, the only way is a standing stream, which the client may open later, at any replica.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup

from tests.adapters.mcp.asgi import URL
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import CHANGED, PATIENCE, SHAKING_HANDS, build_server
from tests.blocked import all_blocked
from toolfold import Store
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("NTF-1", "NTF-2", "STO-4", "STO-7")


class Client:
    """A legacy client without a transport that would retry or open streams, at one replica at a time."""

    def __init__(self, apps: list[Any], tasks: TaskGroup) -> None:
        self._apps = apps
        self._tasks = tasks
        self.headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        self.notified: list[str] = []
        self.more = anyio.Event()

    async def post(self, method: str, params: dict[str, Any] | None = None, replica: int = 0) -> dict[str, Any]:
        """Return the answer to a request, and note the notifications that come with it."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self._apps[replica])) as http:
            response = await http.post(URL, json=body, headers=self.headers)
        self.headers["mcp-session-id"] = response.headers.get("mcp-session-id", self.headers.get("mcp-session-id", ""))
        if response.headers["content-type"].startswith("application/json"):
            answer: dict[str, Any] = response.json()
            return answer
        *before, answer = map(json.loads, data_of(response.text))
        self.notified += [message["method"] for message in before]
        return answer

    async def initialize(self) -> None:
        """Shake hands."""
        await self.post("initialize", SHAKING_HANDS)
        body = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(self._apps[0])) as http:
            await http.post(URL, json=body, headers=self.headers)

    async def open_stream(self, replica: int) -> None:
        """Open the standing stream at a replica."""
        opened = anyio.Event()

        body = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in body:
                return message
            await anyio.sleep_forever()
            raise AssertionError

        async def send(message: Any) -> None:
            opened.set()
            for data in data_of(message.get("body", b"").decode()):
                self.notified.append(json.loads(data)["method"])
                self.more.set()
                self.more = anyio.Event()

        headers = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        headers += [(b"host", b"127.0.0.1:8000")]
        scope = {"type": "http", "method": "GET", "path": "/mcp", "query_string": b"", "headers": headers}
        self._tasks.start_soon(self._apps[replica], {**scope, "http_version": "1.1", "scheme": "http"}, receive, send)
        await opened.wait()

    async def is_notified(self, times: int) -> None:
        """Wait until the client has been notified so many times, and check that it is no more."""
        with anyio.fail_after(PATIENCE):
            while len(self.notified) < times:
                await self.more.wait()
        await all_blocked()
        assert self.notified == [CHANGED] * times


def data_of(text: str) -> list[str]:
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    return [line for line in lines if line]


@asynccontextmanager
async def replicas(*json_only: bool, store: Store | None) -> AsyncGenerator[Client]:
    """Yield a client of replicas, some of whose responses are plain JSON."""
    async with AsyncExitStack() as stack:
        apps = []
        for plain in json_only:
            app = build_server(make_desk(), store=store).streamable_http_app(json_response=plain)
            await stack.enter_async_context(app.router.lifespan_context(app))
            apps.append(app)
        tasks = await stack.enter_async_context(anyio.create_task_group())
        client = Client(apps, tasks)
        await client.initialize()
        yield client
        tasks.cancel_scope.cancel()


OPENING = {"name": "database.activate", "arguments": {}}


async def test_what_a_replica_can_not_send_is_sent_by_the_next_one_that_can() -> None:
    async with replicas(True, False, store=MemoryStore()) as client:
        await client.post("tools/call", OPENING, replica=0)
        await client.is_notified(0)
        await client.post("ping", replica=1)
        await client.post("tools/list", replica=1)
        await client.is_notified(1)
        await client.post("tools/list", replica=1)
        await client.is_notified(1)


async def test_a_change_at_one_replica_is_sent_on_the_stream_at_another() -> None:
    async with replicas(True, True, store=MemoryStore()) as client:
        await client.open_stream(replica=1)
        await client.post("tools/call", OPENING, replica=0)
        await client.is_notified(1)


@pytest.mark.parametrize("stream", [0, 1], ids=["there", "elsewhere"])
async def test_a_change_without_a_stream_is_sent_when_one_opens(stream: int) -> None:
    async with replicas(True, True, store=MemoryStore()) as client:
        await client.post("tools/call", OPENING, replica=0)
        await client.open_stream(replica=stream)
        await client.is_notified(1)
        await client.post("tools/list", replica=0)
        await client.is_notified(1)


async def test_without_a_store_it_is_sent_with_the_next_request_after_the_stream_has_opened() -> None:
    async with replicas(True, store=None) as client:
        await client.post("tools/call", OPENING)
        await client.open_stream(replica=0)
        await client.is_notified(0)
        await client.post("tools/list")
        await client.is_notified(1)
