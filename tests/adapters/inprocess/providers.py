"""Stand-ins for the APIs of providers: the official clients talk to them, and they play the part of the model.

Each checks what the API checks: that tools are declared before they are referred to, and that a model only calls what
it has been given.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from toolfold_adapters.inprocess import Conversation, Native

platform.platform()  # the official clients name it in their requests; asking for it first starts a process

Turn = Sequence[tuple[str, Mapping[str, Any]]]
"""The calls that the model writes in one turn."""


class Provider:
    """A provider whose model writes scripted turns; `requests` has the bodies that it was sent."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self.requests: list[dict[str, Any]] = []
        self._turns = [*turns, ()]
        self._numbers = count(1)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._respond))

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        turn = self._turns[len(self.requests) - 1]
        known = self.known_tools(body)
        unknown = [name for name, _ in turn if name not in known]
        assert not unknown, f"the model calls {unknown}, of which it knows nothing"
        return httpx2.Response(200, json=self.response(turn))

    async def run(self, conversation: Conversation, after: Callable[[], object] | None = None) -> list[Any]:
        """Run an agent's loop until the model is done, and return the messages; `after` is called after each turn."""
        messages: list[Any] = [{"role": "user", "content": "Go on."}]
        while True:
            output = await self.ask(conversation, messages)
            answers = await conversation.answers(output)
            if not answers:
                return messages
            self.append(messages, output, answers)
            if after is not None:
                after()

    async def ask(self, conversation: Conversation, messages: list[Any]) -> list[Any]:
        """Return what the model writes, by the official client."""
        raise NotImplementedError

    def append(self, messages: list[Any], output: list[Any], answers: list[Any]) -> None:
        raise NotImplementedError

    def identity(self) -> str:
        return f"call_{next(self._numbers)}"

    def known_tools(self, body: dict[str, Any]) -> set[str]:
        raise NotImplementedError

    def response(self, turn: Turn) -> dict[str, Any]:
        raise NotImplementedError

    def prefixes(self) -> list[bytes]:
        """Return, for each request, what a provider caches of it: tools and system prompt."""
        return [
            json.dumps([request["tools"], request.get("system", request.get("instructions"))]).encode()
            for request in self.requests
        ]

    def messages(self) -> list[list[bytes]]:
        """Return the messages of each request, each as bytes."""
        return [
            [json.dumps(message).encode() for message in request.get("messages") or request["input"]]
            for request in self.requests
        ]


class FakeAnthropic(Provider):
    """The Messages API."""

    async def ask(self, conversation: Conversation, messages: list[Any]) -> list[Any]:
        client = AsyncAnthropic(api_key="none", http_client=self.client(), max_retries=0)
        tools: Any = conversation.tools()
        message = await client.messages.create(
            model="claude", max_tokens=100, system=conversation.system_prompt("Help."), tools=tools, messages=messages
        )
        return list(message.content)

    def append(self, messages: list[Any], output: list[Any], answers: list[Any]) -> None:
        messages += [{"role": "assistant", "content": output}, {"role": "user", "content": answers}]

    def known_tools(self, body: dict[str, Any]) -> set[str]:
        declared = {tool["name"]: tool.get("defer_loading", False) for tool in body["tools"]}
        assert len(declared) == len(body["tools"]), "a name is declared twice"
        assert not all(declared.values()), "at least one tool must not be deferred"
        blocks = [
            block
            for message in body["messages"]
            if isinstance(message["content"], list)
            for block in message["content"]
            if block["type"] == "tool_result"
        ]
        contents = [(block, part) for block in blocks for part in block["content"]]
        assert all(part["type"] == "text" for block, part in contents if block.get("is_error"))
        referred = {part["tool_name"] for _, part in contents if part["type"] == "tool_reference"}
        assert referred <= declared.keys(), f"tool_reference_unresolved: {referred - declared.keys()}"
        return referred | {name for name, deferred in declared.items() if not deferred}

    def response(self, turn: Turn) -> dict[str, Any]:
        calls = [
            {"type": "tool_use", "id": self.identity(), "name": name, "input": arguments} for name, arguments in turn
        ]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude",
            "content": calls or [{"type": "text", "text": "Done."}],
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }


def functions_of(tools: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the functions among tools of the Responses API, those in namespaces included."""
    return [
        one
        for tool in tools
        for one in (tool["tools"] if tool["type"] == "namespace" else [tool])
        if one["type"] == "function"
    ]


class FakeOpenAI(Provider):
    """The Responses API; the model calls its tool search by the name `tool_search`."""

    async def ask(self, conversation: Conversation, messages: list[Any]) -> list[Any]:
        client = AsyncOpenAI(api_key="none", http_client=self.client(), max_retries=0)
        tools: Any = conversation.tools()
        response = await client.responses.create(
            model="gpt", instructions=conversation.system_prompt("Help."), tools=tools, input=messages
        )
        return list(response.output)

    def append(self, messages: list[Any], output: list[Any], answers: list[Any]) -> None:
        messages += [*output, *answers]

    def known_tools(self, body: dict[str, Any]) -> set[str]:
        searches = [tool for tool in body["tools"] if tool["type"] == "tool_search"]
        assert [search["execution"] for search in searches] == ["client"]
        assert searches[0]["description"]
        known = {one["name"] for one in functions_of(body["tools"]) if not one.get("defer_loading")}
        for item in body["input"]:
            if item.get("type") in ("tool_search_output", "additional_tools"):
                known |= {one["name"] for one in functions_of(item["tools"])}
        return known | {"tool_search"}

    def response(self, turn: Turn) -> dict[str, Any]:
        return {
            "id": "resp_1",
            "object": "response",
            "created_at": 0,
            "model": "gpt",
            "output": [self._item(name, arguments) for name, arguments in turn],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def _item(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        identity = self.identity()
        about = {"id": f"item_{identity}", "call_id": identity, "status": "completed"}
        if name == "tool_search":
            return {"type": "tool_search_call", "execution": "client", "arguments": arguments, **about}
        return {"type": "function_call", "name": name, "arguments": json.dumps(arguments), **about}


PROVIDERS: Mapping[Native, type[Provider]] = {"anthropic": FakeAnthropic, "openai": FakeOpenAI}
