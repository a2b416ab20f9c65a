"""The law of the modern era: equal requests get equal lists, whatever else is going on (SPEC DEL-7)."""

from __future__ import annotations

import anyio
import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    PATIENCE,
    build_server,
    client_of,
    modern_body,
    modern_headers,
    names_of,
    over_http,
    stdio_desk,
    target_of,
)
from toolfold import Context, Profile, ToolSet, Visibility

MODERN = "2026-07-28"
TRANSPORTS = ("memory", "stdio", "http")


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
    async def story() -> None:
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

    anyio.run(story)


@pytest.mark.spec("DEL-7")
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names=st.lists(_MOVES.map(lambda move: move[1]), max_size=8))
def test_lists_are_the_same_over_stdio_whatever_was_called_on_any_connection(names: list[str]) -> None:
    async def story() -> None:
        async with client_of(stdio_desk(), MODERN) as (one, _), client_of(stdio_desk(), MODERN) as (other, _):
            first = (await one.list_tools(cache_mode="bypass")).model_dump_json()
            for name in names:
                await one.call_tool(name, {})
                for client in (one, other):
                    assert (await client.list_tools(cache_mode="bypass")).model_dump_json() == first

    anyio.run(story)


@pytest.mark.spec("DEL-7")
async def test_calls_change_no_modern_list() -> None:
    async with target_of("memory", make_desk()) as target, client_of(target, MODERN) as (client, listener):
        before = await names_of(client)
        assert not (await client.call_tool("database.activate", {})).is_error
        assert not (await client.call_tool("open_database", {})).is_error
        assert await names_of(client) == before
        assert listener.changes == 0


@pytest.mark.spec("DEL-7")
async def test_a_fact_that_one_modern_request_sets_is_unknown_to_the_next() -> None:
    tools = ToolSet("facts")

    @tools.tool()
    def remember(context: Context) -> list[str]:
        known = sorted(context.facts)
        context.set_fact("told", True)
        return known

    async with Client(build_server(tools), mode=MODERN) as client:
        for _ in range(2):
            assert (await client.call_tool("remember", {})).content[0].text == "[]"  # type: ignore[union-attr]


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


@pytest.mark.spec("DEL-7")
async def test_a_list_that_predicates_have_a_say_in_is_not_for_shared_caches() -> None:
    tools = make_desk()
    tools.register("moody", lambda: "x", input_schema={"type": "object"}, visibility=Visibility.when(lambda view: True))
    async with Client(build_server(tools), mode=MODERN) as client:
        assert (await client.list_tools()).cache_scope == "private"
    async with Client(build_server(make_desk()), mode=MODERN) as client:
        assert (await client.list_tools()).cache_scope == "public"


@pytest.mark.spec("DEL-7", "PRO-1")
async def test_what_a_session_begins_with_is_listed_and_can_be_called() -> None:
    tools = make_desk()
    tools.register_profile(Profile(name="data", active=["database"], available=["database.write"]))
    async with Client(build_server(tools, profile="data"), mode=MODERN) as client:
        names = await names_of(client)
        assert "database.query" in names
        assert not [name for name in names if name.startswith("mode")]
        assert (await client.call_tool("database.query", {"sql": "x"})).structured_content == {"ran": "x"}


@pytest.mark.spec("NTF-3", "DEL-7", "REG-7")
async def test_listeners_are_told_when_the_owner_announces_a_registration() -> None:
    tools = make_desk()
    async with over_http(tools) as url, Client(url, mode=MODERN) as client:
        async with client.listen(tools_list_changed=True) as events:
            tools.register("new", lambda: "x", input_schema={"type": "object"})
            assert "new" in await names_of(client)
            tools.notify_list_changed()
            with anyio.fail_after(PATIENCE):
                event = await anext(aiter(events))
        assert type(event).__name__ == "ToolsListChanged"
