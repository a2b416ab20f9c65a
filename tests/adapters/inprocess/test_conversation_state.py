"""What outlives a conversation: snapshots, and what sub-agents begin with (SPEC 19, GRP-6).

Histories are in test_history.py.
"""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest

from tests.adapters.inprocess.support import CORE, FILES, load, names, phone
from toolfold import GroupNotFound, HandleInvalid, HookFailed, ParentInactive, Profile, ToolSet
from toolfold_adapters.inprocess import Conversation

# -- snapshots --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GRP-6", "PER-1")
async def test_a_restored_conversation_has_exactly_the_same_list() -> None:
    tools = phone()
    async with Conversation(tools) as conversation:
        await conversation.execute(load("pdf", "gmail"))
        conversation.session.set_fact("user", "ada")
        data = json.loads(json.dumps(conversation.dump()))
        restored = Conversation.restore(tools, data)
        assert restored.tools("anthropic") == conversation.tools("anthropic")
        assert restored.loaded == ("pdf", "gmail")
        assert restored.dump() == data
        async with restored:
            assert restored.session.snapshot is conversation.session.snapshot
            assert [result.text for result in await restored.execute([("gmail__search", {})])] == ["2 mails"]
            assert restored.dump() == data


@pytest.mark.spec("GRP-6", "PER-2")
async def test_a_conversation_restored_with_another_catalog_reports_missing_groups() -> None:
    async with Conversation(phone()) as conversation:
        await conversation.execute(load("pdf", "gmail", "gmail.labels"))
        data = conversation.dump()
    changed = phone()
    await changed.unregister_group("gmail")
    async with Conversation.restore(changed, data) as restored:
        assert restored.loaded == ("pdf",)
        assert restored.discarded == ("gmail", "gmail.labels")
        assert names(restored) == [*CORE, *FILES]


@pytest.mark.spec("GRP-6")
@pytest.mark.parametrize("loaded", ["pdf", [1], None])
def test_a_damaged_order_of_loads_is_refused(loaded: Any) -> None:
    tools = phone()
    with pytest.raises(HandleInvalid, match="loaded groups are not a list"):
        Conversation.restore(tools, {**Conversation(tools).dump(), "loaded": loaded})
    with pytest.raises(HandleInvalid):
        Conversation.restore(tools, None)


@pytest.mark.spec("GRP-6")
@pytest.mark.parametrize("answered", ["1", -1, True])
def test_a_damaged_number_of_answers_is_refused(answered: Any) -> None:
    tools = phone()
    with pytest.raises(HandleInvalid, match="number of answers is not a number"):
        Conversation.restore(tools, {**Conversation(tools).dump(), "answered": answered})


@pytest.mark.spec("GRP-6", "HOOK-4")
async def test_hooks_of_a_restored_conversation_run_when_it_starts_and_fail_it_cleanly() -> None:
    def hooked(ran: list[str], fails: bool) -> ToolSet:
        def enter() -> None:
            ran.append("pdf")
            if fails:
                raise RuntimeError("no")

        tools = ToolSet("x", control="load_tool_group")
        tools.register_group("pdf", on_activate=enter)
        return tools

    ran: list[str] = []
    tools = hooked(ran, fails=True)
    data = {**Conversation(tools).dump(), "active": ["pdf"], "loaded": ["pdf"]}
    conversation = Conversation.restore(tools, data)
    assert (conversation.loaded, ran) == (("pdf",), [])
    with pytest.raises(HookFailed):
        await conversation.start()
    assert (ran, tools.sessions) == (["pdf"], ())


# -- sub-agents -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-1", "SES-1")
async def test_a_child_inherits_the_state_and_then_changes_independently() -> None:
    async with Conversation(phone()) as parent:
        await parent.execute(load("pdf", "gmail"))
        parent.session.set_fact("user", "ada")
        async with parent.child() as child:
            assert child.tools() == parent.tools()
            assert child.session.facts == {"user": "ada"}
            await child.execute(load("gmail.labels"))
            assert child.loaded == ("pdf", "gmail", "gmail.labels")
            assert parent.loaded == ("pdf", "gmail")


@pytest.mark.spec("AGT-1", "SES-1")
@pytest.mark.parametrize(("groups", "loaded"), [("fresh", ()), (["gmail"], ("gmail",)), ([], ())])
async def test_a_child_starts_with_nothing_or_with_the_groups_it_is_given(groups: Any, loaded: Iterable[str]) -> None:
    async with Conversation(phone()) as parent:
        await parent.execute(load("pdf", "gmail"))
        assert parent.child(groups).loaded == loaded
        async with parent.child(groups) as child:
            assert child.loaded == loaded


@pytest.mark.spec("AGT-1", "ACT-1", "ACT-2")
def test_a_child_cannot_start_with_groups_that_cannot_be_active() -> None:
    parent = Conversation(phone())
    with pytest.raises(GroupNotFound):
        parent.child(["nothing"])
    with pytest.raises(ParentInactive):
        parent.child(["gmail.labels"])


@pytest.mark.spec("AGT-1", "PRO-1")
async def test_a_profile_applies_to_the_conversation_and_its_children() -> None:
    tools = phone()
    tools.register_profile(Profile(name="reader", active=("pdf",)))
    async with Conversation(tools, profile="reader") as conversation:
        assert conversation.loaded == ("pdf",)
        assert "gmail" not in conversation.system_prompt()
        data = conversation.dump()
        for other in (conversation.child(), conversation.child("fresh"), Conversation.restore(tools, data)):
            assert (other.loaded, names(other)) == (("pdf",), [*CORE, *FILES])
            (refused,) = await other.execute(load("gmail"))
            assert refused.is_error
            await other.close()


# -- memory -----------------------------------------------------------------------------------------------------------


def memory_of_conversations(number_of_tools: int) -> int:
    """Return the bytes of some conversations with one group open, beside another one."""
    tools = ToolSet("sized", control="open_group")
    tools.register_group("open", "A group")
    tools.register("one", lambda: "done", group="open")
    tools.register_group("closed", "A group")
    for number in range(number_of_tools):
        tools.register(f"tool_{number}", lambda: "done", group="closed")

    def converse() -> Conversation:
        conversation = Conversation(tools, active=["open"])
        assert len(conversation.tools()) == 3
        return conversation

    converse()  # what is cached for all
    gc.collect()
    tracemalloc.start()
    conversations = [converse() for _ in range(10)]
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(conversations) == 10
    return size


def test_a_conversation_takes_no_more_memory_where_there_are_many_tools() -> None:
    assert memory_of_conversations(1000) < 1.5 * memory_of_conversations(10)
