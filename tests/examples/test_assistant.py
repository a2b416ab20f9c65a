"""Document C's assistant: its manual verification and its table of savings, restated for the example (GRP-6, AGT)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Literal

import pytest
from mcp import Client, StdioServerParameters

from examples.assistant import build
from examples.assistant.agent import BASE, SCRIPT, Message, ScriptedModel, Wish, turn
from examples.assistant.savings import table
from tests.adapters.cli.support import PROGRAM
from tests.adapters.mcp.support import without_schemas
from tests.examples.callers import UNKNOWN, WAYS, connected
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import build_server
from toolfold_adapters.targets import open_target, parse_target

ROOT = Path(__file__).parents[2]


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


@pytest.mark.spec("GRP-6", "AGT-1")
async def test_document_c_manual_verification_1_mail_is_loaded_first_and_then_used() -> None:
    assert await ask("Check my mail.") == (["load_tool_group", "mail_search"], ("mail",))


@pytest.mark.spec("GRP-6", "AGT-1")
async def test_document_c_manual_verification_2_the_time_needs_no_group() -> None:
    assert await ask("What time is it?") == (["get_current_time"], ())


@pytest.mark.spec("GRP-6", "AGT-1")
async def test_document_c_manual_verification_3_sheets_are_loaded_before_one_is_made() -> None:
    model = ScriptedModel({"Make a spreadsheet.": [Wish("sheet_create", {"title": "Budget"}, "sheets")]})
    assert await ask("Make a spreadsheet.", model=model) == (["load_tool_group", "sheet_create"], ("sheets",))


@pytest.mark.spec("GRP-6")
async def test_document_c_manual_verification_4_a_new_conversation_has_no_group_loaded() -> None:
    tools = build()
    async with Conversation(tools) as conversation:
        await turn(conversation, ScriptedModel(), [], "Check my mail.")
        assert conversation.loaded == ("mail",)
    assert Conversation(tools).loaded == ()


@pytest.mark.spec("GRP-6", "AGT-1", "AGT-2")
async def test_a_group_is_loaded_once_for_the_whole_conversation() -> None:
    calls, loaded = await ask(*SCRIPT)
    assert loaded == ("mail", "calendar")
    assert calls == [
        "get_current_time",
        "load_tool_group",
        "mail_search",
        "load_tool_group",
        "mail_read",
        "calendar_is_free",
        "calendar_add",
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
            assert await turn(again, ScriptedModel(), history, texts[3]) == "e4"
            assert called(history) == ["calendar_add"]


@pytest.mark.spec("AGT-4")
def test_document_c_table_of_token_savings_has_the_same_shape() -> None:
    rows = table(build())
    assert len({row.before for row in rows}) == 1
    assert all(one.after < other.after for one, other in pairwise(rows))
    saved = [1 - row.after / row.before for row in rows]
    assert saved[0] >= 0.83
    assert saved[1] >= 0.75
    assert saved[2] >= 0.48
    assert -0.1 < saved[3] < 0


@pytest.mark.spec("AGT-4")
def test_one_command_prints_the_conversation_and_the_table() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "examples.assistant"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert "[groups loaded: mail, calendar;" in run.stdout
    printed = run.stdout.splitlines()[-4:]
    for line, row in zip(printed, table(build()), strict=True):
        assert line.startswith(row.scenario)
        assert re.findall(r"-?[\d,]+", line.removeprefix(row.scenario))[:2] == [f"{row.before:,}", f"{row.after:,}"]


@pytest.mark.spec("AGT-2")
async def test_every_tool_of_every_collection_works() -> None:
    tools = build()
    async with Conversation(tools, active=[group.path for group in tools.catalog.groups]) as conversation:

        async def text(name: str, /, **arguments: object) -> str:
            (result,) = await conversation.execute([(name, arguments)])
            assert not result.is_error, result.text
            return result.text

        items = [name.removesuffix("_create") for name in tools.catalog.tools if name.endswith("_create")]
        assert len(items) == 17
        for item in items:
            first = tools.catalog.tools[f"{item}_create"].input_schema["required"][0]
            made = await conversation.execute([(f"{item}_create", {first: "brand new"})])
            id = made[0].structured["id"]
            await text(f"{item}_update", id=id, **{first: "newer"})
            assert "newer" in await text(f"{item}_get", id=id)
            assert "newer" in await text(f"{item}_list", words="NEWER")
            await text(f"{item}_delete", id=id)
            (gone,) = await conversation.execute([(f"{item}_get", {"id": id})])
            assert (gone.is_error, gone.text) == (True, f"There is no {item} number {id}; list what there is.")


async def test_mail_and_calendar_work_on_their_data_and_each_build_has_its_own() -> None:
    async with Conversation(build(), active=["mail", "calendar"]) as conversation:
        results = await conversation.execute(
            [
                ("mail_draft", {"to": "omar@example.org", "subject": "Slide 7", "body": "Fine."}),
                ("calendar_list", {"first": "2026-03-03", "last": "2026-03-04"}),
                ("mail_read", {"id": "m99"}),
            ]
        )
        assert results[0].text == "m4"
        assert [event["id"] for event in json.loads(results[1].text)] == ["e1", "e2"]
        assert results[2].is_error
        for name, arguments in (
            ("mail_send_draft", {"id": "m4"}),
            ("mail_label", {"id": "m1", "label": "friends"}),
            ("mail_unlabel", {"id": "m1", "label": "unread"}),
            ("mail_archive", {"id": "m1"}),
            ("mail_send", {"to": "a@example.org", "subject": "s", "body": "b"}),
            ("calendar_move", {"id": "e1", "start": "2026-03-05T09:00", "end": "2026-03-05T10:00"}),
            ("calendar_remove", {"id": "e2"}),
        ):
            (result,) = await conversation.execute([(name, arguments)])
            assert not result.is_error, result.text
        read, free = await conversation.execute(
            [
                ("mail_read", {"id": "m1"}),
                ("calendar_is_free", {"start": "2026-03-05T09:30", "end": "2026-03-05T11:00"}),
            ]
        )
        assert read.structured["labels"] == ["friends"]
        assert free.text == "false"
    async with Conversation(build(), active=["mail"]) as other:
        (read,) = await other.execute([("mail_read", {"id": "m1"})])
        assert read.structured["labels"] == ["inbox"]


LOADED = """\
Loaded 8 tools from group 'mail':
- mail_archive: Take a message out of the inbox and keep it.
- mail_draft: Keep a message as a draft and return its id.
- mail_label: Put a label on a message.
- mail_read: Read a whole message; it is no longer unread then.
- mail_search: Find messages, the newest first, with id, sender and subject of each.
- mail_send: Send a new message and return its id.
- mail_send_draft: Send a draft.
- mail_unlabel: Take a label off a message."""
NOT_FOUND = (
    "Tool group 'nonexistent' not found. Available groups: calendar, contacts, documents, files, forms, mail, "
    "schedule, settings, sheets, slides, tasks"
)


@pytest.mark.spec("GRP-3", "GRP-6", "DEL-1", "DEL-2")
@pytest.mark.parametrize("way", WAYS)
async def test_document_c_manual_verification_holds_for_clients_of_the_server_as_well(way: str) -> None:
    """Document C, manual verification and formats of answers: in the same words as in the agent's own loop."""
    tools = build()
    async with WAYS[way](tools) as client:
        core = await client.names()
        assert core == ["get_current_time", "load_tool_group", "recall", "remember"]
        assert (await client.call("get_current_time", {}))[0] is False
        assert await client.call("mail_search", {"label": "unread"}) == (True, UNKNOWN)
        assert await client.call("load_tool_group", {"group_name": "nonexistent"}) == (True, NOT_FOUND)
        _, text = await client.call("load_tool_group", {"group_name": "mail"})
        assert without_schemas(text)[:9] == LOADED.splitlines()
        failed, text = await client.call("mail_search", {"label": "unread"})
        assert not failed
        assert "m1" in text
        assert not (await client.call("load_tool_group", {"group_name": "sheets"}))[0]
        assert await client.call("sheet_create", {"title": "Budget"}) == (False, '{"id": 1}')
        assert {"mail_search", "sheet_create"} <= set(await client.names())
    async with WAYS[way](tools) as another:
        assert await another.names() == core


