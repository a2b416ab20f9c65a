"""Session delivery: a list of one's own, and one notification for each change (SPEC DEL-1, NTF)."""

from __future__ import annotations

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    CHANGED,
    build_server,
    change_of,
    client_of,
    names_of,
    target_of,
)
from toolfold import Context, ToolSet
from toolfold_adapters.mcp.delivery.legacy import MAX_WAITING


@pytest.mark.spec("DEL-1", "NTF-1", "CTL-4", "CALL-1")
async def test_a_client_opens_calls_and_closes_a_group_and_is_notified_of_each_change_once() -> None:
    async with target_of("memory", make_desk()) as target, client_of(target, "legacy") as (client, listener):
        assert "database.query" not in await names_of(client)
        with pytest.raises(MCPError, match=r"Unknown tool: database\.query") as refused:
            await client.call_tool("database.query", {"sql": "select 1"})
        assert refused.value.code == -32602

        opened = await client.call_tool("database.activate", {})
        assert change_of(opened) == {
            "group": "database",
            "changed": True,
            "active": ["database"],
            "displaced": [],
            "tools": ["database.query"],
        }
        assert await listener.next() == CHANGED
        assert "database.query" in await names_of(client)
        answer = await client.call_tool("database.query", {"sql": "select 1"})
        assert answer.structured_content == {"ran": "select 1"}

        await client.call_tool("database.activate", {})
        await client.call_tool("database.deactivate", {})
        assert await listener.next() == CHANGED
        assert "database.query" not in await names_of(client)
        assert listener.changes == 2


@pytest.mark.spec("NTF-1", "ACT-4")
async def test_a_displacement_is_one_change_and_a_refusal_none() -> None:
    async with target_of("memory", make_desk()) as target, client_of(target, "legacy") as (client, listener):
        await client.call_tool("mode_a.activate", {})
        swapped = await client.call_tool("mode_b.activate", {})
        refused = await client.call_tool("vault.activate", {})
        assert change_of(swapped)["displaced"] == ["mode_a"]
        assert refused.is_error
        assert "the key is missing" in refused.content[0].text  # type: ignore[union-attr]
        await client.call_tool("ping", {})
        assert listener.changes == 2
        assert {"mode_b.only_b"} == {name for name in await names_of(client) if "only" in name}


@pytest.mark.spec("NTF-4")
async def test_legacy_clients_are_promised_notifications_of_lists() -> None:
    async with target_of("memory", make_desk()) as target, client_of(target, "legacy") as (client, _):
        capabilities = client.server_capabilities
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True
        assert capabilities.prompts is not None
        assert capabilities.prompts.list_changed is True


@pytest.mark.spec("DEL-1", "CALL-5")
async def test_a_handler_that_opens_a_group_notifies_once() -> None:
    async with target_of("memory", make_desk()) as target, client_of(target, "legacy") as (client, listener):
        await client.call_tool("open_database", {})
        await client.call_tool("ping", {})
        assert listener.changes == 1
        assert "database.query" in await names_of(client)


@pytest.mark.spec("NTF-1", "CALL-5")
async def test_each_change_in_one_request_is_notified_of() -> None:
    tools = make_desk()

    @tools.tool()
    async def swap(context: Context) -> None:
        """Open one mode and then the other, which displaces it."""
        await context.activate("mode_a")
        await context.activate("mode_b")

    async with target_of("memory", tools) as target, client_of(target, "legacy") as (client, listener):
        await client.call_tool("swap", {})
        assert [await listener.next() for _ in range(2)] == [CHANGED] * 2
        await client.call_tool("ping", {})
        assert listener.changes == 2


@pytest.mark.spec("NTF-1", "NTF-2", "SAF-4")
async def test_notifications_are_merged_only_while_others_wait_to_be_sent() -> None:
    tools = make_desk()
    async with client_of(build_server(tools), "legacy") as (client, listener):
        await client.list_tools()
        for _ in range(3):
            tools.notify_list_changed()
        assert [await listener.next() for _ in range(3)] == [CHANGED] * 3
        for _ in range(500):
            tools.notify_list_changed()
        tools.notify_list_changed({"prompt"})
        while await listener.next() == CHANGED:
            pass
        assert listener.changes == 3 + MAX_WAITING


@pytest.mark.spec("NTF-3", "SES-5")
async def test_a_background_task_of_a_handler_can_notify_after_its_call_has_ended() -> None:
    tools = ToolSet("late")
    proceed, tasks_of = anyio.Event(), []
    tools.register_group("late", "Opened late")
    tools.register("inside", lambda: "in", group="late", input_schema={"type": "object"})

    async with anyio.create_task_group() as tasks:

        async def later(context: Context) -> None:
            await proceed.wait()
            await context.activate("late")

        @tools.tool()
        async def begin(context: Context) -> str:
            tasks_of.append(tasks.start_soon(later, context))
            return "begun"

        async with client_of(build_server(tools), "legacy") as (client, listener):
            await client.call_tool("begin", {})
            assert listener.changes == 0
            proceed.set()
            assert await listener.next() == CHANGED


@pytest.mark.spec("SES-3", "HOOK-9")
async def test_hooks_run_when_a_client_leaves() -> None:
    events: list[str] = []
    tools = make_desk(events)
    async with client_of(build_server(tools), "legacy") as (client, _):
        await client.call_tool("database.activate", {})
    assert events == ["database on", "database off"]
    assert tools.sessions == ()


@pytest.mark.spec("SES-3")
async def test_an_idle_session_ends_and_the_next_request_begins_a_new_one() -> None:
    now = [0.0]
    tools = make_desk(idle_timeout=60, clock=lambda: now[0])
    async with client_of(build_server(tools), "legacy") as (client, listener):
        await client.call_tool("database.activate", {})
        now[0] = 61
        assert await tools.end_idle_sessions() == 1
        assert await listener.next() == CHANGED
        assert await listener.next() == CHANGED
        assert "database.query" not in await names_of(client)
        assert len(tools.sessions) == 1
