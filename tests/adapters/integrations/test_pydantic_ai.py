"""A tool set as a toolset of pydantic-ai: results, wrappers, histories and names (SPEC INT-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, cast

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, Tool
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import BinaryContent, ModelMessagesTypeAdapter, ToolReturnPart
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import WrapperToolset

from tests.adapters.integrations.frameworks import function_model
from tests.adapters.integrations.support import PIXEL, START, Result, Step, closing, desk, kinds, opening
from tests.blocked import all_blocked
from toolfold import ToolResult, ToolSet
from toolfold_adapters.integrations.pydantic_ai import ToolfoldToolset

pytestmark = pytest.mark.spec("INT-2")


def agent(toolset: Any, *steps: Step, **options: Any) -> tuple[Agent[Any, Any], Result]:
    result = Result()
    return Agent(function_model(result, steps), toolsets=[toolset], **options), result


def returns(done: Any) -> list[ToolReturnPart]:
    return [part for message in done.new_messages() for part in message.parts if isinstance(part, ToolReturnPart)]


async def test_structured_content_and_images_reach_the_model_as_such() -> None:
    calls = [opening("db"), [("db__query", {"limit": 3})], opening("shop"), [("shop__picture", {})]]
    made, _ = agent(ToolfoldToolset(desk()), *calls)
    _, rows, _, picture = returns(await made.run("Go on"))
    assert rows.content == {"rows": 3}
    assert isinstance(picture.content, list)
    text, image = picture.content
    assert isinstance(image, BinaryContent)
    assert (text, image.base64, image.is_image) == ("a pixel", PIXEL, True)


async def test_content_of_every_kind_is_retained() -> None:
    made, _ = agent(ToolfoldToolset(kinds()), [("all", {})])
    [answer] = returns(await made.run("Go on"))
    sound, text, file, link, unknown = cast("list[Any]", answer.content)
    assert (sound.media_type, sound.data, file.media_type, file.data) == (
        "audio/wav",
        b"RIFF",
        "application/pdf",
        b"%PDF",
    )
    assert (text, link, unknown) == ("a text", "file:///b.txt", '{"type": "new", "of": "a later version"}')


async def test_data_that_is_not_base64_is_a_failure_that_the_model_reads() -> None:
    tools = ToolSet("camera")
    tools.register("shoot", lambda: ToolResult(({"type": "image", "data": "abcde", "mimeType": "image/png"},)))
    made, _ = agent(ToolfoldToolset(tools), [("shoot", {})])
    [answer] = returns(await made.run("Go on"))
    assert (answer.outcome, answer.content) == ("failed", "shoot failed: its answer has data that is not base64.")


async def test_wrong_arguments_are_a_retry_and_other_failures_are_failures() -> None:
    calls = [opening("db"), [("db__query", {"limit": "x"})], opening("shop"), [("shop__sell", {})]]
    made, _ = agent(ToolfoldToolset(desk()), *calls)
    assert [part.outcome for part in returns(await made.run("Go on"))] == ["success", "retried", "success", "failed"]


async def test_the_frameworks_own_test_model_can_call_each_tool() -> None:
    made = Agent(TestModel(call_tools=["open_group", "ping"]), toolsets=[ToolfoldToolset(desk(), active="db")])
    done = await made.run("Go on")
    assert '"ping":"pong"' in done.output


async def test_calls_wait_for_approval_where_the_toolset_is_wrapped_so() -> None:
    toolset: ToolfoldToolset[Any] = ToolfoldToolset(desk())
    careful = toolset.approval_required(lambda ctx, tool, args: tool.name == "db__query")
    first, asked = agent(careful, opening("db"), [("db__query", {"limit": 1})], output_type=[str, DeferredToolRequests])
    paused = await first.run("Go on")
    [request] = paused.output.approvals
    second, resumed = agent(careful, output_type=[str, DeferredToolRequests])
    done = await second.run(
        message_history=paused.all_messages(),
        deferred_tool_results=DeferredToolResults(approvals={request.tool_call_id: True}),
    )
    assert [part.content for part in returns(done)] == [{"rows": 1}]
    assert resumed.listed[0] == asked.listed[-1] == sorted([*START, "db__query"])


async def test_the_annotations_of_a_tool_are_in_its_metadata_for_filters() -> None:
    tools = desk()
    tools.register("drop", lambda: "dropped", description="Drop", annotations={"destructiveHint": True})
    toolset: ToolfoldToolset[Any] = ToolfoldToolset(tools)
    harmless = toolset.filtered(
        lambda ctx, tool: not ((tool.metadata or {})["annotations"] or {}).get("destructiveHint")
    )
    made, result = agent(harmless)
    await made.run("Go on")
    assert result.listed == [START]


async def test_a_prefix_and_a_history_in_json_change_nothing_about_what_is_open() -> None:
    tools = desk()
    made, first = agent(ToolfoldToolset(tools).prefixed("desk"), [("desk_open_group", {"group": "db"})])
    done = await made.run("Go on")
    history = ModelMessagesTypeAdapter.validate_json(done.all_messages_json())
    made, again = agent(ToolfoldToolset(tools).prefixed("desk"))
    await made.run("Go on", message_history=history)
    assert again.listed[0] == first.listed[-1]
    assert "desk_db__query" in again.listed[0]


async def test_a_history_whose_beginning_was_removed_has_its_groups() -> None:
    tools = desk()
    made, first = agent(ToolfoldToolset(tools), opening("db"), [("ping", {})])
    done = await made.run("Go on")
    made, again = agent(ToolfoldToolset(tools))
    await made.run("Go on", message_history=done.all_messages()[3:])
    assert again.listed[0] == first.listed[-1]


async def test_a_call_that_a_wrapper_delays_still_runs_before_one_that_closes_its_group() -> None:
    class Slow(WrapperToolset[Any]):
        async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: Any, tool: Any) -> Any:
            if name == "db__query":
                await all_blocked()
            return await super().call_tool(name, tool_args, ctx, tool)

    made, _ = agent(Slow(ToolfoldToolset(desk(), active="db")), [("db__query", {"limit": 1}), *closing("db")])
    query, closed = returns(await made.run("Go on"))
    assert (query.content, closed.outcome) == ({"rows": 1}, "success")


async def test_runs_of_one_agent_do_not_affect_each_other() -> None:
    toolset: ToolfoldToolset[Any] = ToolfoldToolset(desk())
    one, opened = agent(toolset, opening("db"), closing("nothing"))
    other, untouched = agent(toolset, [("ping", {})])
    async with one.iter("Go on") as run:
        async for _ in run:
            if len(opened.listed) == 2 and not untouched.listed:
                await other.run("Go on")
    assert untouched.listed == [START, START]
    assert "db__query" in opened.listed[-1]


def test_an_agent_can_be_run_by_code_that_is_not_async() -> None:
    made, result = agent(ToolfoldToolset(desk()), opening("db"))
    with closing_loop():
        made.run_sync("Go on")
    assert "db__query" in result.listed[1]


@contextmanager
def closing_loop() -> Generator[None]:
    """Supply the event loop that the framework would make otherwise, and not close."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    yield
    asyncio.set_event_loop(None)
    loop.close()


async def test_instructions_end_with_the_groups_if_that_is_asked_for() -> None:
    toolset: ToolfoldToolset[Any] = ToolfoldToolset(desk(), include_instructions=True)
    made, _ = agent(toolset, instructions="Be brief.")
    done = await made.run("Go on")
    instructions = str(done.all_messages()[0].instructions)  # type: ignore[union-attr]
    assert instructions.startswith("Be brief.")
    assert "- db: Look things up" in instructions


async def test_a_name_that_another_tool_of_the_agent_has_is_reported_with_the_remedy() -> None:
    made = Agent(TestModel(), toolsets=[ToolfoldToolset(desk())], tools=[Tool(lambda: "", name="ping")])
    with pytest.raises(UserError, match=r"ToolfoldToolset 'desk'.*'ping'.*ToolfoldToolset\(tools\)\.prefixed"):
        await made.run("Go on")


def test_outside_of_a_run_there_is_no_conversation() -> None:
    with pytest.raises(UserError, match="within a run of an agent only"):
        _ = ToolfoldToolset(desk()).conversation
