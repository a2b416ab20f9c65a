"""Sessions that a tool set ends: idle ones, and those that make room for others (SPEC SES-3, SES-4, SAF-4)."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from tests.blocked import all_blocked
from tests.core.support import WAIT, Clock, Journal, desk, settle, while_blocked
from toolfold import ConfigError, HookContext, QuotaExceeded, Session, ToolSet
from toolfold._session.events import SessionEnded
from toolfold._session.upkeep import AT_ONCE
from toolfold.spi import Full, background

# Idle sessions


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
async def test_every_kind_of_request_counts_as_use_of_a_session(request_: str) -> None:
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
async def test_an_idle_session_with_slow_hooks_does_not_delay_the_end_of_others() -> None:
    journal, clock = Journal(), Clock()
    tools = desk(journal, idle_timeout=10, clock=clock)
    slow, *others = [await tools.open_session(active=[group]).start() for group in ("c", "a", "b")]
    clock.now = 10
    async with while_blocked(journal.block("-c"), tools.end_idle_sessions()) as ending:
        await settle(30)
        assert not any(session.is_open for session in others)
        assert await tools.end_idle_sessions() == 0  # the slow one is ending already
    assert await ending == 3
    assert not slow.is_open


@pytest.mark.spec("SES-3")
async def test_a_session_that_is_used_while_it_waits_for_others_to_end_does_not_end() -> None:
    journal, clock = Journal(), Clock()
    tools = desk(journal, idle_timeout=10, clock=clock)
    idle = [await tools.open_session(active=["c"]).start() for _ in range(AT_ONCE + 2)]
    clock.now = 10
    async with while_blocked(journal.block("-c"), tools.end_idle_sessions()) as ending:
        await settle()
        idle[-1].list_tools()
    assert await ending == AT_ONCE + 1
    assert [session.is_open for session in idle] == [False] * (AT_ONCE + 1) + [True]


@pytest.mark.spec("SES-3", "HOOK-9")
async def test_an_idle_session_ends_after_those_that_inherit_from_it() -> None:
    journal, clock, received = Journal(), Clock(), list[str]()
    tools = desk(journal, idle_timeout=10, clock=clock)
    tools.observe(lambda event: received.append(event.session) if isinstance(event, SessionEnded) else None)
    owner = await tools.open_session(active=["c"], identity="owner").start()
    heir = Session(tools.runtime, "heir", None, owner.snapshot, None, owner)
    await heir.activate("a")
    await tools.pool.admit(heir)
    clock.now = 10
    async with while_blocked(journal.block("-a"), tools.end_idle_sessions()) as ending:
        await settle(30)
        assert owner.is_open
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
async def test_the_default_session_and_sessions_without_a_timeout_never_end_as_idle() -> None:
    clock = Clock()
    for tools in (desk(idle_timeout=10, clock=clock), desk(clock=clock)):
        held = tools.default_session if tools.pool.upkeep.kind.lifetime == 10 else await tools.open_session().start()
        clock.now += 1000
        assert await tools.end_idle_sessions() == 0
        assert held.is_open


@pytest.mark.spec("SES-3")
def test_an_idle_timeout_without_a_clock_is_refused() -> None:
    with pytest.raises(ConfigError, match="needs a clock"):
        ToolSet("desk", idle_timeout=10)


# Limits


@pytest.mark.spec("SES-4")
async def test_a_session_over_the_limit_is_refused_until_one_ends() -> None:
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
async def test_a_session_with_slow_hooks_that_makes_room_delays_only_one_new_session() -> None:
    journal = Journal()
    tools = desk(journal, max_sessions=2, when_full="end_idlest")
    await tools.open_session(active=["c"]).start()
    quick = await tools.open_session().start()
    waiting, other = [tools.open_session() for _ in range(2)]
    async with while_blocked(journal.block("-c"), waiting.start()):
        assert (await other.start()).is_open
        assert (waiting.is_open, quick.is_open) == (False, False)
    assert waiting.is_open
    assert set(tools.sessions) == {waiting, other}


@pytest.mark.spec("SES-4")
async def test_the_limit_holds_while_the_idlest_session_is_ending() -> None:
    journal = Journal()
    tools = desk(journal, max_sessions=1, when_full="end_idlest")
    await tools.open_session(active=["c"]).start()
    late = [tools.open_session(active=["a"]) for _ in range(2)]
    async with while_blocked(journal.block("-c"), late[0].start()) as first:
        second = asyncio.ensure_future(late[1].start())
        await settle()
        assert len(tools.sessions) == 1
    with anyio.fail_after(WAIT):
        await asyncio.gather(first, second, return_exceptions=True)
    assert len(tools.sessions) == 1
    assert journal.take().count("-c") == 1


# Several callers


@pytest.mark.spec("SES-4", "SAF-4")
async def test_only_the_idlest_session_of_the_same_caller_makes_room() -> None:
    tools = ToolSet("desk", max_sessions=3, when_full="end_idlest")
    of_bob, first, second = [await tools.open_session(caller=caller).start() for caller in ("bob", "ada", "ada")]
    first.list_tools()
    third = await tools.open_session(caller="ada").start()
    assert [session.is_open for session in (of_bob, first, second, third)] == [True, True, False, True]


@pytest.mark.spec("SES-4", "SAF-4")
@pytest.mark.parametrize("caller", ["eve", None])
async def test_a_caller_without_a_session_is_refused_when_all_are_taken(caller: str | None) -> None:
    tools = ToolSet("desk", max_sessions=2, when_full="end_idlest")
    taken = [await tools.open_session(caller=other).start() for other in ("ada", "bob")]
    with pytest.raises(QuotaExceeded, match="The limit of 2 open sessions is reached"):
        await tools.open_session(caller=caller).start()
    assert all(session.is_open for session in taken)
    await taken[0].close()
    assert (await tools.open_session(caller=caller).start()).is_open


@pytest.mark.spec("SES-4", "SAF-4")
async def test_sessions_of_unknown_callers_make_room_for_one_another() -> None:
    tools = ToolSet("desk", max_sessions=2, when_full="end_idlest")
    of_ada, unknown = [await tools.open_session(caller=caller).start() for caller in ("ada", None)]
    assert (await tools.open_session().start()).is_open
    assert of_ada.is_open
    assert not unknown.is_open


@pytest.mark.spec("SES-3", "SES-4", "SAF-4")
async def test_an_idle_session_makes_room_where_a_new_one_would_be_refused() -> None:
    clock = Clock()
    tools = desk(max_sessions=1, idle_timeout=60, clock=clock)
    idle = await tools.open_session(caller="ada").start()
    clock.now = 45
    with pytest.raises(Full, match="The limit of 1 open sessions in all is reached: try again in 15 seconds") as full:
        await tools.open_session(caller="bob").start()
    assert (full.value.own, full.value.retry_after) == (False, 15)
    clock.now = 60
    async with tools.open_session(caller="bob"):
        assert not idle.is_open


@pytest.mark.spec("SES-4")
async def test_a_session_that_found_no_room_begins_with_its_groups_once_there_is_some() -> None:
    journal = Journal()
    tools = desk(journal, max_sessions=1)
    late = tools.open_session(active=["c"])
    async with tools.open_session():
        with pytest.raises(QuotaExceeded):
            await late.start()
    async with late:
        assert late.active == ("c",)
    assert journal.take() == ["+c", "-c"]


async def test_what_fails_while_work_runs_in_the_background_is_raised_as_it_is_once_that_work_is_cancelled() -> None:
    stopped = anyio.Event()

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            stopped.set()

    async def fail() -> None:
        async with background() as tasks:
            tasks.start_soon(work)
            await all_blocked()
            raise LookupError("away")

    with pytest.raises(LookupError, match=r"^away$"):
        await fail()
    assert stopped.is_set()
