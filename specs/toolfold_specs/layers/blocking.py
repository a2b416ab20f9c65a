"""The building blocks of schedules: systems with hooks, routes to their states, blocking operations (SPEC CNF-7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..driver import Group, Operation, Setup
from ..oracle import Oracle, World
from ..overlap import Hook, Over, Overlap
from ..runs import TestRun
from .exhaustive import steps

HOOKS = ("on_activate", "on_deactivate")
MOST_STATES = 64
"""The number of states of a given system in which pairs of operations are tried."""


def oldest(waiting: Sequence[Hook]) -> Hook:
    """Return the hook that has been blocked longest."""
    return waiting[0]


def newest(waiting: Sequence[Hook]) -> Hook:
    """Return the hook that was blocked last."""
    return waiting[-1]


def hooked(*paths: str, exclusions: Iterable[tuple[str, ...]] = (), hooks: tuple[str, ...] = HOOKS) -> Setup:
    """Return a system of these groups, each with hooks."""
    return Setup(groups=tuple(Group(path, hooks=hooks) for path in paths), exclusions=tuple(exclusions))


def changes(oracle: Oracle) -> list[Operation]:
    """Return every transition of one group that exists."""
    return [operation for operation in steps(oracle) if operation.arguments["group"] in oracle.number]


def routes(oracle: Oracle) -> Iterator[tuple[World, tuple[Operation, ...]]]:
    """Yield each reachable state with a shortest route to it."""
    found: dict[World, tuple[Operation, ...]] = {oracle.initial: ()}
    frontier = [oracle.initial]
    for world in frontier:
        yield world, found[world]
        for operation in changes(oracle):
            after, _ = oracle.apply(world, operation)
            if after not in found and len(found) < MOST_STATES:
                found[after] = (*found[world], operation)
                frontier.append(after)


def hooks_of(oracle: Oracle, world: World, operation: Operation) -> tuple[Hook, ...]:
    """Return the hooks that an operation runs, in order."""
    return oracle.apply(world, operation)[1].hooks or ()


def begun(test_run: TestRun, setup: Setup, route: Iterable[Operation], block: Iterable[Hook] = ()) -> Overlap:
    """Return a system in the state at the end of a route, with hooks that will block; raises `Over` if it can't be."""
    case = test_run.begin(setup)
    if case is None or not all(case.do(operation) for operation in (*route, *scripts(block, "block"))):
        raise Over
    return Overlap(case)


def scripts(hooks: Iterable[Hook], outcome: str) -> list[Operation]:
    """Return the operations that script hooks."""
    arguments = [{"group": group, "phase": phase, "outcome": outcome} for phase, group in sorted(set(hooks))]
    return [Operation("script", one) for one in arguments]


def blocked(run: Overlap, operation: Operation, undone: Hook | None = None) -> int:
    """Start an operation that must block and return its ticket; reports if it does not."""
    ticket = run.start(operation, undone)
    if not run.waiting():
        run.report("HOOK-1", f"{operation} does not wait for a blocked hook")
    return ticket


def steps_of(*named: str) -> tuple[Operation, ...]:
    """Return operations in short notation: +a activates a, -a deactivates it."""
    verbs = {"+": "activate", "-": "deactivate"}
    return tuple(Operation(verbs[name[0]], {"group": name[1:]}) for name in named)


QUEUES: tuple[tuple[Setup, tuple[Operation, ...]], ...] = (
    (hooked("a", "a.b"), steps_of("+a", "+a.b", "-a", "+a")),
    (hooked("a", "b", exclusions=[("a", "b")]), steps_of("+a", "+b", "+a", "-a")),
    (hooked("a", "b", "b.c", exclusions=[("a", "b")]), steps_of("+a", "+b", "+b.c", "+a")),
)
"""A transition that blocks and three that queue behind it; any other order changes the answers or the final state."""
