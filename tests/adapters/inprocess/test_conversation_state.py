"""What outlives a conversation: snapshots, histories, and what sub-agents begin with (SPEC 19, GRP-6)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest

from tests.adapters.inprocess.support import CORE, FILES, NOTHING, load, names, phone
from toolfold import GroupNotFound, HandleInvalid, HookFailed, ParentInactive, Profile, ToolSet
from toolfold_adapters.inprocess import Conversation

# -- snapshots --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GRP-6", "PER-1")
async def test_a_restored_conversation_gives_the_model_the_very_same_list() -> None:
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
async def test_a_conversation_restored_in_another_catalog_tells_what_it_lacks() -> None:
    async with Conversation(phone()) as conversation:
        await conversation.execute(load("pdf", "gmail", "gmail.labels"))
        data = conversation.dump()
    changed = phone()
    await changed.unregister_group("gmail")
    async with Conversation.restore(changed, data) as restored:
        assert restored.loaded == ("pdf",)
        assert restored.dropped == ("gmail", "gmail.labels")
        assert names(restored) == [*CORE, *FILES]


@pytest.mark.spec("GRP-6")
@pytest.mark.parametrize("loaded", ["pdf", [1], None])
def test_a_damaged_order_of_loads_is_refused(loaded: Any) -> None:
    tools = phone()
    for key in ("loaded", "first"):
        with pytest.raises(HandleInvalid, match="loaded groups"):
            Conversation.restore(tools, {**Conversation(tools).dump(), key: loaded})
    with pytest.raises(HandleInvalid):
        Conversation.restore(tools, None)


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


# -- histories --------------------------------------------------------------------------------------------------------


def anthropic(*calls: tuple[str, Any, bool]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on"}]
    for number, (name, arguments, failed) in enumerate(calls):
        use = {"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments}
        answer = {"type": "tool_result", "tool_use_id": f"c{number}", "content": "…", "is_error": failed}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [answer]}]
    return messages


def openai(*calls: tuple[str, Any, bool]) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go on"}]
    for number, (name, arguments, _) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        use = {"id": f"c{number}", "type": "function", "function": function}
        answer = {"role": "tool", "tool_call_id": f"c{number}", "content": "…"}
        messages += [{"role": "assistant", "content": None, "tool_calls": [use]}, answer]
    return messages


def responses(*calls: tuple[str, Any, bool]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [{"role": "user", "content": "Go on"}]
    for number, (name, arguments, _) in enumerate(calls):
        call = {"type": "function_call", "call_id": f"c{number}", "name": name, "arguments": json.dumps(arguments)}
        items += [call, {"type": "function_call_output", "call_id": f"c{number}", "output": "…"}]
    return items


def loads(*groups: str, failed: bool = False) -> list[tuple[str, Any, bool]]:
    return [(name, arguments, failed) for name, arguments in load(*groups)]


@pytest.mark.spec("GRP-6")
@pytest.mark.parametrize("written", [anthropic, openai, responses])
async def test_a_conversation_restored_from_its_messages_has_the_same_groups_loaded(written: Any) -> None:
    messages = written(*loads("pdf"), ("pdf_info", {}, False), *loads("gmail", "gmail.labels", "unknown", "pdf"))
    async with Conversation.from_history(phone(), messages) as conversation:
        assert conversation.loaded == ("pdf", "gmail", "gmail.labels")
        assert names(conversation) == [*CORE, *FILES, "gmail__search", "gmail__labels__add"]


@pytest.mark.spec("GRP-6")
def test_loads_that_failed_or_were_never_answered_are_not_repeated() -> None:
    messages = [*anthropic(*loads("pdf", failed=True)), anthropic(*loads("gmail"))[1]]
    assert Conversation.from_history(phone(), messages).loaded == ()
    assert Conversation.from_history(phone(), []).loaded == ()


@pytest.mark.spec("GRP-6")
def test_a_history_is_replayed_with_what_displaced_and_closed_groups() -> None:
    tools = ToolSet("x")
    for path in ("a", "b", "b.c", "d"):
        tools.register_group(path)
    tools.register_exclusion("a", "b")
    steps = ["a__activate", "d__activate", "b__activate", "b__c__activate", "d__deactivate"]
    messages = anthropic(*((name, {}, False) for name in steps))
    assert Conversation.from_history(tools, messages).loaded == ("b", "b.c")
    with_dots = anthropic(*((name.replace("__", "."), {}, False) for name in steps[:2]))
    assert Conversation.from_history(tools, with_dots, separator=".").loaded == ("a", "d")


@pytest.mark.spec("GRP-6", "SES-6", "PER-4")
def test_a_gate_that_a_call_opened_is_open_again_unless_it_is_transient() -> None:
    tools = ToolSet("x")
    tools.register("observe", lambda: "", input_schema=NOTHING)
    tools.register_group("lasting", opens_on="observe")
    tools.register_group("gate", opens_on="observe", transient=True)
    assert Conversation.from_history(tools, anthropic(("observe", {}, False))).loaded == ("lasting",)


@pytest.mark.spec("GRP-6")
async def test_a_real_history_gives_what_the_conversation_had() -> None:
    tools = phone()
    async with Conversation(tools) as conversation:
        asked = load("gmail", "nothing", "pdf")
        results = await conversation.execute(asked)
        written = [(name, arguments, result.is_error) for (name, arguments), result in zip(asked, results, strict=True)]
        again = Conversation.from_history(tools, anthropic(*written))
        assert again.tools("openai") == conversation.tools("openai")


# -- sub-agents -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("AGT-1", "SES-1")
async def test_a_child_inherits_the_state_and_then_goes_its_own_way() -> None:
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
def test_a_child_can_not_start_with_what_can_not_be_active() -> None:
    parent = Conversation(phone())
    with pytest.raises(GroupNotFound):
        parent.child(["nothing"])
    with pytest.raises(ParentInactive):
        parent.child(["gmail.labels"])


@pytest.mark.spec("AGT-1", "PRO-1")
async def test_a_profile_holds_for_the_conversation_and_for_what_comes_of_it() -> None:
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
