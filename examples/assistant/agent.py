"""An agent loop, and a model without a network: a script that calls only tools that it is offered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from attrs import Factory, define, frozen

from toolfold_adapters.inprocess import Conversation

BASE = "You are an assistant that helps with mail, dates and documents."

Message = dict[str, Any]


@frozen
class PlannedCall:
    """A call that the model makes for a user's message, and the group in which it expects the tool."""

    tool: str
    arguments: Mapping[str, Any] = {}
    group: str | None = None


SCRIPT: Mapping[str, Sequence[PlannedCall]] = {
    "What time is it?": [PlannedCall("get_current_time")],
    "Check my mail.": [PlannedCall("gmail_search", {"labels": "unread"}, "google_gmail")],
    "Read the first one, and when am I busy that day?": [
        PlannedCall("gmail_read", {"id": 1}, "google_gmail"),
        PlannedCall("calendar_get_freebusy", {"start": "2026-03-06"}, "google_calendar"),
    ],
    "Put it into my calendar.": [
        PlannedCall(
            "calendar_create_event",
            {"title": "Lunch with Ines", "start": "2026-03-06T12:00", "end": "2026-03-06T13:30", "place": "Harbour"},
            "google_calendar",
        )
    ],
}
"""The model's calls for each message of the user, in the order of the demonstration."""


@define
class ScriptedModel:
    """Replies with the calls of a script, and sees only what a model sees: the prompt, the tools and the messages.

    If a tool is not among those offered, the model loads its group first, provided that the prompt lists the group.
    """

    script: Mapping[str, Sequence[PlannedCall]] = SCRIPT
    _numbers: Iterator[int] = Factory(count)

    def reply(self, system: str, tools: Sequence[Message], messages: Sequence[Message]) -> Message:
        """Return the model's reply as a message of the Messages API."""
        asked = max(place for place, message in enumerate(messages) if isinstance(message["content"], str))
        planned = self.script[messages[asked]["content"]]
        called = {block["name"] for block in _blocks(messages[asked:], "tool_use")}
        pending = [call for call in planned if call.tool not in called]
        if not pending:
            results = [block["content"] for block in _blocks(messages[asked:], "tool_result")]
            return {"role": "assistant", "content": [{"type": "text", "text": results[-1]}]}
        offered = {tool["name"] for tool in tools}
        lacking = {call.group for call in pending if call.tool not in offered and f"\n- {call.group}: " in system}
        if lacking:
            return self._calls([("load_tool_group", {"group_name": group}) for group in sorted(map(str, lacking))])
        return self._calls([(call.tool, dict(call.arguments)) for call in pending])

    def _calls(self, calls: Sequence[tuple[str, Any]]) -> Message:
        blocks = [
            {"type": "tool_use", "id": f"call_{next(self._numbers)}", "name": name, "input": arguments}
            for name, arguments in calls
        ]
        return {"role": "assistant", "content": blocks}


async def turn(conversation: Conversation, model: ScriptedModel, messages: list[Message], text: str) -> str:
    """Return the answer to a user's message; the messages and calls in between are appended to `messages`."""
    messages.append({"role": "user", "content": text})
    while True:
        reply = model.reply(conversation.system_prompt(BASE), conversation.tools("anthropic"), messages)
        messages.append(reply)
        calls = _blocks([reply], "tool_use")
        if not calls:
            return str(reply["content"][0]["text"])
        results = await conversation.execute([(call["name"], call["input"]) for call in calls])
        answers = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": result.text, "is_error": result.is_error}
            for call, result in zip(calls, results, strict=True)
        ]
        messages.append({"role": "user", "content": answers})


def _blocks(messages: Sequence[Message], kind: str) -> list[Message]:
    contents = [message["content"] for message in messages if not isinstance(message["content"], str)]
    return [block for content in contents for block in content if block["type"] == kind]
