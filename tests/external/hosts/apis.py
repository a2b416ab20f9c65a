"""The four APIs that hosts speak with models: what a request offers and says, and how a turn is answered."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from attrs import frozen

Body = Mapping[str, Any]
Event = Mapping[str, Any] | str
NUMBERS = count(1)


@frozen
class Offered:
    """A tool that a request offers; the Responses API may put it in a namespace."""

    name: str
    namespace: str | None = None


@frozen
class Called:
    """A call that a turn makes: of a tool with arguments, or of one that takes a program."""

    name: str
    arguments: Mapping[str, Any]
    namespace: str | None = None
    program: str | None = None

    @property
    def id(self) -> str:
        """An id that no other call has."""
        return f"call_{next(NUMBERS):06}"


Answer = str | Sequence[Called]


class API:
    """How a host and a model speak.

    `path` is what the paths end in that requests for a turn come to.
    """

    path: str

    def tools(self, body: Body) -> list[Offered]:
        """Return the tools that a request offers."""
        raise NotImplementedError

    def made(self, body: Body) -> int:
        """Return how many calls the conversation has."""
        raise NotImplementedError

    def results(self, body: Body) -> list[str]:
        """Return what they returned, as the model reads it."""
        raise NotImplementedError

    def whole(self, body: Body, answer: Answer) -> dict[str, Any]:
        """Return an answer in one piece."""
        raise NotImplementedError

    def events(self, body: Body, answer: Answer) -> list[Event]:
        """Return an answer as events."""
        raise NotImplementedError

    def call(self, body: Body, name: str, arguments: Mapping[str, Any]) -> Called:
        """Return a call of a tool by the host's name for it."""
        return Called(name, arguments)


