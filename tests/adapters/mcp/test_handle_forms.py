"""What handles look like, what is said when a newer catalog discards some of theirs, and what is no handle (DEL-3)."""

from __future__ import annotations

import re
from contextlib import AsyncExitStack
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server, client_of
from tests.adapters.mcp.test_handle_delivery import KEY, MODERN, listed_under, opened, received, text_of, through
from toolfold import ConfigError, Context, ToolSet
from toolfold_adapters.mcp.address.signed import KEY_VARIABLE, NAMELESS
from toolfold_adapters.names import DISCARDED_META, HANDLE_META

pytestmark = pytest.mark.spec("DEL-3")


SAID = "No longer open, because this server's groups have changed: cash."


def is_short(handle: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9_-]{22}", handle) is not None


async def test_a_state_that_would_make_too_long_a_handle_is_stored_under_a_short_one() -> None:
    tools = make_shop()

    @tools.tool()
    def note(text: str, context: Context) -> str:
        """Take a note."""
        context.session.set_fact("note", text)
        return "noted"

    @tools.tool()
    def recall(context: Context) -> int:
        """Return how long the note is."""
        return len(context.session.facts["note"])

    async with client_of(build_server(tools), MODERN) as (client, _):
        for length in (100, 5_000, 50_000):
            handle = ((await client.call_tool("note", {"text": "n" * length})).meta or {})[HANDLE_META]
            assert is_short(handle) is (length > 4_096)
            assert text_of(await through(client, "recall", {}, handle)) == str(length)
            under = await opened(client, "stock", handle)
            assert "stock.count" in await listed_under(client, under)


async def test_an_author_can_have_short_handles_without_hooks_too() -> None:
    tools = make_shop()
    async with client_of(build_server(tools, handles="stored"), MODERN) as (client, _):
        handle = await opened(client, "stock")
        assert is_short(handle)
        assert received(await through(client, "stock.count", {"item": "x"}, handle)) == {"item": "x", "shelf": 1}
        assert await opened(client, "cash", handle) == handle
        assert "cash.coins" in await listed_under(client, handle)
        assert (await through(client, "hello", {}, handle[:-1] + ("a" if handle[-1] != "a" else "b"))).is_error
        assert len(tools.sessions) == 1
    assert not tools.sessions
    with pytest.raises(ConfigError, match='handles must be "auto" or "stored"'):
        build_server(make_shop(), handles="short")


@pytest.mark.spec("HOOK-1")
async def test_a_signed_handle_does_not_open_a_group_that_has_hooks_by_now() -> None:
    tools, ran = make_shop(), list[str]()
    async with client_of(build_server(tools), MODERN) as (client, _):
        handle = await opened(client, "cash")
        await tools.unregister_group("cash")
        tools.register_group("cash", on_activate=lambda: ran.append("on"))
        tools.register("coins", lambda: "coins", group="cash", description="Pay.")
        refused = await through(client, "cash.coins", {}, handle)
        assert refused.is_error
        assert "Open the groups that you need again" in text_of(refused)
        assert ran == []


# -- what a newer catalog discards ------------------------------------------------------------------------------------


@pytest.mark.spec("PER-2", "REG-5")
@pytest.mark.parametrize("handles", ["auto", "stored"])
async def test_what_a_newer_catalog_lacks_of_a_handle_is_said_in_the_next_answer_and_in_lists(handles: str) -> None:
    tools = make_shop()
    async with client_of(build_server(tools, handles=handles), MODERN) as (client, _):
        handle = await opened(client, "cash", await opened(client, "stock"))
        meta: Any = {HANDLE_META: handle}
        assert DISCARDED_META not in ((await client.list_tools(meta=meta)).meta or {})
        await tools.unregister_group("cash")
        assert ((await client.list_tools(meta=meta)).meta or {})[DISCARDED_META] == ["cash"]
        missed = await through(client, "cash.coins", {}, handle)
        assert missed.is_error
        assert (missed.meta or {})[DISCARDED_META] == ["cash"]
        assert missed.content[-1].text == SAID  # type: ignore[union-attr]
        again = await through(client, "hello", {}, handle)  # of a signed handle nothing remembers the answer before
        assert (DISCARDED_META in (again.meta or {})) is (handles == "auto")


