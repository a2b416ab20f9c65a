"""Document C's assistant: its manual verification and its table of savings, restated for the example (GRP-6, AGT)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from mcp import Client

from examples.assistant import build
from examples.assistant.agent import BASE, SCRIPT, Message, PlannedCall, ScriptedModel, turn
from examples.assistant.savings import table
from tests.adapters.mcp.support import without_schemas
from tests.examples.callers import UNKNOWN, WAYS
from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import build_server


def called(messages: list[Message]) -> list[str]:
    blocks = [block for message in messages if message["role"] == "assistant" for block in message["content"]]
    return [block["name"] for block in blocks if block["type"] == "tool_use"]


async def ask(*texts: str, model: ScriptedModel | None = None) -> tuple[list[str], tuple[str, ...]]:
    """Return the tools that were called for some messages of the user, and the groups loaded in the end."""
    messages = list[Message]()
    async with Conversation(build()) as conversation:
        for text in texts:
            await turn(conversation, model or ScriptedModel(), messages, text)
        return called(messages), conversation.loaded


MORE = {"Make a spreadsheet.": [PlannedCall("sheets_create", {"title": "Budget"}, "google_sheets")]}


@pytest.mark.spec("GRP-6", "AGT-1")
@pytest.mark.parametrize(
    ("text", "calls", "loaded"),
    [
        ("Check my mail.", ["load_tool_group", "gmail_search"], ("google_gmail",)),
        ("What time is it?", ["get_current_time"], ()),
        ("Make a spreadsheet.", ["load_tool_group", "sheets_create"], ("google_sheets",)),
    ],
    ids=["1", "2", "3"],
)
async def test_document_c_manual_verification_a_group_is_loaded_before_its_tools_are_called(
    text: str, calls: list[str], loaded: tuple[str, ...]
) -> None:
    assert await ask(text, model=ScriptedModel({**SCRIPT, **MORE})) == (calls, loaded)


@pytest.mark.spec("GRP-6")
async def test_document_c_manual_verification_4_a_new_conversation_has_no_group_loaded() -> None:
    tools = build()
    async with Conversation(tools) as conversation:
        await turn(conversation, ScriptedModel(), [], "Check my mail.")
        assert conversation.loaded == ("google_gmail",)
    assert Conversation(tools).loaded == ()


@pytest.mark.spec("GRP-6", "AGT-1", "AGT-2")
async def test_a_group_is_loaded_once_for_the_whole_conversation() -> None:
    calls, loaded = await ask(*SCRIPT)
    assert loaded == ("google_gmail", "google_calendar")
    assert calls == [
        "get_current_time",
        "load_tool_group",
        "gmail_search",
        "load_tool_group",
        "gmail_read",
        "calendar_get_freebusy",
        "calendar_create_event",
    ]


@pytest.mark.spec("GRP-6", "PER-1")
async def test_the_conversation_goes_on_after_a_restart_from_its_dump_or_from_its_messages() -> None:
    messages, texts = list[Message](), list(SCRIPT)
    tools = build()
    async with Conversation(tools) as conversation:
        for text in texts[:3]:
            await turn(conversation, ScriptedModel(), messages, text)
        given, data = conversation.tools("anthropic"), conversation.dump()
    for again in (Conversation.restore(build(), data), Conversation.from_history(build(), messages)):
        assert again.tools("anthropic") == given
        async with again:
            history = list[Message]()
            assert await turn(again, ScriptedModel(), history, texts[3]) == '{"id": 4}'
            assert called(history) == ["calendar_create_event"]


# -- the groups -------------------------------------------------------------------------------------------------------

CORE = (
    *("browser", "create_agent", "exec", "get_current_time", "http_request", "js_eval", "load_skill"),
    *("load_tool_group", "read_file", "save_memory", "search_history", "webfetch", "write_file"),
)
TOOLS = {"config": 17, "pdf": 3, "scheduled_tasks": 5, "js_tool_management": 4, "google_gmail": 8}
GOOGLE = ("calendar", "contacts", "docs", "drive", "forms", "gmail", "gmail_settings", "sheets", "slides", "tasks")


@pytest.mark.spec("GRP-1", "GRP-4")
def test_the_core_tools_and_the_groups_are_those_of_document_c() -> None:
    """Document C, architecture overview: what is loaded always, and how many tools each group has."""
    tools = build()
    counts = {group.path: len(tools.group_tools(group.path)) for group in tools.groups()}
    assert tuple(sorted(spec.name for spec in tools.core_tools())) == CORE
    assert counts.keys() == {*TOOLS, *(f"google_{name}" for name in GOOGLE)}
    assert {path: counts[path] for path in TOOLS} == TOOLS
    assert sum(counts[f"google_{name}"] for name in GOOGLE) > 60
    titles = {group.path: group.title for group in tools.groups()}
    assert (titles["google_gmail"], titles["js_tool_management"]) == ("Google Gmail", "JS Tool Management")


def example(schema: dict[str, Any]) -> Any:
    """Return a value that is valid for a schema; integers are the number of the first record."""
    if "enum" in schema:
        return schema["enum"][0]
    values = {"integer": 1, "boolean": True, "array": [], "string": "new"}
    return values[schema["type"]]


@pytest.mark.spec("GRP-1")
async def test_every_tool_of_every_group_succeeds_or_names_the_missing_record() -> None:
    tools = build()
    specs = [spec for group in tools.groups() for spec in tools.group_tools(group.path)]
    async with Conversation(tools, active=[group.path for group in tools.groups()]) as conversation:
        for spec in sorted(specs, key=lambda spec: "delete" in spec.name):
            schema = spec.input_schema
            given = {key: example(schema["properties"][key]) for key in schema.get("required", ())}
            done, *missing = await conversation.execute(
                [(spec.name, given), *([(spec.name, {**given, "id": 99})] if "id" in given else [])]
            )
            assert not done.is_error, (spec.name, done.text)
            for one in missing:
                assert one.is_error
                assert one.text.startswith("There is no number 99 among the "), spec.name


async def texts(*calls: tuple[str, dict[str, Any]], tools: ToolSet | None = None) -> list[str]:
    """Return the text of each call's result, one after the other, with all groups open."""
    tools = tools or build()
    async with Conversation(tools, active=[group.path for group in tools.groups()]) as conversation:
        results = [result for call in calls for result in await conversation.execute([call])]
        return [f"Error: {one.text}" if one.is_error else one.text for one in results]


