"""The groups that a conversation had open, from the messages of each framework (SPEC GRP-6).

Where no state is stored with the answers, as in an agent that calls a `Conversation` from tools of its own, the calls
are replayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest
from agents import Agent
from agents.items import ToolCallItem, ToolCallOutputItem
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from openai.types.responses import ResponseFunctionToolCall
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from tests.adapters.inprocess.support import Answered, Turn, as_text, executed, load, phone
from toolfold import ToolSet, success_of
from toolfold_adapters.inprocess import Conversation

Write = Callable[[Iterable[Turn]], list[Any]]


def pydantic_ai(turns: Iterable[Turn]) -> list[Any]:
    messages: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Go on")])]
    for turn in turns:
        calls = [ToolCallPart(one.name, one.arguments) for one in turn]
        returns = [
            ToolReturnPart(
                one.name, one.text, tool_call_id=call.tool_call_id, outcome="failed" if one.failed else "success"
            )
            for one, call in zip(turn, calls, strict=True)
        ]
        messages += [ModelResponse(parts=[TextPart("Well"), *calls]), ModelRequest(parts=list(returns))]
    return messages


def pydantic_ai_in_json(turns: Iterable[Turn]) -> list[Any]:
    data: list[Any] = ModelMessagesTypeAdapter.dump_python(pydantic_ai(turns), mode="json")
    return data


def langchain(turns: Iterable[Turn]) -> list[Any]:
    messages: list[Any] = [HumanMessage("Go on")]
    for number, turn in enumerate(turns):
        ids = [f"{number}.{place}" for place in range(len(turn))]
        calls = [{"name": one.name, "args": one.arguments, "id": i} for i, one in zip(ids, turn, strict=True)]
        blocks: Any = [{"type": "tool_use", "input": call["args"], **call} for call in calls]  # as ChatAnthropic has it
        messages.append(AIMessage(content=blocks, tool_calls=cast("Any", calls)))
        messages += [
            ToolMessage(content=one.text, tool_call_id=i, status="error" if one.failed else "success")
            for i, one in zip(ids, turn, strict=True)
        ]
    return messages


def openai_agents(turns: Iterable[Turn]) -> list[Any]:
    agent = Agent[Any]("phone")
    items: list[Any] = []
    for number, turn in enumerate(turns):
        ids = [f"{number}.{place}" for place in range(len(turn))]
        for i, one in zip(ids, turn, strict=True):
            call = ResponseFunctionToolCall(
                type="function_call", call_id=i, name=one.name, arguments=as_text(one.arguments)
            )
            items.append(ToolCallItem(agent, call))
        for i, one in zip(ids, turn, strict=True):
            raw: Any = {"type": "function_call_output", "call_id": i, "output": one.text}
            items.append(ToolCallOutputItem(agent, raw, one.text))
    return items


SHAPES: dict[str, Write] = {
    "pydantic-ai": pydantic_ai,
    "pydantic-ai in JSON": pydantic_ai_in_json,
    "langchain": langchain,
    "openai-agents": openai_agents,
}

in_each_shape = pytest.mark.parametrize("write", SHAPES.values(), ids=SHAPES)
pytestmark = pytest.mark.spec("GRP-6")


@in_each_shape
async def test_the_groups_that_were_loaded_are_loaded_again_in_the_same_order(write: Write) -> None:
    tools = phone()
    async with Conversation(tools) as conversation:
        turns = await executed(conversation, load("pdf"), load("gmail", "unknown"), load("gmail.labels"))
        again = Conversation.from_history(tools, write(turns))
        assert again.loaded == conversation.loaded == ("pdf", "gmail", "gmail.labels")
        assert again.tools() == conversation.tools()


@in_each_shape
async def test_a_refusal_is_recognised_also_where_its_author_marked_it_as_a_success(write: Write) -> None:
    tools = ToolSet("desk")
    tools.register_group("a", on_activate=fail)
    async with Conversation(tools) as conversation:
        [[refused]] = await executed(conversation, [("a__open", {})])
    unmarked = Answered(refused.name, refused.arguments, refused.text)
    assert Conversation.from_history(tools, write([[unmarked]])).loaded == ()


def fail() -> None:
    raise OSError("no connection")


@pytest.mark.parametrize("write", [pydantic_ai, pydantic_ai_in_json, langchain])
def test_a_failure_that_is_marked_counts_whatever_its_text_is(write: Write) -> None:
    tools = ToolSet("desk")
    tools.register_group("gate", opens_on=success_of("login"))
    tools.register("login", lambda: "welcome", description="Log in")
    for failed, loaded in ((False, ("gate",)), (True, ())):
        messages = write([[Answered("login", {}, "no such user", failed)]])
        assert Conversation.from_history(tools, messages).loaded == loaded


def test_a_retry_in_a_history_that_an_older_pydantic_ai_stored_is_a_failure() -> None:
    tools = two_groups()
    call = {"part_kind": "tool-call", "tool_call_id": "1", "tool_name": "open_group", "args": '{"group": "a"}'}
    retry = {"part_kind": "retry-prompt", "tool_call_id": "1", "tool_name": "open_group", "content": "Try again"}
    messages = [{"kind": "response", "parts": [call]}, {"kind": "request", "parts": [retry]}]
    assert Conversation.from_history(tools, messages).loaded == ()
    messages[1]["parts"] = [{**retry, "part_kind": "tool-return"}]
    assert Conversation.from_history(tools, messages).loaded == ("a",)


# -- the states that are stored with answers --------------------------------------------------------------------------


def stored(*states: Any) -> list[Any]:
    """Return messages of pydantic-ai in which the calls of one turn are answered with these states."""
    calls = [ToolCallPart("ping", {}) for _ in states]
    returns = [
        ToolReturnPart("ping", "pong", tool_call_id=call.tool_call_id, metadata={"toolfold": state})
        for call, state in zip(calls, states, strict=True)
    ]
    return [ModelResponse(parts=list(calls)), ModelRequest(parts=list(returns))]


def two_groups(name: str = "desk") -> ToolSet:
    tools = ToolSet(name, control="open_group")
    tools.register("ping", lambda: "pong", description="Answer")
    tools.register_group("a")
    tools.register_group("b")
    return tools


async def test_of_the_states_of_one_turn_the_latest_counts_in_whatever_order_they_stand() -> None:
    tools, states = two_groups(), list[Any]()
    async with Conversation(tools) as conversation:
        for group in ("a", "b"):
            await conversation.call("open_group", {"group": group})
            states.append(conversation.dump())
    for messages in (stored(*states), stored(*reversed(states))):
        assert Conversation.from_history(tools, messages).loaded == ("a", "b")


async def test_a_state_of_another_tool_set_or_a_damaged_one_counts_for_nothing() -> None:
    async with Conversation(two_groups("other"), active="a") as conversation:
        other = conversation.dump()
    damaged = {**other, "tools": "desk", "active": 7}
    assert Conversation.from_history(two_groups(), stored(other, damaged)).loaded == ()


async def test_what_came_after_a_state_is_replayed() -> None:
    tools = two_groups()
    async with Conversation(tools, active="a") as conversation:
        messages = stored(conversation.dump())
    later = pydantic_ai([[Answered("open_group", {"group": "b"}, "Group b is open.")]])
    assert Conversation.from_history(tools, [*messages, *later]).loaded == ("a", "b")
