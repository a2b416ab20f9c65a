"""Groups from manifests, through clients of both eras; and that a broken one costs them nothing else (SPEC 14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.manifests import BAD_ENTRIES, BAD_FILES, META, but_one, entry, load, write
from tests.adapters.mcp.support import build_server, change_of, client_of, names_of, target_of, without_schemas
from tests.examples.callers import connected
from toolfold import ToolSet
from toolfold._view.control import ERROR_META

MODERN = "2026-07-28"


def from_manifests(folder: Path) -> ToolSet:
    write(folder, exec=entry("exec"), pdf=[entry("pdf_info"), entry("pdf_pages")])
    write(folder, google_gmail=[META, entry("gmail_search"), {"name": "broken", "parameters": []}], broken="[")
    tools, report = load(folder)
    assert [error.position for error in report.errors] == ["line 1, column 2", "entry 3 (broken)"]
    return tools


def text_of(result: types.CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def refused(client: Client, arguments: dict[str, Any]) -> tuple[str, Any]:
    result = await client.call_tool("load_tool_group", arguments)
    assert result.is_error
    assert result.structured_content is None
    return text_of(result), (result.meta or {})[ERROR_META]


LOADED = "Loaded 1 tools from group 'Google Gmail':\n- gmail_search: Does gmail_search"


@pytest.mark.spec("GRP-1", "GRP-2", "GRP-3", "DEL-1", "DEL-2")
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_document_c_a_client_loads_a_group_and_calls_its_tools(tmp_path: Path, era: str) -> None:
    async with target_of("memory", from_manifests(tmp_path)) as target, client_of(target, era) as (client, listener):
        start = await names_of(client)
        assert {"exec", "load_tool_group"} == set(start) - {"call_tool"}
        with pytest.raises(MCPError, match="gmail_search"):
            await client.call_tool("gmail_search", {"query": "is:unread"})
        text, structured = await refused(client, {"group_name": "nonexistent"})
        assert text == "Tool group 'nonexistent' not found. Available groups: google_gmail, pdf"
        assert structured["error_type"] == "not_found"
        text, structured = await refused(client, {})
        assert text == "Required parameter 'group_name' is missing."
        assert structured["error_type"] == "missing_parameter"

        result = await client.call_tool("load_tool_group", {"group_name": "google_gmail"})
        assert text_of(result).startswith(LOADED)
        received = change_of(result)
        arguments = {"query": "is:unread"}
        if era == "legacy":
            assert await listener.next() == "notifications/tools/list_changed"
            assert set(await names_of(client)) == {*start, "gmail_search"}
            found = await client.call_tool("gmail_search", arguments)
            again = await client.call_tool("load_tool_group", {"group_name": "google_gmail"})
        else:
            assert await names_of(client) == start
            assert received["tools"] == ["gmail_search"]
            through = {"name": "gmail_search", "arguments": arguments, "handle": received["handle"]}
            found = await client.call_tool("call_tool", through)
            again = await client.call_tool(
                "load_tool_group", {"group_name": "google_gmail", "handle": received["handle"]}
            )
        assert text_of(found) == f"gmail_search: {arguments}"
        assert text_of(again).startswith("Tool group 'Google Gmail' was loaded already, so nothing changed.")
        assert change_of(again)["changed"] is False


BROKEN: dict[str, tuple[Any, Any]] = {
    **{f"entry: {kind}": ([entry("a"), bad, entry("z")], []) for kind, (bad, _, _) in BAD_ENTRIES.items()},
    **{f"file: {kind}": ([entry("a"), entry("z")], content) for kind, (content, _, _) in BAD_FILES.items()},
}
"""What a group's file holds, and another file, of which one is broken in a way of its own."""


@pytest.mark.spec("GRP-2", "REG-6", "DEL-1", "DEL-2")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("kind", BROKEN)
async def test_whatever_is_broken_a_client_loads_and_calls_everything_else(
    tmp_path: Path, kind: str, era: Literal["legacy", "auto"]
) -> None:
    group, bad = BROKEN[kind]
    write(tmp_path, bad=bad, core=entry("core_tool"), group=group, other=[META, entry("x")])
    tools, report = load(tmp_path, but_one)
    assert report.errors
    async with connected(build_server(tools), era) as client:
        assert await client.names() == ["core_tool", "load_tool_group"]
        failed, text = await client.call("load_tool_group", {"group_name": "bad"})
        assert (failed, text) == (True, "Tool group 'bad' not found. Available groups: group, other")
        _, text = await client.call("load_tool_group", {"group_name": "group"})
        assert without_schemas(text)[:3] == ["Loaded 2 tools from group 'Group':", "- a: Does a", "- z: Does z"]
        assert await client.names() == ["a", "core_tool", "load_tool_group", "z"]
        assert not (await client.call("load_tool_group", {"group_name": "other"}))[0]
        for name in ("core_tool", "a", "z", "x"):
            assert await client.call(name, {"query": "q"}) == (False, f"{name}: {{'query': 'q'}}")
