"""Principal delivery: each authenticated caller has its own session and its own lists (SPEC DEL-6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import callers_of, endpoint_of
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import (
    PATIENCE,
    build_server,
    names_of,
)
from tests.adapters.mcp.test_handle_delivery import MODERN, received, text_of
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold import Created, Place, ToolSet
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.mcp import handlers as handlers_module
from toolfold_adapters.stores import MemoryStore

pytestmark = pytest.mark.spec("DEL-6")


@asynccontextmanager
async def principals(tools: ToolSet, **options: Any) -> AsyncGenerator[Callable[[str], Any]]:
    """Serve by caller, and yield what a client of each caller connects to."""
    async with callers_of(build_server(tools, delivery="principal", **options)) as target:
        yield target


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


async def test_callers_are_distinguished_by_subject_client_and_issuer() -> None:
    async with endpoint_of(build_server(make_shop(), delivery="principal"), authenticated=True) as endpoint:

        async def send(token: str, method: str, **params: Any) -> str:
            return (await endpoint.post(method, params, headers={"authorization": f"Bearer {token}"})).text

        assert "is open" in await send("app-here-ada", "tools/call", name="cash.activate", arguments={})
        for token, own in (("app-here-ada", True), ("other-here-ada", False), ("app-there-ada", False)):
            assert ('"cash.coins"' in await send(token, "tools/list")) == own
        assert '"cash.coins"' not in await send("app-here-bob", "tools/list")


async def test_a_request_without_a_token_does_not_reach_a_server_that_verifies_them() -> None:
    async with endpoint_of(build_server(make_shop(), delivery="principal"), authenticated=True) as endpoint:
        for method, name in (("tools/list", None), ("tools/call", "hello"), ("subscriptions/listen", None)):
            response = await endpoint.post(method, {"name": name, "arguments": {}} if name else {})
            assert response.status_code == 401
            assert "Bearer" in response.headers["www-authenticate"]


class Noting(MemoryStore):
    """A store that notes what is created in it."""

    def __init__(self) -> None:
        super().__init__()
        self.created: list[str] = []

    async def create(self, key: str, data: object, place: Place, lifetime: float) -> Created:
        self.created.append(key)
        return await super().create(key, data, place, lifetime)


@pytest.mark.spec("STO-5", "STO-8")
@pytest.mark.parametrize("lists", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_caller_whose_record_is_damaged_is_told_once_and_goes_on(restarted: bool, lists: bool) -> None:
    store, hooks = Noting(), Journal()
    async with principals(make_desk(hooks), store=store) as target, Client(target("ada"), mode=MODERN) as ada:
        await ada.call_tool("database.activate", {})
        (key,) = store.created
        found = await store.read(key)
        assert found is not None
        assert await store.swap(key, found.version, "nonsense")
        if not restarted:
            await goes_on(ada, lists=lists)
            assert hooks == ["database on", "database off", "database on"]
    if restarted:
        async with principals(make_desk(), store=store) as target, Client(target("ada"), mode=MODERN) as ada:
            await goes_on(ada, lists=lists)


async def goes_on(ada: Client, *, lists: bool) -> None:
    """Fail unless a caller that has lost its groups is told so by its first call, and goes on."""
    if lists:
        assert "database.query" not in await names_of(ada)
    lost = await ada.call_tool("database.query", {"sql": "x"})
    assert lost.is_error
    assert "Open the groups that you need again" in text_of(lost)
    assert received(await ada.call_tool("database.activate", {}))["active"] == ["database"]
    assert received(await ada.call_tool("database.query", {"sql": "x"})) == {"ran": "x"}


@pytest.mark.spec("SES-4", "SAF-4")
async def test_a_caller_that_comes_when_all_sessions_are_taken_is_refused_and_ends_no_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal, now = Journal(), [0.0]
    monkeypatch.setattr(handlers_module, "time", SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr(handlers_module, "elapsed", lambda: now[0])
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