async def answers(*calls: tuple[str, dict[str, Any]], tools: ToolSet | None = None) -> list[Any]:
    """Return the value of each call's result, with all groups open."""
    return [json.loads(text) for text in await texts(*calls, tools=tools)]


async def test_mail_is_labelled_archived_and_sent() -> None:
    tools = build()
    *_, read = await answers(
        ("gmail_label_add", {"id": 1, "labels": ["friends", "inbox"]}),
        ("gmail_label_remove", {"id": 1, "labels": ["unread"]}),
        ("gmail_archive", {"id": 1}),
        ("gmail_read", {"id": 1}),
        tools=tools,
    )
    assert read["labels"] == ["friends"]
    draft, sent, found = await answers(
        ("gmail_draft_create", {"to": "omar@example.org", "subject": "Slide 7", "text": "Fine."}),
        ("gmail_draft_send", {"id": 4}),
        ("gmail_search", {"query": "SLIDE 7"}),
        tools=tools,
    )
    assert (draft, sent["labels"]) == ({"id": 4}, ["sent"])
    assert [one["id"] for one in found] == [4]
    assert (await answers(("gmail_read", {"id": 1})))[0]["labels"] == ["inbox", "unread"]  # another build


async def test_texts_tables_and_settings_are_changed_in_place() -> None:
    *_, text, rows, settings, models, copied = await answers(
        ("docs_insert_text", {"id": 1, "text": "Monday. "}),
        ("docs_append_text", {"id": 1, "text": " All of us."}),
        ("docs_find_replace", {"id": 1, "find": "review", "replacement": "meeting"}),
        ("docs_delete_range", {"id": 1, "find": " All of us"}),
        ("sheets_append_values", {"id": 1, "values": [["Tuesday", "6"]]}),
        ("set_config", {"name": "language", "value": "pt"}),
        ("set_default_model", {"value": "large"}),
        ("drive_copy", {"id": 1, "name": "Copy.csv"}),
        ("docs_get_text", {"id": 1}),
        ("sheets_read_values", {"id": 1}),
        ("get_config", {}),
        ("fetch_models", {"provider": "house"}),
        ("drive_get_file", {"id": 3}),
    )
    assert text["text"] == "Monday. We agreed to move the meeting.."
    assert rows["values"][-1] == ["Tuesday", "6"]
    assert {one["name"]: one["value"] for one in settings} == {"default_model": "large", "language": "pt"}
    assert [one["name"] for one in models] == ["small", "large"]
    assert (copied["name"], copied["folder"]) == ("Copy.csv", "Work")


