"""Composite tools over a real connection: the state is read once for each request (SPEC MOD-3)."""

from __future__ import annotations

import pytest

from tests.adapters.mcp.support import client_of, target_of
from tests.adapters.mcp.test_composite_tools import ERAS, HOOKS, listed, page_tools
from tests.adapters.mcp.test_handle_delivery import text_of, through
from tests.core.modes import Buffers
from tests.process.adapters.mcp.test_principals import principals
from toolfold_adapters.mcp.meta import HANDLE_META

TRANSPORTS = ("memory", "http")


@pytest.mark.spec("MOD-3")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_each_request_on_the_wire_reads_the_state_exactly_once(transport: str, era: str) -> None:
    buffers = Buffers(network=1)
    async with target_of(transport, page_tools(buffers)) as target, client_of(target, era) as (client, _):
        await listed(client)  # a client lists by itself when it calls what it has not seen listed
        assert buffers.take() == 1
        await client.call_tool("seen", {})
        assert buffers.take() == 1
        await client.call_tool("observe", {"what": "nonsense"})
        assert buffers.take() == 1
        result = await client.call_tool("inner.activate", {})
        assert buffers.take() == 1
        handle = (result.meta or {}).get(HANDLE_META)
        assert "inner.observe" in await listed(client, handle)
        assert buffers.take() == 1
        assert text_of(await through(client, "inner.observe", {"what": "network"}, handle)) == "network"
        assert buffers.take() == 1
        await client.call_tool("inner.deactivate", {"handle": handle} if handle else {})
        assert buffers.take() == 1


@pytest.mark.spec("MOD-3", "DEL-6")
async def test_the_request_that_begins_a_callers_session_reads_the_state_once_too() -> None:
    buffers = Buffers(network=1)
    async with principals(page_tools(buffers, **HOOKS), active=["inner"]) as target:
        buffers.take()
        async with client_of(target("ada"), "auto") as (client, _):
            assert "inner.observe" in await listed(client)
            assert buffers.take() == 1
