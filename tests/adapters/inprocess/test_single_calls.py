"""Calls that a framework makes one by one: their order, their context, and a conversation over a given session."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from tests.adapters.inprocess.support import CORE, FILES, NOTHING, names, phone
from tests.blocked import all_blocked
from toolfold import Context, SessionClosed, ToolSet
from toolfold_adapters.inprocess import Conversation

WAIT = 60


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def slow(order: list[str]) -> tuple[ToolSet, anyio.Event]:
    """Return a tool set with a tool that ends when an event is set, and one that ends at once."""
    tools, done = ToolSet("desk"), anyio.Event()
    tools.register_group("a")

    async def wait() -> None:
        order.append("wait begins")
        await done.wait()
        order.append("wait ends")

    async def quick() -> None:
        order.append("quick")

    tools.register("wait", wait, group="a", input_schema=NOTHING)
    tools.register("quick", quick, group="a", input_schema=NOTHING)
    return tools, done


@pytest.mark.spec("AGT-2", "INT-4")
async def test_a_call_that_closes_a_group_waits_for_those_before_it_and_those_after_wait_for_it() -> None:
    order: list[str] = []
    tools, done = slow(order)
    conversation = Conversation(tools, active="a")
    results: dict[str, str] = {}

    async def call(name: str) -> None:
        results[name] = (await conversation.call(name, {})).text
        order.append(f"{name} answered")

    async with conversation:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                for name in ("a__wait", "a__quick", "a__close", "a__wait"):
                    tasks.start_soon(call, name)
                    await all_blocked()
                assert order == ["wait begins", "quick", "a__quick answered"]
                done.set()
    assert order[3:] == ["wait ends", "a__wait answered", "a__close answered", "a__wait answered"]
    assert "Unknown tool" in results["a__wait"]


async def test_a_call_that_is_cancelled_while_it_waits_lets_those_after_it_pass_in_order() -> None:
    order: list[str] = []
    tools, done = slow(order)
    conversation = Conversation(tools, active="a")
    async with conversation:
        with anyio.fail_after(WAIT):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(conversation.call, "a__wait", {})
                await all_blocked()
                with anyio.CancelScope() as scope:
                    async with anyio.create_task_group() as waiting:
                        waiting.start_soon(conversation.call, "a__close", {})
                        await all_blocked()
                        scope.cancel()
                await conversation.call("a__quick", {})
                assert order == ["wait begins", "quick"]
                done.set()
        assert conversation.loaded == ("a",)


async def test_a_call_within_a_call_waits_for_nothing() -> None:
    tools = ToolSet("desk")
    tools.register_group("a")

    async def nested(context: Context) -> str:
        return (await conversation.call("a__open", {})).text

    tools.register("nested", nested, input_schema=NOTHING)
    conversation = Conversation(tools)
    async with conversation:
        with anyio.fail_after(WAIT):
            assert "Group a is open" in (await conversation.call("nested", {})).text


@pytest.mark.spec("AGT-1", "CALL-5")
async def test_a_call_has_one_result_and_its_handler_the_context_of_the_framework() -> None:
    tools = phone()
    tools.register("seen", lambda context: context.request, group="pdf", flat=True, input_schema=NOTHING)
    async with Conversation(tools) as conversation:
        assert (await conversation.call("load_tool_group", '{"group_name": "pdf"}')).is_error is False
        assert (await conversation.call("pdf_info", {}, request=1)).text == "3 pages"
        assert (await conversation.call("pdf_info", "[")).text.startswith("The arguments of pdf_info are not")
    with pytest.raises(SessionClosed):
        await conversation.call("pdf_info", {})


async def test_a_tool_is_found_by_the_name_that_the_model_knows_whether_it_is_listed_or_not() -> None:
    conversation = Conversation(phone())
    found: Any = conversation.component("gmail__labels__add")
    assert (found.name, found.group) == ("gmail.labels.add", "gmail.labels")
    assert conversation.component("unknown") is None


@pytest.mark.spec("SES-7")
async def test_a_conversation_over_a_session_has_its_state_and_leaves_it_open() -> None:
    tools = phone()
    async with Conversation(tools, active="pdf") as parent:
        async with parent.session.fork() as session:
            async with Conversation.of_session(session) as conversation:
                assert names(conversation) == [*CORE, *FILES]
                await conversation.call("load_tool_group", {"group_name": "gmail"})
            assert conversation.loaded == ("pdf", "gmail")
            assert parent.loaded == ("pdf",)
            assert session.is_open
            assert Conversation.restore(tools, conversation.dump()).loaded == ("pdf", "gmail")
        with pytest.raises(SessionClosed, match="is not open; open it with `async with`"):
            Conversation.of_session(session)
