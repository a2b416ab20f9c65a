"""Sessions of the legacy era over stdio and HTTP (SPEC DEL-1)."""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import pytest

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
from toolfold import Context, ToolSet
from toolfold_adapters.mcp.delivery.legacy import MAX_WAITING
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


@pytest.mark.spec("HOOK-6", "HOOK-5", "DEL-1")
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_cancelled_activation_is_undone_and_nothing_is_said(transport: str) -> None:
    tools, events, blocked = ToolSet("slow"), list[str](), anyio.Event()
    undone = anyio.Event()

    async def wait() -> None:
        blocked.set()
        await anyio.sleep_forever()

    async def off() -> None:
        events.append("off")
        undone.set()

    tools.register_group("a", "Quick", on_activate=lambda: events.append("on"), on_deactivate=off)
    tools.register_group("b", "Never ready", parent="a", on_activate=wait)
    tools.register("both", _activate_both, input_schema={"type": "object"})
    tools.register("inside", lambda: "in", group="a", input_schema={"type": "object"})
    async with target_of(transport, tools) as target, client_of(target, "legacy") as (client, listener):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "both", {})
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            await undone.wait()
        assert events == ["on", "off"]
        assert "a.inside" not in await names_of(client)
        assert listener.changes == 0


async def _activate_both(arguments: dict[str, Any], context: Context) -> str:
    await context.session.transition(activate=["a", "a.b"])
    return "opened"
