"""Sessions of the legacy era over stdio and HTTP (SPEC DEL-1)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    CHANGED,
    PATIENCE,
    RawLegacy,
    client_of,
    names_of,
    over_http,
    target_of,
)
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold import Context, ToolSet
from toolfold_adapters.mcp.address.legacy import MAX_WAITING
from toolfold_adapters.stores import MemoryStore


@pytest.mark.spec("DEL-1", "NTF-2", "NTF-3")
async def test_a_change_outside_of_a_request_goes_out_on_the_standing_stream_or_with_the_next_request() -> None:
    tools = make_desk()
    async with over_http(tools) as url, httpx2.AsyncClient() as http:
        raw = RawLegacy(http, url)
        await raw.initialize()
        await raw.request("tools/list")
        async with client_of(url, "legacy") as (client, listener):
            await client.list_tools()
            tools.notify_list_changed()
            assert await listener.next() == CHANGED
            await client.call_tool("ping", {})
            assert listener.changes == 1
        late = await raw.request("tools/call", {"name": "ping", "arguments": {}})
        assert [message.get("method") for message in late] == [CHANGED, None]
        assert [message.get("method") for message in await raw.request("tools/list")] == [None]


@pytest.mark.spec("NTF-1", "SAF-4", "STO-7")
async def test_changes_that_a_client_misses_are_pending_as_one_notification_for_each_kind_of_list() -> None:
    tools = make_desk()
    async with over_http(tools) as url, httpx2.AsyncClient() as http:
        client = RawLegacy(http, url)
        await client.initialize()
        await client.request("tools/list")
        for _ in range(1000):
            tools.notify_list_changed()
            tools.notify_list_changed({"prompt", "resource", "resource_template"})
        late = await client.request("tools/call", {"name": "ping", "arguments": {}})
        assert sorted(message.get("method", "") for message in late) == [
            "",
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
            CHANGED,
        ]
        assert [message.get("method") for message in await client.request("tools/list")] == [None]


@pytest.mark.spec("NTF-1", "SAF-4")
@pytest.mark.parametrize(
    ("transport", "options"),
    [("memory", {}), ("http", {}), ("http", {"store": MemoryStore()})],
    ids=["memory", "http", "http with a store"],
)
async def test_each_transition_of_one_call_is_notified_and_a_call_of_a_great_many_a_bounded_number_of_times(
    transport: str, options: dict[str, Any]
) -> None:
    tools = make_desk()

    @tools.tool()
    async def swing(times: int, context: Context) -> str:
        for _ in range(times):
            await context.activate("mode_a")
            await context.activate("mode_b")
        return "still"

    async with target_of(transport, tools, **options) as target, client_of(target, "legacy") as (client, listener):
        await client.call_tool("swing", {"times": 2})
        assert listener.changes == 4
        await client.call_tool("swing", {"times": 500})
        assert 4 < listener.changes <= 4 + MAX_WAITING
        assert "mode_b.only_b" in await names_of(client)


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
    tools.register("inside", lambda: "in", group="outer", input_schema={"type": "object"})

    @tools.tool()
    async def open_both(context: Context) -> str:
        await context.session.transition(activate=["outer", "outer.inner"])
        return "opened"

    return tools


@pytest.mark.spec("HOOK-5", "HOOK-6", "HOOK-9", "SES-3", "DEL-1")
@pytest.mark.parametrize("leaves", [False, True], ids=["cancelled", "left"])
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_an_activation_that_is_cancelled_or_whose_client_leaves_is_undone_and_nothing_is_said(
    transport: str, leaves: bool
) -> None:
    journal, blocked, calling = Journal(), anyio.Event(), anyio.CancelScope()
    tools = blocking_tools(journal, blocked)

    async def call(client: Client) -> None:
        with calling, suppress(MCPError, anyio.ClosedResourceError):  # the connection is closed before an answer
            await client.call_tool("open_both", {})

    async with target_of(transport, tools) as target, anyio.create_task_group() as tasks:
        async with client_of(target, "legacy") as (client, listener):
            await names_of(client)
            await client.call_tool("first.activate", {})
            tasks.start_soon(call, client)
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
            if not leaves:
                calling.cancel()
                await journal.reaches(3)
                assert "outer.inside" not in await names_of(client)
                assert listener.changes == 0
        await journal.reaches(4)
        assert journal == ["first on", "outer on", "outer off", "first off"]
    assert not tools.sessions
