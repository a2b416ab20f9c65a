"""Cancels an operation at each of its awaits, by number, once and twice (SPEC HOOK-6, STO-9).

An operation runs in a small world of its own each time. After it, whatever was cancelled, the state is the one before
or the one after, and the hooks have left open what is active. A cancellation is of the task, which goes through
shields, or of the scope around it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import anyio
from attrs import define, field, frozen

from tests.simulation.desk import make_tools
from tests.simulation.disk import Connection, Disk, Weather
from tests.simulation.judging import opened
from tests.simulation.loop import Extent, Loop, Stuck
from toolfold import Session, StoredSessions

Operation = Callable[[StoredSessions], Coroutine[Any, Any, object]]

TWICE = 4
"""At how many of the awaits after the first cancellation there is a second one."""


@frozen
class Case:
    """An operation to cancel.

    Attributes:
        operation: What is done.
        before: The groups that are active before it.
        after: Those that are active after it.
    """

    operation: Operation
    before: frozenset[str]
    after: frozenset[str]


@define
class Coverage:
    """What was cancelled.

    Attributes:
        runs: How many worlds there were.
        points: The places where an await was cancelled: the innermost functions of the product.
        wrong: What was wrong.
    """

    runs: int = 0
    points: set[str] = field(factory=set[str])
    wrong: list[str] = field(factory=list[str])


def swept(case: Case) -> Coverage:
    """Return what came of cancelling a case at each await, once and twice, by its task and by its scope."""
    coverage = Coverage()
    for by_scope in (False, True):
        first = 1
        while _run(case, (first,), by_scope, coverage):
            for number in range(first + 1, first + 1 + TWICE):
                _run(case, (first, number), by_scope, coverage)
            first += 1
    return coverage


def _run(case: Case, cancelled: tuple[int, ...], by_scope: bool, coverage: Coverage) -> bool:
    """Run a case, and return whether it has waited as often as the first number says."""
    loop = Loop(Random(0), 0.0)
    lines: list[str] = []
    operation = Extent("operation", loop, trace=[])

    async def live() -> None:
        disk = Disk(loop, Random(0), Weather(slow=0.001))
        tools = make_tools(lambda session, fence, line: lines.append(line), "process", Random(0), 0.01)
        connection: Any = Connection(disk, Random(0), "process")
        async with tools.stored_sessions(connection) as stored:
            async with stored.open("desk", active=case.before):
                pass
            scope = anyio.CancelScope()

            async def scoped() -> None:
                with scope:
                    await case.operation(stored)

            task = operation.start(scoped())
            operation.at = dict.fromkeys(cancelled, scope.cancel if by_scope else task.cancel)
            with anyio.fail_after(60):
                while not task.done():  # noqa: ASYNC110 - virtual time
                    await anyio.sleep(0.01)
            if not task.cancelled() and not by_scope and operation.awaits >= cancelled[0]:
                coverage.wrong.append(f"cancelled at {cancelled}: nothing is raised")
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
            async with stored.open("desk") as session:
                _judge(case, session, opened(lines), f"cancelled at {cancelled} by {'scope' if by_scope else 'task'}")

    def _judge(case: Case, session: Session, found: tuple[set[str], list[str]], what: str) -> None:
        left, wrong = found
        active = frozenset(session.active)
        if active not in (case.before, case.after) or left != active - {"plain"} or wrong:
            coverage.wrong.append(f"{what}: {sorted(active)} are active, {sorted(left)} are open; {wrong}")

    coverage.runs += 1
    try:
        loop.run(live)
    except (Stuck, TimeoutError, ExceptionGroup) as error:
        coverage.wrong.append(f"cancelled at {cancelled}: {error!r}")
    coverage.wrong += loop.failures
    assert operation.trace is not None
    coverage.points |= {operation.trace[number - 1] for number in cancelled if number <= operation.awaits}
    return operation.awaits >= cancelled[0]


# -- what is cancelled ------------------------------------------------------------------------------------------------


async def _transition(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.transition(activate=["a", "a.b"], deactivate=["x"])


async def _deactivate(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.deactivate("a")


async def _call(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.call("step", {"activate": ["plain"], "deactivate": []})
        await session.call("note", {"name": "p", "value": 1})


async def _end(stored: StoredSessions) -> None:
    await stored.end("desk")


CASES = {
    "a transition": Case(_transition, frozenset({"x"}), frozenset({"a", "a.b"})),
    "a deactivation": Case(_deactivate, frozenset({"a", "a.b"}), frozenset()),
    "a call": Case(_call, frozenset({"a"}), frozenset({"a", "plain"})),
    "the end of a session": Case(_end, frozenset({"a", "a.b"}), frozenset()),
}
"""The operations, by what they are."""
