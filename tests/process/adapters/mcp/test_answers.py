"""What answers say to clients over HTTP, each with a list of its own (SPEC CTL-5)."""

from __future__ import annotations

import httpx2
import pytest

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import RawLegacy, over_http, schemas_in


@pytest.mark.spec("CTL-4", "DEL-1")
async def test_a_client_that_lists_for_the_first_time_has_not_listed_again() -> None:
    async with over_http(make_shop(), separator=".") as url, httpx2.AsyncClient() as http:
        client = RawLegacy(http, url)  # others list of their own accord when they call what they have not been listed
        await client.initialize()

        async def gets_definitions(group: str) -> bool:
            *_, answer = await client.request("tools/call", {"name": f"{group}.activate", "arguments": {}})
            return bool(schemas_in(answer["result"]["content"][0]["text"]))

        assert await gets_definitions("cash")
        await client.request("tools/list")
        assert await gets_definitions("credit")
        await client.request("tools/list")
        assert not await gets_definitions("stock")
