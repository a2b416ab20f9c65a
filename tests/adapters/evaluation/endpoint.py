"""A model on a server of its own: chat completions as OpenAI's API has them, answered as a test says.

`right` makes the calls that it is given, one a request. Each other function is a server or a model with one fault.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import httpx2
from anyio import sleep_forever
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from toolfold import approximate_tokens

platform.processor()  # the client asks for it, which starts a process the first time
Sent = Mapping[str, Any]
Answer = tuple[int, Mapping[str, Any]]
Behaviour = Callable[[Sent], Awaitable[Answer]]
Call = tuple[str, Mapping[str, Any] | str]


def read_of(sent: Sent) -> int:
    """How many tokens a server reads that gives everything to its model."""
    return approximate_tokens(sent["messages"]) + approximate_tokens(sent.get("tools", []))


def said(text: str, read: int, reason: str = "stop") -> Answer:
    return _message({"role": "assistant", "content": text}, read, reason)


def called(name: str, arguments: Mapping[str, Any] | str, read: int) -> Answer:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    call = {"id": "call", "type": "function", "function": {"name": name, "arguments": given}}
    return _message({"role": "assistant", "content": None, "tool_calls": [call]}, read, "tool_calls")


def refused(status: int, message: str) -> Answer:
    return status, {"error": {"message": message, "code": status, "type": "an_error"}}


def right(*calls: Call, then: str = "It is done.") -> Behaviour:
    async def answer(sent: Sent) -> Answer:
        made = sum(message["role"] == "assistant" for message in sent["messages"])
        if made == len(calls):
            return said(then, read_of(sent))
        name, arguments = calls[made]
        return called(name, arguments, read_of(sent))

    return answer


def overflowing(room: int, *calls: Call) -> Behaviour:
    """A model that reads at most so many tokens, in the words of llama.cpp."""
    within = right(*calls)

    async def answer(sent: Sent) -> Answer:
        fits = read_of(sent) <= room
        return await within(sent) if fits else refused(400, "the request exceeds the available context size")

    return answer


async def dropping_tools(sent: Sent) -> Answer:
    """A model whose template has no place for tools."""
    return said("I have no tools.", approximate_tokens(sent["messages"][-1]))


async def silent_on_usage(sent: Sent) -> Answer:
    return said("It is done.", 0)


def answering(body: Any) -> Behaviour:
    """A server whose every answer is this body, with status 200."""

    async def answer(sent: Sent) -> Answer:
        return 200, body

    return answer


def without_choices() -> dict[str, Any]:
    """A body with an empty list where the answers are."""
    return {**said("", 1)[1], "choices": []}


def calling_for_ever(name: str, arguments: Mapping[str, Any] | str) -> Behaviour:
    async def answer(sent: Sent) -> Answer:
        return called(name, arguments, read_of(sent))

    return answer


async def rambling(sent: Sent) -> Answer:
    """A model that writes until it is stopped."""
    return said("and " * sent["max_completion_tokens"], read_of(sent), "length")


async def filtered(sent: Sent) -> Answer:
    return said("", read_of(sent), "content_filter")


async def failing(sent: Sent) -> Answer:
    return refused(500, "the slot is gone")


async def slow(sent: Sent) -> Answer:
    await sleep_forever()
    raise AssertionError("a task that sleeps for ever is cancelled")


async def down(sent: Sent) -> Answer:
    raise httpx2.ConnectError("Connection refused")


def ending(after: int, behaviour: Behaviour) -> Behaviour:
    """A server that goes down after so many answers."""
    answered = 0

    async def answer(sent: Sent) -> Answer:
        nonlocal answered
        answered += 1
        return await (behaviour if answered <= after else down)(sent)

    return answer


def model_at(behaviour: Behaviour, seen: list[Sent] | None = None) -> OpenAIChatModel:
    """The model that an endpoint serves; `seen` gets what it is sent."""

    async def handle(request: httpx2.Request) -> httpx2.Response:
        sent = json.loads(request.content)
        if seen is not None:
            seen.append(sent)
        status, body = await behaviour(sent)
        return httpx2.Response(status, json=body, headers={"x-should-retry": "false"})

    client = httpx2.AsyncClient(transport=httpx2.MockTransport(handle))
    provider = OpenAICompatibleProvider("local", base_url="http://local.example/v1", api_key="none", http_client=client)
    provider.client.max_retries = 0
    return OpenAIChatModel("mine", provider=provider)


def _message(message: Sent, read: int, reason: str) -> Answer:
    written = approximate_tokens(message)
    return 200, {
        "id": "answer",
        "object": "chat.completion",
        "created": 0,
        "model": "mine",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
        if read
        else None,
    }


ANSWERS: Sequence[Call] = (
    ("open_group", {"group": "weather"}),
    ("weather__air_quality", {"place": "milan"}),
)
"""The calls that do the built-in task `air` where groups are opened."""
