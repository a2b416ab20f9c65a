"""The OpenAI Agents SDK with a model that is given all tools at once (SPEC INT-3)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2
import pytest
from agents import Agent, OpenAIResponsesModel, Runner
from openai import AsyncOpenAI
from openai.types.responses import ToolParam
from pydantic import TypeAdapter

from tests.adapters.inprocess.late import announced
from tests.adapters.inprocess.providers import FakeOpenAI, Turn
from tests.adapters.inprocess.test_tool_changes import desk, history
from tests.adapters.integrations.frameworks import UNTRACED
from toolfold import ConfigError
from toolfold_adapters.integrations.openai_agents import ToolfoldToolset

pytestmark = pytest.mark.spec("INT-3", "INT-2")


class OpenAI(FakeOpenAI):
    """The Responses API as the SDK asks it: also as a stream, and with the namespaces of functions."""

    def response(self, turn: Turn) -> dict[str, Any]:
        done = super().response(turn)
        message = {"type": "output_text", "text": "Done.", "annotations": []}
        said = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [message]}
        return {**done, "output": done["output"] or [said]}

    def _item(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        item, namespace = super()._item(name, arguments), name.rpartition("__")[0]
        return {**item, "namespace": namespace} if namespace else item

    def _respond(self, request: httpx2.Request) -> httpx2.Response:
        answer = super()._respond(request)
        for tool in self.requests[-1]["tools"]:
            TypeAdapter[Any](ToolParam).validate_python(tool)
        if not self.requests[-1].get("stream"):
            return answer
        items = answer.json()["output"]
        events = [
            *({"type": "response.output_item.done", "output_index": 0, "item": item} for item in items),
            {"type": "response.completed", "response": answer.json()},
        ]
        numbered = [{**event, "sequence_number": number} for number, event in enumerate(events)]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in numbered)
        return httpx2.Response(200, text=text, headers={"content-type": "text/event-stream"})


def agent_of(provider: OpenAI, toolset: ToolfoldToolset) -> Agent[Any]:
    client = AsyncOpenAI(api_key="none", http_client=provider.client(), max_retries=0)
    model = toolset.model(OpenAIResponsesModel("gpt-5.4", client))
    return Agent("desk", instructions="Help.", model=model, mcp_servers=[toolset])


async def run(
    toolset: ToolfoldToolset, turns: Sequence[Turn], given: Any = "Go on", *, streamed: bool = False
) -> tuple[OpenAI, Any]:
    provider = OpenAI(turns)
    agent = agent_of(provider, toolset)
    if not streamed:
        return provider, await Runner.run(agent, given, run_config=UNTRACED)
    done = Runner.run_streamed(agent, given, run_config=UNTRACED)
    async for _ in done.stream_events():
        pass
    return provider, done


@pytest.mark.parametrize("streamed", [False, True])
async def test_each_request_begins_with_the_whole_of_the_one_before_also_in_the_next_run(streamed: bool) -> None:
    turns = history("openai")
    async with ToolfoldToolset(desk(), native="openai") as toolset:
        provider, done = await run(toolset, turns[:4], streamed=streamed)
        again = OpenAI(turns[4:])
        again.numbers = provider.numbers
        given = [*done.to_input_list(), {"role": "user", "content": "And again"}]
        await Runner.run(agent_of(again, toolset), given, run_config=UNTRACED)
    assert provider.kept() == 1
    again.requests.insert(0, provider.requests[-1])
    assert again.kept() == 1
    searches = [item for item in again.requests[-1]["input"] if item.get("type") == "tool_search_call"]
    assert [item["arguments"] for item in searches] == [
        arguments for turn in turns for name, arguments in turn if name == "tool_search"
    ]
    given = announced(again.requests[-1]["input"])
    assert given == ["stock__look", "stock__orders__cancel", "staff__hire", "stock__look"]


async def test_a_call_of_what_has_closed_is_refused() -> None:
    turns: list[Turn] = [
        [("tool_search", {"group": "staff"}), ("close_group", {"group": "staff"})],
        [("staff__hire", {}), ("tool_search", {"group": "nothing"})],
    ]
    async with ToolfoldToolset(desk(), native="openai") as toolset:
        provider, _ = await run(toolset, turns)
    hired, found, said = provider.requests[-1]["input"][-3:]
    assert "Unknown tool: staff__hire" in str(hired["output"])
    assert (found["type"], found["tools"]) == ("tool_search_output", [])
    assert "nothing" in said["content"]


async def test_a_tool_that_is_unregistered_stays_declared_and_its_calls_are_refused() -> None:
    tools = desk()
    async with ToolfoldToolset(tools, native="openai") as toolset:
        before, done = await run(toolset, [[("tool_search", {"group": "staff"})]])
        tools.unregister("staff.hire")
        again = [*done.to_input_list(), {"role": "user", "content": "And again"}]
        after, _ = await run(toolset, [[("staff__hire", {})]], again)
    assert after.requests[-1]["tools"] == before.requests[0]["tools"]
    assert "Unknown tool: staff__hire" in str(after.requests[-1]["input"][-1]["output"])


async def test_what_a_history_opened_is_declared_in_full_by_another_process() -> None:
    async with ToolfoldToolset(desk(), native="openai") as toolset:
        _, done = await run(toolset, [[("tool_search", {"group": "staff"})]])
    async with ToolfoldToolset(desk(), native="openai", history=done.new_items) as toolset:
        again = [*done.to_input_list(), {"role": "user", "content": "And again"}]
        provider, _ = await run(toolset, [[("staff__hire", {})]], again)
    assert "hired" in str(provider.requests[-1]["input"][-1]["output"])


async def test_what_is_missing_for_it_is_named() -> None:
    async with ToolfoldToolset(desk(), native="openai") as toolset:
        agent = agent_of(OpenAI([]), toolset)
        agent.mcp_servers = []
        with pytest.raises(ConfigError, match="needs the toolset among its mcp_servers"):
            await Runner.run(agent, "Go on", run_config=UNTRACED)
    with pytest.raises(ConfigError, match='with ToolfoldToolset\\(tools, native="openai"\\) only'):
        ToolfoldToolset(desk()).model(OpenAIResponsesModel("gpt", AsyncOpenAI(api_key="none")))
