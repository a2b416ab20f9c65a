"""Session delivery: a list of one's own, and one notification for each change (SPEC DEL-1, NTF)."""

from __future__ import annotations

import anyio
import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    CHANGED,
    build_server,
    client_of,
    names_of,
    target_of,
)
from toolfold import Context, ToolSet
from toolfold_adapters.mcp.address.legacy import MAX_WAITING


@pytest.mark.spec("NTF-4")
async def test_legacy_clients_are_promised_notifications_of_lists() -> None:
    async with target_of("memory", make_desk()) as target, client_of(target, "legacy") as (client, _):
        capabilities = client.server_capabilities
        assert capabilities.tools is not None
        assert capabilities.tools.list_changed is True
        assert capabilities.prompts is not None
        assert capabilities.prompts.list_changed is True


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
