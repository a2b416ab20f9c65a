"""Principal delivery: each authenticated caller has lists of its own, and hears of its own changes (SPEC DEL-6)."""

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
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop, shop_over
from tests.adapters.mcp.support import (
    CHANGED,
    PATIENCE,
    Listener,
    build_server,
    client_of,
    modern_body,
    modern_headers,
    names_of,
)
from tests.adapters.mcp.test_handle_delivery import MODERN, TRANSPORTS, received, text_of
from tests.adapters.mcp.test_stored_handles import Journal, left
from toolfold import ToolSet
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.mcp import deliveries as deliveries_module

PROMPTS = "notifications/prompts/list_changed"

pytestmark = pytest.mark.spec("DEL-6")


class Names:
    """Takes a caller's name for its token, or three names for its client, issuer and subject."""

    async def verify_token(self, token: str) -> AccessToken | None:
        client, issuer, subject = token.split("-") if "-" in token else ("client", "issuer", token)
        return AccessToken(token=token, client_id=client, scopes=[], subject=subject, claims={"iss": issuer})


@asynccontextmanager
async def served(server: Server[Any]) -> AsyncGenerator[str]:
    """Serve over HTTP to callers with tokens, and yield the URL."""
    settings = AuthSettings(issuer_url="https://issuer.example", resource_server_url=None)  # type: ignore[arg-type]
    app = server.streamable_http_app(auth=settings, token_verifier=Names())
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()  # connections wait here until they are taken
        runner = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none", timeout_graceful_shutdown=1))
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


async def heard_until_now(tools: ToolSet, *listeners: Listener) -> list[int]:
    """Announce something else, and return how often each was told before it that the list of tools changed."""
    tools.notify_list_changed(["prompt"])
    told_of: list[int] = []
    for listener in listeners:
        count = 0
        while (method := await listener.next()) != PROMPTS:
            count += method == CHANGED
        told_of.append(count)
    return told_of


@pytest.mark.spec("DEL-7", "CALL-2")
async def test_a_caller_has_the_same_lists_on_every_connection_and_others_have_their_own() -> None:
    async with principals(make_shop()) as target, AsyncExitStack() as stack:
        ada, again, bob = [
            await stack.enter_async_context(Client(target(name), mode=MODERN)) for name in ("ada", "ada", "bob")
        ]
        before = await bob.list_tools(cache_mode="bypass")
        assert received(await ada.call_tool("stock.activate", {}))["active"] == ["stock"]
        assert received(await again.call_tool("stock.count", {"item": "x"})) == {"item": "x", "shelf": 1}
        assert await names_of(again) == await names_of(ada)
        assert "stock.count" in await names_of(again)
        assert [prompt.name for prompt in (await again.list_prompts()).prompts] == ["stock.advise"]
        assert (await again.get_prompt("stock.advise")).messages
        assert (await again.read_resource("shop:///shelves")).contents
        assert await bob.list_tools(cache_mode="bypass") == before
        for request in (
            bob.call_tool("stock.count", {"item": "x"}),
            bob.get_prompt("stock.advise"),
            bob.read_resource("shop:///shelves"),
        ):
            with pytest.raises(MCPError, match="Unknown"):
                await request
        await again.call_tool("stock.deactivate", {})
        assert (await ada.list_tools(cache_mode="bypass")).tools == before.tools


@pytest.mark.spec("DEL-7")
async def test_lists_are_private_to_their_caller_and_no_tool_for_handles_is_offered() -> None:
    async with principals(make_shop()) as target, Client(target("ada"), mode=MODERN) as client:
        for page in (
            await client.list_tools(),
            await client.list_prompts(),
            await client.list_resources(),
            await client.list_resource_templates(),
        ):
            assert (page.cache_scope, page.ttl_ms) == ("private", 0)
        assert "call_tool" not in await names_of(client)


async def test_callers_are_told_apart_by_subject_client_and_issuer() -> None:
    async with served(build_server(make_shop(), delivery="principal")) as url, httpx2.AsyncClient() as http:

        async def send(token: str, method: str, **params: Any) -> str:
            headers = {**modern_headers(method, params.get("name")), "authorization": f"Bearer {token}"}
            return (await http.post(url, json=modern_body(method, params), headers=headers)).text

        assert "is open" in await send("app-here-ada", "tools/call", name="cash.activate", arguments={})
        for token, own in (("app-here-ada", True), ("other-here-ada", False), ("app-there-ada", False)):
            assert ('"cash.coins"' in await send(token, "tools/list")) == own
        assert '"cash.coins"' not in await send("app-here-bob", "tools/list")


@pytest.mark.spec("NTF-1", "NTF-2")
async def test_a_change_is_told_once_on_each_stream_of_its_caller_and_on_no_other() -> None:
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
            assert await heard_until_now(tools, first, second, other) == [changes, changes, 0], name


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
        assert await heard_until_now(tools, first, second, third) == [1, 1, 1]
        assert "brand_new" in await names_of(ada)


