"""Stored handles over stdio and HTTP."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, client_of, over_http, stdio_desk
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, received
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold import ToolSet

pytestmark = pytest.mark.spec("DEL-3")


@pytest.mark.spec("HOOK-9", "SES-3")
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_hooks_run_when_the_client_of_a_process_leaves(era: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    async with client_of(stdio_desk(str(log)), era) as (client, _):
        await client.call_tool("database.activate", {})
    assert log.read_text().splitlines() == ["database on", "database off"]


@pytest.mark.spec("HOOK-5", "HOOK-6")
async def test_a_cancelled_activation_is_undone_and_its_handle_goes_on() -> None:
    tools, journal, blocked = ToolSet("slow", run_in_thread=False), Journal(), anyio.Event()

    async def wait() -> None:
        blocked.set()
        await anyio.sleep_forever()

    tools.register_group("a", on_activate=lambda: journal.append("on"), on_deactivate=lambda: journal.append("off"))
    tools.register_group("b", parent="a", on_activate=wait)
    async with over_http(tools) as url, client_of(url, MODERN) as (client, _):
        handle = await opened(client, "a")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "a.b.activate", {"handle": handle})
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):  # waits for its turn after the transition that is undone
            answer = received(await client.call_tool("a.activate", {"handle": handle}))
        assert (answer["changed"], answer["active"]) == (False, ["a"])
        assert journal == ["on"]


@pytest.mark.spec("SES-2", "HOOK-1")
async def test_concurrent_requests_of_one_handle_run_one_after_the_other() -> None:
    journal = Journal()
    async with over_http(make_desk(journal)) as url, client_of(url, MODERN) as (client, _):
        handle = await opened(client, "mode_a")
        async with anyio.create_task_group() as tasks:
            for name in ("database.activate",) * 5 + ("mode_b.activate",) * 3:
                tasks.start_soon(client.call_tool, name, {"handle": handle})
        assert journal == ["database on"]
        answer = received(await client.call_tool("mode_b.activate", {"handle": handle}))
        assert answer["active"] == ["database", "mode_b"]
