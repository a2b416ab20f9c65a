"""A tool set as middleware of LangChain: results, checkpoints, interrupts, threads and names (SPEC INT-2)."""

from __future__ import annotations

from typing import Any, cast

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware
from langchain_core.messages import HumanMessage, RemoveMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from langgraph.types import Command

from tests.adapters.integrations.frameworks import ScriptedChat
from tests.adapters.integrations.support import PIXEL, START, Step, desk, identities, kinds, opening
from toolfold import ConfigError, ToolSet
from toolfold_adapters.integrations.langchain import ToolfoldToolset

pytestmark = pytest.mark.spec("INT-2")

GO_ON: Any = {"messages": [HumanMessage("Go on")]}
THREAD: Any = {"configurable": {"thread_id": "t"}}
DB = sorted([*START, "db__query"])


class Script:
    """An agent that follows a script, and the tools that its model was given at each step."""

    def __init__(self, middleware: Any, *steps: Step, saver: InMemorySaver | None = None, **options: Any) -> None:
        self.listed: list[list[str]] = []
        model = ScriptedChat(steps=iter(steps), listed=self.listed, identity=identities())
        given = middleware if isinstance(middleware, list) else [middleware]
        self.agent: Any = create_agent(model, middleware=given, checkpointer=saver, **options)


def answers(state: Any) -> list[ToolMessage]:
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


async def test_results_are_messages_with_blocks_statuses_and_artifacts() -> None:
    calls = [opening("db"), [("db__query", {"limit": 3})], opening("shop"), [("shop__picture", {}), ("shop__sell", {})]]
    _, rows, _, picture, sold = answers(await Script(ToolfoldToolset(desk()), *calls).agent.ainvoke(GO_ON))
    assert (rows.text, rows.artifact["structured_content"], rows.status) == ('{"rows": 3}', {"rows": 3}, "success")
    text, image = cast("list[dict[str, Any]]", picture.content)
    assert (text["text"], image["type"], image["base64"]) == ("a pixel", "image", PIXEL)
    assert (sold.text, sold.status) == ("nothing left to sell", "error")


async def test_content_of_every_kind_is_retained() -> None:
    [answer] = answers(await Script(ToolfoldToolset(kinds()), [("all", {})]).agent.ainvoke(GO_ON))
    blocks = cast("list[dict[str, Any]]", answer.content)
    assert [block["type"] for block in blocks] == ["audio", "text", "file", "text", "text"]
    assert [block["base64"] for block in blocks if "base64" in block] == ["UklGRg==", "JVBERg=="]
    assert [block["text"] for block in blocks[1:4:2]] == ["a text", "file:///b.txt"]


# -- checkpoints ------------------------------------------------------------------------------------------------------


async def test_a_thread_has_its_groups_in_the_next_run_and_in_another_process() -> None:
    saver, ran = InMemorySaver(), list[str]()
    tools = desk(ran)
    first = Script(ToolfoldToolset(tools), opening("db"), saver=saver)
    await first.agent.ainvoke(GO_ON, THREAD)
    assert not tools.sessions
    for again in (first, Script(ToolfoldToolset(tools), saver=saver)):
        await again.agent.ainvoke(GO_ON, THREAD)
        assert again.listed[-1] == first.listed[1] == DB
    other = Script(ToolfoldToolset(tools), saver=saver)
    await other.agent.ainvoke(GO_ON, {"configurable": {"thread_id": "other"}})
    assert other.listed == [START]
    assert ran == ["activate db", "deactivate db"]


async def test_a_run_from_an_earlier_checkpoint_has_the_groups_of_then() -> None:
    saver = InMemorySaver()
    script = Script(ToolfoldToolset(desk()), opening("db"), opening("db.write"), saver=saver)
    await script.agent.ainvoke(GO_ON, THREAD)
    opened_db = [state async for state in script.agent.aget_state_history(THREAD) if len(answers(state.values)) == 1]
    [before_model] = [state for state in opened_db if state.next == ("model",)]
    await script.agent.ainvoke(None, before_model.config)
    assert script.listed == [START, DB, sorted([*DB, "db__write__insert"]), DB]


