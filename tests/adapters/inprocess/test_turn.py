"""The order in which the calls of one turn run, and that each has a result of its own (SPEC AGT-1, AGT-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from tests.adapters.inprocess.support import NOTHING, load, phone
from toolfold import ProtocolError, ToolSet
from toolfold_adapters.inprocess import Conversation

# -- order ------------------------------------------------------------------------------------------------------------


def rooms(**options: Any) -> ToolSet:
    """Groups a and b with a tool each."""
    tools = ToolSet("rooms", **options)
    for path in ("a", "b"):
        tools.register_group(path)
        tools.register("use", says(f"used {path}"), group=path, input_schema=NOTHING)
    return tools


def says(text: str) -> Callable[[], str]:
    return lambda: text


CALLS: dict[str, tuple[str, Any]] = {
    "use a": ("a__use", {}),
    "use b": ("b__use", {}),
    "open a": ("a__open", {}),
    "open b": ("b__open", {}),
    "close a": ("a__close", {}),
    "close b": ("b__close", {}),
    "look": ("look", {}),
}


async def answers(tools: ToolSet, begun_with: str, *calls: str) -> tuple[list[str], str]:
    """Return the first lines of the answers of one turn, and the groups that are open after it."""
    async with Conversation(tools, active=begun_with.split()) as conversation:
        results = await conversation.execute([CALLS[call] for call in calls])
        return [result.text.partition("\n")[0] for result in results], " ".join(conversation.session.active)


OPENED = "Group {} is open. Now available:"
CLOSED = "Group {} is closed."


@pytest.mark.spec("AGT-1", "AGT-2")
async def test_calls_before_and_after_a_load_run_concurrently() -> None:
    tools, arrived = rooms(), anyio.Event()
    tools.register("wait", arrived.wait, input_schema=NOTHING)
    tools.register("arrive", arrived.set, group="a", input_schema=NOTHING)
    async with Conversation(tools) as conversation:
        with anyio.fail_after(60):
            results = await conversation.execute([("wait", {}), CALLS["open a"], ("a__arrive", {})])
    assert [result.is_error for result in results] == [False] * 3


@pytest.mark.spec("AGT-2")
@pytest.mark.parametrize(
    ("begun_with", "calls", "texts", "open_after"),
    [
        ("", ["use a", "open a"], ["used a", OPENED.format("a")], "a"),
        ("", ["use a", "open a", "close a"], ["used a", OPENED.format("a"), CLOSED.format("a")], ""),
        ("a", ["use a", "close a"], ["used a", CLOSED.format("a")], ""),
        ("a", ["close a", "use a"], [CLOSED.format("a"), "Unknown tool: a__use"], ""),
        ("a", ["close a", "use a", "open a"], [CLOSED.format("a"), "used a", OPENED.format("a")], "a"),
        ("", ["open a", "close a"], [OPENED.format("a"), CLOSED.format("a")], ""),
        ("b", ["use b", "close b", "open a"], ["used b", CLOSED.format("b"), OPENED.format("a")], "a"),
        ("b", ["use a", "close b", "open a"], ["used a", CLOSED.format("b"), OPENED.format("a")], "a"),
        (
            "",
            ["open a", "use a", "close a", "open b", "use b"],
            [OPENED.format("a"), "used a", CLOSED.format("a"), OPENED.format("b"), "used b"],
            "b",
        ),
    ],
)
async def test_calls_of_a_group_run_after_the_call_that_opens_it_and_before_the_one_that_closes_it(
    begun_with: str, calls: list[str], texts: list[str], open_after: str
) -> None:
    assert await answers(rooms(), begun_with, *calls) == (texts, open_after)


@pytest.mark.spec("AGT-2", "ACT-4")
async def test_a_call_runs_before_another_displaces_its_group() -> None:
    tools = rooms()
    tools.register_exclusion("a", "b")
    texts, open_after = await answers(tools, "a", "use a", "open b", "use b")
    assert texts == ["used a", "Group b is open. Closed to make room: a. Now available:", "used b"]
    assert open_after == "b"


@pytest.mark.spec("AGT-2", "SES-6")
async def test_a_group_opened_by_a_success_undoes_no_later_answer() -> None:
    for calls in (["look", "open b"], ["open b", "look"]):
        tools = rooms()
        tools.register("look", lambda: "seen", input_schema=NOTHING)
        tools.register_group("gate", opens_on="look", controls=False)
        tools.register_exclusion("b", "gate")
        texts, open_after = await answers(tools, "", *calls)
        assert texts[calls.index("look")] == "seen"
        assert open_after == ("b" if calls[-1] == "open b" else "gate")


@pytest.mark.spec("AGT-2", "SES-6")
async def test_groups_that_open_with_the_success_of_tools_open_in_the_order_in_which_these_were_called() -> None:
    tools = ToolSet("x")
    fast_is_done = anyio.Event()

    async def slow() -> None:
        with anyio.move_on_after(0):  # if it ran beside the other, it would end after it
            await fast_is_done.wait()

    tools.register("slow", slow, input_schema=NOTHING)
    tools.register("fast", fast_is_done.set, input_schema=NOTHING)
    tools.register_group("a", opens_on="fast")
    tools.register_group("b", opens_on="slow")
    async with Conversation(tools) as conversation:
        await conversation.execute([("slow", {}), ("fast", {})])
        assert conversation.loaded == ("b", "a")


@pytest.mark.spec("AGT-1", "SES-6")
async def test_calls_of_one_tool_run_concurrently_although_its_success_opens_a_group() -> None:
    tools, both = ToolSet("x"), anyio.Event()
    here: list[int] = []

    async def look() -> str:
        here.append(1)
        if len(here) == 2:
            both.set()
        await both.wait()
        return "seen"

    tools.register("look", look, input_schema=NOTHING)
    tools.register_group("gate", opens_on="look")
    async with Conversation(tools) as conversation:
        with anyio.fail_after(60):
            results = await conversation.execute([("look", {}), ("look", {})])
        assert [result.text for result in results] == ["seen", "seen"]


@pytest.mark.spec("AGT-2", "HOOK-1")
async def test_hooks_run_in_the_task_that_executes_the_turn() -> None:
    tools, tasks = ToolSet("x"), list[Any]()

    async def note() -> None:
        tasks.append(asyncio.current_task())

    tools.register_group("a", on_activate=note, on_deactivate=note)
    async with Conversation(tools) as conversation:
        await conversation.execute([CALLS["open a"], CALLS["close a"]])
        assert tasks == [asyncio.current_task()] * 2


# -- a result for each call -------------------------------------------------------------------------------------------


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


UNREADABLE = {
    "not JSON": "{",
    "a list": "[]",
    "a text": '"text"',
    "nothing": None,
    "nested objects": '{"x":' * 100_000,
    "nested lists": "[" * 100_000,
    "not a number": '{"x": NaN}',
    "infinity": '{"x": 1e999}',
    "surrogate key": '{"\\ud800": 1}',
    "surrogate value": '{"x": "\\udfff"}',
    "huge integer": '{"x": ' + "9" * 5_000 + "}",
    "nested mapping": nested(20_000),
    "not a number in a mapping": {"x": float("nan")},
    "surrogate key of a mapping": {"\ud800": 1},
    "surrogate in a mapping": {"x": ["\udfff"]},
    "huge integer in a mapping": {"x": 10**5_000},
    "no JSON value": {"x": object()},
    "no text as key": {("a", "b"): 1},
    "bytes": b"{}",
}


@pytest.mark.spec("AGT-1", "CALL-2", "SAF-1")
@pytest.mark.parametrize("arguments", UNREADABLE.values(), ids=UNREADABLE)
async def test_invalid_arguments_are_refused_and_the_other_calls_are_answered(arguments: Any) -> None:
    calls = [("get_current_time", arguments), ("load_tool_group", arguments), *load("pdf"), ("pdf_info", {})]
    async with Conversation(phone()) as conversation:
        time, nothing, loaded, used = await conversation.execute(calls)
    received = "The arguments of {} are not a JSON object; call it again with one."
    assert (time.is_error, time.text) == (True, received.format("get_current_time"))
    assert (nothing.is_error, nothing.text) == (True, received.format("load_tool_group"))
    assert (loaded.is_error, used.text) == (False, "3 pages")


@pytest.mark.spec("AGT-1", "CALL-1")
@pytest.mark.parametrize("name", [None, 3, ["get_current_time"], {}, b"get_current_time", "\ud800", "", "x" * 100_000])
async def test_an_invalid_name_is_refused_with_a_text_that_can_be_sent(name: Any) -> None:
    for separator in ("__", "."):
        async with Conversation(phone(), separator=separator, max_length=128) as conversation:
            *refused, good = await conversation.execute([(name, {}), (name, "{"), ("get_current_time", {})])
        assert ([one.is_error for one in refused], good.text) == ([True, True], "noon")
        assert all(len(one.text.encode()) < 1_000 for one in refused)


class Odd(BaseException):
    """What nobody expects a tool to raise."""


async def cancels_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await anyio.lowlevel.checkpoint()


def ends(error: BaseException) -> Callable[[], None]:
    def handler() -> None:
        raise error

    return handler


ENDS = {
    "base exception": ends(Odd()),
    "exit": ends(SystemExit(1)),
    "interrupt": ends(KeyboardInterrupt()),
    "group": ends(BaseExceptionGroup("", [Odd()])),
    "cancellation": ends(asyncio.CancelledError()),
    "its own cancellation": cancels_itself,
}


@pytest.mark.spec("AGT-1", "CALL-3", "SAF-2")
@pytest.mark.parametrize("handler", ENDS.values(), ids=ENDS)
async def test_whatever_a_handler_raises_the_concurrent_calls_complete(handler: Callable[[], Any]) -> None:
    tools, raised = phone(), anyio.Event()

    async def raises() -> None:
        raised.set()
        await (handler() or anyio.lowlevel.checkpoint())

    async def patient() -> str:
        await raised.wait()
        await anyio.lowlevel.checkpoint()
        return "finished"

    tools.register("raises", raises, input_schema=NOTHING)
    tools.register("patient", patient, input_schema=NOTHING)
    async with Conversation(tools) as conversation:
        results = await conversation.execute([("patient", {}), ("raises", {}), *load("pdf"), ("pdf_info", {})])
        assert [result.is_error for result in results] == [False, True, False, False]
        assert (results[0].text, results[-1].text) == ("finished", "3 pages")


@pytest.mark.spec("AGT-1", "SAF-2")
@pytest.mark.parametrize("by", ["scope", "task"])
@pytest.mark.parametrize("calls", [["wait"], ["wait", "wait"], ["wait", "next"]])
async def test_a_turn_that_is_cancelled_ends_with_all_its_calls(by: str, calls: list[str]) -> None:
    tools = ToolSet("x")
    waiting, ended, finished = anyio.Event(), list[str](), list[str]()

    async def wait() -> None:
        waiting.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("wait")

    tools.register("wait", wait, input_schema=NOTHING)
    tools.register("next", lambda: finished.append("next"), input_schema=NOTHING)
    for name in ("wait", "next"):  # so that they run one after the other
        tools.register_group(f"after_{name}", opens_on=name)
    async with Conversation(tools) as conversation:

        async def turn() -> None:
            await conversation.execute([(name, {}) for name in calls])
            finished.append("turn")

        if by == "scope":
            async with anyio.create_task_group() as group:
                group.start_soon(turn)
                await waiting.wait()
                group.cancel_scope.cancel()
        else:
            task = asyncio.create_task(turn())
            await waiting.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert (ended, finished) == (["wait"] * calls.count("wait"), [])


@pytest.mark.spec("AGT-1", "GWY-1")
async def test_the_url_and_the_reason_of_an_error_of_the_protocol_reach_the_model() -> None:
    asked = [{"mode": "url", "elicitationId": "1", "url": "https://bank.example/login", "message": "Log in"}]
    tools = ToolSet("bank")
    for name, code, data in (("pay", -32042, {"elicitations": asked}), ("buy", -32050, {"reason": "no quota is left"})):

        def refuse(_: object, code: int = code, data: object = data) -> None:
            raise ProtocolError(code, "Refused", data)

        tools.register(name, refuse, input_schema={"type": "object"})
    async with Conversation(tools) as conversation:
        results = await conversation.execute([("pay", {}), ("buy", {})])
    assert [result.is_error for result in results] == [True, True]
    assert "https://bank.example/login" in results[0].text
    assert "no quota is left" in results[1].text
