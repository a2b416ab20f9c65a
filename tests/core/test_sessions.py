"""Sessions (SPEC 11): apart from one another, ended in several ways, bounded in number, opened further by events."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from tests.core.support import WAIT, Journal, desk, opened, settle
from toolfold import (
    HookContext,
    HookFailed,
    HookTimeout,
    ParentInactive,
    Profile,
    QuotaExceeded,
    Session,
    SessionClosed,
    ToolSet,
)
from toolfold._session.observers import SessionEnded, SessionOpened
from toolfold._session.pool import AT_ONCE

FULL = ("a", "a.x", "a.y", "c")
ENDING = ["-c", "-a.y", "-a.x", "-a"]
"""The hooks that close a session in which the groups of `FULL` are active."""


# Apart


@pytest.mark.spec("SES-1")
async def test_what_one_session_does_another_neither_lists_nor_hears_nor_calls() -> None:
    journal = Journal()
    tools = desk(journal)
    async with tools.open_session() as one, tools.open_session() as other:
        notified = list[frozenset[str]]()
        other.on_list_changed(notified.append)
        before = (other.snapshot, other.list_tools(), other.list_groups(), other.active)
        await one.transition(activate=["a", "a.x"])
        one.set_fact("f", 1)
        journal.fail("+b")
        with pytest.raises(HookFailed):
            await one.activate("b")
        assert (other.snapshot, other.list_tools(), other.list_groups(), other.active) == before
        assert other.facts == {}
        with pytest.raises(Exception, match=r"a\.t"):
            await other.call("a.t")
        assert (await one.call("a.t")).text == "done"
        assert notified == []


@pytest.mark.spec("SES-1")
async def test_a_step_under_way_keeps_no_other_session_waiting_and_hooks_tell_whose_they_are() -> None:
    journal = Journal()
    tools = desk(journal)
    async with tools.open_session() as one, tools.open_session() as other:
        seen: list[Session] = []

        async def look(context: HookContext) -> None:
            seen.append(context.session)
            if context.session is one:
                await block.release.wait()

        block = journal.block("+c")
        journal.acting["+a"] = look
        task = asyncio.ensure_future(one.activate("a"))
        await settle()
        with anyio.fail_after(WAIT):
            assert await other.activate("a")
        assert (one.active, other.active) == ((), ("a",))
        block.release.set()
        assert await task
        assert seen == [one, other]


@pytest.mark.spec("ACT-3", "SES-1", "PRO-1")
async def test_a_session_keeps_its_snapshot_when_another_under_an_equal_profile_is_gone() -> None:
    tools = desk()

    def profile() -> Profile:
        return Profile(name="p", active=("a",), available=("a.x",))

    first = await tools.open_session(profile()).start()
    async with tools.open_session(profile()) as second:
        before = second.snapshot
        await first.close()
        del first
        gc.collect()
        assert second.snapshot is before
        assert await second.activate("a") is False
        assert second.snapshot is before


# Ending


@pytest.mark.spec("HOOK-9", "SES-3")
async def test_closing_tears_down_all_active_groups_from_below() -> None:
    journal = Journal()
    session = await opened(journal, *FULL)
    await session.close()
    assert journal.take() == ENDING
    assert not session.is_open
    assert session not in session.tools.sessions


@pytest.mark.spec("HOOK-9")
@pytest.mark.parametrize("failing", [ENDING[:1], ENDING[1:3], ENDING[3:], ENDING])
async def test_closing_attempts_every_hook_and_reports_all_failures_together(failing: list[str]) -> None:
    journal = Journal()
    session = await opened(journal, *FULL)
    journal.fail(*failing)
    with pytest.raises(ExceptionGroup) as raised:
        await session.close()
    assert journal.take() == ENDING
    assert all(isinstance(error, HookFailed) for error in raised.value.exceptions)
    assert [error.__cause__ for error in raised.value.exceptions] == [journal.failing[line] for line in failing]
    assert not session.is_open
    await session.close()
    assert journal.take() == []


@pytest.mark.spec("HOOK-9", "HOOK-6")
async def test_a_hook_that_takes_too_long_does_not_keep_a_session_from_closing() -> None:
    journal = Journal()
    session = await opened(journal, *FULL, hook_timeout=0.001)
    journal.block("-a.y")
    with anyio.fail_after(WAIT), pytest.raises(ExceptionGroup) as raised:
        await session.close()
    assert [type(error.__cause__) for error in raised.value.exceptions] == [HookTimeout]
    assert journal.take() == ENDING


@pytest.mark.spec("HOOK-9", "HOOK-6")
async def test_closing_is_shielded_from_the_scope_that_is_cancelled() -> None:
    journal = Journal()
    session = await opened(journal, *FULL)

    async def take_turns(context: HookContext) -> None:
        await settle()

    journal.acting = dict.fromkeys(ENDING, take_turns)
    with anyio.fail_after(WAIT), anyio.CancelScope() as scope:
        async with session:
            scope.cancel()
    assert journal.take() == ENDING
    assert not session.is_open


@pytest.mark.spec("HOOK-9", "SES-2")
async def test_closing_waits_for_the_steps_before_it_and_ends_those_after_it() -> None:
    journal = Journal()
    session = await opened(journal)
    block = journal.block("+a")
    requests = [session.activate("a"), session.activate("c"), session.close(), session.activate("a.x"), session.close()]
    tasks = []
    for request in requests:
        tasks.append(asyncio.ensure_future(request))
        await settle()
    block.release.set()
    with anyio.fail_after(WAIT):
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert answers[:3] == [True, True, None]
    assert isinstance(answers[3], SessionClosed)
    assert answers[4] is None
    assert journal.take() == ["+a", "+c", "-c", "-a"]


@pytest.mark.spec("HOOK-9", "SES-3")
async def test_a_closed_session_answers_no_request() -> None:
    session = await opened(Journal(), "a")
    await session.close()
    requests = (
        lambda: session.activate("a"),
        lambda: session.deactivate("a"),
        lambda: session.transition(),
        lambda: session.call("ping"),
    )
    for request in requests:
        with pytest.raises(SessionClosed) as raised:
            await request()
        assert raised.value.session == session.id
    for read in (session.list_tools, session.list_groups, lambda: session.set_fact("f", 1)):
        with pytest.raises(SessionClosed):
            read()
    assert not session.active


@pytest.mark.spec("SES-3")
async def test_a_session_ends_with_its_block_whatever_happens_in_it() -> None:
    journal, received = Journal(), list[Any]()
    tools = desk(journal)
    tools.observe(received.append)
    session = tools.open_session(active=["c"], identity="me")
    with pytest.raises(KeyError):
        async with session:
            raise KeyError
    await session.close()
    assert journal.take() == ["+c", "-c"]
    assert (received[0], received[-1]) == (SessionOpened("me"), SessionEnded("me"))
    assert received.count(SessionEnded("me")) == 1


@pytest.mark.spec("SES-3")
async def test_a_session_may_start_with_a_single_path_which_is_one_group_and_not_its_letters() -> None:
    tools = ToolSet("x")
    tools.register_group("database")
    async with tools.open_session(active="database") as session:
        assert session.active == ("database",)


@pytest.mark.spec("SES-3", "PRO-1")
async def test_a_session_that_can_not_start_is_closed_and_its_groups_stay_shut() -> None:
    journal = Journal()
    tools = desk(journal)
    journal.fail("+c")
    for profile, error in ((None, HookFailed), (Profile(name="p", active=("a.x",)), ParentInactive)):
        session = tools.open_session(profile, active=["a", "c"] if profile is None else [])
        with pytest.raises(error):
            await session.start()
        assert not session.is_open
        assert tools.sessions == ()
    assert journal.take() == ["+a", "+c", "undo -a"]


@pytest.mark.spec("SES-3")
async def test_the_default_session_can_be_closed_and_begins_anew() -> None:
    tools = desk()
    await tools.activate_group("c")
    first = tools.default_session
    await first.close()
    assert not first.active
    assert not tools.is_group_active("c")
    assert tools.default_session is not first


@pytest.mark.spec("REG-5", "HOOK-9")
async def test_a_group_can_be_unregistered_while_a_session_that_has_it_is_closing() -> None:
    journal = Journal()
    session = await opened(journal, "c")
    block = journal.block("-c")
    closing = asyncio.ensure_future(session.close())
    await block.arrived.wait()
    removing = asyncio.ensure_future(session.tools.unregister_group("c"))
    await settle()
    block.release.set()
    with anyio.fail_after(WAIT):
        await closing
        assert (await removing).path == "c"
    assert journal.take() == ["-c"]


# Idle ones


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.spec("SES-3", "HOOK-9")
async def test_sessions_without_a_request_for_the_idle_timeout_end_with_their_hooks() -> None:
    journal, clock = Journal(), Clock()
    tools = desk(journal, idle_timeout=10, clock=clock)
    idle, busy = [await tools.open_session(active=["c"]).start() for _ in range(2)]
    journal.take()
    clock.now = 9
    await busy.activate("a")
    assert await tools.end_idle_sessions() == 0
    clock.now = 10
    journal.fail("-c")
    assert await tools.end_idle_sessions() == 1
    assert (idle.is_open, busy.is_open) == (False, True)
    assert journal.take() == ["+a", "-c"]
    clock.now = 19
    assert await tools.end_idle_sessions() == 1
    assert tools.sessions == ()


@pytest.mark.spec("SES-3")
@pytest.mark.parametrize("request_", ["activate", "list_tools", "list_groups", "call", "set_fact", "read"])
async def test_every_kind_of_request_keeps_a_session_from_idling(request_: str) -> None:
    clock = Clock()
    tools = desk(idle_timeout=10, clock=clock)
    tools.register_resource("file:///r", lambda: "text")
    session = await tools.open_session().start()
    clock.now = 9
    match request_:
        case "activate":
            await session.activate("a")
        case "list_tools":
            session.list_tools()
        case "list_groups":
            session.list_groups()
        case "call":
            await session.call("ping")
        case "set_fact":
            session.set_fact("f", 1)
        case _:
            await session.read("file:///r")
    clock.now = 18
    assert await tools.end_idle_sessions() == 0
    clock.now = 19
    assert await tools.end_idle_sessions() == 1


@pytest.mark.spec("SES-3", "SAF-2")
async def test_an_idle_session_whose_hooks_take_long_holds_up_the_end_of_no_other() -> None:
    journal, clock = Journal(), Clock()
    tools = desk(journal, idle_timeout=10, clock=clock)
    slow, *others = [await tools.open_session(active=[group]).start() for group in ("c", "a", "b")]
    clock.now = 10
    block = journal.block("-c")
    ending = asyncio.ensure_future(tools.end_idle_sessions())
    with anyio.fail_after(WAIT):
        await block.arrived.wait()
        await settle(30)
        assert not any(session.is_open for session in others)
        assert await tools.end_idle_sessions() == 0  # the slow one is ending already
        block.release.set()
        assert await ending == 3
    assert not slow.is_open


@pytest.mark.spec("SES-3")
async def test_a_session_that_is_used_while_so_many_others_end_that_it_has_to_wait_does_not_end() -> None:
    journal, clock = Journal(), Clock()
    tools = desk(journal, idle_timeout=10, clock=clock)
    idle = [await tools.open_session(active=["c"]).start() for _ in range(AT_ONCE + 2)]
    clock.now = 10
    block = journal.block("-c")
    ending = asyncio.ensure_future(tools.end_idle_sessions())
    with anyio.fail_after(WAIT):
        await block.arrived.wait()
        await settle()
        idle[-1].list_tools()
        block.release.set()
        assert await ending == AT_ONCE + 1
    assert [session.is_open for session in idle] == [False] * (AT_ONCE + 1) + [True]


@pytest.mark.spec("SES-3", "HOOK-9")
async def test_an_idle_session_ends_after_those_that_inherit_from_it() -> None:
    journal, clock, received = Journal(), Clock(), list[str]()
    tools = desk(journal, idle_timeout=10, clock=clock)
    tools.observe(lambda event: received.append(event.session) if isinstance(event, SessionEnded) else None)
    owner = await tools.open_session(active=["c"], identity="owner").start()
    heir = tools.open_session(identity="heir")
    heir.begin(owner.snapshot, owner)
    await heir.activate("a")
    tools.pool.add(heir)
    clock.now = 10
    block = journal.block("-a")
    ending = asyncio.ensure_future(tools.end_idle_sessions())
    with anyio.fail_after(WAIT):
        await block.arrived.wait()
        await settle(30)
        assert owner.is_open
        block.release.set()
        assert await ending == 2
    assert received == ["heir", "owner"]


@pytest.mark.spec("SES-3", "HOOK-7")
async def test_a_session_whose_hook_asks_for_the_end_of_idle_sessions_is_not_among_them() -> None:
    journal, clock, ended = Journal(), Clock(), list[int]()
    tools = desk(journal, idle_timeout=10, clock=clock)
    asking, idle = [await tools.open_session().start() for _ in range(2)]

    async def ask(context: HookContext) -> None:
        clock.now += 10
        ended.append(await tools.end_idle_sessions())

    journal.acting["+c"] = ask
    with anyio.fail_after(WAIT):
        assert await asking.activate("c")
    assert ended == [1]
    assert (asking.is_open, idle.is_open) == (True, False)


@pytest.mark.spec("SES-3")
async def test_the_default_session_and_sessions_without_a_timeout_never_idle() -> None:
    clock = Clock()
    for tools in (desk(idle_timeout=10, clock=clock), desk(clock=clock)):
        held = tools.default_session if tools.pool.idle_timeout else await tools.open_session().start()
        clock.now += 1000
        assert await tools.end_idle_sessions() == 0
        assert held.is_open


# Bounded ones


@pytest.mark.spec("SES-4")
async def test_a_session_too_many_is_refused_until_one_ends() -> None:
    tools = desk(max_sessions=2)
    await tools.activate_group("c")  # the default session does not count
    first = await tools.open_session().start()
    await tools.open_session().start()
    late = tools.open_session()
    with pytest.raises(QuotaExceeded, match="close one") as raised:
        await late.start()
    assert (raised.value.what, raised.value.limit) == ("open sessions", 2)
    assert not late.is_open
    await first.close()
    assert (await late.start()).is_open


@pytest.mark.spec("SES-4", "HOOK-9")
async def test_the_session_used_least_recently_makes_room_with_its_hooks() -> None:
    journal = Journal()
    tools = desk(journal, max_sessions=2, when_full="end_idlest")
    first, second = [await tools.open_session(active=["c"]).start() for _ in range(2)]
    await first.activate("a")
    journal.take()
    journal.fail("-c")
    third = await tools.open_session().start()
    assert journal.take() == ["-c"]
    assert [session.is_open for session in (first, second, third)] == [True, False, True]
    assert len(tools.sessions) == 2


@pytest.mark.spec("SES-4", "SAF-2")
async def test_a_session_whose_hooks_take_long_to_make_room_holds_up_one_new_session_alone() -> None:
    journal = Journal()
    tools = desk(journal, max_sessions=2, when_full="end_idlest")
    await tools.open_session(active=["c"]).start()
    quick = await tools.open_session().start()
    block = journal.block("-c")
    waiting, other = [tools.open_session() for _ in range(2)]
    starting = asyncio.ensure_future(waiting.start())
    with anyio.fail_after(WAIT):
        await block.arrived.wait()
        assert (await other.start()).is_open
        assert (waiting.is_open, quick.is_open) == (False, False)
        block.release.set()
        assert (await starting).is_open
    assert set(tools.sessions) == {waiting, other}


@pytest.mark.spec("HOOK-6", "SAF-5")
def test_a_hook_may_take_half_a_minute_unless_said_otherwise() -> None:
    assert (desk().hook_timeout, desk(hook_timeout=None).hook_timeout) == (30, None)


@pytest.mark.spec("SES-4")
async def test_the_bound_holds_while_the_idlest_takes_its_time_to_end() -> None:
    journal = Journal()
    tools = desk(journal, max_sessions=1, when_full="end_idlest")
    await tools.open_session(active=["c"]).start()
    block = journal.block("-c")
    late = [tools.open_session(active=["a"]) for _ in range(2)]
    starting = [asyncio.ensure_future(session.start()) for session in late]
    await block.arrived.wait()
    await settle()
    assert len(tools.sessions) == 1
    block.release.set()
    with anyio.fail_after(WAIT):
        await asyncio.gather(*starting, return_exceptions=True)
    assert len(tools.sessions) == 1
    assert journal.take().count("-c") == 1