async def test_an_interrupted_run_that_goes_back_to_an_earlier_checkpoint_has_the_groups_of_then() -> None:
    steps = [opening("db"), opening("db.write"), [("db__query", {"limit": 1})]]
    script = Script(careful(desk()), *steps, saver=InMemorySaver())
    await script.agent.ainvoke(GO_ON, THREAD)
    states = [state async for state in script.agent.aget_state_history(THREAD)]
    [opened_db] = [state for state in states if len(answers(state.values)) == 1 and state.next == ("model",)]
    await script.agent.ainvoke(None, opened_db.config)
    assert script.listed == [START, DB, sorted([*DB, "db__write__insert"]), DB]


async def test_calls_that_the_graph_makes_one_after_the_other_are_of_one_session() -> None:
    script = Script(ToolfoldToolset(desk()), opening("db", "db.write"))
    await script.agent.ainvoke(GO_ON, {"max_concurrency": 1})
    assert script.listed == [START, sorted([*DB, "db__write__insert"])]


async def test_the_groups_of_a_thread_outlive_its_messages() -> None:
    class Forget(AgentMiddleware[Any, Any, Any]):
        async def aafter_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
            return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES)]}

    script = Script([ToolfoldToolset(desk()), Forget()], opening("db"), saver=InMemorySaver())
    await script.agent.ainvoke(GO_ON, THREAD)
    await script.agent.ainvoke(GO_ON, THREAD)
    assert script.listed == [START, DB, DB]


def careful(tools: Any) -> list[Any]:
    return [ToolfoldToolset(tools), HumanInTheLoopMiddleware(interrupt_on={"db__query": True})]


@pytest.mark.parametrize("same_process", [True, False])
async def test_a_run_that_was_interrupted_goes_on_with_its_session_or_restores_it(same_process: bool) -> None:
    saver, ran = InMemorySaver(), list[str]()
    tools = desk(ran)
    script = Script(careful(tools), opening("db"), [("db__query", {"limit": 1})], saver=saver)
    paused = await script.agent.ainvoke(GO_ON, THREAD)
    assert paused["__interrupt__"]
    assert ran == ["activate db"]
    other = script if same_process else Script(careful(tools), saver=saver)
    done = await other.agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), THREAD)
    assert answers(done)[-1].text == '{"rows": 1}'
    assert other.listed[-1] == DB
    assert ran == ["activate db", *(["activate db"] if not same_process else []), "deactivate db"]


async def test_a_thread_over_a_given_session_has_the_state_of_the_session() -> None:
    saver = InMemorySaver()
    async with desk().open_session(active=["db"]) as session:
        script = Script(ToolfoldToolset(session), opening("db.write"), saver=saver)
        await script.agent.ainvoke(GO_ON, THREAD)
        await session.deactivate("db.write")
        await script.agent.ainvoke(GO_ON, THREAD)
        assert session.is_open
    assert script.listed == [DB, sorted([*DB, "db__write__insert"]), DB]


# -- sessions that nobody ended ---------------------------------------------------------------------------------------


def out_of_order() -> None:
    raise RuntimeError("out of order")


async def failing(tools: Any, toolset: ToolfoldToolset, saver: InMemorySaver) -> None:
    class Fail(AgentMiddleware[Any, Any, Any]):
        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            return out_of_order() if request.tool_call["name"] == "ping" else await handler(request)

    script = Script([toolset, Fail()], opening("db"), [("ping", {})], saver=saver)
    with pytest.raises(RuntimeError, match="out of order"):
        await script.agent.ainvoke(GO_ON, THREAD)
    assert len(tools.sessions) == 1


async def test_the_session_of_a_run_that_failed_ends_with_the_middleware() -> None:
    tools = desk()
    async with ToolfoldToolset(tools) as toolset:
        await failing(tools, toolset, InMemorySaver())
    assert not tools.sessions


async def test_the_session_of_a_run_that_failed_ends_with_the_next_run_of_its_thread() -> None:
    tools, saver = desk(), InMemorySaver()
    toolset = ToolfoldToolset(tools)
    await failing(tools, toolset, saver)
    script = Script(toolset, saver=saver)
    await script.agent.ainvoke(GO_ON, THREAD)
    assert script.listed == [DB]
    assert not tools.sessions


