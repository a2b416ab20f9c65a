"""The law of the modern era: equal requests get equal lists, whatever else is going on (SPEC DEL-7)."""

from __future__ import annotations

import pytest
from mcp import Client

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import (
    build_server,
)
from toolfold import Context, ToolSet, Visibility

MODERN = "2026-07-28"


@pytest.mark.spec("DEL-7")
async def test_a_fact_that_one_modern_request_sets_is_unknown_to_the_next() -> None:
    tools = ToolSet("facts")

    @tools.tool()
    def remember(context: Context) -> list[str]:
        known = sorted(context.facts)
        context.set_fact("called", True)
        return known

    async with Client(build_server(tools), mode=MODERN) as client:
        for _ in range(2):
            assert (await client.call_tool("remember", {})).content[0].text == "[]"  # type: ignore[union-attr]


@pytest.mark.spec("DEL-7")
async def test_a_list_that_depends_on_predicates_is_not_for_shared_caches() -> None:
    tools = make_desk()
    tools.register("moody", lambda: "x", input_schema={"type": "object"}, visibility=Visibility.when(lambda view: True))
    async with Client(build_server(tools), mode=MODERN) as client:
        assert (await client.list_tools()).cache_scope == "private"
    async with Client(build_server(make_desk()), mode=MODERN) as client:
        assert (await client.list_tools()).cache_scope == "public"
