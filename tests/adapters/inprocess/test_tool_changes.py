"""Providers whose system messages change the tools in the middle of a conversation (SPEC INT-3).

The official clients talk to stand-ins, which check that a message of the system follows one of the user and precedes
one of the model, and that it adds what was not there and removes what was.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.adapters.inprocess.late import opened, shop
from tests.adapters.inprocess.providers import BETA, BY_MESSAGES, PROVIDERS, FakeAnthropic, FakeChanges, Turn
from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation, Native

pytestmark = pytest.mark.spec("INT-3")

each = pytest.mark.parametrize("native", BY_MESSAGES)


def desk() -> ToolSet:
    tools = shop()
    tools.register_exclusion("stock", "staff")
    return tools


def history(native: Native) -> list[Turn]:
    """Return turns that open, use, displace by an exclusion, close, and open again."""
    return [
        [opened(native, "stock")],
        [("stock__look", {"id": 3}), opened(native, "stock.orders")],
        [("stock__orders__cancel", {"id": 3}), opened(native, "staff")],
        [("staff__hire", {}), ("close_group", {"group": "staff"})],
        [opened(native, "stock"), ("help", {})],
        [("stock__look", {"id": 1})],
    ]


def changes_of(messages: list[Any]) -> list[list[str]]:
    return [
        [f"{'-' if one['type'] == 'tool_removal' else '+'}{one['tool']['name']}" for one in message["content"]]
        for message in messages
        if isinstance(message, dict) and message["role"] == "system"
    ]


@pytest.mark.parametrize("native", [*PROVIDERS, *BY_MESSAGES])
async def test_the_whole_of_each_request_begins_the_next(native: Native) -> None:
    provider = {**PROVIDERS, **BY_MESSAGES}[native](history(native))
    async with Conversation(desk(), native=native) as conversation:
        await provider.run(conversation)
    assert len(provider.requests) == len(history(native)) + 1
    assert provider.kept() == 1


async def test_a_list_that_changes_keeps_little_of_it() -> None:
    class Flat(FakeAnthropic):
        async def ask(self, conversation: Conversation, messages: list[Any]) -> list[Any]:
            self.listed = conversation.tools("anthropic")
            return await super().ask(conversation, messages)

        def known_tools(self, body: dict[str, Any]) -> set[str]:
            body["tools"] = self.listed
            return {tool["name"] for tool in body["tools"]}

    provider = Flat(history("anthropic"))
    async with Conversation(desk(), native="anthropic") as conversation:
        await provider.run(conversation)
    assert provider.kept() < 0.5


async def test_opening_adds_and_closing_and_exclusion_withdraw() -> None:
    async with Conversation(desk(), native=BETA) as conversation:
        messages = await FakeChanges(history(BETA)).run(conversation)
    assert changes_of(messages) == [
        ["+stock__look"],
        ["+stock__orders__cancel"],
        ["-stock__look", "-stock__orders__cancel", "+staff__hire"],
        ["-staff__hire"],
        ["+stock__look"],
    ]


async def test_what_was_there_from_the_start_is_withdrawn_too() -> None:
    again: list[Turn] = [[opened(BETA, "stock")], [("stock__look", {"id": 1})]]
    async with Conversation(desk(), active="stock", native=BETA) as conversation:
        messages = await FakeChanges([[("close_group", {"group": "stock"})], *again]).run(conversation)
    assert changes_of(messages) == [["-stock__look"], ["+stock__look"]]


@each
async def test_what_code_opens_is_announced_after_a_message_of_the_user(native: Native) -> None:
    async with Conversation(desk(), native=native) as conversation:
        await conversation.session.activate("staff")
        text = {"type": "text", "text": "Done."} if native == BETA else {"role": "assistant", "content": "Done."}
        assert await conversation.answers([text]) == []  # a message of the user comes first
        (message,) = await conversation.answers([])
        assert message["role"] == "system"
        assert "staff__hire" in json.dumps(message)
        assert await conversation.answers([]) == []


@each
@pytest.mark.spec("GRP-6")
async def test_a_restored_conversation_announces_what_is_new_alone(native: Native) -> None:
    turns = history(native)
    provider = BY_MESSAGES[native](turns[:4])
    async with Conversation(desk(), native=native) as live:
        messages = await provider.run(live)
        state = json.loads(json.dumps(live.dump()))
        tools = live.tools()
    for conversation in (
        Conversation.restore(desk(), state, native=native),
        Conversation.from_history(desk(), messages, native=native),
    ):
        assert conversation.tools() == tools
        later = BY_MESSAGES[native](turns[4:])
        later.numbers = provider.numbers
        async with conversation:
            said = {"role": "assistant", "content": "Done."}
            given = [*messages, said, {"role": "user", "content": "And again."}]
            while answers := await conversation.answers(output := await later.ask(conversation, given)):
                later.append(given, output, answers)
        if native == BETA:
            assert changes_of(given)[-1] == ["+stock__look"]


def test_kimi_is_given_what_is_listed_from_the_start_alone() -> None:
    tools = Conversation(desk(), native="kimi").tools()
    assert [tool["function"]["name"] for tool in tools] == ["close_group", "help", "open_group"]
