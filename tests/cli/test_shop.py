"""The shop's sessions go on in another process, as after a restart."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from toolfold import HookContext
from toolfold_adapters.mcp import build_server
from toolfold_adapters.stores import MemoryStore
from toolfold_cli import shop


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


@pytest.mark.spec("STO-4", "HOOK-1")
async def test_orders_that_are_open_on_one_replica_are_called_and_closed_on_another() -> None:
    async with MemoryStore() as store:
        options: dict[str, Any] = {"store": store, "handles": "stored"}
        async with Client(build_server(shop.tools, **options)) as first:
            opened = await first.call_tool("open_group", {"group": "orders"})
            handle = (opened.meta or {})["dev.toolfold/handle"]
            async with Client(build_server(shop.tools, **options)) as second:
                call = {"name": "orders__find", "arguments": {"state": "paid"}, "handle": handle}
                found = await second.call_tool("call_tool", call)
                assert not found.is_error, text_of(found)
                assert "4711" in text_of(found)
                closed = await second.call_tool("close_group", {"group": "orders", "handle": handle})
                assert not closed.is_error, text_of(closed)
                assert text_of(closed).endswith("Group orders is closed.")


@pytest.mark.spec("HOOK-1")
async def test_orders_whose_database_was_never_opened_here_can_be_closed() -> None:
    async with shop.tools.open_session(active=["orders"]) as session:
        shop.database.empty(HookContext(session, "orders", "on_deactivate")).close()
        assert await session.deactivate("orders")
        assert session.snapshot.active == ()
