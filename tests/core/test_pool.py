"""Parts of the pool of sessions: keys to find sessions by, and limits and idle times of their own."""

from __future__ import annotations

import anyio
import pytest

from tests.core.support import WAIT, Clock
from toolfold import HookFailed, QuotaExceeded, Session, ToolSet
from toolfold._quota import Full, Limit


def hooked(**options: object) -> tuple[ToolSet, list[str]]:
    """Return a tool set with a group that has hooks, and what they do."""
    tools, journal = ToolSet("t", **options), list[str]()  # type: ignore[arg-type]
    tools.register_group("a", on_activate=lambda: journal.append("on"), on_deactivate=lambda: journal.append("off"))
    return tools, journal


@pytest.mark.spec("SES-4", "STO-7")
async def test_a_closed_session_frees_its_place_and_its_key() -> None:
    tools, _ = hooked()
    part = tools.pool.part("a part", Limit(1), 60, Clock())
    session = await part.get_or_open("key", tools.open_session)
    with pytest.raises(QuotaExceeded):
        part.check(None)
    await session.close()
    part.check(None)
    assert part.find("key") is None
    assert part.sessions == tools.sessions == ()


@pytest.mark.spec("SES-4", "HOOK-4", "STO-7")
async def test_a_session_that_can_not_start_takes_no_place_in_a_part() -> None:
    tools, _ = hooked(max_sessions=1)
    part = tools.pool.part("a part", Limit(1), 60, Clock())
    async with tools.open_session():
        with pytest.raises(QuotaExceeded, match="open sessions"):
            await part.get_or_open("key", tools.open_session)
        part.check(None)
    tools.register_group("bad", on_activate=lambda: 1 / 0)
    with pytest.raises(HookFailed):
        await part.get_or_open("key", lambda: tools.open_session(active=["bad"]))
    assert part.find("key") is None
    assert (await part.get_or_open("key", tools.open_session)).is_open


@pytest.mark.spec("HOOK-1")
async def test_concurrent_requests_for_one_key_share_one_session() -> None:
    tools, journal = hooked()
    part = tools.pool.part("a part", Limit(5), 60, Clock())
    found: set[Session] = set()

    async def ask() -> None:
        found.add(await part.get_or_open("key", lambda: tools.open_session(active=["a"])))

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(ask)
    assert len(found) == len(tools.sessions) == 1
    assert journal == ["on"]


@pytest.mark.spec("HOOK-9")
async def test_a_session_that_is_not_accepted_ends_before_another_opens_under_its_key() -> None:
    tools, journal = hooked()
    part = tools.pool.part("a part", Limit(5), 60, Clock())
    first = await part.get_or_open("key", lambda: tools.open_session(active=["a"]))
    second = await part.get_or_open("key", lambda: tools.open_session(active=["a"]), None, lambda session: False)
    assert (first.is_open, second.is_open) == (False, True)
    assert journal == ["on", "off", "on"]


@pytest.mark.spec("SES-3", "SES-4", "SAF-4")
async def test_an_idle_session_makes_room_where_a_new_one_would_be_refused() -> None:
    clock = Clock()
    tools, _ = hooked(max_sessions=1, idle_timeout=60, clock=clock)
    idle = await tools.open_session(caller="ada").start()
    clock.now = 45
    with pytest.raises(Full, match="The limit of 1 open sessions in all is reached: try again in 15 seconds") as full:
        await tools.open_session(caller="bob").start()
    assert (full.value.own, full.value.retry_after) == (False, 15)
    clock.now = 60
    async with tools.open_session(caller="bob"):
        assert not idle.is_open


@pytest.mark.spec("SES-4")
async def test_the_limit_of_one_caller_does_not_affect_sessions_of_others() -> None:
    tools, clock = ToolSet("t"), Clock()
    part = tools.pool.part("a part", Limit(3, 1, "end_idlest"), 60, clock)
    for caller in ("ada", "bob", "ada", "ada"):
        await part.admit(await tools.open_session(caller=caller).start(), f"{caller} {clock.now}")
        clock.now += 1
    assert [session.caller for session in part.sessions] == ["bob", "ada"]


@pytest.mark.spec("DEL-4")
async def test_a_shared_session_ends_only_when_it_expires() -> None:
    tools, clock = ToolSet("t"), Clock()
    part = tools.pool.part("a part", Limit(1, None, "end_idlest"), 60, clock)
    shared = await part.get_or_open("key", tools.open_session, "ada")
    with pytest.raises(Full):
        part.check("ada")
    clock.now = 59
    assert part.find("key") is shared
    clock.now = 118
    assert await part.end_idle() == 0
    clock.now = 119
    assert part.find("key") is None
    assert await part.end_idle() == 1
    assert not shared.is_open


@pytest.mark.spec("SES-4")
async def test_a_session_that_found_no_room_begins_with_its_groups_once_there_is_some() -> None:
    tools, journal = hooked(max_sessions=1)
    late = tools.open_session(active=["a"])
    async with tools.open_session():
        with pytest.raises(QuotaExceeded):
            await late.start()
    async with late:
        assert late.active == ("a",)
    assert journal == ["on", "off"]
