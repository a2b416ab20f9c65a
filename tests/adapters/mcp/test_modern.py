"""The law of the modern era: equal requests get equal lists, whatever else is going on (SPEC DEL-7)."""

from __future__ import annotations

import pytest
from mcp import Client

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    build_server,
    client_of,
    names_of,
    target_of,
)
from toolfold import Context, Profile, ToolSet, Visibility

MODERN = "2026-07-28"
TRANSPORTS = ("memory", "stdio", "http")


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
