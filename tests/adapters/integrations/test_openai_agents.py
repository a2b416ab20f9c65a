"""A tool set as a server of the OpenAI Agents SDK: results, approval, histories and names (SPEC INT-2)."""

from __future__ import annotations

from typing import Any, cast

import pytest
from agents import Agent, Runner, RunResult, UserError, function_tool

from tests.adapters.integrations.frameworks import UNTRACED, scripted
from tests.adapters.integrations.support import PIXEL, START, Step, desk, kinds, opening
from toolfold import ConfigError
from toolfold_adapters.integrations.openai_agents import ToolfoldToolset

pytestmark = pytest.mark.spec("INT-2")


async def run(toolset: ToolfoldToolset, *steps: Step, **options: Any) -> tuple[RunResult, list[list[str]]]:
    """Return the result of a run, and the tools that each step was given."""
    model = scripted(steps)
    agent = Agent("desk", model=model, mcp_servers=[toolset], **options)
    done = await Runner.run(agent, "Go on", run_config=UNTRACED)
    return done, [sorted(tool.name for tool in call.tools) for call in model.calls]


def outputs(done: RunResult) -> list[Any]:
    return [cast("Any", item).raw_item["output"] for item in done.new_items if item.type == "tool_call_output_item"]


async def test_texts_and_images_reach_the_model() -> None:
    async with ToolfoldToolset(desk()) as toolset:
        done, _ = await run(toolset, opening("shop"), [("shop__picture", {})])
    text, image = outputs(done)[1]
    assert text == {"type": "input_text", "text": "a pixel"}
    assert image == {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}


async def test_structured_content_is_sent_where_the_server_is_set_so() -> None:
    async with ToolfoldToolset(desk(), active="db", use_structured_content=True) as toolset:
        done, _ = await run(toolset, [("db__query", {"limit": 2})])
    assert outputs(done) == ['{"rows": 2}']
    async with ToolfoldToolset(kinds(), use_structured_content=True) as toolset:
        done, _ = await run(toolset, [("list", {})])
    assert outputs(done) == ['{"result": [1]}']


async def test_groups_stay_open_from_run_to_run_while_the_toolset_is_connected() -> None:
    tools = desk()
    async with ToolfoldToolset(tools) as toolset:
        await run(toolset, opening("db"))
        _, listed = await run(toolset)
        assert "db__query" in listed[0]
        await toolset.connect()
        assert len(tools.sessions) == 1
        assert toolset.conversation.loaded == ("db",)
    assert not tools.sessions
    async with toolset:
        _, listed = await run(toolset)
    assert listed == [START]


async def test_the_items_of_a_session_of_the_sdk_are_replayed() -> None:
    tools = desk()
    async with ToolfoldToolset(tools) as toolset:
        done, listed = await run(toolset, opening("db"), opening("db.write"), opening("nothing"))
    async with ToolfoldToolset(tools, history=done.to_input_list()) as toolset:
        _, again = await run(toolset)
    assert again[0] == listed[-1]
    assert "db__write__insert" in again[0]


async def test_calls_wait_for_approval_where_the_toolset_is_set_so() -> None:
    async with ToolfoldToolset(desk(), active="db", require_approval={"db__query": "always"}) as toolset:
        agent = Agent("desk", model=scripted([[("db__query", {"limit": 1})]]), mcp_servers=[toolset])
        paused = await Runner.run(agent, "Go on", run_config=UNTRACED)
        [interruption] = paused.interruptions
        state = paused.to_state()
        state.approve(interruption)
        done = await Runner.run(agent, state, run_config=UNTRACED)
    assert done.final_output == "done"
    assert outputs(done) == [[{"type": "input_text", "text": '{"rows": 1}'}]]


async def test_prompts_of_the_tool_set_are_those_of_the_server() -> None:
    tools = desk()
    tools.register_prompt(
        "greet", lambda given: f"Greet {given['name']}", arguments=[{"name": "name", "required": True}]
    )
    async with ToolfoldToolset(tools) as toolset:
        assert [prompt.name for prompt in (await toolset.list_prompts()).prompts] == ["greet"]
        prompt: Any = await toolset.get_prompt("greet", {"name": "Ada"})
    assert prompt.messages[0].content.text == "Greet Ada"


async def test_a_tool_of_the_agent_with_the_name_of_any_tool_of_the_set_is_refused() -> None:
    @function_tool(name_override="db__query")
    def own() -> str:
        return "mine"

    async with ToolfoldToolset(desk()) as toolset:
        with pytest.raises(ConfigError, match=r"tool set 'desk' has, too: 'db__query'\. Register one"):
            await run(toolset, tools=[own])


async def test_a_toolset_that_is_not_connected_is_an_error_with_the_remedy() -> None:
    with pytest.raises(UserError, match="'desk' is not connected: use it with `async with`"):
        await run(ToolfoldToolset(desk()))
