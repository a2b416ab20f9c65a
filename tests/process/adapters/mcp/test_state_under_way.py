"""State that changes while requests over HTTP are under way."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import PATIENCE, client_of, over_http
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, text_of, through
from tests.adapters.mcp.test_state_under_way import inheriting
from toolfold import Session


async def _close(owner: Session) -> None:
    await owner.close()


async def _deactivate(owner: Session) -> None:
    await owner.deactivate("shared")


@pytest.mark.spec("DEL-3", "DEL-4", "HOOK-1", "VIS-5")
@pytest.mark.parametrize("tear_down", [_close, _deactivate])
async def test_a_handle_is_refused_once_a_group_that_it_inherits_is_torn_down(tear_down: Any) -> None:
    tools, journal = inheriting()
    async with over_http(tools) as url, client_of(f"{url}?groups=shared", MODERN) as (client, _):
        handle = await opened(client, "own")
        assert text_of(await through(client, "shared.ask", {}, handle)) == "answer"
        assert journal == ["shared on", "own on"]
        owner = next(session for session in tools.sessions if session.active == ("shared",))
        await tear_down(owner)
        for name in ("shared.ask", "own.ask"):
            refused = await through(client, name, {}, handle)
            assert refused.is_error
            assert "Activate the groups that you need again" in text_of(refused)
        with pytest.raises(MCPError, match="Activate the groups"):
            await listed_under(client, handle)
        await journal.reaches(4)
        assert journal == ["shared on", "own on", "shared off", "own off"]
        again = await opened(client, "own")
        assert journal[4:] == ["shared on", "own on"]
        assert text_of(await through(client, "shared.ask", {}, again)) == "answer"


@pytest.mark.spec("HOOK-6", "DEL-4")
async def test_a_hook_that_hangs_delays_only_the_requests_that_select_its_group() -> None:
    tools, journal = inheriting()
    arrived, leave = anyio.Event(), anyio.Event()

    async def hang() -> None:
        arrived.set()
        await leave.wait()

    tools.register_group("slow", on_activate=hang)
    async with (
        over_http(tools) as url,
        client_of(f"{url}?groups=slow", MODERN) as (slow, _),
        client_of(f"{url}?groups=shared", MODERN) as (client, _),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(slow.call_tool, "own.activate", {})
        with anyio.fail_after(PATIENCE):
            await arrived.wait()
            assert text_of(await client.call_tool("shared.ask", {})) == "answer"
        assert journal == ["shared on"]
        leave.set()
