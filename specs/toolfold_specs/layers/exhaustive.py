"""Exhaustive exploration: every operation in every state of every system up to a size (SPEC CNF-7).

In each system a tour takes every edge of the state graph, always the nearest one not taken yet, so the system is
configured only once and every refusal occurs too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import TypeAlias

from attrs import evolve

from ..checks import Check
from ..driver import OF_PROFILES, Operation, Setup, Tool
from ..oracle import Oracle, World, as_setup
from ..runs import TestRun
from ..systems import distinct_systems
from .children import within

SIZE, SIZE_OVER_MCP = 4, 3
"""The greatest number of groups, in process and over MCP, where an operation takes milliseconds; `deep` adds one."""

UNKNOWN = "nowhere"

STEP_CLAUSES = ("ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2", "INV-5")
"""The clauses that transitions of one group test."""

LARGEST_TOUR, TOURS = 4096, 16
"""The greatest number of edges in a given system, and how often its tour restarts."""


def steps(oracle: Oracle) -> list[Operation]:
    """Return the activations and deactivations of every group and an unknown one, as far as there is a deactivator."""
    requests = [(verb, path) for path in (*oracle.paths, UNKNOWN) for verb in ("activate", "deactivate")]
    return [
        Operation(verb, {"group": path})
        for verb, path in requests
        if verb == "activate" or path not in oracle.setup.fixed
    ]


Left: TypeAlias = dict[World, list[Operation]]
"""The edges not taken yet, for each visited state."""
Edges: TypeAlias = Callable[[World], list[tuple[Operation, World]]]
"""The operations in each state, with the state that follows."""


def tour(
    test_run: TestRun,
    setup: Setup,
    after: Iterable[Operation] = (),
    limit: int | None = None,
    left: Left | None = None,
) -> bool:
    """Take every edge of a system; return whether the tour was completed.

    Args:
        test_run: The test run.
        setup: The system.
        after: Operations to perform at the first visit of a state.
        limit: The greatest number of edges.
        left: The edges that an earlier tour has not taken, for this one to continue.
    """
    case = test_run.begin(setup)
    if case is None:
        return False
    reads, oracle = tuple(after), case.oracle
    requests = steps(oracle)

    @cache
    def edges(world: World) -> list[tuple[Operation, World]]:
        return [(one, oracle.apply(world, one)[0]) for one in requests]

    left = {} if left is None else left
    taken = 0
    while not case.over and (limit is None or taken < limit):
        if case.world not in left:
            left[case.world] = [*requests]
            if not all(case.do(read) for read in reads):
                return False
        route = _nearest(case.world, edges, left)
        if route is None:
            test_run.showed(case.last_step, () if any(left.values()) else (("INV-4", "active"),))
            return True
        for operation in route:
            left.setdefault(case.world, [*requests])
            if operation in left[case.world]:
                left[case.world].remove(operation)
            following = () if test_run.driver.given is None else reads  # there each transition reads the list anyway
            if not all(case.do(one) for one in (operation, *following)):
                return False
        taken += len(route)
    return not case.over


def _nearest(world: World, edges: Edges, left: Left) -> list[Operation] | None:
    """Return the shortest route, by the oracle, that ends with an edge not taken yet."""
    seen, queue = {world}, deque[tuple[World, list[Operation]]]([(world, [])])
    while queue:
        world, route = queue.popleft()
        if left.get(world):
            return [*route, left[world][0]]
        for operation, following in edges(world):
            if following not in seen:
                seen.add(following)
                queue.append((following, [*route, operation]))
    return None


def _setups(test_run: TestRun) -> Iterator[Setup]:
    largest = (SIZE_OVER_MCP if test_run.can("wire") else SIZE) + test_run.deep
    for size in range(1, largest + 1):
        for system in distinct_systems(size):
            yield as_setup(system)


def _tours(test_run: TestRun) -> None:
    if test_run.driver.given is not None:
        _tour_of_given(test_run, test_run.driver.given)
        return
    reads = [Operation("list")] if test_run.can("listing") else []
    for number, setup in enumerate(_setups(test_run), 1):
        test_run.progress(f"system {number}, {len(setup.groups)} groups")
        tour(test_run, setup, reads)


def _tour_of_given(test_run: TestRun, setup: Setup) -> None:
    """Take the edges of a given system, restarting after each wrong answer."""
    reads = [Operation("list")] if test_run.can("listing") else []
    left: Left = {}
    for number in range(1, TOURS + 1):
        test_run.progress(f"tour {number}, {len(setup.groups)} groups")
        if tour(test_run, setup, reads, LARGEST_TOUR, left) and not any(left.values()):
            return


def _reasons(test_run: TestRun) -> None:
    if test_run.violated_clauses & {
        "NAM-2",
        *STEP_CLAUSES,
    }:  # tools of other names, and other states, have other reasons
        return
    for number, setup in enumerate(_setups(test_run), 1):
        test_run.progress(f"system {number}, {len(setup.groups)} groups")
        hidden = [Tool("secret", path, hidden=True) for path in setup.paths] if test_run.can("hidden tools") else []
        tools = (*setup.tools, *hidden)
        reads = [Operation("why", {"tool": name}) for name in (*(tool.full_name for tool in tools), UNKNOWN)]
        tour(test_run, evolve(setup, tools=tools), reads)


CHECKS = (
    Check(
        "every transition of every small system",
        "exhaustive",
        (*STEP_CLAUSES, "INV-4", "NTF-1", "VIS-2", "LST-1", "CTL-1", "CTL-2", "NAM-2"),
        _tours,
    ),
    Check("every reason in every small system", "exhaustive", ("EXP-1",), _reasons, ("setups", "reasons")),
    Check("every child within its parent", "exhaustive", ("GWY-16",), within, ("setups", "groups", *OF_PROFILES)),
)
