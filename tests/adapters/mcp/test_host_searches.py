"""Hosts that defer tools search names and descriptions: what is in groups is found by way of the control tools."""

from __future__ import annotations

import re

import pytest

from tests.adapters.mcp.support import client_of
from tests.adapters.mcp.test_handle_delivery import MODERN
from toolfold import ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_adapters.search import bm25

pytestmark = pytest.mark.spec("CTL-7")

SERVERS = {"github": "Repositories and pull requests", "slack": "Talk to people", "postgres": "Run SQL"}
QUERIES = ["create issue", "github", "create a github issue", "send a message", "list tables in postgres", "edit file"]


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.casefold().replace("_", " ")))


@pytest.mark.parametrize("era", ["legacy", MODERN])
@pytest.mark.parametrize("query", QUERIES)
async def test_a_search_for_words_of_a_request_finds_what_searches_or_opens(query: str, era: str) -> None:
    tools = ToolSet("toolfold", control="open_group", search=bm25)
    for path, description in SERVERS.items():
        tools.register_group(path, description)
        tools.register("use", lambda: None, group=path, description="Use it")
    async with client_of(build_server(tools), era) as (client, _):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
    first = {name: f"{name}: {(tool.description or '').splitlines()[0]}" for name, tool in listed.items()}
    found = {name for name, line in first.items() if words(line) & (words(query) - {"a", "in"})}
    assert found & {"find_tools", "open_group"}
    for name in ("find_tools", "open_group"):
        assert SERVERS.keys() <= words(first[name])
        assert len(first[name]) <= 157 + len(f"{name}: ")
