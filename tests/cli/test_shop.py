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


@pytest.mark.parametrize(
    ("tool", "arguments", "why"),
    [
        ("orders.show", {"order": 10**21}, "One of the numbers is too large"),
        ("orders.show", {"order": 9_999_999}, "There is no order 9999999"),
        ("orders.customers.history", {"customer": -(2**70)}, "One of the numbers is too large"),
        ("orders.add_item", {"order": 4713, "sku": "CUP-4", "count": 2**63}, "One of the numbers is too large"),
        ("orders.customers.search", {"words": "\ud800"}, "One of the texts is not Unicode"),
    ],
)
async def test_what_the_database_cannot_have_is_refused_in_words(
    tool: str, arguments: dict[str, Any], why: str
) -> None:
    async with shop.tools.open_session(active=["orders", "orders.customers"]) as session:
        result = await session.call(tool, arguments)
    assert result.is_error
    assert why in result.text
