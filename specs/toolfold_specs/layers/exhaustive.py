"""Exhaustive small systems: every operation in every state of every system up to a size (SPEC CNF-7).

In each system a tour goes along every edge of the graph of states once, by the nearest one not taken yet, so the system
is configured once and every refusal is met too.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from ..checks import Check
from ..driver import Operation, Setup
from ..oracle import Oracle, World, as_setup
from ..runs import Case, TestRun
from ..systems import distinct_systems

USUAL_SIZE, DEEP_SIZE = 4, 5
"""How many groups the systems have at most, usually and with `deep`."""

UNKNOWN = "nowhere"

STEP_CLAUSES = ("ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2", "INV-5")
"""What steps of one group put to the test."""

LARGEST_TOUR, TOURS = 4096, 16
"""How many edges of a system that was not made for the kit are taken at most, and how often a tour begins again."""


def steps(oracle: Oracle) -> list[Operation]:
    """Return every activation and deactivation of one group, and those of one that does not exist.

    A group without a deactivator can't be asked to close.
    """
    paths = (*oracle.paths, UNKNOWN)
    fixed = {group.path for group in oracle.setup.groups if not group.deactivator}
    asked = [(verb, path) for path in paths for verb in ("activate", "deactivate")]
    return [Operation(verb, {"group": path}) for verb, path in asked if verb == "activate" or path not in fixed]


Left: TypeAlias = dict[World, list[Operation]]
"""The edges that are still to be taken, for each state that was met."""


def tour(
    test_run: TestRun,
    setup: Setup,
    after: Iterable[Operation] = (),
    limit: int | None = None,
    left: Left | None = None,
) -> bool:
    """Take every edge of a system once; return whether it came to its end.

    Args:
        test_run: Where to.
        setup: The system.
        after: What is performed whenever a state is met for the first time.
        limit: The greatest number of edges.
        left: The edges that an earlier tour left over, for this one to go on with.
    """
    case = test_run.begin(setup)
    if case is None:
        return False
    looks = tuple(after)
    left = {} if left is None else left
    taken = 0
    while not case.over and (limit is None or taken < limit):
        if case.world not in left:
            left[case.world] = steps(case.oracle)
            if not all(case.do(look) for look in looks):
                return False
        way = _nearest(case, left)
        if way is None:
            test_run.showed(case.last_step, {"INV-4": "active"} if not any(left.values()) else {})
            return True
        for operation in way:
            left.setdefault(case.world, steps(case.oracle))
            if operation in left[case.world]:
                left[case.world].remove(operation)
            if not case.do(operation):
                return False
        taken += len(way)
    return not case.over


def _nearest(case: Case, left: Left) -> list[Operation] | None:
    """Return the shortest way, by the oracle, that ends with an edge not taken yet."""
    if left[case.world]:
        return [left[case.world][0]]
    seen = {case.world}
    queue: deque[tuple[World, list[Operation]]] = deque([(case.world, [])])
    while queue:
        world, way = queue.popleft()
        for operation in steps(case.oracle):
            following, _ = case.oracle.apply(world, operation)
            if following in seen:
                continue
            seen.add(following)
            if left.get(following):
                return [*way, operation, left[following][0]]
            queue.append((following, [*way, operation]))
    return None


def _setups(test_run: TestRun) -> Iterator[Setup]:
    for size in range(1, (DEEP_SIZE if test_run.deep else USUAL_SIZE) + 1):
        for system in distinct_systems(size):
            yield as_setup(system)


def _tours(test_run: TestRun) -> None:
    if test_run.driver.given is not None:
        _tour_of_given(test_run, test_run.driver.given)
        return
    looks = [Operation("list")] if test_run.can("listing") else []
    for number, setup in enumerate(_setups(test_run), 1):
        test_run.progress(f"system {number}, {len(setup.groups)} groups")
        tour(test_run, setup, looks)


def _tour_of_given(test_run: TestRun, setup: Setup) -> None:
    """Take the edges of the only system there is, beginning again after each that was answered wrongly."""
    looks = [Operation("list")] if test_run.can("listing") else []
    left: Left = {}
    for number in range(1, TOURS + 1):
        test_run.progress(f"tour {number} of {len(setup.groups)} groups")
        if tour(test_run, setup, looks, LARGEST_TOUR, left) and not any(left.values()):
            return


CHECKS = (
    Check(
        "every step of every small system",
        "exhaustive",
        (*STEP_CLAUSES, "INV-4", "NTF-1", "VIS-2", "LST-1", "CTL-1", "CTL-2", "NAM-2"),
        _tours,
    ),
)
