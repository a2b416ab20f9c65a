"""Principal delivery over HTTP: each caller is notified of its own changes, and idle sessions end (SPEC DEL-6)."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import mcp_types as types
import pytest
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import application
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop, shop_over
from tests.adapters.mcp.support import (
    CHANGED,
    PATIENCE,
    Listener,
    build_server,
    client_of,
    names_of,
)
from tests.adapters.mcp.test_handle_delivery import MODERN
from tests.adapters.mcp.test_stored_handles import Journal, left
from toolfold import ToolSet
from toolfold_adapters.mcp import handlers as handlers_module

PROMPTS = "notifications/prompts/list_changed"

pytestmark = pytest.mark.spec("DEL-6")


@asynccontextmanager
async def served(server: Server[Any]) -> AsyncGenerator[str]:
    """Serve over HTTP to callers with tokens, and yield the URL."""
    app = application(server)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # connections wait here until they are taken
        runner = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=30))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(runner.serve, [listener])
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
            finally:
                runner.should_exit = True


@asynccontextmanager
async def principals(tools: ToolSet, **options: Any) -> AsyncGenerator[Callable[[str], Any]]:
    """Serve by caller, and yield what a client of each caller connects to."""
    async with served(build_server(tools, delivery="principal", **options)) as url, AsyncExitStack() as stack:

        def target(name: str) -> Any:
            http = httpx2.AsyncClient(headers={"authorization": f"Bearer {name}"}, timeout=PATIENCE)
            stack.push_async_callback(http.aclose)
            return streamable_http_client(url, http_client=http)

        yield target


@asynccontextmanager
async def listening(target: Any) -> AsyncGenerator[tuple[Client, Listener]]:
    """Yield a client whose stream for changes is open."""
    async with (
        client_of(target, MODERN) as (client, listener),
        client.listen(tools_list_changed=True, prompts_list_changed=True),
    ):
        yield client, listener


async def changes_so_far(tools: ToolSet, *listeners: Listener) -> list[int]:
    """Announce another change, and return how often each was notified before that the list of tools changed."""
    tools.notify_list_changed(["prompt"])
    changes: list[int] = []
    for listener in listeners:
        count = 0
        while (method := await listener.next()) != PROMPTS:
            count += method == CHANGED
        changes.append(count)
    return changes


@pytest.mark.spec("NTF-1", "NTF-2")
async def test_a_change_is_notified_once_on_each_stream_of_its_caller_and_on_no_other() -> None:
    tools = make_desk()
    async with (
        principals(tools) as target,
        listening(target("ada")) as (ada, first),
        listening(target("ada")) as (again, second),
        listening(target("bob")) as (bob, other),
    ):
        await bob.call_tool("ping", {})
        for client, name, changes in (
            (ada, "database.activate", 1),
            (again, "database.activate", 0),
            (again, "database.write.activate", 1),
            (ada, "database.deactivate", 1),
            (ada, "mode_a.activate", 1),
            (again, "mode_b.activate", 1),
            (ada, "ping", 0),
        ):
            await client.call_tool(name, {})
            assert await changes_so_far(tools, first, second, other) == [changes, changes, 0], name


@pytest.mark.spec("NTF-3")
async def test_an_announcement_reaches_every_caller_once_whether_or_not_it_has_a_session() -> None:
    tools = make_shop()
    async with (
        principals(tools) as target,
        listening(target("ada")) as (ada, first),
        listening(target("ada")) as (_, second),
        listening(target("bob")) as (_, third),
    ):
        await names_of(ada)
        tools.register("brand_new", lambda: "new")
        tools.notify_list_changed()
        assert await changes_so_far(tools, first, second, third) == [1, 1, 1]
        assert "brand_new" in await names_of(ada)


@pytest.mark.spec("NTF-3")
async def test_a_caller_that_comes_back_is_notified_again_and_closed_streams_are_forgotten() -> None:
    tools = make_shop()
    async with principals(tools) as target:
        async with listening(target("ada")) as (ada, listener):
            await ada.call_tool("cash.activate", {})
            assert await changes_so_far(tools, listener) == [1]
        async with listening(target("ada")) as (ada, listener), listening(target("bob")) as (_, other):
            await ada.call_tool("credit.activate", {})
            assert await changes_so_far(tools, listener, other) == [1, 0]


@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_unauthenticated_requests_are_refused(transport: str) -> None:
    async with shop_over(transport, delivery="principal") as target, Client(target, mode=MODERN) as client:
        requests: list[Callable[[], Awaitable[Any]]] = [
            client.list_tools,
            client.list_prompts,
            client.list_resources,
            client.list_resource_templates,
            lambda: client.call_tool("hello", {}),
            lambda: client.get_prompt("stock.advise"),
            lambda: client.read_resource("shop:///shelves"),
            client.listen(tools_list_changed=True).__aenter__,
        ]
        for request in requests:
            with pytest.raises(MCPError, match="not authenticated: send a bearer token") as refused:
                with anyio.fail_after(PATIENCE):
                    await request()
            assert refused.value.code == types.INVALID_REQUEST


@pytest.mark.spec("HOOK-9", "SES-3")
async def test_a_session_ends_after_its_lifetime_and_the_caller_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(handlers_module, "time", SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr(handlers_module, "elapsed", lambda: now[0])
    journal = Journal()
    tools = make_desk(journal)
    async with principals(tools, handle_lifetime=0.5) as target, listening(target("ada")) as (ada, listener):
        await ada.call_tool("database.activate", {})
        for _ in range(3):
            now[0] += 0.4
            assert "database.query" in await names_of(ada)
        assert await changes_so_far(tools, listener) == [1]
        now[0] += 0.6
        await journal.reaches(2)
        assert journal == ["database on", "database off"]
        await left(tools, 0)
        assert await changes_so_far(tools, listener) == [1]
        assert "database.query" not in await names_of(ada)
        assert len(tools.sessions) == 1
