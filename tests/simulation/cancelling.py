"""Cancels an operation at each of its awaits, by number, once and twice (SPEC HOOK-6, STO-9).

    python -m tests.simulation.cancelling          # each pair of awaits of each operation: an hour, for the gateway's
    python -m tests.simulation.cancelling gateway  # of those whose name has this word

An operation runs in a small world of its own each time. After it, whatever was cancelled, the state is the one before
or the one after, and the hooks have left open what is active. A cancellation is of the task, which goes through
shields, or of the scope around it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any

import anyio
from attrs import define, field, frozen

from tests.simulation.desk import make_tools
from tests.simulation.disk import Connection, Disk, Weather
from tests.simulation.judging import opened
from tests.simulation.loop import Extent, Loop, Stuck
from tests.simulation.suppliers import Supplier, starting
from toolfold import StoredSessions
from toolfold_adapters.gateway import GatewayConfig, Runtime, open_gateway

TWICE = 4
"""At how many of the awaits after the first cancellation there is a second one, unless it is at all."""

Judge = Callable[[], Coroutine[Any, Any, str]]
"""Returns what is wrong after an operation, or nothing."""
Begun = tuple[Callable[[], Coroutine[Any, Any, object]], Judge]
"""An operation, and what judges what it leaves."""


@frozen
class Case:
    """An operation to cancel.

    Attributes:
        world: Begins a small world, and yields the operation.
        raises: Whether a cancellation is raised wherever it comes; anyio loses one of a task that it cancels, too, at
            the end of a task group.
    """

    world: Callable[[Loop], AbstractAsyncContextManager[Begun]]
    raises: bool = True


@define
class Coverage:
    """What was cancelled.

    Attributes:
        runs: How many worlds there were.
        awaits: At how many awaits there was a first cancellation.
        points: The places where an await was cancelled: the innermost functions of the product.
        wrong: What was wrong.
    """

    runs: int = 0
    awaits: int = 0
    points: set[str] = field(factory=set[str])
    wrong: list[str] = field(factory=list[str])


def swept(case: Case, twice: int | None = TWICE, step: int = 1) -> Coverage:
    """Return what came of cancelling a case at each await, once and twice, by its task and by its scope.

    Args:
        case: The operation.
        twice: At how many of the awaits after the first one there is a second cancellation; `None` for all.
        step: How far the first cancellations are from one another: 1 for each await.
    """
    coverage = Coverage()
    for by_scope in (False, True):
        first = 1
        while _run(case, (first,), by_scope, coverage):
            coverage.awaits += 1
            second = first + 1
            while (twice is None or second <= first + twice) and _run(case, (first, second), by_scope, coverage):
                second += 1
            first += step
    return coverage


def _run(case: Case, cancelled: tuple[int, ...], by_scope: bool, coverage: Coverage) -> bool:
    """Run a case, and return whether it has waited as often as the last number says."""
    loop = Loop(Random(0), 0.0)
    operation = Extent("operation", loop, trace=[])
    what = f"cancelled at {cancelled} by {'scope' if by_scope else 'task'}"

    async def live() -> None:
        async with case.world(loop) as (perform, judge):
            scope = anyio.CancelScope()

            async def scoped() -> None:
                with scope:
                    await perform()

            task = operation.start(scoped())

            def cancel() -> None:
                if by_scope:
                    scope.cancel()
                else:
                    owed.append(task.cancel())  # what it has begun may go on when it is done

            owed: list[bool] = []
            operation.at = dict.fromkeys(cancelled, cancel)
            with anyio.fail_after(60):
                while not task.done():  # noqa: ASYNC110 - virtual time
                    await anyio.sleep(0.01)
            if case.raises and not task.cancelled() and any(owed):
                coverage.wrong.append(f"{what}: nothing is raised")
            if not task.cancelled() and (error := task.exception()) is not None:
                raise error
            if wrong := await judge():
                coverage.wrong.append(f"{what}: {wrong}")

    coverage.runs += 1
    try:
        loop.run(live)
    except (Stuck, TimeoutError, ExceptionGroup) as error:
        coverage.wrong.append(f"{what}: {error!r}")
    coverage.wrong += loop.failures
    assert operation.trace is not None
    coverage.points |= {operation.trace[number - 1] for number in cancelled if number <= operation.awaits}
    return operation.awaits >= cancelled[-1]


# -- sessions in a store ----------------------------------------------------------------------------------------------


def _stored(
    operation: Callable[[StoredSessions], Coroutine[Any, Any, object]], before: str, after: str, *, ends: bool = False
) -> Case:
    """Return an operation on sessions, by the groups that are active before and after it.

    With `ends` it is done by a process of its own, from its start to its end.
    """
    allowed = [frozenset(before.split()), frozenset(after.split())]

    @asynccontextmanager
    async def world(loop: Loop) -> AsyncGenerator[Begun]:
        lines: list[str] = []
        disk = Disk(loop, Random(0), Weather(slow=0.001))

        def started(process: str) -> Any:
            tools = make_tools(lambda session, fence, line: lines.append(line), process, Random(0), 0.01)
            connection: Any = Connection(disk, Random(0), process)
            return tools.stored_sessions(connection)

        async def in_own_process() -> None:
            async with started("another") as others:
                await operation(others)

        async def judge() -> str:
            async with stored.open("desk") as session:
                active, (left, wrong) = frozenset(session.active), opened(lines)
            if active in allowed and left == active - {"plain"} and not wrong:
                return ""
            return f"{sorted(active)} are active, {sorted(left)} are open; {wrong}"

        async with started("process") as stored:
            async with stored.open("desk", active=allowed[0]):
                pass
            yield (in_own_process if ends else lambda: operation(stored)), judge

    return Case(world)


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


# -- a gateway --------------------------------------------------------------------------------------------------------


def _gateway(*, closes: bool) -> Case:
    """Return a call through a gateway; with `closes`, all of its life, from its opening to its end."""

    @asynccontextmanager
    async def world(loop: Loop) -> AsyncGenerator[Begun]:
        supplier = Supplier("alpha", loop, Random(0), 0.001)
        config = GatewayConfig.model_validate(
            {"upstreams": {"alpha": {"command": ["alpha"]}}, "options": {"search": "none"}}
        )

        def opening() -> Any:
            return open_gateway(config, runtime=Runtime(clock=loop.time, transport=starting({"alpha": supplier})))

        async def called(gateway: Any, token: str) -> str:
            async with gateway.tools.open_session(active=["alpha"]) as session:
                result = await session.call("alpha__echo", {"token": token})
            return str(result.text)

        async def live_and_call() -> None:
            gateway = opening()
            async with gateway:
                await called(gateway, "cancelled")

        async def judge() -> str:
            begun = [ran.token for ran in supplier.ran].count("cancelled")
            async with opened_again() as gateway:
                text = await called(gateway, "after")
                await anyio.sleep(1)
                links = [link for upstream in gateway.upstreams.values() for link in upstream.links]
                if begun > 1 or text != "alpha echo after" or any(link.in_use for link in links):
                    return f"it was begun {begun} times, and a call after it answered {text!r}; {links} are in use"
            await anyio.sleep(1)
            return "the server goes on" if closes and supplier.running else ""

        @asynccontextmanager
        async def opened_again() -> AsyncGenerator[Any]:
            if not closes:
                yield around
                return
            async with (gateway := opening()):
                yield gateway

        if closes:
            around: Any = None
            yield live_and_call, judge
            return
        async with (around := opening()):
            yield (lambda: called(around, "cancelled")), judge

    return Case(world, raises=not closes)


CASES = {
    "a transition": _stored(_transition, "x", "a a.b"),
    "a deactivation": _stored(_deactivate, "a a.b", ""),
    "a call": _stored(_call, "a", "a plain"),
    "the end of a session": _stored(_end, "a a.b", ""),
    "a process, from its start to its end": _stored(_transition, "x", "a a.b", ends=True),
    "a call through a gateway": _gateway(closes=False),
    "a gateway, from its start to its end": _gateway(closes=True),
}
"""The operations, by what they are."""


def swept_by_gate(name: str) -> Coverage:
    """Return what came of cancelling a case, as far as there is time for it each time."""
    return swept(CASES[name], 0, step=5) if "gateway" in name else swept(CASES[name])


def main() -> int:
    """Cancel each case at each pair of its awaits; the status is 1 if anything is wrong."""
    wrong = 0
    for name, case in CASES.items():
        if all(word in name for word in sys.argv[1:]):
            coverage = swept(case, None)
            wrong += len(coverage.wrong)
            print(
                f"{name}: {coverage.runs:,} runs, {coverage.awaits:,} awaits at {len(coverage.points):,} places, "
                f"{len(coverage.wrong)} wrong",
                *coverage.wrong[:5],
                sep="\n  ",
                flush=True,
            )
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
