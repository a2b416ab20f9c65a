"""Frameworks whose models load tools late: what a provider's cache keeps of a conversation (SPEC INT-3)."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
from anthropic import AsyncAnthropic
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.providers.anthropic import AnthropicProvider

from tests.adapters.inprocess.providers import BETA, FakeChanges
from tests.adapters.inprocess.test_tool_changes import changes_of, desk, history
from toolfold_adapters.integrations.pydantic_ai import ToolfoldToolset

pytestmark = pytest.mark.spec("INT-3", "INT-2")

SETTINGS: Any = {"max_tokens": 100}


class Anthropic(FakeChanges):
    """The Messages API as pydantic-ai asks it, which names the beta with the first change."""

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        request.headers.setdefault("anthropic-beta", BETA)
        return super()._respond(request)


def agent_of(provider: FakeChanges, *, native: bool) -> Agent[Any, str]:
    client = AsyncAnthropic(api_key="none", http_client=provider.client(), max_retries=0)
    model = AnthropicModel("claude-opus-5", provider=AnthropicProvider(anthropic_client=client))
    return Agent(model, deps_type=object, toolsets=[ToolfoldToolset(desk(), native=native)])


async def test_pydantic_ai_announces_what_opens_and_keeps_the_whole_of_each_request() -> None:
    turns = history(BETA)
    provider = Anthropic(turns[:4])
    first = await agent_of(provider, native=True).run("Go on", model_settings=SETTINGS)
    again = Anthropic(turns[4:])
    again.numbers = provider.numbers
    again.requests.append(provider.requests[-1])
    again.turns.insert(0, ())
    messages = first.all_messages()
    await agent_of(again, native=True).run("And again", message_history=messages, model_settings=SETTINGS)
    assert provider.kept() == again.kept() == 1
    changes = changes_of(again.requests[-1]["messages"])
    assert changes == [["+stock__look"], ["+stock__orders__cancel"], ["+staff__hire"]]


async def test_without_it_a_group_that_closes_costs_what_follows_its_announcement() -> None:
    provider = Anthropic(history(BETA))
    await agent_of(provider, native=False).run("Go on", model_settings=SETTINGS)
    assert provider.kept() < 0.5
