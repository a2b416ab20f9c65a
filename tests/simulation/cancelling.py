"""Cancels an operation at each of its awaits, by number, once and twice, or kills its process (SPEC HOOK-6, STO-9).

    python -m tests.simulation.cancelling          # each pair of awaits of each operation: an hour, for the gateway's
    python -m tests.simulation.cancelling gateway  # of those whose name has this word

An operation runs in a small world of its own each time. After it, whatever was cancelled, the state is the one before
or the one after, and the hooks have left open what is active. A cancellation is of the task, which goes through
shields, or of the scope around it. Where a process was killed, that is judged of what the next one finds.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import Any

import anyio
from attrs import define, field, frozen

from tests.simulation.desk import make_tools
from tests.simulation.disk import LEASE, Connection, Disk, Weather
from tests.simulation.judging import opened
from tests.simulation.loop import Died, Extent, Loop, Stuck
from tests.simulation.suppliers import Supplier, starting
from toolfold import HookFailed, StoredSessions
from toolfold_adapters.gateway import GatewayConfig, Runtime, open_gateway

TWICE = 2
"""At how many of the awaits after the first cancellation there is a second one, unless it is at all."""

KILL = "kill"

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
        ways: What is done at an await: its task or its scope is cancelled, or it is killed as a process.
    """

    world: Callable[[Loop], AbstractAsyncContextManager[Begun]]
    raises: bool = True
    ways: tuple[str, ...] = ("task", "scope")


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
    """Return what came of cancelling a case at each await, once and twice, or of killing it there.

    Args:
        case: The operation.
        twice: At how many of the awaits after the first one there is a second cancellation; `None` for all.
        step: How far the first cancellations are from one another: 1 for each await.
    """
    coverage = Coverage()
    for way in case.ways:
        first, most = 1, 0 if way == KILL else twice  # what is dead can't be cancelled
        while _run(case, (first,), way, coverage):
            coverage.awaits += 1
            second = first + 1
            while (most is None or second <= first + most) and _run(case, (first, second), way, coverage):
                second += 1
            first += step
    return coverage


def _run(case: Case, cancelled: tuple[int, ...], way: str, coverage: Coverage) -> bool:
    """Run a case, and return whether it has waited as often as the last number says."""
    loop = Loop(Random(0), 0.0)
    operation = Extent("operation", loop, trace=[])
    what = f"cancelled at {cancelled} by {way}"

    async def live() -> None:
        async with case.world(loop) as (perform, judge):
            scope = anyio.CancelScope()

            async def scoped() -> None:
                with scope:
                    await perform()

            task = operation.start(scoped())

            def cancel() -> None:
                if way == KILL:
                    operation.kill()
                elif way == "scope":
                    scope.cancel()
                else:
                    owed.append(task.cancel())  # what it has begun may go on when it is done

            owed: list[bool] = []
            operation.at = dict.fromkeys(cancelled, cancel)
            with anyio.fail_after(60):
                while operation.alive and not task.done():  # noqa: ASYNC110 - virtual time
                    await anyio.sleep(0.01)
            if operation.alive and case.raises and not task.cancelled() and any(owed):
                coverage.wrong.append(f"{what}: nothing is raised")
            if operation.alive and not task.cancelled() and (error := task.exception()) is not None:
                raise error
            if not operation.alive:
                await anyio.sleep(2 * LEASE)  # until the lease that it had has expired
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


@define(eq=False)
class _Desk:
    """A store, the processes that use it, and what their hooks did."""

    loop: Loop
    lines: list[str] = field(factory=list[str])
    disk: Disk = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.disk = Disk(self.loop, Random(0), Weather(slow=0.001))

    def started(
        self, process: str, on_line: Callable[[str], object] = str, *, in_threads: bool = False, **options: Any
    ) -> Any:
        """Return the sessions that a process serves, which calls `on_line` with what its hooks did."""

        def note(session: str, fence: int | None, line: str) -> None:
            self.lines.append(line)
            on_line(line)

        connection: Any = Connection(self.disk, Random(0), process)
        tools = make_tools(note, process, Random(0), 0.01, in_threads=in_threads)
        return tools.stored_sessions(connection, **options)

    async def judged(self, stored: StoredSessions, allowed: Collection[frozenset[str]]) -> str:
        """Return what is wrong with the session, in which one of these sets of groups may be active."""
        async with stored.open("desk") as session:
            active, (left, wrong) = frozenset(session.active), opened(self.lines)
        if active in allowed and left == active - {"plain"} and not wrong:
            return ""
        return f"{sorted(active)} are active, {sorted(left)} are open; {wrong}"


