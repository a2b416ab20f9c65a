"""Sessions (SPEC 11): isolated from one another, and closed in several ways."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import anyio
import pytest

from tests.core.support import (
    ENDING,
    FULL,
    WAIT,
    Journal,
    answer,
    arrived,
    desk,
    opened,
    settle,
    while_blocked,
)
from toolfold import (
    HookFailed,
    HookTimeout,
    ParentInactive,
    Profile,
    SessionClosed,
)
from toolfold._session.events import SessionEnded, SessionOpened

# Isolation


@pytest.mark.spec("ACT-3", "SES-1", "PRO-1")
async def test_the_snapshot_of_a_session_survives_the_end_of_another_under_an_equal_profile() -> None:
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


# Closing


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
    assert session not in session.tools.sessions
    await session.close()
    assert journal.take() == []


@pytest.mark.spec("HOOK-9", "HOOK-6")
async def test_a_hook_that_takes_too_long_does_not_prevent_a_session_from_closing() -> None:
    journal = Journal()
    session = await opened(journal, *FULL, hook_timeout=0.001)
    journal.block("-a.y")
    with anyio.fail_after(WAIT), pytest.raises(ExceptionGroup) as raised:
        await session.close()
    assert [type(error.__cause__) for error in raised.value.exceptions] == [HookTimeout]
    assert journal.take() == ENDING


@pytest.mark.spec("HOOK-9", "SES-2")
async def test_closing_waits_for_the_requests_before_it_and_refuses_those_after_it() -> None:
    journal = Journal()
    session = await opened(journal)
    async with while_blocked(journal.block("+a"), session.activate("a")) as first:
        waiting = await arrived(session.activate("c"), session.close(), session.activate("a.x"), session.close())
    with anyio.fail_after(WAIT):
        answers = await asyncio.gather(first, *waiting, return_exceptions=True)
    assert answers[:3] == [True, True, None]
    assert isinstance(answers[3], SessionClosed)
    assert answers[4] is None
    assert journal.take() == ["+a", "+c", "-c", "-a"]


@pytest.mark.spec("HOOK-9", "SES-3", "REG-9")
async def test_a_closed_session_answers_no_request() -> None:
    session = await opened(Journal(), "a")
    session.tools.register_prompt("p", answer)
    session.tools.register_resource("file:///r", answer)
    session.tools.register_resource_template("item:{n}", lambda values: "text")
    await session.close()
    requests = (
        lambda: session.activate("a"),
        lambda: session.deactivate("a"),
        lambda: session.transition(),
        lambda: session.call("ping"),
        lambda: session.get_prompt("p"),
        lambda: session.read("file:///r"),
        lambda: session.read("item:5"),
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
async def test_starting_an_open_session_again_changes_nothing() -> None:
    journal = Journal()
    session = await opened(journal, "a")
    before = session.snapshot
    assert await session.start() is session
    assert session.snapshot is before
    assert journal.take() == []


@pytest.mark.spec("SES-3")
async def test_a_session_closes_at_the_end_of_its_block_whatever_happens_in_it() -> None:
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


@pytest.mark.spec("SES-3", "PRO-1")
async def test_a_session_that_can_not_start_is_closed_and_activates_nothing() -> None:
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
async def test_a_closed_default_session_is_replaced_by_a_new_one() -> None:
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
    async with while_blocked(journal.block("-c"), session.close()):
        removing = asyncio.ensure_future(session.tools.unregister_group("c"))
        await settle()
    with anyio.fail_after(WAIT):
        assert (await removing).path == "c"
    assert journal.take() == ["-c"]
