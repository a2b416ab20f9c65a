"""Conversations with tools that a provider loads late: after a restart, and what is read again (SPEC INT-3)."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest

from examples.assistant import build
from tests.adapters.inprocess.late import announced, both, declared, opened, shop
from tests.adapters.inprocess.providers import PROVIDERS, FakeAnthropic
from toolfold import HandleInvalid
from toolfold_adapters.inprocess import Conversation, Native
from toolfold_adapters.search import bm25
from toolfold_adapters.tokens import approximate_tokens


@both
@pytest.mark.spec("INT-3", "GRP-6")
async def test_a_restored_conversation_declares_and_announces_what_the_one_before_would(native: Native) -> None:
    tools = shop()
    async with Conversation(tools, native=native) as conversation:
        await PROVIDERS[native]([[opened(native, "stock")]]).run(conversation)
        declarations, data = conversation.tools(), json.loads(json.dumps(conversation.dump()))
    async with Conversation.restore(tools, data, native=native) as again:
        assert again.tools() == declarations
        messages = await PROVIDERS[native]([[("help", {})], [opened(native, "staff")]]).run(again)
        assert announced(messages) == ["staff__hire"]


@pytest.mark.spec("INT-3", "GRP-6", "PER-2")
async def test_a_tool_that_was_announced_before_a_restart_without_it_is_still_declared_to_anthropic() -> None:
    tools = shop()
    async with Conversation(tools, native="anthropic") as conversation:
        messages = await FakeAnthropic([[("open_group", {"group": "staff"})]]).run(conversation)
        data = conversation.dump()
    tools.unregister("staff.hire")
    again = Conversation.restore(tools, data, native="anthropic")
    provider = FakeAnthropic([])
    await provider.ask(again, messages)
    assert declared(again)[-1] == "staff__hire"


@pytest.mark.spec("INT-3", "GRP-6")
async def test_a_tool_that_messages_refer_to_is_declared_to_anthropic_though_it_is_gone() -> None:
    tools = shop()
    async with Conversation(tools, native="anthropic") as conversation:
        messages = await FakeAnthropic([[("open_group", {"group": "staff"})]]).run(conversation)
    tools.unregister("staff.hire")
    again = Conversation.from_history(tools, messages, native="anthropic")
    await FakeAnthropic([]).ask(again, messages)
    assert declared(again)[-1] == "staff__hire"


@both
@pytest.mark.spec("INT-3", "GRP-6")
async def test_the_groups_that_answers_loaded_are_restored_from_the_messages(native: Native) -> None:
    tools = shop(search=bm25)
    call = ("find_tools", {"query": "cancel", "limit": 1, "open": True})
    if native == "openai":
        call = ("tool_search", {"query": "cancel", "limit": 1})
    async with Conversation(tools, native=native) as conversation:
        messages = await PROVIDERS[native]([[call], [("open_group", {"group": "staff"})]]).run(conversation)
        again = Conversation.from_history(tools, messages, native=native)
        assert again.loaded == conversation.loaded == ("stock", "stock.orders", "staff")
        assert again.tools() == conversation.tools()
    async with again:
        assert announced(await PROVIDERS[native]([[("help", {})]]).run(again)) == []


@both
@pytest.mark.spec("INT-3", "GRP-6")
async def test_a_child_is_given_what_it_inherits_in_full(native: Native) -> None:
    async with Conversation(shop(), native=native) as conversation:
        await PROVIDERS[native]([[opened(native, "staff")]]).run(conversation)
        async with conversation.child() as child:
            messages = await PROVIDERS[native]([[("staff__hire", {})]]).run(child)
            assert announced(messages) == []
        assert declared(conversation.child("fresh")) == declared(Conversation(shop(), native=native))


@both
@pytest.mark.spec("INT-3", "SES-7")
async def test_over_a_session_what_is_listed_is_declared_in_full_and_what_opens_later_is_announced(
    native: Native,
) -> None:
    tools = shop()
    async with tools.open_session(active=["staff"]) as session, session.fork() as fork:
        conversation = Conversation.of_session(fork, native=native)
        assert declared(conversation) == [
            name for name in declared(Conversation(tools, native=native)) if "staff" not in name
        ]
        messages = await PROVIDERS[native]([[("staff__hire", {})], [opened(native, "stock")]]).run(conversation)
        assert announced(messages) == ["stock__look"]
        assert session.active == ("staff",)


@both
@pytest.mark.spec("INT-3", "PER-2")
@pytest.mark.parametrize("damaged", [{}, {"first": "help", "announced": []}, {"first": [], "announced": [1]}, 7])
async def test_a_damaged_state_of_late_tools_is_refused(native: Native, damaged: Any) -> None:
    tools = shop()
    data = {**Conversation(tools, native=native).dump(), "native": damaged}
    with pytest.raises(HandleInvalid, match="native tools"):
        Conversation.restore(tools, data, native=native)


def read_anew(prompts: list[str]) -> int:
    """Return about how many tokens of prompts no cache of the prompt before has."""
    return sum(approximate_tokens(later[_agreement(earlier, later) :]) for earlier, later in pairwise(prompts))


def _agreement(one: str, other: str) -> int:
    return next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))


def prompt(tools: list[dict[str, Any]], messages: list[Any]) -> str:
    """Return what a model reads: tools, then messages, in which references are the definitions of tools."""
    definitions = {tool["name"]: tool for tool in tools}
    text = json.dumps([tool for tool in tools if not tool.get("defer_loading")]) + json.dumps(messages)
    for name, definition in definitions.items():
        text = text.replace(json.dumps({"type": "tool_reference", "tool_name": name}), json.dumps(definition))
    return text


@pytest.mark.spec("INT-3", "AGT-4")
async def test_a_load_does_not_make_a_provider_read_the_conversation_again() -> None:
    loads = [("load_tool_group", {"group_name": group}) for group in ("google_gmail", "pdf", "google_calendar")]
    before: list[str] = []
    after: list[str] = []
    async with Conversation(build()) as plain, Conversation(build(), native="anthropic") as native:
        messages: list[Any] = [{"role": "user", "content": "word " * 8_000}]
        late = messages.copy()
        for number, (name, arguments) in enumerate(loads):
            before.append(prompt(plain.tools("anthropic"), messages))
            after.append(prompt(native.tools(), late))
            call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments}
            (result,) = await plain.execute([(name, arguments)])
            answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": result.text}
            messages += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [answer]}]
            late += [
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": await native.answers([call])},
            ]
        before.append(prompt(plain.tools("anthropic"), messages))
        after.append(prompt(native.tools(), late))
    assert 5 * read_anew(after) < read_anew(before)