class Anthropic(API):
    """Anthropic Messages."""

    path = "/messages"

    def tools(self, body: Body) -> list[Offered]:
        return [Offered(tool["name"]) for tool in body.get("tools") or ()]

    def made(self, body: Body) -> int:
        return sum(block["type"] == "tool_use" for block in self._blocks(body))

    def results(self, body: Body) -> list[str]:
        return [text_of(block.get("content")) for block in self._blocks(body) if block["type"] == "tool_result"]

    def events(self, body: Body, answer: Answer) -> list[Event]:
        message = self.whole(body, answer)
        events: list[Event] = [{"type": "message_start", "message": {**message, "content": [], "stop_reason": None}}]
        for index, block in enumerate(message["content"]):
            if block["type"] == "text":
                start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                start = {**block, "input": {}}
                delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
            events += [
                {"type": "content_block_start", "index": index, "content_block": start},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
        events += [
            {"type": "message_delta", "delta": end, "usage": {"output_tokens": 10}},
            {"type": "message_stop"},
        ]
        return events

    def _blocks(self, body: Body) -> Iterator[Any]:
        for message in body.get("messages", ()):
            if isinstance(message.get("content"), list):
                yield from message["content"]

    def whole(self, body: Body, answer: Answer) -> dict[str, Any]:
        content: list[dict[str, Any]] = (
            [{"type": "text", "text": answer}]
            if isinstance(answer, str)
            else [{"type": "tool_use", "id": one.id, "name": one.name, "input": one.arguments} for one in answer]
        )
        return {
            "id": f"msg_{next(NUMBERS)}",
            "type": "message",
            "role": "assistant",
            "model": body.get("model"),
            "content": content,
            "stop_reason": "end_turn" if isinstance(answer, str) else "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 100, "output_tokens": 10},
        }


class Responses(API):
    """OpenAI Responses, also where tools are called by programs (Codex's code mode)."""

    path = "/responses"

    def tools(self, body: Body) -> list[Offered]:
        loaded = (tool for item in self._items(body) for tool in item.get("tools") or ())
        return [one for tool in (*(body.get("tools") or ()), *loaded) for one in self._offered(tool)]

    def made(self, body: Body) -> int:
        return sum(item.get("type") in ("function_call", "custom_tool_call") for item in self._items(body))

    def results(self, body: Body) -> list[str]:
        kinds = ("function_call_output", "custom_tool_call_output")
        return [text_of(item.get("output")) for item in self._items(body) if item.get("type") in kinds]

    def call(self, body: Body, name: str, arguments: Mapping[str, Any]) -> Called:
        offered = self.tools(body)
        namespace = next((tool.namespace for tool in offered if tool.name == name), None)
        runner = next((tool for tool in offered if tool.name == "exec"), None)
        if runner is None or any((tool.namespace or tool.name).startswith("mcp__") for tool in offered):
            return Called(name, arguments, namespace)
        program = _PROGRAM % (json.dumps(name), json.dumps(arguments))
        return Called(runner.name, {}, runner.namespace, program)

    def events(self, body: Body, answer: Answer) -> list[Event]:
        response = self.whole(body, answer)
        begun = {**response, "status": "in_progress", "output": [], "usage": None}
        events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(response["output"]):
            events += [
                {"type": f"response.output_item.{state}", "output_index": index, "item": item}
                for state in ("added", "done")
            ]
        events.append({"type": "response.completed", "response": response})
        return [{**event, "sequence_number": number} for number, event in enumerate(events)]

    def _items(self, body: Body) -> list[Any]:
        return body["input"] if isinstance(body.get("input"), list) else []

    def _offered(self, tool: Body) -> Iterator[Offered]:
        if tool.get("type") == "namespace":
            yield from (Offered(one["name"], tool["name"]) for one in tool["tools"])
        elif tool.get("name"):
            yield Offered(tool["name"])

    def whole(self, body: Body, answer: Answer) -> dict[str, Any]:
        return {
            "id": f"resp_{next(NUMBERS)}",
            "object": "response",
            "created_at": 0,
            "status": "completed",
            "model": body.get("model"),
            "output": [_said(answer)] if isinstance(answer, str) else [_item(one) for one in answer],
            "usage": {
                "input_tokens": 100,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 10,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": 110,
            },
        }


class Chat(API):
    """OpenAI Chat Completions."""

    path = "/chat/completions"

    def tools(self, body: Body) -> list[Offered]:
        return [Offered(tool["function"]["name"]) for tool in body.get("tools") or ()]

    def made(self, body: Body) -> int:
        return sum(len(message.get("tool_calls") or ()) for message in body.get("messages", ()))

    def results(self, body: Body) -> list[str]:
        return [text_of(one.get("content")) for one in body.get("messages", ()) if one.get("role") == "tool"]

    def whole(self, body: Body, answer: Answer) -> dict[str, Any]:
        choice = {"index": 0, "message": self._message(answer), "finish_reason": self._reason(answer)}
        return {**self._base(body), "object": "chat.completion", "choices": [choice], "usage": _USAGE}

    def events(self, body: Body, answer: Answer) -> list[Event]:
        base = {**self._base(body), "object": "chat.completion.chunk"}
        turn = {"index": 0, "delta": self._message(answer), "finish_reason": None}
        end = {"index": 0, "delta": {}, "finish_reason": self._reason(answer)}
        return [
            {**base, "choices": [turn]},
            {**base, "choices": [end]},
            {**base, "choices": [], "usage": _USAGE},
            "[DONE]",
        ]

    def _base(self, body: Body) -> dict[str, Any]:
        return {"id": f"chatcmpl-{next(NUMBERS)}", "created": 0, "model": body.get("model")}

    def _reason(self, answer: Answer) -> str:
        return "stop" if isinstance(answer, str) else "tool_calls"

    def _message(self, answer: Answer) -> dict[str, Any]:
        if isinstance(answer, str):
            return {"role": "assistant", "content": answer}
        calls = [
            {
                "index": index,
                "id": one.id,
                "type": "function",
                "function": {"name": one.name, "arguments": json.dumps(one.arguments)},
            }
            for index, one in enumerate(answer)
        ]
        return {"role": "assistant", "content": "", "tool_calls": calls}


class Gemini(API):
    """Gemini's generateContent."""

    path = "enerateContent"

    def tools(self, body: Body) -> list[Offered]:
        return [
            Offered(function["name"])
            for tool in body.get("tools") or ()
            for function in tool.get("functionDeclarations", ())
        ]

    def made(self, body: Body) -> int:
        return sum("functionCall" in part for part in self._parts(body))

    def results(self, body: Body) -> list[str]:
        responses = (part["functionResponse"] for part in self._parts(body) if "functionResponse" in part)
        return [text_of(one.get("response")) for one in responses]

    def events(self, body: Body, answer: Answer) -> list[Event]:
        return [self.whole(body, answer)]

    def _parts(self, body: Body) -> Iterator[Any]:
        return (part for content in body.get("contents", ()) for part in content.get("parts", ()))

    def whole(self, body: Body, answer: Answer) -> dict[str, Any]:
        parts = (
            [{"text": answer}]
            if isinstance(answer, str)
            else [{"functionCall": {"name": one.name, "args": one.arguments, "id": one.id}} for one in answer]
        )
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 10, "totalTokenCount": 110},
        }


APIS: tuple[API, ...] = (Anthropic(), Responses(), Chat(), Gemini())

_USAGE = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
_PROGRAM = """
const wanted = %s, known = ALL_TOOLS.map((tool) => tool.name);
const name = known.find((one) => one === wanted) ?? known.find((one) => one.endsWith("_" + wanted));
if (!name) text("no tool " + wanted);
else try { text(await tools[name](%s)); } catch (error) { text("threw " + error); }
"""


def text_of(value: Any) -> str:
    """Return all texts in a value, on lines."""
    if isinstance(value, str):
        return value
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return "\n".join(filter(None, map(text_of, inner)))


def _said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": "msg", "role": "assistant", "status": "completed", "content": content}


def _item(call: Called) -> dict[str, Any]:
    """Return the item of a response that is a call."""
    about = {"call_id": call.id, "name": call.name, "status": "completed"}
    namespace = {} if call.namespace is None else {"namespace": call.namespace}
    if call.program is not None:
        return {"type": "custom_tool_call", "input": call.program, **about, **namespace}
    return {"type": "function_call", "arguments": json.dumps(call.arguments), **about, **namespace}


def stream(events: Iterable[Event]) -> str:
    """Return server-sent events; those with a type are named by it."""
    return "".join(map(_sent, events))


def _sent(event: Event) -> str:
    if isinstance(event, str):
        return f"data: {event}\n\n"
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event)}\n\n"
