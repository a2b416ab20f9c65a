"""The law of the modern era: equal requests get equal lists, whatever else is going on (SPEC DEL-7)."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    build_server,
)

MODERN = "2026-07-28"


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
            endpoint_of(build_server(make_desk(page_size=4))) as endpoint,
            endpoint.client("legacy") as legacy,
            endpoint.client(MODERN) as modern,
        ):
            first = await endpoint.post("tools/list")
            assert first.status_code == 200, first.text
            for era, name in moves:
                await (legacy if era == "legacy" else modern).call_tool(name, {})
                assert (await endpoint.post("tools/list")).content == first.content

    anyio.run(trace)


@pytest.mark.spec("DEL-7")
async def test_a_modern_list_says_how_it_may_be_cached_and_is_complete() -> None:
    async with endpoint_of(build_server(make_desk())) as endpoint:
        result = (await endpoint.post("tools/list")).json()["result"]
        assert (result["ttlMs"], result["cacheScope"], result["resultType"]) == (0, "public", "complete")
        names = [tool["name"] for tool in result["tools"]]
        assert names == sorted(names)
        found = (await endpoint.post("server/discover")).json()["result"]
        assert found["supportedVersions"] == [MODERN]
        assert found["capabilities"]["tools"] == {"listChanged": True}