def _stored(
    operation: Callable[[StoredSessions], Coroutine[Any, Any, object]], before: str, after: str, *ways: str
) -> Case:
    """Return an operation on sessions, by the groups that are active before and after it.

    Where it may be killed, it is done by a process of its own, from its start to its end.
    """
    allowed = [frozenset(before.split()), frozenset(after.split())]

    @asynccontextmanager
    async def world(loop: Loop) -> AsyncGenerator[Begun]:
        desk = _Desk(loop)

        async def in_own_process() -> None:
            async with desk.started("another") as others:
                await operation(others)

        async with desk.started("process") as stored:
            async with stored.open("desk", active=allowed[0]):
                pass
            perform = in_own_process if KILL in ways else partial(operation, stored)
            yield perform, partial(desk.judged, stored, allowed)

    return Case(world, ways=ways or ("task", "scope"))


def _in_thread() -> Case:
    """Return a transition that is cancelled while a hook of it runs in a thread, which can't be stopped.

    It has not happened, wherever else it is cancelled: the hook is undone, and no other one begins.
    """

    @asynccontextmanager
    async def world(loop: Loop) -> AsyncGenerator[Begun]:
        desk, callers = _Desk(loop), list[asyncio.Task[Any]]()

        def cancel_within(line: str) -> None:
            if line == "open a":
                callers[0].cancel()

        async def perform() -> None:
            callers.extend(filter(None, [asyncio.current_task()]))
            await _transition(stored)

        async with desk.started("process", cancel_within, in_threads=True) as stored:
            async with stored.open("desk", active="x"):
                pass
            yield perform, partial(desk.judged, stored, [frozenset({"x"})])

    return Case(world)


def _left() -> Case:
    """Return how a process rolls back what another left, which was killed in the middle of a transition."""

    @asynccontextmanager
    async def world(loop: Loop) -> AsyncGenerator[Begun]:
        desk, first = _Desk(loop), Extent("first", loop)

        def end_within(line: str) -> None:
            if line == "open a.b":
                first.kill()

        async def die() -> None:
            async with desk.started("first", end_within) as others:
                await _transition(others)

        async def meet() -> None:
            await anyio.sleep(2 * LEASE)
            async with desk.started("another") as others, others.open("desk"):
                pass

        async with desk.started("process") as stored:
            async with stored.open("desk", active="x"):
                pass
            with suppress(Died):
                await first.run(die)
            yield meet, partial(desk.judged, stored, [frozenset({"x"})])

    return Case(world, ways=(KILL,))


def _expires() -> Case:
    """Return how a process ends a session that has expired."""

    @asynccontextmanager
    async def world(loop: Loop) -> AsyncGenerator[Begun]:
        desk = _Desk(loop)

        async def sweep(process: str) -> None:
            async with desk.started(process, lifetime=1.0):
                while opened(desk.lines)[0]:  # noqa: ASYNC110 - virtual time
                    await anyio.sleep(0.01)

        async def judge() -> str:
            with anyio.fail_after(60):
                await sweep("next")
            return "; ".join(opened(desk.lines)[1])

        async with desk.started("process", lifetime=1.0) as stored, stored.open("desk", active=["a", "a.b"]):
            pass
        await anyio.sleep(2)
        yield partial(sweep, "another"), judge

    return Case(world, ways=(KILL,))


async def _transition(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.transition(activate=["a", "a.b"], deactivate=["x"])


async def _fail(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        with suppress(HookFailed):
            await session.transition(activate=["a", "a.b", "bad"])


async def _deactivate(stored: StoredSessions) -> None:
    async with stored.open("desk") as session:
        await session.deactivate("a")


async def _create(stored: StoredSessions) -> None:
    async with stored.open("another"):  # which begins with nothing, so that no transition raises what arrived before
        pass


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
    "a deactivation": _stored(_deactivate, "a a.b", ""),
    "the creation of a session": _stored(_create, "a", "a"),
    "a call": _stored(_call, "a", "a plain"),
    "the end of a session": _stored(_end, "a a.b", ""),
    "a transition that is cancelled during a hook in a thread": _in_thread(),
    "a process, from its start to its end": _stored(_transition, "x", "a a.b", "task", "scope", KILL),
    "a process whose transition fails": _stored(_fail, "x", "x", KILL),
    "a process that closes groups": _stored(_deactivate, "a a.b", "", KILL),
    "a process that ends a session": _stored(_end, "a a.b", "", KILL),
    "a process that ends a session which has expired": _expires(),
    "a process that rolls back what another left": _left(),
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