@pytest.mark.spec("PER-2", "REG-3")
async def test_what_a_newer_catalog_excludes_of_a_handle_is_said() -> None:
    tools = make_shop()
    async with client_of(build_server(tools), MODERN) as (client, _):
        handle = await opened(client, "cash", await opened(client, "stock.orders", await opened(client, "stock")))
        tools.register_exclusion("cash", "stock")
        answer = await through(client, "hello", {}, handle)
        assert (answer.meta or {})[DISCARDED_META] == ["stock", "stock.orders"]
        assert text_of(answer).startswith("hello")
        assert "cash.coins" in await listed_under(client, handle)


@pytest.mark.spec("PER-2")
async def test_a_group_that_another_process_had_is_said_to_be_gone_without_its_name() -> None:
    less = ToolSet("shop")
    less.register_group("stock")
    less.register("hello", lambda: "hello", description="Say hello.")
    async with (
        client_of(build_server(make_shop(), handle_key=KEY), MODERN) as (before, _),
        client_of(build_server(less, handle_key=KEY), MODERN) as (client, _),
    ):
        handle = await opened(before, "cash", await opened(before, "stock"))
        answer = await through(client, "hello", {}, handle)
        assert (answer.meta or {})[DISCARDED_META] == [NAMELESS]
        assert "changed: a group that no longer exists." in answer.content[-1].text  # type: ignore[union-attr]


# -- what is no handle ------------------------------------------------------------------------------------------------


@pytest.mark.spec("DEL-11")
@pytest.mark.parametrize("given", [7, ["x"], {"a": 1}, True])
async def test_a_handle_in_meta_that_is_no_text_is_refused_and_never_passed_over(given: Any) -> None:
    ran = list[str]()
    async with client_of(build_server(make_shop(ran)), MODERN) as (client, _):
        meta: Any = {HANDLE_META: given}
        for asked in (
            client.list_tools(meta=meta),
            client.list_prompts(meta=meta),
            client.get_prompt("stock.advise", meta=meta),
        ):
            with pytest.raises(MCPError, match="not a string") as refused:
                await asked
            assert refused.value.code == -32602
        called = await client.call_tool("hello", {}, meta=meta)
        assert called.is_error
        assert "not a string" in text_of(called)
        assert ran == []


@pytest.mark.spec("DEL-11", "DEL-7")
async def test_an_empty_text_is_no_handle() -> None:
    async with client_of(build_server(make_desk()), MODERN) as (client, _):
        meta: Any = {HANDLE_META: ""}
        page = await client.list_tools(meta=meta)
        assert page.cache_scope == "public"
        assert text_of(await client.call_tool("ping", {}, meta=meta)) == "pong"
        assert text_of(await through(client, "ping", {}, "")) == "pong"


@pytest.mark.spec("DEL-3", "DEL-7", "DEL-11")
async def test_servers_that_share_a_key_of_the_environment_serve_one_conversation_and_others_refuse_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    servers = []
    for key in ("shared" * 4, "shared" * 4, "another" * 4):
        monkeypatch.setenv(KEY_VARIABLE, key)
        servers.append(build_server(make_shop()))
    async with AsyncExitStack() as stack:
        one, other, stranger = [await stack.enter_async_context(Client(server, mode=MODERN)) for server in servers]
        handle = await opened(one, "stock")
        assert received(await through(other, "stock.count", {"item": "x"}, handle)) == {"item": "x", "shelf": 1}
        handle = await opened(other, "cash", handle)
        assert await listed_under(one, handle) == await listed_under(other, handle)
        swapped = received(await other.call_tool("credit.activate", {"handle": handle}))
        assert (swapped["displaced"], swapped["active"]) == (["cash"], ["credit", "stock"])
        assert text_of(await through(one, "credit.card", {}, swapped["handle"])) == "card"
        assert "not made by this server" in text_of(await through(stranger, "stock.count", {"item": "x"}, handle))
        with pytest.raises(MCPError, match="Open the groups that you need again"):
            await listed_under(stranger, handle)