async def test_a_hook_that_fails_as_an_abandoned_run_is_closed_harms_no_other_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse() -> None:
        raise OSError("no connection")

    tools, saver = desk(), InMemorySaver()
    tools.register_group("fragile", parent="db", on_deactivate=refuse)
    async with ToolfoldToolset(tools) as toolset:
        script = Script([toolset, careful(tools)[1]], opening("db", "db.fragile"), [("db__query", {})], saver=saver)
        await script.agent.ainvoke(GO_ON, THREAD)
        await script.agent.ainvoke(GO_ON, {"configurable": {"thread_id": "other"}})
    assert not tools.sessions
    assert "no connection" in caplog.text


async def test_of_too_many_runs_that_have_not_ended_the_oldest_is_closed_and_restored_when_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("toolfold_adapters.integrations.langchain.LIMIT", 1)
    tools, saver = desk(), InMemorySaver()
    middleware = careful(tools)
    calls = [opening("db"), [("db__query", {"limit": 1})]]
    script = Script(middleware, *calls, *calls, saver=saver)
    threads: list[Any] = [{"configurable": {"thread_id": name}} for name in "ab"]
    for thread in threads:
        await script.agent.ainvoke(GO_ON, thread)
    assert len(tools.sessions) == 1
    for thread in threads:
        done = await script.agent.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), thread)
        assert answers(done)[-1].text == '{"rows": 1}'
    assert not tools.sessions


# -- threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("INT-4")
def test_an_agent_can_be_invoked_without_an_event_loop() -> None:
    ran: list[str] = []
    tools = desk(ran)
    with ToolfoldToolset(tools) as toolset:
        script = Script(toolset, opening("db"), [("db__query", {"limit": 1}), ("ping", {})], saver=InMemorySaver())
        done = script.agent.invoke(GO_ON, THREAD)
        assert [message.text for message in answers(done)][1:] == ['{"rows": 1}', "pong"]
        script.agent.invoke(GO_ON, THREAD)
    assert script.listed == [START, DB, DB, DB]
    assert ran == ["activate db", "deactivate db"]
    assert not tools.sessions


# -- other tools ------------------------------------------------------------------------------------------------------


@tool
def own() -> str:
    """Answer."""
    return "mine"


async def test_tools_of_the_agent_and_of_two_tool_sets_stand_side_by_side() -> None:
    other = ToolSet("other")
    other.register_group("more", "More")
    other.register("look", lambda: "looked", group="more", description="Look")
    calls = [[("own", {}), *opening("db"), ("more__open", {})], [("more__look", {}), ("db__query", {"limit": 1})]]
    script = Script([ToolfoldToolset(desk()), ToolfoldToolset(other)], *calls, tools=[own])
    done = await script.agent.ainvoke(GO_ON)
    assert {"own", "db__query", "more__look"} <= {*script.listed[-1]}
    assert [message.text for message in answers(done)][::3] == ["mine", "looked"]
    assert answers(done)[-1].text == '{"rows": 1}'


async def test_a_tool_of_the_agent_with_the_name_of_any_tool_of_the_set_is_refused() -> None:
    mine = own.model_copy(update={"name": "db__query"})
    with pytest.raises(ConfigError, match=r"tool set 'desk' has, too: 'db__query'\. Register one"):
        await Script(ToolfoldToolset(desk()), tools=[mine]).agent.ainvoke(GO_ON)


async def test_the_system_message_ends_with_the_groups_if_that_is_asked_for() -> None:
    seen: list[str] = []

    class See(AgentMiddleware[Any, Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(request.system_message.text)
            return await handler(request)

    toolset = ToolfoldToolset(desk(), include_instructions=True)
    await Script([toolset, See()], system_prompt="Be brief.").agent.ainvoke(GO_ON)
    await Script([toolset, See()]).agent.ainvoke(GO_ON)
    assert seen[0] == f"Be brief.\n\n{seen[1]}"
    assert "- db: Look things up" in seen[1]
