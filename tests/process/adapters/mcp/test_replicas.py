"""Several servers for one conversation, many clients on one server, and clients that vanish (SPEC DEL-1, DEL-3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.shop import SHOP
from tests.adapters.mcp.support import PATIENCE, client_of, names_of, target_of
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of, through
from tests.adapters.mcp.test_stored_handles import Journal
from tests.preloaded import forked
from tests.process.serving import ENVIRONMENT, serving
from toolfold import Context, ToolSet
from toolfold_adapters.mcp.handles import KEY_VARIABLE


@asynccontextmanager
async def process_of(key: str | None) -> AsyncGenerator[str]:
    """Start a shop over HTTP in a process of its own that has `key` in its environment, and yield its URL."""
    environment = {**ENVIRONMENT, KEY_VARIABLE: key or ""}
    async with serving(forked(str(SHOP), "http"), environment=environment) as (_, url):
        yield url.strip()


@pytest.mark.spec("DEL-3", "DEL-11", "DEL-7")
async def test_servers_that_share_a_key_serve_one_conversation_and_others_refuse_it() -> None:
    key = "a key of more than sixteen letters".replace(" ", "-")
    async with AsyncExitStack() as stack:
        urls = [await stack.enter_async_context(process_of(given)) for given in (key, key, key[::-1], None)]
        clients = [await stack.enter_async_context(Client(url, mode=MODERN)) for url in urls]
        one, other, *strangers = clients
        handle = await opened(one, "stock")
        assert received(await through(other, "stock.count", {"item": "x"}, handle)) == {"item": "x", "shelf": 1}
        handle = await opened(other, "stock.orders", handle)
        assert text_of(await through(one, "stock.orders.place", {"items": {"nails": 1}}, handle)) == "1"
        handle = await opened(one, "cash", handle)
        assert await listed_under(one, handle) == await listed_under(other, handle)
        swapped = received(await other.call_tool("credit.activate", {"handle": handle}))
        assert (swapped["displaced"], swapped["active"]) == (["cash"], ["credit", "stock", "stock.orders"])
        assert text_of(await through(one, "credit.card", {}, swapped["handle"])) == "card"
        for stranger in strangers:
            refused = await through(stranger, "stock.count", {"item": "x"}, handle)
            assert refused.is_error
            assert "not made by this server" in text_of(refused)
            with pytest.raises(MCPError, match="Activate the groups that you need again"):
                await listed_under(stranger, handle)
        assert await names_of(one) == await names_of(other) == await names_of(strangers[0])


def blocking_tools(journal: Journal, blocked: anyio.Event) -> ToolSet:
    """Return a tool set with a transition of two groups, of which the second never gets ready."""

    async def block() -> None:
        blocked.set()
        await anyio.sleep_forever()

    def noting(name: str) -> dict[str, Any]:
        return {
            "on_activate": lambda: journal.append(f"{name} on"),
            "on_deactivate": lambda: journal.append(f"{name} off"),
        }

    tools = ToolSet("blocking", run_in_thread=False)
    tools.register_group("first", **noting("first"))
    tools.register_group("outer", **noting("outer"))
    tools.register_group("inner", parent="outer", on_activate=block)

    @tools.tool()
    async def open_both(context: Context) -> str:
        await context.session.transition(activate=["outer", "outer.inner"])
        return "opened"

    return tools


@pytest.mark.spec("HOOK-5", "HOOK-6", "HOOK-9", "SES-3")
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_an_activation_is_undone_and_the_session_ended_when_its_client_leaves_meanwhile(transport: str) -> None:
    journal, blocked = Journal(), anyio.Event()
    tools = blocking_tools(journal, blocked)

    async def call(client: Client) -> None:
        with suppress(MCPError, anyio.ClosedResourceError):  # the connection is closed before an answer
            await client.call_tool("open_both", {})

    async with target_of(transport, tools) as target, anyio.create_task_group() as tasks:
        async with client_of(target, "legacy") as (client, _):
            await client.call_tool("first.activate", {})
            tasks.start_soon(call, client)
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
        await journal.reaches(4)
        assert journal == ["first on", "outer on", "outer off", "first off"]
    assert not tools.sessions
