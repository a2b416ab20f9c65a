"""The same scenarios in every delivery, in both eras: a row for each clause, and a column for each way (SPEC 18).

`tests/process/adapters/mcp/test_end_to_end.py` has the columns of other processes and of sockets.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.adapters.mcp.matrix import BySelection, Direct, ListsOnce, client_for, ways
from tests.adapters.mcp.test_handle_delivery import text_of


@pytest.fixture(params=ways("memory", "app"), ids=", ".join)
async def client(request: pytest.FixtureRequest) -> AsyncGenerator[Direct]:
    """Yield a client of each delivery."""
    async with client_for(*request.param) as made:
        yield made


@pytest.mark.spec("DEL-1", "DEL-2", "DEL-3", "DEL-4", "DEL-6", "DEL-8", "DEL-10", "DEL-11")
async def test_what_is_open_is_listed_and_called(client: Direct) -> None:
    assert "stock.count" not in await client.names()
    await client.open("stock")
    assert "stock.count" in await client.names()
    assert (await client.call("stock.count", {"item": "x"})).structured_content == {"item": "x", "shelf": 1}
    assert client.progress == [(1, 2, "half")]
    await client.open("stock.orders")
    assert text_of(await client.call("stock.orders.place", {"items": {"nails": 2}})) == "2"


@pytest.mark.spec("CALL-1", "DEL-9")
async def test_what_is_closed_is_as_what_there_is_not(client: Direct) -> None:
    refused, unknown = [await client.call(name, {"item": "x"}) for name in ("stock.count", "no_such_tool")]
    assert refused.is_error
    assert text_of(refused).startswith("Unknown tool: stock.count")  # a hint on handles may follow (SPEC CTL-8)
    assert text_of(refused).replace("stock.count", "no_such_tool") == text_of(unknown)


@pytest.mark.spec("ACT-4", "REG-3")
async def test_a_group_closes_those_that_it_excludes(client: Direct) -> None:
    await client.open("stock")
    await client.open("cash")
    assert text_of(await client.call("cash.coins")) == "coins"
    await client.open("credit")
    assert text_of(await client.call("credit.card")) == "card"
    assert text_of(await client.call("cash.coins")).startswith("Unknown tool: cash.coins")
    assert not (await client.call("stock.count", {"item": "x"})).is_error


@pytest.mark.spec("ACT-5", "VIS-5")
async def test_a_group_that_is_closed_leaves_the_list_with_what_is_in_it(client: Direct) -> None:
    for group in ("stock", "stock.orders", "credit"):
        await client.open(group)
    if isinstance(client, BySelection):
        await client.close("stock.orders")  # a selected group brings its parents
    await client.close("stock")
    for name in ("stock.count", "stock.orders.place"):
        assert text_of(await client.call(name)).startswith(f"Unknown tool: {name}")
    assert text_of(await client.call("credit.card")) == "card"
    if not isinstance(client, ListsOnce):
        more = [name for name in await client.names() if name.startswith(("stock.", "cash.", "credit."))]
        assert [name for name in more if not name.endswith("activate")] == ["credit.card"]


@pytest.mark.spec("CALL-2", "CALL-3")
async def test_wrong_arguments_and_failures_are_answered(client: Direct) -> None:
    await client.open("stock")
    for wrong in ({}, {"item": 5}, {"item": "x", "shelf": "top"}, {"item": "x", "more": 1}):
        assert text_of(await client.call("stock.count", wrong)).startswith("Invalid arguments for stock.count")
    failed = await client.call("stock.fail")
    assert (failed.is_error, text_of(failed)) == (True, "the shelf is empty")
    assert text_of(await client.call("stock.reject")) == "-32050 not today {'until': 'tomorrow'}"


@pytest.mark.spec("CALL-5", "SES-5")
async def test_a_handler_opens_a_group_and_sets_a_fact(client: Direct) -> None:
    if isinstance(client, BySelection):
        return  # the next request knows nothing of it
    assert text_of(await client.call("discount")).startswith("Unknown tool: discount")
    assert text_of(await client.call("open_stock")).startswith("opened")
    assert (await client.call("join")).structured_content == {"result": "joined"}
    assert text_of(await client.call("discount")) == "ten percent"
    assert (await client.call("stock.count", {"item": "x"})).structured_content == {"item": "x", "shelf": 1}


@pytest.mark.spec("ACT-3", "ACT-9")
async def test_a_transition_succeeds_completely_or_changes_nothing(client: Direct) -> None:
    await client.open("cash")
    assert (await client.call("open_everything")).is_error
    assert text_of(await client.call("cash.coins")) == "coins"
    assert text_of(await client.call("stock.count")).startswith("Unknown tool: stock.count")
