"""`find_tools` on the wire, in both eras (SPEC FND-1, CTL-4)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.adapters.mcp.support import build_server, change_of, client_of, names_of, schemas_in
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold import ToolSet
from toolfold_adapters.names import CHANGE_META, HANDLE_META
from toolfold_adapters.search import bm25
from toolfold_adapters.tokens import approximate_tokens

ERAS = ("legacy", MODERN)


def library(count: int = 3, text: str = "") -> ToolSet:
    tools = ToolSet("library", control="open_group", search=bm25, on_hidden="hint")
    for group in ("books", "loans"):
        tools.register_group(group, f"All about {group}")
        for number in range(count):
            schema = {"type": "object", "properties": {"shelf": {"type": "integer", "description": text}}}

            async def answer(arguments: dict[str, Any], context: Any, group: str = group, number: int = number) -> str:
                return f"{group} {number}"

            tools.register(f"find_{group}_{number}", answer, description=text, input_schema=schema, group=group)
    return tools


@pytest.mark.spec("FND-1", "CTL-4")
@pytest.mark.parametrize("era", ERAS)
async def test_a_search_answers_with_definitions_and_opens_nothing_unless_asked_to(era: str) -> None:
    async with client_of(build_server(library(), separator="__", handles="stored"), era) as (client, _):
        assert "find_tools" in await names_of(client)
        result = await client.call_tool("find_tools", {"query": "books", "limit": 2})
        assert list(schemas_in(text_of(result))) == ["- books__find_books_0", "- books__find_books_1"]
        assert "In group books, not open; call open_group" in text_of(result)
        change = change_of(result)
        assert change.keys() == {"changed", "active", "displaced", "tools"}, "the text has what was found"
        assert change["tools"] == [], "none of them can be called yet"
        assert "handle" not in change
        assert "Handle" not in text_of(result)


@pytest.mark.spec("FND-1", "CTL-4")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("text", ["short", "long " * 500, "🜁" * 3_000], ids=["short", "long", "wide"])
async def test_the_answer_stays_within_its_budget_and_names_every_tool_found(era: str, text: str) -> None:
    server = build_server(library(30, text), handles="stored", answer_tokens=2_000)
    async with client_of(server, era) as (client, _):
        result = await client.call_tool("find_tools", {"query": "find books", "limit": 30})
        assert approximate_tokens(text_of(result)) <= 2_000
        for number in range(30):
            assert f"- books.find_books_{number}" in text_of(result)


@pytest.mark.spec("FND-1", "CTL-4")
async def test_a_client_that_lists_again_is_given_the_schemas_that_its_list_does_not_have() -> None:
    async with client_of(build_server(library()), "legacy") as (client, _):
        await names_of(client)
        await client.call_tool("open_group", {"group": "books"})
        await names_of(client)
        assert not schemas_in(text_of(await client.call_tool("open_group", {"group": "books"})))
        found = await client.call_tool("find_tools", {"query": "loans", "limit": 1})
        assert list(schemas_in(text_of(found))) == ["- loans.find_loans_0"]
        opened = text_of(await client.call_tool("find_tools", {"query": "loans", "limit": 1, "open": True}))
        assert not schemas_in(opened)
        assert "- loans.find_loans_0\n" in opened


@pytest.mark.spec("FND-1", "SAF-4")
async def test_a_search_stores_no_session_of_its_own() -> None:
    tools = library()
    async with client_of(build_server(tools, handles="stored"), MODERN) as (client, _):
        for _number in range(3):
            result = await client.call_tool("find_tools", {"query": "books"})
            assert HANDLE_META not in (result.meta or {})
            assert json.loads(json.dumps((result.meta or {})[CHANGE_META]))["changed"] is False