@pytest.mark.spec("GRP-5", "AGT-1")
async def test_document_c_system_prompt_has_a_line_for_each_group_whatever_is_loaded() -> None:
    """Document C, system prompt format; a client of the server is told the same in its instructions."""
    tools = build()
    async with Conversation(tools) as conversation:
        prompt = conversation.system_prompt(BASE)
        head, _, section = prompt.partition("\n\n---\n\n")
        assert head == BASE
        title, _, use, _, *lines = section.splitlines()
        assert (title, "`load_tool_group`" in use) == ("## Available Tool Groups", True)
        assert lines == [f"- {group.path}: {group.description}" for group in tools.groups()]
        await conversation.execute([("load_tool_group", {"group_name": "mail"})])
        assert conversation.system_prompt(BASE) == prompt
    for era in ("legacy", "auto"):
        async with Client(build_server(tools), mode=era) as client:
            assert (client.instructions or "").splitlines()[-len(lines) :] == lines


async def test_the_assistant_is_a_target_of_the_command_line() -> None:
    async with open_target(parse_target("examples.assistant:tools")) as opened:
        assert opened.tools.name == "assistant"


@pytest.mark.spec("GRP-3", "GRP-6", "DEL-10")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_it_is_served_by_the_command_line(era: Literal["legacy", "auto"]) -> None:
    """Document C, manual verification 1, with the server as a process of its own."""
    command = [*PROGRAM[1:], "serve", "examples.assistant:tools"]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    server = StdioServerParameters(command=PROGRAM[0], args=command, cwd=ROOT, env=environment)
    async with connected(server, era) as client:
        assert "mail_search" not in await client.names()
        assert not (await client.call("load_tool_group", {"group_name": "mail"}))[0]
        assert "mail_search" in await client.names()
        assert not (await client.call("mail_search", {"label": "unread"}))[0]


@pytest.mark.spec("SES-5", "SES-1")
@pytest.mark.parametrize("way", WAYS)
async def test_what_is_remembered_is_recalled_in_that_conversation_alone(way: str) -> None:
    tools = build()
    async with WAYS[way](tools) as client, WAYS[way](tools) as other:
        failed, text = await client.call("remember", {"text": "Ada likes tea"})
        assert (failed, text.splitlines()[0]) == (False, "Noted.")
        failed, text = await client.call("recall", {"words": "TEA"})
        assert (failed, "Ada likes tea" in text) == (False, True)
        assert "Ada" not in (await other.call("recall", {}))[1]
        assert (await client.call("remember", {"text": "x" * 3000}))[0]
        assert "Ada likes tea" in (await client.call("recall", {}))[1]


@pytest.mark.spec("PER-1", "GRP-6")
async def test_what_is_remembered_goes_on_after_a_restart() -> None:
    async with Conversation(build()) as conversation:
        await conversation.execute([("remember", {"text": "Ada likes tea"})])
        stored = conversation.dump()
    async with Conversation.restore(build(), stored) as restored:
        (result,) = await restored.execute([("recall", {})])
        assert "Ada likes tea" in result.text
