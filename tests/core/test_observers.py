"""The events of tracers: every request with what made it, every plan and every hook, in order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import anyio
import pytest

from tests.core.support import WAIT, Journal, desk, opened, while_blocked
from toolfold import (
    Context,
    HookContext,
    HookFailed,
    ReentrantTransition,
    ToolNotFound,
    ToolSet,
    TransitionRequest,
    success_of,
)
from toolfold._session.events import (
    Answered,
    Called,
    Committed,
    Ended,
    EventRefused,
    HookBegan,
    HookEnded,
    ListChanged,
    Listed,
    Planned,
    Refused,
    Requested,
    RolledBack,
    SessionEnded,
    SessionOpened,
)
from toolfold._snapshot import Change

Received = list[Any]


def traced(tools: ToolSet) -> Received:
    received = Received()
    tools.trace(received.append)
    return received


def requests(received: Received) -> list[tuple[int, int | None, str, str]]:
    """Of each request: its number, the number of the one that made it, its session, and what it asks for."""
    return [
        (event.number, event.by, event.session, f"{event.what} {event.name}".strip())
        for event in received
        if isinstance(event, Requested)
    ]


@pytest.mark.spec("HOOK-3", "NTF-1")
async def test_a_call_is_traced_from_its_request_to_its_end_with_the_transition_and_the_hooks_in_it() -> None:
    journal = Journal()
    session = await opened(journal, "a")
    session.on_list_changed(lambda kinds: None)
    received = traced(session.tools)
    await session.call("b.activate")
    kinds = frozenset({"tool"})
    assert received == [
        Requested("desk-1", 1, None, "tool", "b.activate"),
        Requested("desk-1", 2, 1, "transition", "", TransitionRequest("b")),
        Planned("desk-1", 2, ("b",), ("a",)),
        HookBegan("desk-1", 2, "a", "on_deactivate", None),
        HookEnded("desk-1", 2, None),
        HookBegan("desk-1", 2, "b", "on_activate", None),
        HookEnded("desk-1", 2, None),
        Committed("desk-1", Change(("b",), ("a",), kinds)),
        ListChanged("desk-1", kinds, 1),
        Ended("desk-1", 2, None),
        Answered("desk-1", 1, False),
        Ended("desk-1", 1, None),
    ]


@pytest.mark.spec("HOOK-4", "HOOK-5")
async def test_a_failing_hook_and_the_compensations_are_traced_with_their_errors() -> None:
    journal = Journal()
    session = await opened(journal, "a")
    received = traced(session.tools)
    journal.fail("+b", "undo +a")
    with pytest.raises(HookFailed) as raised:
        await session.transition(activate=["b"], force=True)
    assert received == [
        Requested("desk-1", 1, None, "transition", "", TransitionRequest("b"), True),
        Planned("desk-1", 1, ("b",), ("a",)),
        HookBegan("desk-1", 1, "a", "on_deactivate", None),
        HookEnded("desk-1", 1, None),
        HookBegan("desk-1", 1, "b", "on_activate", None),
        HookEnded("desk-1", 1, journal.failing["+b"]),
        HookBegan("desk-1", 1, "a", "on_activate", "on_deactivate"),
        HookEnded("desk-1", 1, journal.failing["undo +a"]),
        RolledBack("desk-1", raised.value),
        Ended("desk-1", 1, raised.value),
    ]


@pytest.mark.spec("CALL-1", "ACT-1", "HOOK-7")
async def test_a_refusal_is_traced_as_the_end_of_its_request() -> None:
    journal = Journal()
    session = await opened(journal)

    async def again(context: HookContext) -> None:
        await context.session.activate("b")

    journal.acting["+a"] = again
    received = traced(session.tools)
    with pytest.raises(ToolNotFound):
        await session.call("nope")
    with pytest.raises(HookFailed):
        await session.activate("a")
    assert requests(received) == [
        (1, None, "desk-1", "tool nope"),
        (2, None, "desk-1", "transition"),
        (3, 2, "desk-1", "transition"),
    ]
    ends = [(event.number, type(event.error)) for event in received if isinstance(event, Ended)]
    assert ends == [(1, ToolNotFound), (3, ReentrantTransition), (2, HookFailed)]


@pytest.mark.spec("SES-2")
async def test_requests_of_concurrent_calls_are_traced_with_the_call_that_made_each() -> None:
    tools = ToolSet("two")
    gate = anyio.Event()
    for path in ("x", "y"):
        tools.register_group(path)

    async def slow(context: Context, group: str) -> str:
        await gate.wait()
        await context.activate(group)
        return group

    tools.register("slow", slow)
    async with tools.open_session(identity="one") as one, tools.open_session(identity="other") as other:
        received = traced(tools)
        calls = [
            asyncio.ensure_future(one.call("slow", {"group": "x"})),
            asyncio.ensure_future(other.call("slow", {"group": "y"})),
            asyncio.ensure_future(one.call("slow", {"group": "y"})),
        ]
        await asyncio.sleep(0)
        gate.set()
        with anyio.fail_after(WAIT):
            await asyncio.gather(*calls)
    asked = {event.number: event for event in received if isinstance(event, Requested)}
    transitions = [event for event in asked.values() if event.what == "transition" and event.request is not None]
    assert [(one.request.activate, one.by) for one in transitions if one.request] == [
        (("x",), 1),
        (("y",), 2),
        (("y",), 3),
    ]
    assert [one.session for one in transitions] == [asked[one.by].session for one in transitions if one.by]


async def test_what_a_hook_asks_of_another_session_is_traced_as_made_by_its_transition() -> None:
    journal = Journal()
    tools = desk(journal)
    async with tools.open_session(identity="one") as one, tools.open_session(identity="other") as other:

        async def reach(context: HookContext) -> None:
            await other.activate("c")

        journal.acting["+a"] = reach
        received = traced(tools)
        await one.activate("a")
        await one.activate("b")
    assert requests(received)[:3] == [
        (1, None, "one", "transition"),
        (2, 1, "other", "transition"),
        (3, None, "one", "transition"),
    ]


async def test_requests_of_different_tool_sets_are_numbered_separately() -> None:
    outer, inner = ToolSet("outer"), ToolSet("inner")
    inner.register_group("g")
    async with inner.open_session() as within:

        async def pass_on() -> str:
            await within.activate("g")
            return "done"

        outer.register("pass_on", pass_on)
        received, notified = traced(outer), traced(inner)
        await outer.call_tool("pass_on")
    assert requests(received) == [(1, None, "outer-default", "tool pass_on")]
    assert requests(notified)[0] == (1, None, "inner-1", "transition")


@pytest.mark.spec("SES-6")
async def test_what_opens_on_success_is_traced_after_the_answer_and_not_as_made_by_the_handler() -> None:
    tools = ToolSet("gates")
    tools.register("observe", lambda: "seen")
    tools.register_group("gate", opens_on=success_of("observe"))
    async with tools.open_session(identity="s") as session:
        received = traced(tools)
        await session.call("observe")
    assert received[:4] == [
        Requested("s", 1, None, "tool", "observe"),
        Answered("s", 1, False),
        Requested("s", 2, 1, "success", "observe"),
        Requested("s", 3, 2, "transition", "", TransitionRequest("gate")),
    ]
    assert not any(isinstance(event, EventRefused) for event in received)


@pytest.mark.spec("REG-9", "SES-5", "SES-3")
async def test_prompts_resources_facts_and_the_start_and_close_of_a_session_are_requests_too() -> None:
    tools = ToolSet("kinds")
    tools.register_group("g")
    tools.register_prompt("p", lambda: "text")
    tools.register_resource("file:///r", lambda: "text")
    received = traced(tools)
    async with tools.open_session(active=["g"], identity="s") as session:
        await session.get_prompt("p")
        await session.read("file:///r")
        with suppress(ToolNotFound):
            await session.read("file:///none")
        session.set_fact("f", 1)
    assert requests(received) == [
        (1, None, "s", "start"),
        (2, None, "s", "prompt p"),
        (3, None, "s", "resource file:///r"),
        (4, None, "s", "resource file:///none"),
        (5, None, "s", "set_fact f"),
        (6, None, "s", "close"),
    ]
    assert (received[0], received[-2]) == (SessionOpened("s"), SessionEnded("s"))
    assert received[2] == Planned("s", 1, ("g",), ())


@pytest.mark.spec("HOOK-6")
async def test_a_cancelled_hook_and_its_request_are_traced_with_the_cancellation() -> None:
    journal = Journal()
    session = await opened(journal)
    block = journal.block("+a")
    received = traced(session.tools)
    task = asyncio.ensure_future(session.activate("a"))
    await block.arrived.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    ended = [event for event in received if isinstance(event, HookEnded | Ended)]
    assert [type(event.error) for event in ended] == [asyncio.CancelledError] * 2
    received.clear()
    await session.activate("c")
    assert received[0] == Requested("desk-1", 2, None, "transition", "", TransitionRequest("c"))


@pytest.mark.spec("REG-7")
async def test_a_transition_that_is_planned_again_has_both_plans_in_the_trace() -> None:
    journal = Journal()
    session = await opened(journal, "b")
    received = traced(session.tools)
    async with while_blocked(journal.block("+c"), session.activate("c")):
        session.tools.register_exclusion("b", "c")
    plans = [event for event in received if isinstance(event, Planned)]
    assert plans == [Planned("desk-1", 1, ("c",), ()), Planned("desk-1", 1, ("c",), ("b",))]


@pytest.mark.spec("NTF-2")
async def test_a_tracer_that_raises_changes_nothing_and_one_that_was_removed_gets_no_more_events() -> None:
    journal = Journal()
    session = await opened(journal)

    def fail(event: object) -> None:
        raise RuntimeError("tracer")

    stop = session.tools.trace(fail)
    received = Received()
    remove = session.tools.trace(received.append)
    assert await session.activate("a")
    assert [type(event).__name__ for event in received][-3:] == ["Committed", "ListChanged", "Ended"]
    stop()
    remove()
    received.clear()
    assert await session.activate("c")
    assert received == []


async def test_observers_get_outcomes_only() -> None:
    journal = Journal()
    session = await opened(journal)
    notified, received = Received(), traced(session.tools)
    session.tools.observe(notified.append)
    await session.call("a.activate")
    assert [type(event) for event in notified] == [Committed]
    assert [event for event in received if isinstance(event, Committed)] == notified


def test_without_tracers_no_events_are_made_for_them() -> None:
    observers = ToolSet("quiet").observers
    first = observers.requested("s", "tool", "t")
    assert observers.requested("s", "transition", "", TransitionRequest("g"), True) is first
    with first:
        assert observers.request is None
    assert not observers.listeners


async def test_what_is_counted_reaches_who_listens_to_it_and_no_other() -> None:
    tools = desk()
    tools.register("echo", lambda: "yes")
    counted, traced_events = Received(), traced(tools)
    stop = tools.observers.add(counted.append, (Called, Refused, Listed))
    ticks = iter(range(10))
    tools.observers.clock = lambda: float(next(ticks))
    async with tools.open_session() as session:
        await session.call("echo", request="asked")
        with pytest.raises(ToolNotFound):
            await session.call("nope")
        page = session.list_tools()
    called, refused, listed = counted
    assert (called.session, called.component.name, called.request, called.seconds) == (session.id, "echo", "asked", 1.0)
    assert called.result.text == "yes"
    assert refused == Refused(session.id, "unknown")
    assert (listed.items, listed.catalog, listed.begins) == (page.items, tools.catalog, True)
    assert not {Called, Refused} & set(map(type, traced_events))
    stop()
    assert Called not in tools.observers.listeners
    assert Listed in tools.observers.listeners
