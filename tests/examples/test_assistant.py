"""Document C's assistant: its manual verification and its table of savings, restated for the example (GRP-6, AGT)."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from mcp import Client

from examples.assistant import build
from examples.assistant.agent import SCRIPT, Message, ScriptedModel, turn
from examples.assistant.savings import table
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.mcp import build_server
from toolfold_adapters.targets import open_target, parse_target

ROOT = Path(__file__).parents[2]


def called(messages: list[Message]) -> list[str]:
    blocks = [block for message in messages if message["role"] == "assistant" for block in message["content"]]
    return [block["name"] for block in blocks if block["type"] == "tool_use"]


async def ask(*texts: str) -> tuple[list[str], tuple[str, ...]]:
    """Return the tools that were called for some messages of the user, and the groups loaded in the end."""
    messages = list[Message]()
    async with Conversation(build()) as conversation:
        for text in texts:
            await turn(conversation, ScriptedModel(), messages, text)
        return called(messages), conversation.loaded


@pytest.mark.spec("GRP-6", "AGT-1")
async def test_document_c_manual_verification_1_mail_is_loaded_first_and_then_used() -> None:
    assert await ask("Check my mail.") == (["load_tool_group", "mail_search"], ("mail",))


@pytest.mark.spec("GRP-6", "AGT-1")
async def test_document_c_manual_verification_2_the_time_needs_no_group() -> None:
    assert await ask("What time is it?") == (["get_current_time"], ())


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


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_the_same_tools_can_be_served_to_mcp_clients_of_both_eras(era: str) -> None:
    async with Client(build_server(build()), mode=era) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"get_current_time", "load_tool_group", "recall", "remember"} <= names
        assert "mail_search" not in names
        loaded = await client.call_tool("load_tool_group", {"group_name": "mail"})
        assert not loaded.is_error
        assert "mail_search" in loaded.content[0].text  # type: ignore[union-attr]


async def test_the_assistant_is_a_target_of_the_command_line() -> None:
    async with open_target(parse_target("examples.assistant:tools")) as opened:
        assert opened.tools.name == "assistant"
