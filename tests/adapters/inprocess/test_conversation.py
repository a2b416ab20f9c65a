"""Conversations of an agent's own loop (SPEC 19), and document C's integration tests of the message loop.

The order of calls within a turn is in test_turn.py; the state of a conversation, and how others start from it, in
test_conversation_state.py and test_history.py.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from threading import Barrier
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.adapters.inprocess.support import CORE, FILES, NOTHING, load, names, phone
from toolfold import ConfigError, HookFailed, ProtocolError, SessionClosed, ToolSet, Visibility
from toolfold_adapters.inprocess import BlockingConversation, Conversation

WAIT = 60  # seconds

# -- document C, integration tests of the message loop ----------------------------------------------------------------


@pytest.mark.spec("AGT-1", "GRP-6")
async def test_document_c_load_tool_group_expands_the_active_tool_list() -> None:
    async with Conversation(phone()) as conversation:
        (result,) = await conversation.execute(load("pdf"))
        assert not result.is_error
        assert result.text.startswith("Loaded 2 tools from group 'PDF Tools':")
        assert names(conversation) == [*CORE, *FILES]
        assert [result.text for result in await conversation.execute([("pdf_info", {})])] == ["3 pages"]


@pytest.mark.spec("AGT-1", "GRP-5")
async def test_document_c_the_system_prompt_includes_the_tool_group_listing() -> None:
    prompt = Conversation(phone()).system_prompt("Be brief.")
    assert prompt.startswith("Be brief.\n")
    assert "## Available Tool Groups" in prompt
    for line in ("- gmail: Work with mail", "- gmail.labels: Work with labels", "- pdf: Work with PDF files"):
        assert line in prompt.splitlines()


# -- the order of definitions -----------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-1", "GRP-6")
async def test_each_list_begins_with_the_previous_one_whatever_is_loaded() -> None:
    async with Conversation(phone()) as conversation:
        seen = [conversation.tools("anthropic")]
        for group in ("pdf", "gmail", "gmail.labels", "pdf"):
            await conversation.execute(load(group))
            seen.append(conversation.tools("anthropic"))
        for before, after in pairwise(seen):
            assert after[: len(before)] == before
        assert names(conversation) == [*CORE, *FILES, "gmail__search", "gmail__labels__add"]


@pytest.mark.spec("AGT-1")
async def test_a_core_tool_that_comes_later_comes_at_the_end() -> None:
    tools = phone()
    rule = Visibility.when(lambda view: bool(view.facts.get("vip")))
    tools.register("a_tool_of_its_own", lambda: "", input_schema=NOTHING, visibility=rule)
    async with Conversation(tools) as conversation:
        await conversation.execute(load("pdf"))
        assert names(conversation) == [*CORE, *FILES]
        conversation.session.set_fact("vip", True)
        assert names(conversation) == [*CORE, *FILES, "a_tool_of_its_own"]


@pytest.mark.spec("AGT-1")
async def test_a_group_that_was_closed_and_loaded_again_comes_at_the_end() -> None:
    tools = phone()
    tools.register_exclusion("pdf", "gmail")
    async with Conversation(tools) as conversation:
        await conversation.execute(load("pdf"))
        await conversation.execute(load("gmail"))
        assert names(conversation) == [*CORE, "gmail__search"]
        await conversation.execute(load("pdf"))
        assert conversation.loaded == ("pdf",)
        assert names(conversation) == [*CORE, *FILES]


@pytest.mark.spec("AGT-1")
async def test_activators_of_groups_keep_their_places_among_the_core_tools() -> None:
    tools = ToolSet("x")
    tools.register_group("a")
    tools.register("b", lambda: "", group="a", input_schema=NOTHING)
    tools.register("z", lambda: "", input_schema=NOTHING)
    async with Conversation(tools) as conversation:
        assert names(conversation) == ["a__open", "a__close", "z"]
        await conversation.execute([("a__open", {})])
        assert names(conversation) == ["a__open", "a__close", "z", "a__b"]


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-1")
async def test_calls_of_one_turn_run_concurrently_and_are_answered_in_order() -> None:
    tools = ToolSet("x")
    here, there = anyio.Event(), anyio.Event()

    async def first() -> str:
        here.set()
        await there.wait()
        return "first"

    async def second() -> str:
        await here.wait()
        there.set()
        return "second"

    tools.register("first", first, input_schema=NOTHING)
    tools.register("second", second, input_schema=NOTHING)
    async with Conversation(tools) as conversation:
        with anyio.fail_after(60):
            results = await conversation.execute([("first", {}), ("second", {})])
        assert [result.text for result in results] == ["first", "second"]


@pytest.mark.spec("AGT-2", "CALL-1")
async def test_the_error_can_name_the_group_to_load() -> None:
    async with Conversation(phone(on_hidden="hint")) as conversation:
        (result,) = await conversation.execute([("gmail__search", {})])
        assert result.is_error
        assert result.text == (
            'Unknown tool: gmail__search (it needs the group gmail: call load_tool_group {"group_name": "gmail"} first)'
        )


@pytest.mark.spec("AGT-2", "CALL-1")
async def test_unknown_and_unloaded_tools_differ_only_in_their_names() -> None:
    async with Conversation(phone()) as conversation:
        results = await conversation.execute([("gmail__search", {}), ("gmail__nothing", {}), ("gmail.nothing", {})])
        assert {result.is_error for result in results} == {True}
        assert results[0].text.replace("search", "nothing") == results[1].text == "Unknown tool: gmail__nothing"


@pytest.mark.spec("AGT-1", "CALL-3")
async def test_a_handler_that_fails_affects_no_other_result() -> None:
    tools = phone()

    def crash() -> None:
        raise RuntimeError("secret")

    def protocol() -> None:
        raise ProtocolError(-1, "the protocol's own words")

    tools.register("crash", crash, input_schema=NOTHING)
    tools.register("protocol", protocol, input_schema=NOTHING)
    async with Conversation(tools) as conversation:
        crashed, refused, fine = await conversation.execute([("crash", {}), ("protocol", {}), ("get_current_time", {})])
        assert crashed.is_error
        assert "secret" not in crashed.text
        assert (refused.is_error, refused.text) == (True, "the protocol's own words")
        assert fine.text == "noon"


@pytest.mark.spec("AGT-3", "NAM-6")
async def test_results_use_the_names_of_the_model_and_arguments_name_groups_by_path() -> None:
    async with Conversation(phone()) as conversation:
        results = await conversation.execute(load("gmail", "gmail.labels"))
        assert "- gmail__labels__add: Add a label" in results[1].text


@pytest.mark.spec("AGT-1")
async def test_a_conversation_that_is_over_takes_no_calls() -> None:
    conversation = Conversation(phone())
    await conversation.start()
    await conversation.close()
    with pytest.raises(SessionClosed):
        await conversation.execute([("get_current_time", {})])
    with pytest.raises(SessionClosed):
        conversation.dump()


@pytest.mark.spec("AGT-1", "SES-1")
async def test_two_first_turns_at_once_start_the_conversation_once() -> None:
    started: list[str] = []

    async def slow() -> None:
        await checkpoint()
        started.append("pdf")

    tools = ToolSet("x", control="load_tool_group")
    tools.register_group("pdf", on_activate=slow)
    tools.register("info", lambda: "3 pages", group="pdf", input_schema=NOTHING)
    conversation = Conversation(tools, active=["pdf"])
    texts: list[str] = []

    async def use() -> None:
        texts.extend(result.text for result in await conversation.execute([("pdf__info", {})]))

    async with anyio.create_task_group() as group:
        group.start_soon(use)
        group.start_soon(use)
    assert (started, texts) == (["pdf"], ["3 pages", "3 pages"])
    await conversation.close()


# -- costs ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-4")
async def test_the_cost_of_the_tools_sent_grows_with_each_load_and_that_of_all_tools_does_not() -> None:
    async with Conversation(phone()) as conversation:
        costs = [conversation.tokens()]
        for group in ("pdf", "gmail", "gmail.labels"):
            await conversation.execute(load(group))
            costs.append(conversation.tokens())
        sent = [cost.sent for cost in costs]
        assert sent == sorted(set(sent))
        assert len({cost.everything for cost in costs}) == 1
        added = sent[-1] - sent[0]
        assert sent[-1] > costs[-1].everything > added > 0


# -- without an event loop --------------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-1", "AGT-2", "INT-4")
def test_an_agent_without_an_event_loop_can_call_tools() -> None:
    tools = phone()
    with BlockingConversation(Conversation(tools)) as agent:
        used, loaded = agent.execute([("pdf_info", {}), *load("pdf")])
        assert (used.text, loaded.is_error) == ("3 pages", False)
        assert names(agent.conversation) == [*CORE, *FILES]
        assert len(tools.sessions) == 1
    assert not tools.sessions
    with pytest.raises(RuntimeError, match="with"):
        agent.execute([])


@pytest.mark.spec("AGT-1", "INT-4")
def test_threads_may_call_the_tools_of_one_conversation_at_the_same_time() -> None:
    both = Barrier(2, timeout=WAIT)
    tools = ToolSet("desk", control="open_group")
    tools.register_group("a")
    tools.register("meet", lambda: str(both.wait()), group="a", input_schema=NOTHING)
    with BlockingConversation(Conversation(tools)) as agent, ThreadPoolExecutor(2) as threads:
        agent.execute([("open_group", {"group": "a"})])
        met = threads.map(lambda _: agent.execute([("a__meet", {})]), range(2))
        assert [result.is_error for results in met for result in results] == [False, False]


@pytest.mark.spec("AGT-1", "ERR-2")
async def test_with_and_async_with_in_the_wrong_place_are_reported() -> None:
    conversation: Any = Conversation(phone())
    with pytest.raises(SessionClosed, match="opened; use `async with conversation`, or `with Blocking"), conversation:
        raise AssertionError("the block does not run")
    blocking: Any = BlockingConversation(conversation)
    with pytest.raises(SessionClosed, match="was not opened; use `with` for a BlockingConversation"):
        async with blocking:
            raise AssertionError("the block does not run")


@pytest.mark.spec("AGT-1")
async def test_a_single_initial_group_can_be_given_as_a_string() -> None:
    async with Conversation(phone(), active="pdf") as conversation:
        assert conversation.loaded == conversation.session.active == ("pdf",)
        assert conversation.child("gmail").loaded == ("gmail",)
    async with Conversation(phone(), active=(name for name in ["pdf"])) as conversation:
        assert conversation.loaded == conversation.session.active == ("pdf",)


@pytest.mark.spec("AGT-1", "HOOK-4")
def test_a_start_that_fails_is_raised_and_leaves_no_thread_behind() -> None:
    def fail() -> None:
        raise RuntimeError("no")

    tools = ToolSet("x")
    tools.register_group("a", on_activate=fail)
    with pytest.raises(HookFailed), BlockingConversation(Conversation(tools, active=["a"])):
        pass
    assert tools.sessions == ()


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-3", "NAM-6")
def test_names_that_collide_or_are_too_long_are_an_error_when_the_conversation_is_made() -> None:
    tools = phone()
    tools.register("gmail__search", lambda: "", input_schema=NOTHING)
    with pytest.raises(ConfigError, match="gmail__search"):
        Conversation(tools)
    with pytest.raises(ConfigError, match="characters"):
        Conversation(phone(), max_length=10)


@pytest.mark.spec("AGT-3", "NAM-6", "REG-6")
async def test_a_tool_registered_later_whose_name_collides_is_left_out_and_harms_no_other() -> None:
    tools = phone()
    async with Conversation(tools) as conversation:
        tools.register("gmail__search", lambda: "the impostor", input_schema=NOTHING)
        tools.register("new", lambda: "new", input_schema=NOTHING)
        await conversation.execute(load("gmail"))
        assert names(conversation).count("gmail__search") == 1
        results = await conversation.execute([("new", {}), ("gmail__search", {})])
        assert [result.text for result in results] == ["new", "2 mails"]


@pytest.mark.spec("ERR-2", "AGT-1")
async def test_a_call_without_arguments_is_refused_with_what_to_write() -> None:
    calls: Any = ["ping"]
    with pytest.raises(TypeError, match=r"a pair of a name and arguments, such as \('ping', \{\}\), not 'ping'"):
        await Conversation(ToolSet("t")).execute(calls)
