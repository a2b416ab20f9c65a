"""The modern era over stdio and HTTP: lists stay the same bytes (SPEC DEL-2)."""

from __future__ import annotations

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    client_of,
    modern_body,
    modern_headers,
    over_http,
)
from tests.adapters.mcp.test_modern import MODERN


async def _raw_list(http: httpx2.AsyncClient, url: str, cursor: str | None = None) -> bytes:
    params = {} if cursor is None else {"cursor": cursor}
    body = modern_body("tools/list", params)
    response = await http.post(url, json=body, headers=modern_headers("tools/list"))
    assert response.status_code == 200, response.text
    return response.content


_MOVES = st.sampled_from(
    [
        ("legacy", "database.activate"),
        ("legacy", "database.write.activate"),
        ("legacy", "mode_a.activate"),
        ("legacy", "mode_b.activate"),
        ("legacy", "database.deactivate"),
        ("legacy", "open_database"),
        ("modern", "database.activate"),
        ("modern", "open_database"),
        ("modern", "mode_a.activate"),
        ("modern", "ping"),
    ]
)


@pytest.mark.spec("DEL-7")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(moves=st.lists(_MOVES, max_size=8))
def test_lists_are_the_same_bytes_whatever_other_requests_come_between(moves: list[tuple[str, str]]) -> None:
    async def trace() -> None:
        async with (
            over_http(make_desk(page_size=4)) as url,
            httpx2.AsyncClient() as one,
            httpx2.AsyncClient() as other,
            client_of(url, "legacy") as (legacy, _),
            client_of(url, MODERN) as (modern, _),
        ):
            first = await _raw_list(one, url)
            for era, name in moves:
                await (legacy if era == "legacy" else modern).call_tool(name, {})
                assert await _raw_list(one, url) == first
                assert await _raw_list(other, url) == first

    anyio.run(trace)


@pytest.mark.spec("DEL-7")
async def test_a_modern_list_says_how_it_may_be_cached_and_is_complete() -> None:
    async with over_http(make_desk()) as url, httpx2.AsyncClient() as http:
        body = modern_body("tools/list")
        result = (await http.post(url, json=body, headers=modern_headers("tools/list"))).json()["result"]
        assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (0, "public", "complete")
        names = [tool["name"] for tool in result["tools"]]
        assert names == sorted(names)
        discover = modern_body("server/discover")
        found = (await http.post(url, json=discover, headers=modern_headers("server/discover"))).json()["result"]
        assert found["supportedVersions"] == [MODERN]
        assert found["capabilities"]["tools"] == {"listChanged": True}
