"""Disclosure by the draft extension over HTTP (SPEC DEL-5)."""

from __future__ import annotations

import anyio
import mcp_types as types
import pytest

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import (
    PATIENCE,
    client_of,
    over_http,
    target_of,
)
from tests.adapters.mcp.test_disclosure import (
    AROUND,
    DECLARED,
    make_lab,
    refusal_of,
)
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from tests.adapters.mcp.test_stored_handles import Journal

pytestmark = pytest.mark.spec("DEL-5")


@pytest.mark.spec("HOOK-5", "HOOK-6", "HOOK-9", "DEL-9")
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_hooks_of_the_group_are_undone_when_a_call_is_cancelled(transport: str) -> None:
    journal, blocked = Journal(), anyio.Event()
    tools = make_lab(journal, blocked)
    async with target_of(transport, tools) as target, client_of(target, MODERN, extensions=DECLARED) as (client, _):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.call_tool, "outer.inner.work", {"how": "block"})
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
            tasks.cancel_scope.cancel()
        await journal.reaches(len(AROUND))
        assert journal == AROUND
        assert not tools.sessions


@pytest.mark.spec("ACT-10", "DEL-4")
async def test_an_impossible_selection_is_refused() -> None:
    async with over_http(make_shop()) as url:
        async with client_of(f"{url}?groups=cash,credit", MODERN, extensions=DECLARED) as (client, _):
            refused = await client.call_tool("hello", {})
            assert refused.is_error
            assert "can't be active together" in text_of(refused)
            assert (await refusal_of(client, "groups/list")).code == types.INVALID_PARAMS
        async with client_of(f"{url}?groups=cash", MODERN, extensions=DECLARED) as (client, _):
            assert text_of(await client.call_tool("credit.card", {})) == "card"
