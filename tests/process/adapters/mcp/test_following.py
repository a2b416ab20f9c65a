"""A client that carries its handle along, over HTTP (SPEC DEL-10)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import modern_body, modern_headers, over_http
from toolfold_adapters.mcp.meta import HANDLE_HEADER, HANDLE_META

pytestmark = pytest.mark.spec("DEL-11")


async def post(
    http: httpx2.AsyncClient, url: str, method: str, params: dict[str, Any], carried: str, handle: str | None
) -> httpx2.Response:
    """Post a request that carries a handle in its `_meta` or in a header."""
    body, headers = modern_body(method, params), modern_headers(method, params.get("name"))
    if handle is not None and carried == "meta":
        body["params"]["_meta"][HANDLE_META] = handle
    elif handle is not None:
        headers[HANDLE_HEADER] = handle
    return await http.post(url, json=body, headers=headers)


@pytest.mark.spec("DEL-7")
@pytest.mark.parametrize("carried", ["meta", "header"])
async def test_lists_and_direct_calls_follow_the_handle_and_requests_without_one_stay_the_same_bytes(
    carried: str,
) -> None:
    async with over_http(make_shop(page_size=6)) as url, httpx2.AsyncClient() as http:
        plain = (await post(http, url, "tools/list", {}, carried, None)).content

        async def names(handle: str) -> list[str]:
            found: list[str] = []
            params: dict[str, Any] = {}
            while True:
                result = (await post(http, url, "tools/list", params, carried, handle)).json()["result"]
                assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
                found += [tool["name"] for tool in result["tools"]]
                if "nextCursor" not in result:
                    return found
                params = {"cursor": result["nextCursor"]}

        handle: str | None = None
        for group in ("stock", "stock.orders", "cash"):
            called = await post(
                http, url, "tools/call", {"name": f"{group}.activate", "arguments": {}}, carried, handle
            )
            handle = called.json()["result"]["_meta"][HANDLE_META]
            assert (await post(http, url, "tools/list", {}, carried, None)).content == plain
        assert handle is not None
        listed = await names(handle)
        assert listed == sorted(listed)
        assert {"stock.count", "stock.orders.place", "cash.coins", "call_tool"} <= set(listed)
        arguments = {"name": "stock.orders.place", "arguments": {"items": {"nails": 2}}}
        placed = (await post(http, url, "tools/call", arguments, carried, handle)).json()["result"]
        assert placed["content"] == [{"type": "text", "text": "2"}]
        refused = (await post(http, url, "tools/call", arguments, carried, None)).json()
        assert (refused["error"]["code"], refused["error"]["message"]) == (-32602, "Unknown tool: stock.orders.place")
        for _ in range(2):
            one = (await post(http, url, "tools/list", {}, carried, handle)).content
            assert one == (await post(http, url, "tools/list", {}, carried, handle)).content
        assert (await post(http, url, "tools/list", {}, carried, None)).content == plain
