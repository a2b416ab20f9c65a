"""Concurrent requests of one session (SPEC SES-2), and catalogs that change while hooks run (SPEC REG-7, HOOK-5).

Every schedule of two requests, and random concurrent histories, are the kit's: tests/specs/test_layers.py runs them.
"""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import pytest

from tests.core.support import (
    WAIT,
    Journal,
    answer,
    notifications,
    opened,
    settle,
    while_blocked,
)
from toolfold import (
    GroupNotFound,
)
from toolfold._session.events import Committed

# Order of arrival


@pytest.mark.spec("SES-2")
async def test_a_request_that_arrives_while_a_queued_one_runs_waits_too() -> None:
    journal = Journal()
    session = await opened(journal)
    blocks = [journal.block(line) for line in ("+a", "+c")]
    tasks = [asyncio.ensure_future(session.activate(path)) for path in ("a", "c")]
    with anyio.fail_after(WAIT):
        await blocks[0].arrived.wait()
        await settle()
        blocks[0].release.set()
        await blocks[1].arrived.wait()
        tasks.append(asyncio.ensure_future(session.activate("b")))
        await settle()
        assert journal.lines == ["+a", "+c"]
        blocks[1].release.set()
        assert await asyncio.gather(*tasks) == [True] * 3
    assert journal.take() == ["+a", "+c", "-a", "+b"]


@pytest.mark.spec("SES-2", "HOOK-6")
@pytest.mark.parametrize("when", ["while it waits", "as it is about to run"])
async def test_a_waiting_request_that_is_cancelled_leaves_the_others_in_their_order(when: str) -> None:
    journal = Journal()
    session = await opened(journal)
    async with while_blocked(journal.block("+a"), session.activate("a")) as first:
        second, third = [asyncio.ensure_future(session.activate(path)) for path in ("a.x", "c")]
        await settle()
        if when == "while it waits":
            second.cancel()
            await settle()
        else:
            first.add_done_callback(lambda _: second.cancel())
    with anyio.fail_after(WAIT):
        answers = await asyncio.gather(first, second, third, return_exceptions=True)
        assert (answers[0], answers[2]) == (True, True)
        assert isinstance(answers[1], asyncio.CancelledError) or when != "while it waits"
        assert await session.activate("a.y")
    assert [line for line in journal.take() if line != "+a.x"] == ["+a", "+c", "+a.y"]


# The catalog changes while hooks run


@pytest.mark.spec("REG-7", "HOOK-5", "INV-2", "ACT-4")
async def test_a_transition_is_undone_and_planned_again_if_a_new_exclusion_changes_its_outcome() -> None:
    journal, received = Journal(), list[Any]()
    session = await opened(journal, "b", "b.z")
    session.tools.observe(received.append)
    async with while_blocked(journal.block("+c"), session.activate("c")) as task:
        session.tools.register_exclusion("b", "c")
    assert await task
    assert session.active == ("c",)
    assert journal.take() == ["+c", "undo -c", "-b.z", "-b", "+c"]
    assert [type(event) for event in received] == [Committed]


@pytest.mark.spec("REG-7", "HOOK-5", "ACT-1")
async def test_a_transition_is_undone_and_refused_if_its_group_was_unregistered() -> None:
    journal = Journal()
    session = await opened(journal)
    notified = notifications(session)
    journal.fail("undo -a")
    async with while_blocked(journal.block("+c"), session.transition(activate=["a", "c"])) as task:
        await session.tools.unregister_group("c")
    with pytest.raises(GroupNotFound) as raised:
        await task
    assert journal.take() == ["+a", "+c", "undo -c", "undo -a"]
    assert "undo -a" in "".join(raised.value.__notes__)
    assert (session.active, notified) == ((), [])
    assert await session.activate("b")


@pytest.mark.spec("REG-7")
async def test_a_transition_continues_if_what_was_registered_does_not_affect_it() -> None:
    journal = Journal()
    session = await opened(journal, "a")
    notified = notifications(session)
    async with while_blocked(journal.block("+b"), session.activate("b")) as task:
        session.tools.register("b.new", answer)
        session.tools.register_group("A")
        session.tools.unregister("ping")
        session.set_fact("f", 1)
    assert await task
    assert journal.take() == ["-a", "+b"]
    assert (session.active, session.facts, notified) == (("b",), {"f": 1}, [frozenset({"tool"})])
    assert "b.new" in session.list_tools().names


@pytest.mark.spec("REG-7", "HOOK-2")
async def test_a_group_that_is_registered_again_meanwhile_is_another_group_with_other_hooks() -> None:
    journal, newer = Journal(), Journal()
    session = await opened(journal)
    async with while_blocked(journal.block("+c"), session.activate("c")) as task:
        await session.tools.unregister_group("c")
        session.tools.register_group("c", **newer.of("c"))
    assert await task
    assert journal.take() == ["+c", "undo -c"]
    assert newer.take() == ["+c"]


@pytest.mark.spec("REG-5", "SES-2")
async def test_unregistering_a_group_waits_for_the_transition_that_deactivates_it() -> None:
    journal = Journal()
    session = await opened(journal, "b", "b.z")
    async with while_blocked(journal.block("-b"), session.activate("a")) as task:
        removing = asyncio.ensure_future(session.tools.unregister_group("b"))
        await settle()
        assert not removing.done()
    assert await task
    with anyio.fail_after(WAIT):
        await removing
    assert journal.take() == ["-b.z", "-b", "+a"]
    assert session.active == ("a",)


@pytest.mark.spec("REG-7", "HOOK-6")
@pytest.mark.parametrize("refused", [True, False])
async def test_a_transition_cancelled_while_its_void_plan_is_undone_ends_cancelled(refused: bool) -> None:
    journal = Journal()
    session = await opened(journal, "b")
    undoing = journal.block("undo -c")
    async with while_blocked(journal.block("+c"), session.activate("c")) as task:
        if refused:
            await session.tools.unregister_group("c")
        else:
            session.tools.register_exclusion("b", "c")
        journal.blocked["+c"].release.set()
        await undoing.arrived.wait()
        task.cancel()
        await settle()
        undoing.release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert journal.take() == ["+c", "undo -c"]
    assert session.active == ("b",)
