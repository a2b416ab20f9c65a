"""Document D's example, and what toolkits are on the wire: through real clients of both eras (SPEC 15, 16, PRO-3)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from examples.toolkit import build
from tests.adapters.mcp.support import build_server, client_of, names_of
from tests.examples.callers import UNKNOWN, WAYS, connected, in_process
from toolfold import ToolSet
from toolfold_adapters.mcp.meta import HANDLE_META

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
    """Return what the catalog tool answers; its text says the same as its structured content."""
    result = await client.call_tool("catalog", arguments)
    assert not result.is_error
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    sections: dict[str, list[dict[str, Any]]] = result.structured_content
    return sections


@pytest.mark.spec("KIT-4", "VIS-6", "REG-9")
@pytest.mark.parametrize("era", ERAS)
async def test_what_is_hidden_is_called_and_read_by_its_name(era: str) -> None:
    """Document D, hidden tools: calling never asks whether something is hidden."""
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


@pytest.mark.spec("KIT-2", "KIT-3")
@pytest.mark.parametrize("era", ERAS)
async def test_each_form_of_schema_does_to_arguments_what_is_said_of_it(era: str) -> None:
    """Document D, the three schema forms and the arities."""
    async with client(era) as one:
        assert await text_of(one, "alphabet") == "abcdefghijklmnopqrstuvwxyz"
        assert await text_of(one, "say", {"message": "ho", "repeat": 3, "tone": "loud"}) == "HO HO HO"
        assert await text_of(one, "say", {"message": "ho"}) == "ho"
        for wrong in ({"message": "ho", "repeat": 11}, {"message": "ho", "tone": "odd"}, {}):
            assert (await one.call_tool("say", wrong)).is_error
        assert (
            await text_of(one, "count_words", {"text": "a b a", "word": "a"})
            == '{"counted_by": "count_words", "words": 2}'
        )
        assert "arguments.text" in await text_of(one, "count_words", {"text": ""})
        assert await text_of(one, "lengths", {"text": "one three"}) == "[3, 5]"


@pytest.mark.spec("KIT-6")
@pytest.mark.parametrize("era", ERAS)
async def test_a_result_is_measured_by_its_output_schema(era: str) -> None:
    """Document D, return values: against the declared output schema."""
    async with client(era, active=["reports"]) as one:
        shown = {tool.name: tool for tool in (await one.list_tools()).tools}
        assert (shown["write_note"].output_schema or {})["required"] == ["length"]
        written = await one.call_tool("write_note", {"title": "tea", "text": "at five", "labels": ["daily"]})
        assert written.structured_content == {"title": "tea", "length": 14}
        assert (await one.call_tool("reports.weekly", {"week": 40})).structured_content == {"week": 40, "orders": 17}
        failed = await one.call_tool("reports.weekly", {"week": 1})
        assert failed.is_error
        assert "result.orders" in failed.content[0].text  # type: ignore[union-attr]
        assert "arguments.week" in await text_of(one, "reports.weekly", {"week": 54})


@pytest.mark.spec("CAT-1", "CAT-2")
@pytest.mark.parametrize("era", ERAS)
async def test_the_catalog_tool_finds_what_no_list_shows(era: str) -> None:
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


@pytest.mark.spec("CAT-1")
@pytest.mark.parametrize("era", ERAS)
async def test_an_entry_is_what_the_list_shows_and_more(era: str) -> None:
    """Document D, the result of the catalog tool: the wire definition plus `hidden` and `category`."""
    async with client(era) as one:
        entries = {entry.pop("name"): entry for entry in (await found(one, include_hidden=False))["tools"]}
        for shown in (await one.list_tools()).tools:
            if shown.name in LISTED:
                wire = shown.model_dump(by_alias=True, exclude_none=True, mode="json")
                category = {"category": wire["_meta"]["category"]} if "_meta" in wire else {}
                assert entries[wire.pop("name")] == {**wire, "hidden": False, **category}


@pytest.mark.spec("CAT-1", "NAM-6")
@pytest.mark.parametrize("era", ERAS)
async def test_the_catalog_tool_names_tools_as_the_client_knows_them(era: str) -> None:
    async with client(era, active=["reports"], separator="__") as one:
        (weekly,) = (await found(one, type="tools", query="REPORTS__W"))["tools"]
        assert weekly["name"] == "reports__weekly"
        assert weekly["category"] == "Admin"
        assert not (await one.call_tool(weekly["name"], {"week": 41})).is_error


@pytest.mark.spec("CAT-2", "DEL-1")
async def test_the_catalog_tool_answers_for_the_session_of_its_client() -> None:
    async with client("legacy") as one:
        assert (await found(one, category="Admin"))["tools"] == []
        await one.call_tool("reports.activate", {})
        await one.call_tool("unlock", {"phrase": "open sesame"})
        assert [entry["name"] for entry in (await found(one, category="Admin"))["tools"]] == ["reports.weekly"]
        assert [entry["name"] for entry in (await found(one, category="Power"))["tools"]] == ["reindex"]


@pytest.mark.spec("CAT-2", "DEL-2")
async def test_the_catalog_tool_answers_for_the_handle_that_it_is_called_under() -> None:
    async with client(MODERN) as one:
        opened = await one.call_tool("reports.activate", {})
        asked = {"name": "catalog", "arguments": {"type": "tools", "category": "Admin"}}
        under = await one.call_tool("call_tool", {**asked, "handle": (opened.meta or {})[HANDLE_META]})
        assert [entry["name"] for entry in under.structured_content["tools"]] == ["reports.weekly"]
        without = await one.call_tool("call_tool", asked)
        assert without.structured_content == {"tools": []}


@pytest.mark.spec("VIS-5", "SES-5")
async def test_a_tool_that_is_gated_by_the_session_is_there_once_it_is_unlocked() -> None:
    """Document D, session-gated visibility; the gate is on calling too, as everywhere here."""
    async with client_of(build_server(build()), "legacy") as (one, listener):
        assert "reindex" not in await names_of(one)
        assert "not the phrase" in await text_of(one, "unlock", {"phrase": "please"})
        assert listener.changes == 0
        await one.call_tool("unlock", {"phrase": "open sesame"})
        assert listener.changes == 1
        assert "reindex" in await names_of(one)
        assert await text_of(one, "reindex") == "done"


@pytest.mark.spec("VIS-6", "SES-5", "NTF-1")
async def test_document_d_a_tool_that_was_callable_all_along_is_listed_once_the_session_is_unlocked() -> None:
    """Document D, session-gated visibility: hidden tools were callable all along, and gating the listing is UX."""
    async with client_of(build_server(build()), "legacy") as (one, listener):
        assert "statistics" not in await names_of(one)
        assert (await text_of(one, "statistics")).endswith(" tools")
        await one.call_tool(*UNLOCK)
        assert listener.changes == 1
        assert "statistics" in await names_of(one)
        assert (await text_of(one, "statistics")).endswith(" tools")


UNLOCK = ("unlock", {"phrase": "open sesame"})
KEY = "a key of more than sixteen letters"


@pytest.mark.spec("VIS-5", "SES-1", "SES-5")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("hooks", [False, True], ids=["without hooks", "with hooks"])
async def test_document_d_unlock_lasts_for_its_session_through_all_messages_and_is_nobody_elses(
    way: str, hooks: bool
) -> None:
    """Document D, session-gated visibility: decided for each request by what the session has been told."""
    tools = build()
    if hooks:  # a handle of the modern era names a kept session then
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


@pytest.mark.spec("SES-5", "PER-1")
async def test_document_d_unlock_is_in_a_snapshot_and_comes_back_with_it() -> None:
    async with in_process(build()) as one:
        await one.call(*UNLOCK)
        data = json.loads(json.dumps(one.session.dump()))
    tools = build()
    async with tools.restore_session(data) as restored, tools.open_session() as new:
        assert (await restored.call("reindex")).text == "done"
        assert "reindex" not in new.list_tools().names


@pytest.mark.spec("SES-5", "DEL-3")
async def test_document_d_unlock_is_in_its_handle_after_a_restart_with_the_same_key_and_in_no_other() -> None:
    async with connected(build_server(build(), handle_key=KEY), "auto") as one:
        await one.call("reports.activate", {})
        locked = one.handle
        await one.call(*UNLOCK)
        unlocked = one.handle
    async with connected(build_server(build(), handle_key=KEY), "auto") as one:
        for handle, there in ((None, False), (locked, False), (unlocked, True)):
            one.handle = handle
            assert ("reindex" in await one.names()) is there
            assert await one.call("reindex", {}) == ((False, "done") if there else (True, UNKNOWN))
    async with connected(build_server(build()), "auto") as one:
        one.handle = unlocked
        failed, text = await one.call("reindex", {})
        assert failed
        assert "Activate the groups that you need again" in text


@pytest.mark.spec("SES-3", "SES-5")
async def test_document_d_unlock_ends_with_a_legacy_connection() -> None:
    tools = build()
    async with WAYS["legacy"](tools) as one:
        await one.call(*UNLOCK)
        assert "reindex" in await one.names()
    async with WAYS["legacy"](tools) as one:
        assert "reindex" not in await one.names()
        assert await one.call("reindex", {}) == (True, UNKNOWN)


@pytest.mark.spec("PRO-3")
@pytest.mark.parametrize("era", ERAS)
async def test_a_read_only_profile_keeps_what_only_reads(era: str) -> None:
    async with client(era, profile="reader", active=["reports"]) as one:
        names = set(await names_of(one)) - {"call_tool", "reports.activate", "reports.deactivate"}
        assert names == {"alphabet", "count_words", "lengths", "read_note", "reports.weekly", "say"}
        assert {entry["name"] for entry in (await found(one, query="note", type="tools"))["tools"]} == {"read_note"}
