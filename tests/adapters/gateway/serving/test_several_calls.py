"""Several calls in one request, in front of several upstreams (SPEC COD-2)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

from tests.adapters.gateway.inprocess import House, config_of, gateway_of, wired
from tests.adapters.mcp.test_call_tools import call, failed, texts
from toolfold_adapters.gateway.upstream.handshake import ConnectMode
from toolfold_adapters.gateway.upstream.wire import Wire
from toolfold_adapters.mcp import build_server

pytestmark = pytest.mark.spec("COD-2", "GWY-1")

ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
OPEN = [call("open_group", group=name) for name in ("shop", "store")]


@asynccontextmanager
async def client_of(house: House, era: ConnectMode, *, wait: bool = True) -> AsyncGenerator[Wire]:
    gateway = gateway_of(house, config_of("shop", "store"), wait=wait)
    with anyio.fail_after(60):
        async with gateway as tools:
            server = build_server(tools, handles="stored", extend=gateway.extend, call_tools=True)
            async with wired(server, era) as wire:
                yield wire


async def several(wire: Wire, *calls: Any, note: Any = None) -> CallToolResult:
    given = {"name": "call_tools", "arguments": {"calls": [*calls], "parallel": True}}
    return CallToolResult.model_validate(await wire.request("tools/call", given, on_progress=note))


@ERAS
async def test_each_upstream_answers_and_reports_its_progress(era: ConnectMode) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async with client_of(House(), era) as wire:
        calls = [*OPEN, call("shop__steps"), call("store__add", item="bread"), call("store__cart", [4])]
        result = await several(wire, *calls, note=note)
    assert texts(result)[2:] == ["[]", '["bread"]', '["bread"]']
    assert {f"shop__steps: step {step}" for step in (1, 2)} < {message for *_, message in seen}
    assert [one[0] for one in seen] == sorted({one[0] for one in seen})
    assert seen[-1][:2] == (5, 5)


@ERAS
async def test_a_server_that_does_not_start_stops_its_own_calls_alone(era: ConnectMode) -> None:
    house = House(broken={"store"})
    async with client_of(house, era, wait=False) as wire:
        result = await several(wire, OPEN[0], call("shop__cart"), call("store__cart"))
    assert failed(result) == [3]
    assert texts(result)[1] == "[]"
    assert "store failed: the program store is not installed" in texts(result)[2]
