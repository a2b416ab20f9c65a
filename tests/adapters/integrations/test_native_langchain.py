"""LangChain's models of Anthropic, which are given all tools at once (SPEC INT-3)."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic import AsyncAnthropic
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import SecretStr

from tests.adapters.inprocess.providers import FakeAnthropic
from tests.adapters.inprocess.test_tool_changes import desk, history
from toolfold_adapters.integrations.langchain import ToolfoldToolset

pytestmark = pytest.mark.spec("INT-3", "INT-2")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that has an agent answer, by a provider whose model writes these turns."""

    async def asked(provider: FakeAnthropic, middleware: ToolfoldToolset, saver: Any, *messages: Any) -> Any:
        client = AsyncAnthropic(api_key="none", http_client=provider.client(), max_retries=0)
        monkeypatch.setattr(ChatAnthropic, "_async_client", client)
        options: Any = {"model_name": "claude", "api_key": SecretStr("none"), "max_tokens_to_sample": 100}
        model = ChatAnthropic(**options)
        graph: Any = create_agent(model, middleware=[middleware], checkpointer=saver, system_prompt="Help.")
        return await graph.ainvoke({"messages": [*messages]}, {"configurable": {"thread_id": "1"}})

    return asked


async def test_each_request_begins_with_the_whole_of_the_one_before_also_in_the_next_run(ask: Any) -> None:
    turns, saver = history("anthropic"), InMemorySaver()
    provider = FakeAnthropic(turns[:4])
    await ask(provider, ToolfoldToolset(desk(), native="anthropic"), saver, ("user", "Go on"))
    again = FakeAnthropic([(), *turns[4:]])
    again.numbers = provider.numbers
    again.requests.append(provider.requests[-1])
    await ask(again, ToolfoldToolset(desk(), native="anthropic"), saver, ("user", "And again"))
    assert len(provider.requests) + len(again.requests) == len(turns) + 3
    assert provider.kept() == again.kept() == 1


async def test_without_a_checkpointer_the_messages_say_what_was_announced(ask: Any) -> None:
    provider = FakeAnthropic([[("open_group", {"group": "staff"})]])
    done = await ask(provider, ToolfoldToolset(desk(), native="anthropic"), None, ("user", "Go on"))
    again = FakeAnthropic([[("staff__hire", {})]])
    again.numbers = provider.numbers
    messages = [*done["messages"], ("user", "And again")]
    done = await ask(again, ToolfoldToolset(desk(), native="anthropic"), None, *messages)
    assert "hired" in str(done["messages"][-2].content)
