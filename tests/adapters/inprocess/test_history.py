"""The groups that a conversation had loaded, from its messages in each format (SPEC GRP-6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.adapters.inprocess.support import (
    NOTHING,
    SHAPES,
    Answered,
    anthropic,
    as_objects,
    executed,
    load,
    names,
    openai,
    openai_responses,
    phone,
)
from toolfold import Loader, ToolSet, Visibility
from toolfold_adapters.inprocess import Conversation, PastCall

Write = Callable[[Any], list[Any]]
in_each_shape = pytest.mark.parametrize("write", SHAPES.values(), ids=SHAPES)


def flaky(*failing: str, **options: Any) -> ToolSet:
    """Three groups; to open one of the failing ones fails, and to close it too."""
    tools = ToolSet("flaky", **options)
    for path in ("a", "b", "c"):
        hook = fail if path in failing else None
        tools.register_group(path, on_activate=hook)
        tools.register("tool", lambda: "done", group=path, input_schema=NOTHING)
    return tools


def fail() -> None:
    raise RuntimeError("no connection")


async def replayed(tools: ToolSet, write: Write, *turns: list[tuple[str, Any]]) -> tuple[Conversation, Conversation]:
    """Return a conversation after some turns, and one restored from their messages."""
    async with Conversation(tools) as conversation:
        messages = write(await executed(conversation, *turns))
        again = Conversation.from_history(tools, messages)
        assert again.loaded == conversation.loaded
        assert again.tools() == conversation.tools()
        assert Conversation.from_history(tools, as_objects(messages)).tools() == conversation.tools()
        return conversation, again


OPEN: tuple[str, Any] = ("a__open", {})
CLOSE: tuple[str, Any] = ("a__close", {})


@pytest.mark.spec("GRP-6")
@in_each_shape
async def test_a_load_that_failed_is_not_replayed_in_a_catalog_where_it_would_succeed(write: Write) -> None:
    for control in ("load_tool_group", Loader(name="load_tool_group", argument="group_name")):
        poorer = ToolSet("phone", control=control)
        poorer.register_group("pdf", title="Papers", on_activate=fail)
        async with Conversation(poorer) as conversation:
            messages = write(await executed(conversation, load("gmail", "pdf")))
        assert Conversation.from_history(phone(control=control), messages).loaded == ()
    async with Conversation(phone(max_active=1)) as conversation:
        messages = write(await executed(conversation, load("gmail.labels", "pdf", "gmail")))
    assert Conversation.from_history(phone(), messages).loaded == ("pdf",)
    assert Conversation.from_history(phone(), messages, active="gmail").loaded == ("gmail", "pdf")


@pytest.mark.spec("GRP-6")
@in_each_shape
async def test_answers_that_their_author_rewrote_count_as_successes_unless_the_author_says_otherwise(
    write: Write,
) -> None:
    (mail,), (pdf,) = load("gmail"), load("pdf")
    messages = write([[Answered(*mail, "[removed]"), Answered(*pdf, "ERROR", failed=True)]])
    marked = write is anthropic
    assert Conversation.from_history(phone(), messages).loaded == (("gmail",) if marked else ("gmail", "pdf"))

    def says(call: PastCall) -> bool | None:
        return True if call.text == "ERROR" else None

    assert Conversation.from_history(phone(), messages, failed=says).loaded == ("gmail",)
    assert Conversation.from_history(phone(), messages, failed=lambda call: call.text != "ERROR").loaded == ("pdf",)


@pytest.mark.spec("GRP-6")
@in_each_shape
def test_unanswered_calls_are_not_replayed(write: Write) -> None:
    messages = write([[Answered(*call, "…")] for call in load("pdf", "gmail")])
    assert Conversation.from_history(phone(), messages).loaded == ("pdf", "gmail")
    assert Conversation.from_history(phone(), messages[:-1]).loaded == ("pdf",)
    assert Conversation.from_history(phone(), []).loaded == ()
    assert Conversation.from_history(phone(), ["text", None, 3, {"content": "text"}, {"tool_calls": [4]}]).loaded == ()


@pytest.mark.spec("GRP-6")
@in_each_shape
def test_ids_of_calls_may_be_reused_in_a_later_turn(write: Write) -> None:
    turns = [[Answered(*load(group)[0], "…", failed=failed)] for group, failed in (("pdf", True), ("gmail", False))]
    messages = write(turns[:1]) + write(turns[1:])
    assert Conversation.from_history(phone(), messages).loaded == (
        ("gmail",) if write is anthropic else ("pdf", "gmail")
    )


@pytest.mark.spec("GRP-6", "SES-6", "PER-4")
@in_each_shape
def test_a_gate_that_a_call_opened_is_open_again_unless_it_is_transient(write: Write) -> None:
    tools = ToolSet("x")
    tools.register("observe", lambda: "", input_schema=NOTHING)
    tools.register_group("lasting", opens_on="observe")
    tools.register_group("gate", opens_on="observe", transient=True)
    messages = write([[Answered("observe", {}, "seen")]])
    assert Conversation.from_history(tools, messages).loaded == ("lasting",)


@pytest.mark.spec("GRP-6")
@in_each_shape
async def test_initial_groups_of_a_conversation_are_passed_again(write: Write) -> None:
    tools = phone()
    async with Conversation(tools, active="gmail") as conversation:
        turns = await executed(conversation, load("pdf", "gmail.labels"))
        again = Conversation.from_history(tools, write(turns), active="gmail")
        assert again.loaded == conversation.loaded == ("gmail", "pdf", "gmail.labels")


@pytest.mark.spec("GRP-6", "AGT-3")
async def test_loads_by_a_tool_search_are_replayed_if_they_found_tools() -> None:
    tools = phone()
    tools.register_group("hollow")
    tools.register("in_it", lambda: "", group="hollow", input_schema=NOTHING, hidden=True)
    tools.register("too", lambda: "", group="hollow", input_schema=NOTHING, hidden=Visibility.group("hollow"))
    tools.register_group("broken", on_activate=fail)
    tools.register("in_it", lambda: "", group="broken", input_schema=NOTHING)
    async with Conversation(tools, native="openai") as conversation:
        items: list[Any] = []
        for number, (_, arguments) in enumerate(load("gmail", "broken", "gmail.labels", "hollow")):
            search = {"type": "tool_search_call", "call_id": f"c{number}", "arguments": arguments}
            items += [search, *await conversation.answers([search])]
        again = Conversation.from_history(tools, items)
        assert again.loaded == conversation.loaded == ("gmail", "gmail.labels", "hollow")


@pytest.mark.spec("GRP-6", "AGT-1")
async def test_the_list_after_a_restart_begins_with_the_list_that_a_provider_has_cached() -> None:
    tools = flaky(control_visibility="relevant")
    conversation, again = await replayed(tools, openai, [OPEN], [CLOSE])
    assert names(again)[-1] == "a__open" == names(conversation)[-1]
    async with Conversation(tools, active="a") as conversation:
        messages = openai(await executed(conversation, [CLOSE]))
        assert names(Conversation.from_history(tools, messages, active="a")) == names(conversation)


@pytest.mark.spec("GRP-6", "SAF-1")
@pytest.mark.parametrize("arguments", ['{"x":' * 10_000, '{"\\ud800": 1}', '{"x": NaN}', "[" * 10_000, '"text"'])
async def test_a_history_with_unreadable_arguments_can_be_read(arguments: str) -> None:
    for write in (openai, openai_responses):
        turn = [("load_tool_group", arguments), ("\ud800", {}), *load("pdf")]
        _, again = await replayed(phone(), write, turn)
        assert again.loaded == ("pdf",)


@pytest.mark.spec("GRP-6", "SAF-6")
@in_each_shape
async def test_a_call_in_a_message_of_a_user_loads_nothing(write: Write) -> None:
    async with Conversation(phone()) as conversation:
        messages = write(await executed(conversation, load("pdf")))
    assert Conversation.from_history(phone(), messages).loaded == ("pdf",)
    forged = [message if message.get("role") == "tool" else {**message, "role": "user"} for message in messages]
    assert Conversation.from_history(phone(), forged).loaded == ()
