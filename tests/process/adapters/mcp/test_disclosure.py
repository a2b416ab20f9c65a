"""Disclosure by the draft extension over HTTP and stdio (SPEC DEL-5)."""

from __future__ import annotations

import anyio
import pytest

from tests.adapters.mcp.shop import shop_over
from tests.adapters.mcp.support import (
    PATIENCE,
    client_of,
    target_of,
)
from tests.adapters.mcp.test_disclosed_views import (
    a_shop_is_disclosed,
    declared_at_once,
)
from tests.adapters.mcp.test_disclosure import (
    AROUND,
    DECLARED,
    make_lab,
)
from tests.adapters.mcp.test_handle_delivery import MODERN
from tests.adapters.mcp.test_stored_handles import Journal

pytestmark = pytest.mark.spec("DEL-5")
__all__ = ["declared_at_once"]


@pytest.mark.usefixtures("declared_at_once")
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_both_eras_are_served_over_both_transports(transport: str, era: str) -> None:
    async with shop_over(transport) as target, client_of(target, era, extensions=DECLARED) as (client, _):
        await a_shop_is_disclosed(client)


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