@pytest.mark.spec("NTF-3")
async def test_a_caller_that_comes_back_hears_again_and_streams_that_left_are_forgotten() -> None:
    tools = make_shop()
    async with principals(tools) as target:
        async with listening(target("ada")) as (ada, listener):
            await ada.call_tool("cash.activate", {})
            assert await heard_until_now(tools, listener) == [1]
        async with listening(target("ada")) as (ada, listener), listening(target("bob")) as (_, other):
            await ada.call_tool("credit.activate", {})
            assert await heard_until_now(tools, listener, other) == [1, 0]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_requests_are_refused_where_nobody_is_authenticated(transport: str) -> None:
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


async def test_a_request_without_a_token_does_not_reach_a_server_that_verifies_them() -> None:
    async with served(build_server(make_shop(), delivery="principal")) as url, httpx2.AsyncClient() as http:
        for method, name in (("tools/list", None), ("tools/call", "hello"), ("subscriptions/listen", None)):
            params = {"name": name, "arguments": {}} if name else {}
            response = await http.post(url, json=modern_body(method, params), headers=modern_headers(method, name))
            assert response.status_code == 401
            assert "Bearer" in response.headers["www-authenticate"]


@pytest.mark.spec("HOOK-9", "SES-3")
async def test_a_session_ends_after_its_lifetime_and_the_caller_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(deliveries_module, "time", SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0]))
    journal = Journal()
    tools = make_desk(journal)
    async with principals(tools, handle_lifetime=0.5) as target, listening(target("ada")) as (ada, listener):
        await ada.call_tool("database.activate", {})
        for _ in range(3):
            now[0] += 0.4
            assert "database.query" in await names_of(ada)
        assert await heard_until_now(tools, listener) == [1]
        now[0] += 0.6
        await journal.reaches(2)
        assert journal == ["database on", "database off"]
        await left(tools, 0)
        assert await heard_until_now(tools, listener) == [1]
        assert "database.query" not in await names_of(ada)
        assert len(tools.sessions) == 1


@pytest.mark.spec("SES-4", "SAF-4")
async def test_a_caller_that_comes_when_all_sessions_are_taken_is_refused_and_ends_nobodys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal, now = Journal(), [0.0]
    monkeypatch.setattr(deliveries_module, "time", SimpleNamespace(time=lambda: now[0], monotonic=lambda: now[0]))
    tools = make_desk(journal)
    limits = Limits(handles=Limit(2, 1, "end_idlest"))
    async with principals(tools, limits=limits, handle_lifetime=60) as target, AsyncExitStack() as stack:
        ada, bob, eve = [
            await stack.enter_async_context(Client(target(name), mode=MODERN)) for name in ("ada", "bob", "eve")
        ]
        await ada.call_tool("mode_a.activate", {})
        await bob.call_tool("database.activate", {})
        now[0] += 20
        refused = await eve.call_tool("database.activate", {})
        assert refused.is_error
        assert "The limit of 2 stored sessions in all is reached: try again in 40 seconds." in text_of(refused)
        with pytest.raises(MCPError, match="try again in 40 seconds") as unlisted:
            await names_of(eve)
        assert unlisted.value.data == {"retryAfter": 40}
        assert "mode_a.only_a" in await names_of(ada)
        assert "database.query" in await names_of(bob)
        assert journal == ["database on"]
        now[0] += 61
        assert not (await eve.call_tool("database.activate", {})).is_error
        await journal.reaches(3)
        assert sorted(journal) == ["database off", "database on", "database on"]


@pytest.mark.spec("HOOK-9")
async def test_sessions_end_with_the_server() -> None:
    journal = Journal()
    tools = make_desk(journal)
    async with principals(tools) as target:
        for name in ("ada", "bob"):
            async with Client(target(name), mode=MODERN) as client:
                await client.call_tool("database.activate", {})
    assert sorted(journal) == ["database off", "database off", "database on", "database on"]
    assert not tools.sessions


@pytest.mark.spec("SES-2", "HOOK-1", "DEL-4")
async def test_first_requests_at_once_share_one_session_and_no_caller_waits_for_anothers_hooks() -> None:
    tools = ToolSet("slow", run_in_thread=False)
    journal, blocked, go_on = Journal(), anyio.Event(), anyio.Event()

    async def wait() -> None:
        journal.append("on")
        if len(journal) == 1:
            blocked.set()
            await go_on.wait()

    tools.register_group("start", on_activate=wait)
    tools.register("ping", lambda: "pong")
    async with principals(tools, active=["start"]) as target, AsyncExitStack() as stack:
        ada, bob = [await stack.enter_async_context(Client(target(name), mode=MODERN)) for name in ("ada", "bob")]
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(names_of, ada)
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
                assert text_of(await bob.call_tool("ping", {})) == "pong"
            go_on.set()
        assert journal == ["on", "on"]
        assert len(tools.sessions) == 2


async def test_legacy_callers_have_a_session_for_each_connection() -> None:
    async with (
        principals(make_shop()) as target,
        Client(target("ada"), mode="legacy") as ada,
        Client(target("ada"), mode="legacy") as again,
    ):
        await ada.call_tool("cash.activate", {})
        assert "cash.coins" in await names_of(ada)
        assert "cash.coins" not in await names_of(again)
