"""What answers say to clients over HTTP, each with a list of its own (SPEC CTL-5)."""

from __future__ import annotations

import httpx2
import pytest

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import RawLegacy, client_of, names_of, over_http, schemas_in
from tests.adapters.mcp.test_answers import told_of
from tests.adapters.mcp.test_handle_delivery import MODERN
from tests.process.adapters.mcp.test_principals import principals


@pytest.mark.spec("CTL-4", "DEL-1")
async def test_a_client_that_lists_for_the_first_time_has_not_listed_again() -> None:
    async with over_http(make_shop(), separator=".") as url, httpx2.AsyncClient() as http:
        client = RawLegacy(http, url)  # others list of their own accord when they call what they have not been listed
        await client.initialize()

        async def tells(group: str) -> bool:
            *_, answer = await client.request("tools/call", {"name": f"{group}.activate", "arguments": {}})
            return bool(schemas_in(answer["result"]["content"][0]["text"]))

        assert await tells("cash")
        await client.request("tools/list")
        assert await tells("credit")
        await client.request("tools/list")
        assert not await tells("stock")


@pytest.mark.spec("CTL-4", "DEL-6")
async def test_a_caller_whose_list_is_its_own_is_told_names_alone_once_it_has_listed_again() -> None:
    async with (
        principals(make_shop(), separator=".") as target,
        client_of(target("ada"), MODERN) as (ada, _),
        client_of(target("bob"), MODERN) as (bob, _),
    ):
        for one in (ada, bob):
            await names_of(one)
            assert await told_of(one, "cash")
        await ada.call_tool("stock.activate", {})
        await names_of(ada)
        assert not await told_of(ada, "cash")
        assert await told_of(bob, "cash")
