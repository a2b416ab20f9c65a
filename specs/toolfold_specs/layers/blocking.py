"""What schedules are made of: systems with hooks, ways to their states, and operations that block (SPEC CNF-7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..driver import Group, Operation, Setup
from ..oracle import Oracle, World
from ..overlap import Hook, Overlap
from ..runs import TestRun
from .exhaustive import steps

HOOKS = ("on_activate", "on_deactivate")
MOST_STATES = 64
"""From how many states of a system that was not made for the kit pairs of operations are tried."""


def oldest(waiting: Sequence[Hook]) -> Hook:
    """Return the hook that has waited longest."""
    return waiting[0]


def newest(waiting: Sequence[Hook]) -> Hook:
    """Return the hook that began to wait last."""
    return waiting[-1]


def hooked(*paths: str, exclusions: Iterable[tuple[str, ...]] = (), hooks: tuple[str, ...] = HOOKS) -> Setup:
    """Return a system of these groups, each with hooks."""
    return Setup(groups=tuple(Group(path, hooks=hooks) for path in paths), exclusions=tuple(exclusions))


def changes(oracle: Oracle) -> list[Operation]:
    """Return every step of one group that exists."""
    return [operation for operation in steps(oracle) if operation.arguments["group"] in oracle.number]


def ways(oracle: Oracle) -> Iterator[tuple[World, tuple[Operation, ...]]]:
    """Yield each state, and a shortest way to it."""
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


def begun(test_run: TestRun, setup: Setup, way: Iterable[Operation], block: Iterable[Hook]) -> Overlap | None:
    """Return a system in the state that a way leads to, with hooks that will block; None if that went wrong already."""
    case = test_run.begin(setup)
    if case is None or not all(case.do(operation) for operation in (*way, *scripts(block, "block"))):
        return None
    return Overlap(case)


def scripts(hooks: Iterable[Hook], outcome: str) -> list[Operation]:
    """Return the operations that tell hooks what to do."""
    places = sorted(set(hooks))
    return [Operation("script", {"group": group, "phase": phase, "outcome": outcome}) for phase, group in places]


def blocked(run: Overlap, operation: Operation, undone: Hook | None = None) -> int | None:
    """Begin an operation that is to be blocked; return its ticket, or None after reporting that it is not."""
    ticket = run.start(operation, undone)
    if run.waiting():
        return ticket
    run.report("HOOK-1", f"{operation} does not wait for a hook that was told to wait")
    return None


def steps_of(*named: str) -> tuple[Operation, ...]:
    """Return operations by sign and group: +a activates a, -a deactivates it."""
    verbs = {"+": "activate", "-": "deactivate"}
    return tuple(Operation(verbs[name[0]], {"group": name[1:]}) for name in named)


QUEUES: tuple[tuple[Setup, tuple[Operation, ...]], ...] = (
    (hooked("a", "a.b"), steps_of("+a", "+a.b", "-a", "+a")),
    (hooked("a", "b", exclusions=[("a", "b")]), steps_of("+a", "+b", "+a", "-a")),
    (hooked("a", "b", "b.c", exclusions=[("a", "b")]), steps_of("+a", "+b", "+b.c", "+a")),
)
"""A step to be blocked and three that queue behind it: in any other order answers or the last state are others."""


def ran_otherwise(run: Overlap, tickets: Iterable[int]) -> bool:
    """Return whether hooks began that are not those of the order of arrival, as far as they were observed."""
    return run.hooks is not None and run.hooks != foreseen(run, tickets)


def foreseen(run: Overlap, tickets: Iterable[int]) -> list[Hook]:
    """Return the hooks of operations, in the order of arrival."""
    return [hook for ticket in tickets for hook in run.expected[ticket].hooks or ()]
