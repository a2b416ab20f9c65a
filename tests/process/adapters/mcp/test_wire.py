"""What every transport does alike in both eras."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import change_of, client_of, target_of
from tests.adapters.mcp.test_wire import ERAS


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_progress_reaches_the_caller(transport: str, era: str) -> None:
    notified: list[tuple[float, float | None, str | None]] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        notified.append((progress, total, message))

    async with target_of(transport, make_desk()) as target, client_of(target, era) as (client, _):
        opened = await client.call_tool("database.activate", {})
        call: dict[str, Any] = {"name": "database.query", "arguments": {"sql": "x"}}
        if era != "legacy":
            call["handle"] = change_of(opened)["handle"]
        await client.call_tool("call_tool", call, progress_callback=hear)
    assert notified == [(1, 2, "half")]
