"""Cancellation, any number of times, at every hook (SPEC HOOK-6, HOOK-9): what was done is undone, what closes closes.

Under asyncio a task is cancelled as asyncio does it, which no shield stops, and by scopes; under trio by scopes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from tests.core.support import WAIT, Journal, opened, settle
from toolfold import HookContext, HookFailed, Session
from toolfold._session.observers import HooksFailed, RolledBack, SessionEnded

SWITCH = ("-a.y", "-a.x", "-a", "+b", "+b.z")
"""The hooks of the step that opens b and b.z while a, a.x and a.y are active, in order."""
UNDONE = ("undo +a.y", "undo +a.x", "undo +a", "undo -b")
FULL = ("a", "a.x", "a.y", "c")
ENDING = ("-c", "-a.y", "-a.x", "-a")
"""The hooks that close a session in which the groups of `FULL` are active."""

Request = Callable[[], Awaitable[Any]]
Cancel = Callable[[], None]
Cancelled = Callable[[Request, Callable[[Cancel], Awaitable[None]]], Awaitable[None]]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def by_task(request: Request, steer: Callable[[Cancel], Awaitable[None]]) -> None:
    """Give `steer` the means to cancel the task of a request, and see that it ends cancelled."""
    task = asyncio.ensure_future(request())

    def cancel() -> None:
        task.cancel()

    await steer(cancel)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()


async def by_scope(request: Request, steer: Callable[[Cancel], Awaitable[None]]) -> None:
    """Give `steer` the means to cancel the scope around a request, and see that the cancellation goes on."""
    scope = anyio.CancelScope()

    async def run() -> None:
        with scope:
            await request()
            await checkpoint()  # a cancellation that waited outside of a shield is raised here

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await steer(scope.cancel)
    assert scope.cancelled_caught


ways = pytest.mark.parametrize(
    ("anyio_backend", "cancelled"),
    [("asyncio", by_task), ("asyncio", by_scope), ("trio", by_scope)],
    ids=["asyncio task", "asyncio scope", "trio scope"],
)


async def switch(session: Session) -> Any:
    return await session.transition(activate=["b", "b.z"])


@pytest.mark.spec("HOOK-6", "HOOK-5", "INT-4")
@ways
@pytest.mark.parametrize(("position", "undoing"), [(at, then) for at in range(len(SWITCH)) for then in range(at)])
async def test_a_step_cancelled_in_any_hook_and_again_in_any_that_undoes_is_undone_whole(
    position: int, undoing: int, cancelled: Cancelled, anyio_backend: str
) -> None:
    journal = Journal()
    session = await opened(journal, "a", "a.x", "a.y")
    before, finished = session.snapshot, list[str]()
    undone = list(reversed(UNDONE[:position]))

    async def take_turns(context: HookContext) -> None:
        await settle()
        finished.append(context.group)

    journal.acting = dict.fromkeys(undone, take_turns)
    first, second = journal.block(SWITCH[position]), journal.block(undone[undoing])

    async def steer(cancel: Cancel) -> None:
        await first.arrived.wait()
        cancel()
        await second.arrived.wait()
        for _ in range(3):
            cancel()
            await settle()
        second.release.set()

    with anyio.fail_after(WAIT):
        await cancelled(lambda: switch(session), steer)
    assert journal.take() == [*SWITCH[: position + 1], *undone]
    assert len(finished) == position
    assert session.snapshot is before
    journal.blocked.clear()
    assert await switch(session)


@pytest.mark.spec("HOOK-6", "HOOK-5")
@ways
async def test_a_failed_step_that_is_cancelled_while_it_is_undone_is_undone_whole(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    journal, received = Journal(), list[Any]()
    session = await opened(journal, "a", "a.x", "a.y")
    session.tools.observe(received.append)
    before = session.snapshot
    journal.fail("+b.z")
    block = journal.block("undo +a")

    async def steer(cancel: Cancel) -> None:
        await block.arrived.wait()
        for _ in range(3):
            cancel()
            await settle()
        block.release.set()

    async def request() -> None:
        try:
            await switch(session)
        except HookFailed:  # a scope that is shielded from waits for the next checkpoint
            await checkpoint()

    with anyio.fail_after(WAIT):
        await cancelled(request, steer)
    assert journal.take() == [*SWITCH, *reversed(UNDONE)]
    assert session.snapshot is before
    (event,) = received
    assert isinstance(event, RolledBack)
    assert (event.error.__cause__, event.error.compensation) == (journal.failing["+b.z"], ())


@pytest.mark.spec("HOOK-9", "HOOK-6", "INT-4")
@ways
@pytest.mark.parametrize("position", range(len(ENDING)))
async def test_a_session_whose_end_is_cancelled_in_any_hook_closes_all_the_same(
    position: int, cancelled: Cancelled, anyio_backend: str
) -> None:
    journal, received, finished = Journal(), list[Any](), list[str]()
    session = await opened(journal, *FULL)
    session.tools.observe(received.append)

    async def take_turns(context: HookContext) -> None:
        await settle()
        finished.append(f"-{context.group}")

    journal.acting = dict.fromkeys(ENDING, take_turns)
    block = journal.block(ENDING[position])

    async def steer(cancel: Cancel) -> None:
        await block.arrived.wait()
        for _ in range(3):
            cancel()
            await settle()
        block.release.set()

    with anyio.fail_after(WAIT):
        await cancelled(session.close, steer)
    assert (tuple(journal.take()), tuple(finished)) == (ENDING, ENDING)
    assert not session.is_open
    assert session.active == ()
    assert received[-1] == SessionEnded(session.id)
    assert not any(isinstance(event, HooksFailed) for event in received)


@pytest.mark.spec("HOOK-9", "SES-2")
@ways
async def test_a_session_whose_end_is_cancelled_while_it_waits_for_a_step_closes_after_it(
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
async def test_a_session_whose_end_is_cancelled_closes_although_it_has_to_be_planned_again(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    journal = Journal()
    session = await opened(journal, "a", "c")
    block = journal.block("-a")

    async def steer(cancel: Cancel) -> None:
        await block.arrived.wait()
        cancel()
        await settle()
        session.tools._builder.remove_group("c")  # as if it had been closed in every session that is open
        block.release.set()

    with anyio.fail_after(WAIT):
        await cancelled(session.close, steer)
    assert not session.is_open
    assert journal.take()[-1] == "-a"


@pytest.mark.spec("HOOK-9", "HOOK-5")
@ways
async def test_a_session_that_is_cancelled_while_it_begins_leaves_nothing_open(
    cancelled: Cancelled, anyio_backend: str
) -> None:
    journal = Journal()
    tools = (await opened(journal)).tools
    first, second = journal.block("+a.x"), journal.block("undo -a")
    session = tools.open_session(active=["a", "a.x"])

    async def steer(cancel: Cancel) -> None:
        await first.arrived.wait()
        cancel()
        await second.arrived.wait()
        cancel()
        await settle()
        second.release.set()

    with anyio.fail_after(WAIT):
        await cancelled(session.start, steer)
    assert journal.take() == ["+a", "+a.x", "undo -a"]
    assert not session.is_open
    assert session not in tools.sessions