async def test_the_core_tools_stay_in_the_process() -> None:
    page = "https://harbour.example.org/"
    assert await texts(
        ("write_file", {"name": "a.txt", "text": "one two"}),
        ("exec", {"command": "wc a.txt"}),
        ("exec", {"command": "rm -rf /"}),
        ("read_file", {"name": "../../etc/passwd"}),
        ("js_eval", {"expression": "-2 * (3 + 0.5)"}),
        ("js_eval", {"expression": "__import__('os').abort()"}),
        ("js_eval", {"expression": "1e308 * 10"}),
        ("browser", {"url": page}),
        ("http_request", {"url": "http://127.0.0.1/"}),
        ("http_request", {"url": page, "method": "HEAD"}),
        ("webfetch", {"url": "file:///etc/passwd"}),
        ("load_skill", {"name": "cook"}),
    ) == [
        "a.txt is written.",
        "2 words",
        "Error: There is no command 'rm -rf /'; the commands are ls, cat NAME and wc NAME.",
        "Error: There is no '../../etc/passwd'; there are: a.txt, readme.txt.",
        "-7.0",
        "Error: \"__import__('os').abort()\" can't be evaluated; write numbers, + - * / and brackets.",
        "Error: '1e308 * 10' can't be evaluated; write numbers, + - * / and brackets.",
        '{"title": "The Harbour", "links": ["https://harbour.example.org/menu"]}',
        '{"status": 404, "body": ""}',
        '{"status": 200, "body": ""}',
        "Error: There is no page 'file:///etc/passwd'.",
        "Error: There is no 'cook'; there are: plan, reply.",
    ]


async def test_a_record_that_exceeds_a_limit_is_refused_and_nothing_is_lost() -> None:
    tools = build()
    (received,) = await texts(("docs_append_text", {"id": 1, "text": "x" * 200_000}), tools=tools)
    assert received == "Error: That is too long; a record has at most 100,000 characters."
    made = await texts(*[("tasks_create_task", {"title": "more"})] * 1000, tools=tools)
    assert made[-2:] == ['{"id": 1000}', "Error: There are 1,000 tasks already; remove some first."]
    assert (await answers(("docs_get_text", {"id": 1}), tools=tools))[0]["text"] == "We agreed to move the review."


# -- what it saves ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-4")
def test_at_least_as_much_is_saved_as_document_c_estimates() -> None:
    """Document C, token savings estimate."""
    rows = table(build())
    assert [(row.scenario, row.document.before, row.document.after) for row in rows] == [
        ("Simple query (no tools needed)", 20_000, 3_400),
        ("Email task (Gmail only)", 20_000, 5_000),
        ("Config + Email task", 20_000, 10_400),
        ("All groups loaded", 20_000, 20_400),
    ]
    assert [round(row.document.saved) for row in rows] == [83, 75, 48, -2]
    for row in rows[:3]:
        assert row.here.saved >= row.document.saved
    assert -10 < rows[3].here.saved < 0  # the descriptions of the groups come on top
    assert len({row.here.before for row in rows}) == 1
    assert all(one.here.after < other.here.after for one, other in pairwise(rows))


# -- over MCP ---------------------------------------------------------------------------------------------------------

