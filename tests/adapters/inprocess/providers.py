"""Stand-ins for the APIs of providers: the official clients talk to them, and they play the part of the model.

Each checks what the API checks: that tools are declared before they are referred to, and that a model only calls what
it has been given.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, pairwise, takewhile
from typing import Any

import httpx2
from anthropic import AsyncAnthropic
from anthropic.types.beta import BetaSystemMessageParam
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionFunctionToolParam
from pydantic import TypeAdapter

from toolfold_adapters.inprocess import Conversation, Native
from toolfold_adapters.inprocess.late import ToolChanges

platform.platform()  # the official clients name it in their requests; asking for it first starts a process

Turn = Sequence[tuple[str, Mapping[str, Any]]]
"""The calls that the model writes in one turn."""


class Provider:
    """A provider whose model writes scripted turns; `requests` has the bodies that it was sent."""

    def __init__(self, turns: Iterable[Turn]) -> None:
        self.requests: list[dict[str, Any]] = []
        self.turns = [*turns, ()]
        self.numbers = count(1)

    def client(self) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(transport=httpx2.MockTransport(self._respond))

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        body = json.loads(request.content)
        self.requests.append(body)
        turn = self.turns[len(self.requests) - 1]
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
        return f"call_{next(self.numbers)}"

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

    def kept(self) -> float:
        """Return the least share of a request that the next one begins with, of what a provider caches."""
        given = [
            [json.dumps(tool) for tool in request["tools"] if not tool.get("defer_loading")]
            + [json.dumps(request.get("system", request.get("instructions")))]
            + [json.dumps(message) for message in request.get("messages") or request["input"]]
            for request in self.requests
        ]
        shares: list[float] = []
        for earlier, later in pairwise(given):
            pairs = zip(earlier, later, strict=False)
            same = [len(one) for one, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)]
            shares.append(sum(same) / sum(map(len, earlier)))
        return min(shares)

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
        contents = [
            (block, part) for block in blocks if not isinstance(block["content"], str) for part in block["content"]
        ]
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


BETA: ToolChanges = "mid-conversation-tool-changes-2026-07-01"


class FakeChanges(FakeAnthropic):
    """The Messages API with the beta by which system messages add and remove tools."""

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        assert request.headers["anthropic-beta"] == BETA
        return super()._respond(request)

    async def ask(self, conversation: Conversation, messages: list[Any]) -> list[Any]:
        client = AsyncAnthropic(api_key="none", http_client=self.client(), max_retries=0)
        tools: Any = conversation.tools()
        system = conversation.system_prompt("Help.")
        message = await client.beta.messages.create(
            model="claude", max_tokens=100, betas=[BETA], system=system, tools=tools, messages=messages
        )
        return list(message.content)

    def append(self, messages: list[Any], output: list[Any], answers: list[Any]) -> None:
        messages += [{"role": "assistant", "content": output}, *answers]

    def known_tools(self, body: dict[str, Any]) -> set[str]:
        known = super().known_tools(body)
        declared = {tool["name"] for tool in body["tools"]}
        messages = body["messages"]
        for before, message, after in zip([None, *messages], messages, [*messages[1:], None], strict=False):
            if message["role"] != "system":
                continue
            assert TypeAdapter(BetaSystemMessageParam).validate_python(message)
            assert before is not None, "a system message must not be the first"
            assert before["role"] == "user", "a system message must follow one of the user"
            assert after is None or after["role"] == "assistant", "a system message must precede one of the model"
            for change in message["content"]:
                name = change["tool"]["name"]
                assert name in declared, f"{change['type']} references unknown tool {name!r}"
                assert (change["type"] == "tool_removal") == (name in known), f"{change} changes nothing"
                known ^= {name}
        return known


class FakeKimi(Provider):
    """Kimi's Chat Completions API, whose system messages may have tools."""

    async def ask(self, conversation: Conversation, messages: list[Any]) -> list[Any]:
        client = AsyncOpenAI(api_key="none", http_client=self.client(), max_retries=0)
        tools: Any = conversation.tools()
        prompt = {"role": "system", "content": conversation.system_prompt("Help.")}
        given: Any = [prompt, *messages]
        completion = await client.chat.completions.create(model="kimi", tools=tools, messages=given)
        return [completion.choices[0].message]

    def append(self, messages: list[Any], output: list[Any], answers: list[Any]) -> None:
        messages += [*output, *answers]

    def known_tools(self, body: dict[str, Any]) -> set[str]:
        declarations = [message for message in body["messages"] if "tools" in message]
        assert all(message.keys() == {"role", "tools"} and message["tools"] for message in declarations)
        given = [*body["tools"], *(tool for message in declarations for tool in message["tools"])]
        names = [TypeAdapter(ChatCompletionFunctionToolParam).validate_python(one)["function"]["name"] for one in given]
        assert len({*names}) == len(names), "a name is declared twice"
        return {*names}

    def response(self, turn: Turn) -> dict[str, Any]:
        calls = [
            {
                "id": self.identity(),
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(arguments)},
            }
            for name, arguments in turn
        ]
        message = {
            "role": "assistant",
            "content": None if calls else "Done.",
            **({"tool_calls": calls} if calls else {}),
        }
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        return {"id": "1", "object": "chat.completion", "created": 0, "model": "kimi", "choices": [choice]}


PROVIDERS: Mapping[Native, type[Provider]] = {"anthropic": FakeAnthropic, "openai": FakeOpenAI}
BY_MESSAGES: Mapping[Native, type[Provider]] = {BETA: FakeChanges, "kimi": FakeKimi}
"""Those that announce tools in messages of the system."""
