"""What the tests of conversations share: document C's assistant in small, calls of it, and its turns as messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from anthropic.types import ToolUseBlock
from attrs import frozen
from openai.types.chat import ChatCompletionMessage, ChatCompletionMessageFunctionToolCall
from openai.types.chat.chat_completion_message_function_tool_call import Function
from openai.types.responses import ResponseFunctionToolCall

from toolfold import ToolResult, ToolSet
from toolfold_adapters.inprocess import Conversation

NOTHING = {"type": "object"}
FILES = ("pdf_extract_text", "pdf_info")


def phone(**options: Any) -> ToolSet:
    """Document C's assistant in small: core tools, and groups that `load_tool_group` opens."""
    tools = ToolSet("phone", **{"control": "load_tool_group", **options})
    tools.register("get_current_time", lambda: "noon", description="Return the time", input_schema=NOTHING)
    tools.register_group("pdf", "Work with PDF files", title="PDF Tools")
    tools.register_group("gmail", "Work with mail")
    tools.register_group("labels", "Work with labels", parent="gmail")
    for name in ("pdf_info", "pdf_extract_text"):
        tools.register(name, lambda: "3 pages", group="pdf", flat=True, input_schema=NOTHING, description=f"Do {name}")
    tools.register("search", lambda: "2 mails", group="gmail", input_schema=NOTHING, description="Search")
    tools.register("add", lambda: "added", group="gmail.labels", input_schema=NOTHING, description="Add a label")
    return tools


def names(conversation: Conversation) -> list[str]:
    return [definition["name"] for definition in conversation.tools()]


def load(*groups: str) -> list[tuple[str, Any]]:
    return [("load_tool_group", {"group_name": group}) for group in groups]


CORE = ["get_current_time", "load_tool_group"]


# -- turns as messages ------------------------------------------------------------------------------------------------


@frozen
class Answered:
    """A call of a turn, and what it was answered."""

    name: str
    arguments: Any
    text: str
    failed: bool = False


Turn = Sequence[Answered]


def answered(calls: Iterable[tuple[str, Any]], results: Iterable[ToolResult]) -> list[Answered]:
    """Return the calls of a turn with their results."""
    return [
        Answered(name, arguments, result.text, result.is_error)
        for (name, arguments), result in zip(calls, results, strict=True)
    ]


async def executed(conversation: Conversation, *turns: Sequence[tuple[str, Any]]) -> list[list[Answered]]:
    """Return the turns with their results, as an agent's loop carries them out: before each, it asks for the tools."""
    carried_out: list[list[Answered]] = []
    for turn in turns:
        conversation.tools()
        carried_out.append(answered(turn, await conversation.execute(turn)))
    return carried_out


def as_text(arguments: Any) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def anthropic(turns: Iterable[Turn]) -> list[Any]:
    """Return turns in the shape of Anthropic's Messages API, which marks errors."""
    messages: list[Any] = [{"role": "user", "content": "Go on"}]
    for identities, turn in _numbered(turns):
        pairs = list(zip(identities, turn, strict=True))
        uses = [{"type": "tool_use", "id": i, "name": one.name, "input": one.arguments} for i, one in pairs]
        answers = [
            {"type": "tool_result", "tool_use_id": i, "content": one.text, "is_error": one.failed} for i, one in pairs
        ]
        messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": answers}]
    return messages


def openai(turns: Iterable[Turn]) -> list[Any]:
    """Return turns in the shape of OpenAI's Chat Completions API, which marks nothing."""
    messages: list[Any] = [{"role": "user", "content": "Go on"}]
    for identities, turn in _numbered(turns):
        pairs = list(zip(identities, turn, strict=True))
        uses = [
            {"id": i, "type": "function", "function": {"name": one.name, "arguments": as_text(one.arguments)}}
            for i, one in pairs
        ]
        messages.append({"role": "assistant", "content": None, "tool_calls": uses})
        messages += [{"role": "tool", "tool_call_id": i, "content": one.text} for i, one in pairs]
    return messages


def openai_responses(turns: Iterable[Turn]) -> list[Any]:
    """Return turns as items of OpenAI's Responses API, which mark nothing."""
    items: list[Any] = [{"role": "user", "content": "Go on"}]
    for identities, turn in _numbered(turns):
        pairs = list(zip(identities, turn, strict=True))
        for i, one in pairs:
            call = {"type": "function_call", "call_id": i, "name": one.name, "arguments": as_text(one.arguments)}
            items += [{"type": "reasoning", "id": f"r{i}", "summary": []}, call]
        items += [{"type": "function_call_output", "call_id": i, "output": one.text} for i, one in pairs]
    return items


def _numbered(turns: Iterable[Turn]) -> Iterable[tuple[list[str], Turn]]:
    numbers = count()
    return [([f"c{next(numbers)}" for _ in turn], turn) for turn in turns]


SHAPES: Mapping[str, Callable[[Iterable[Turn]], list[Any]]] = {
    "anthropic": anthropic,
    "openai": openai,
    "openai_responses": openai_responses,
}


def as_objects(messages: Iterable[Any]) -> list[Any]:
    """Return messages with what a model said as the objects of the official packages, and answers in parts."""
    return [_as_object(message) for message in messages]


def _as_object(message: Any) -> Any:
    match message:
        case {"role": "assistant", "tool_calls": calls}:
            functions = [
                ChatCompletionMessageFunctionToolCall(
                    id=call["id"], type="function", function=Function(**call["function"])
                )
                for call in calls
            ]
            return ChatCompletionMessage(role="assistant", content=None, tool_calls=list(functions))
        case {"role": "assistant", "content": list(blocks)}:
            return {**message, "content": [ToolUseBlock.model_construct(**block) for block in blocks]}
        case {"type": "function_call"}:
            return ResponseFunctionToolCall(**message)
        case {"type": "function_call_output", "output": text}:
            return {**message, "output": [{"type": "input_text", "text": text}]}
        case {"role": "tool", "content": text}:
            return {**message, "content": [{"type": "text", "text": text}]}
        case _:
            return message