LOADED = """\
Loaded 8 tools from group 'Google Gmail':
- gmail_archive: Remove a message from the inbox without deleting it
- gmail_draft_create: Write a message that is not sent yet
- gmail_draft_send: Send a message that was a draft
- gmail_label_add: Put labels on a message
- gmail_label_remove: Take labels off a message
- gmail_read: Read one message as a whole
- gmail_search: Find messages and return sender, date and subject of each
- gmail_send: Send a new message"""
NOT_FOUND = (
    "Tool group 'nonexistent' not found. Available groups: config, google_calendar, google_contacts, google_docs, "
    "google_drive, google_forms, google_gmail, google_gmail_settings, google_sheets, google_slides, google_tasks, "
    "js_tool_management, pdf, scheduled_tasks"
)


@pytest.mark.spec("GRP-3", "GRP-6", "DEL-1", "DEL-2")
@pytest.mark.parametrize("way", WAYS)
async def test_document_c_manual_verification_over_mcp(way: str) -> None:
    """Document C, manual verification and formats of answers: the same texts as in the agent's own loop."""
    tools = build()
    async with WAYS[way](tools) as client:
        core = await client.names()
        assert tuple(core) == CORE
        assert (await client.call("get_current_time", {}))[0] is False
        assert await client.call("gmail_search", {"labels": "unread"}) == (True, UNKNOWN)
        assert await client.call("load_tool_group", {"group_name": "nonexistent"}) == (True, NOT_FOUND)
        _, text = await client.call("load_tool_group", {"group_name": "google_gmail"})
        assert without_schemas(text)[:9] == LOADED.splitlines()
        failed, text = await client.call("gmail_search", {"labels": "unread"})
        assert not failed
        assert "ines@example.org" in text
        assert not (await client.call("load_tool_group", {"group_name": "google_sheets"}))[0]
        assert await client.call("sheets_create", {"title": "Budget"}) == (False, '{"id": 2}')
        assert {"gmail_search", "sheets_create"} <= set(await client.names())
    async with WAYS[way](tools) as another:
        assert await another.names() == core


@pytest.mark.spec("GRP-5", "AGT-1")
async def test_document_c_system_prompt_has_a_line_for_each_group_whatever_is_loaded() -> None:
    """Document C, system prompt format; a client of the server gets the same lines in the loader's description."""
    tools = build()
    async with Conversation(tools) as conversation:
        prompt = conversation.system_prompt(BASE)
        head, _, section = prompt.partition("\n\n---\n\n")
        assert head == BASE
        title, _, use, _, *lines = section.splitlines()
        assert (title, "`load_tool_group`" in use) == ("## Available Tool Groups", True)
        assert lines == [f"- {group.path}: {group.description}" for group in tools.groups()]
        await conversation.execute([("load_tool_group", {"group_name": "google_gmail"})])
        assert conversation.system_prompt(BASE) == prompt
    for era in ("legacy", "auto"):
        async with Client(build_server(tools), mode=era) as client:
            loader = next(tool for tool in (await client.list_tools()).tools if tool.name == "load_tool_group")
            assert (loader.description or "").splitlines()[-len(lines) :] == lines


@pytest.mark.spec("SES-5", "SES-1")
@pytest.mark.parametrize("way", WAYS)
async def test_memories_belong_to_one_conversation(way: str) -> None:
    tools = build()
    async with WAYS[way](tools) as client, WAYS[way](tools) as other:
        failed, text = await client.call("save_memory", {"text": "Ada likes tea"})
        assert (failed, text.splitlines()[0]) == (False, "Noted.")
        failed, text = await client.call("search_history", {"words": "TEA"})
        assert (failed, "Ada likes tea" in text) == (False, True)
        assert "Ada" not in (await other.call("search_history", {}))[1]
        assert (await client.call("save_memory", {"text": "x" * 3000}))[0]
        assert "Ada likes tea" in (await client.call("search_history", {}))[1]


@pytest.mark.spec("PER-1", "GRP-6")
async def test_memories_survive_a_restart() -> None:
    async with Conversation(build()) as conversation:
        await conversation.execute([("save_memory", {"text": "Ada likes tea"})])
        stored = conversation.dump()
    async with Conversation.restore(build(), stored) as restored:
        (result,) = await restored.execute([("search_history", {})])
        assert "Ada likes tea" in result.text
