"""Delivery by handles over HTTP: cancellation reaches the handler (SPEC DEL-9)."""

from __future__ import annotations

import anyio
import pytest

from tests.adapters.mcp.support import PATIENCE, client_of, target_of
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, through
from toolfold import ToolSet

pytestmark = pytest.mark.spec("DEL-2")


@pytest.mark.spec("DEL-9")
@pytest.mark.parametrize("transport", ["memory", "http"])
async def test_a_cancelled_call_through_is_cancelled_in_the_handler(transport: str) -> None:
    tools, blocked, ended = ToolSet("slow"), anyio.Event(), anyio.Event()
    tools.register_group("slow")

    @tools.tool(group="slow")
    async def wait() -> None:
        blocked.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    async with target_of(transport, tools) as target, client_of(target, MODERN) as (client, _):
        handle = await opened(client, "slow")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(through, client, "slow.wait", {}, handle)
            with anyio.fail_after(PATIENCE):
                await blocked.wait()
            tasks.cancel_scope.cancel()
        with anyio.fail_after(PATIENCE):
            await ended.wait()
