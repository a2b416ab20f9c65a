"""Cancellation, any number of times, at every hook (SPEC HOOK-6, HOOK-9): transitions are undone, and sessions close.

Under asyncio a task is cancelled as asyncio does it, which no shield stops, and by scopes; under trio by scopes.
"""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from tests.core.cancelling import Cancel, Cancelled, at, by_task, ways
from tests.core.support import ENDING, FULL, SWITCH, UNDONE, WAIT, Journal, notifications, opened, settle, switch
from toolfold import HookContext
from toolfold._session.events import HooksFailed, RolledBack, SessionEnded


def slow(journal: Journal, *lines: str) -> list[str]:
    """Let other tasks run in these hooks; return the groups whose hooks have ended since."""
    finished: list[str] = []

    async def run(context: HookContext) -> None:
        await settle()
        finished.append(context.group)

    journal.acting = dict.fromkeys(lines, run)
    return finished


@pytest.mark.spec("HOOK-6", "HOOK-5", "INT-4")
@ways
@pytest.mark.parametrize(
    ("position", "undoing"), [(hook, then) for hook in range(len(SWITCH)) for then in (None, *range(hook))]
)
async def test_a_transition_cancelled_in_any_hook_and_again_in_any_compensation_is_undone_completely(
    position: int, undoing: int | None, cancelled: Cancelled, anyio_backend: str
) -> None:
    journal = Journal()
    session = await opened(journal, "a", "a.x", "a.y")
    before, notified = session.snapshot, notifications(session)
    undone = list(reversed(UNDONE[:position]))
    finished = slow(journal, *undone)
    first = journal.block(SWITCH[position])
    second = [] if undoing is None else [journal.block(undone[undoing])]
    with anyio.fail_after(WAIT):
        await cancelled(lambda: switch(session), at(first, *second, times=3 if second else 1))
    assert journal.take() == [*SWITCH[: position + 1], *undone]
    assert len(finished) == position
    assert session.snapshot is before
    assert notified == []
    journal.blocked.clear()
    assert await switch(session)


@pytest.mark.spec("HOOK-6", "HOOK-5")
async def test_failing_compensations_of_a_cancellation_are_reported_logged_and_added_as_notes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    journal, received, raised = Journal(), list[Any](), list[BaseException]()
    session = await opened(journal, "a")
    session.tools.observe(received.append)
    journal.fail("undo +a")

    async def request() -> None:
        try:
            await session.activate("b")
        except anyio.get_cancelled_exc_class() as cancellation:
            raised.append(cancellation)
            raise

    with anyio.fail_after(WAIT):
        await by_task(request, at(journal.block("+b")))
    (event,) = received
    assert isinstance(event, RolledBack)
    assert event.error.__cause__ is raised[0]
    assert event.error.compensation == (journal.failing["undo +a"],)
    assert "undo +a" in "".join(raised[0].__notes__)
    logged = [record.exc_info for record in caplog.records if record.levelno >= logging.WARNING]
    assert [info and info[1] for info in logged] == [journal.failing["undo +a"]]  # a cancellation is no news


@pytest.mark.spec("HOOK-8", "HOOK-6")
@ways
async def test_a_forced_deactivation_that_is_cancelled_completes(cancelled: Cancelled, anyio_backend: str) -> None:
    journal = Journal()
    session = await opened(journal, "a", "a.x", "a.y")
    finished = slow(journal, "-a.x", "-a")
    with anyio.fail_after(WAIT):
        await cancelled(lambda: session.deactivate("a", force=True), at(journal.block("-a.y")))
    assert journal.take() == ["-a.y", "-a.x", "-a"]
    assert finished == ["a.x", "a"]
    assert not session.active


@pytest.mark.spec("HOOK-9", "HOOK-6", "INT-4")
@ways
@pytest.mark.parametrize("position", range(len(ENDING)))
async def test_a_session_whose_close_is_cancelled_in_any_hook_still_closes(
    position: int, cancelled: Cancelled, anyio_backend: str
) -> None:
    journal, received = Journal(), list[Any]()
    session = await opened(journal, *FULL)
    session.tools.observe(received.append)
    finished = slow(journal, *ENDING)
    with anyio.fail_after(WAIT):
        await cancelled(session.close, at(journal.block(ENDING[position]), times=3))
    assert journal.take() == [f"-{group}" for group in finished] == ENDING
    assert not session.is_open
    assert session.active == ()
    assert received[-1] == SessionEnded(session.id)
    assert not any(isinstance(event, HooksFailed) for event in received)


@pytest.mark.spec("HOOK-9", "SES-2")
@ways
async def test_a_session_whose_close_is_cancelled_while_it_waits_for_a_transition_closes_after_it(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    journal = Journal()
    session = await opened(journal, "c")
    block = journal.block("+a")

    async def steer(cancel: Cancel) -> None:
        await settle()
        for _ in range(3):
            cancel()
            await settle()
        assert session.is_open
        block.release.set()

    with anyio.fail_after(WAIT):
        async with anyio.create_task_group() as group:
            group.start_soon(session.activate, "a")
            await block.arrived.wait()
            await cancelled(session.close, steer)
    assert journal.take() == ["+a", "-c", "-a"]
    assert not session.is_open


@pytest.mark.spec("HOOK-9", "REG-5")
@ways
async def test_a_session_whose_close_is_cancelled_still_closes_if_it_must_be_planned_again(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    journal = Journal()
    session = await opened(journal, "a", "c")
    block = journal.block("-a")

    async def steer(cancel: Cancel) -> None:
        await block.arrived.wait()
        cancel()
        await settle()
        session.tools._registration.remove_group("c")  # as if it had been closed in every session that is open
        block.release.set()

    with anyio.fail_after(WAIT):
        await cancelled(session.close, steer)
    assert not session.is_open
    assert journal.take()[-1] == "-a"


@pytest.mark.spec("HOOK-9", "HOOK-5")
@ways
async def test_a_session_that_is_cancelled_while_it_opens_leaves_no_group_active(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    journal = Journal()
    tools = (await opened(journal)).tools
    session = tools.open_session(active=["a", "a.x"])
    with anyio.fail_after(WAIT):
        await cancelled(session.start, at(journal.block("+a.x"), journal.block("undo -a")))
    assert journal.take() == ["+a", "+a.x", "undo -a"]
    assert not session.is_open
    assert session not in tools.sessions
