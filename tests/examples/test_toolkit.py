"""Document D's example, and toolkits on the wire: with real clients of both eras (SPEC 15, 16, PRO-3)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from examples.toolkit import build
from tests.adapters.mcp.support import build_server, client_of, names_of
from tests.examples.callers import UNKNOWN, WAYS
from toolfold import ToolSet

MODERN = "2026-07-28"
ERAS = ("legacy", MODERN)
LISTED = {"alphabet", "count_words", "lengths", "read_note", "say", "unlock", "write_note"}
HIDDEN = {"catalog", "forget_notes", "statistics"}


@asynccontextmanager
async def client(era: str, tools: ToolSet | None = None, **options: Any) -> AsyncGenerator[Client]:
    async with client_of(build_server(tools or build(), **options), era) as (made, _):
        yield made


async def text_of(client: Client, name: str, arguments: Mapping[str, Any] | None = None) -> str:
    result = await client.call_tool(name, dict(arguments or {}))
    return result.content[0].text  # type: ignore[union-attr]


async def found(client: Client, **arguments: Any) -> dict[str, list[dict[str, Any]]]:
    """Return the structured content of the catalog tool, which is also its text."""
    result = await client.call_tool("catalog", arguments)
    assert not result.is_error
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    sections: dict[str, list[dict[str, Any]]] = result.structured_content
    return sections


@pytest.mark.spec("KIT-4", "KIT-5", "VIS-6")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_sees_categories_and_no_hidden_tool(era: str) -> None:
    """Document D, category metadata and hidden tools."""
    async with client(era) as one:
        shown = {tool.name: tool for tool in (await one.list_tools()).tools}
        assert shown.keys() - {"reports.activate", "call_tool"} == LISTED
        categories = {name: (tool.meta or {}).get("category") for name, tool in shown.items()}
        assert categories["say"] == "Words"
        assert categories["read_note"] == "Notes"
        assert categories["unlock"] is None
        assert shown["read_note"].annotations is not None
        assert shown["read_note"].annotations.read_only_hint is True


@pytest.mark.spec("KIT-4", "VIS-6", "REG-9")
@pytest.mark.parametrize("era", ERAS)
async def test_hidden_components_can_be_called_and_read_by_name(era: str) -> None:
    """Document D, hidden tools: hiding has no effect on calls."""
    async with client(era) as one:
        assert "forget_notes" not in await names_of(one)
        assert (await one.list_resource_templates()).resource_templates == []
        assert [resource.name for resource in (await one.list_resources()).resources] == ["index"]
        contents = (await one.read_resource("note://texts/welcome")).contents
        assert contents[0].text.startswith("Ask the catalog")  # type: ignore[union-attr]
        prompt = await one.get_prompt("summarise", {"title": "welcome"})
        assert "Ask the catalog" in prompt.messages[0].content.text  # type: ignore[union-attr]
        assert await text_of(one, "forget_notes") == "1"
        assert (await one.read_resource("note://index")).contents[0].text == ""  # type: ignore[union-attr]


@pytest.mark.spec("CAT-1", "CAT-2")
@pytest.mark.parametrize("era", ERAS)
async def test_the_catalog_tool_finds_hidden_components(era: str) -> None:
    """Document D, the catalog tool: itself hidden, it answers with full definitions."""
    async with client(era) as one:
        assert "catalog" not in await names_of(one)
        sections = await found(one)
        assert list(sections) == ["tools", "prompts", "resources", "resource_templates"]
        hidden = {entry["name"]: entry["hidden"] for entry in sections["tools"] if entry["name"] != "reports.activate"}
        assert hidden == {**dict.fromkeys(LISTED, False), **dict.fromkeys(HIDDEN, True)}
        assert [(entry["name"], entry["hidden"]) for entry in sections["resource_templates"]] == [("text", True)]
        (forget,) = (await found(one, type="tools", category="HOUSEKEEPING"))["tools"]
        assert forget["annotations"] == {"destructiveHint": True}
        assert forget["category"] == "Housekeeping"
        assert await found(one, query="no such thing", type="prompts") == {"prompts": []}
        assert (await one.call_tool("catalog", {"type": "all of it"})).is_error


@pytest.mark.spec("VIS-6", "SES-5", "NTF-1")
async def test_document_d_a_hidden_but_callable_tool_is_listed_once_the_session_is_unlocked() -> None:
    """Document D, session-gated visibility: hidden tools were callable all along, and gating the listing is UX."""
    async with client_of(build_server(build()), "legacy") as (one, listener):
        assert "statistics" not in await names_of(one)
        assert (await text_of(one, "statistics")).endswith(" tools")
        await one.call_tool(*UNLOCK)
        assert listener.changes == 1
        assert "statistics" in await names_of(one)
        assert (await text_of(one, "statistics")).endswith(" tools")


UNLOCK = ("unlock", {"phrase": "open sesame"})


@pytest.mark.spec("VIS-5", "SES-1", "SES-5")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hooks", [False, True], ids=["without hooks", "with hooks"])
async def test_document_d_unlock_lasts_for_its_session_and_affects_no_other(way: str, hooks: bool) -> None:
    """Document D, session-gated visibility: decided for each request by the facts of the session."""
    tools = build()
    if hooks:  # then a handle of the modern era names a stored session
        tools.register_group("hooked", on_activate=lambda: None)
    async with WAYS[way](tools) as one, WAYS[way](tools) as other:
        assert "reindex" not in await one.names()
        assert await one.call("reindex", {}) == (True, UNKNOWN)
        assert await one.call("unlock", {"phrase": "please"}) == (False, "That is not the phrase.")
        assert await one.call("reindex", {}) == (True, UNKNOWN)
        assert not (await one.call(*UNLOCK))[0]
        for name in ("reports.activate", "reports.deactivate", "forget_notes"):  # messages come and go
            assert not (await one.call(name, {}))[0]
            assert "reindex" in await one.names()
            assert await one.call("reindex", {}) == (False, "done")
        found = await one.answer("catalog", {"type": "tools", "category": "power"})
        assert [entry["name"] for entry in found.structured["tools"]] == ["reindex"]
        assert "reindex" not in await other.names()
        assert await other.call("reindex", {}) == (True, UNKNOWN)
    async with WAYS[way](tools) as later:
        assert "reindex" not in await later.names()
