"""Exhaustive exploration of the core: every request in every state of every system up to a size (SPEC CNF-6).

    python -m verification.explore            # up to 5 groups
    python -m verification.explore --deep     # up to 6

The systems are all forests with all exclusions of pairs, one of each isomorphism class. In every reachable state of
each, the result of `toolfold.plan` for every request is compared with the reference model. The numbers of systems,
states, granted and refused requests are known; a different number is a failure too.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from time import perf_counter

from attrs import frozen

from toolfold import ParentInactive, Plan, ToolSet, TransitionRequest, plan
from toolfold.machine import restore
from toolfold_specs import reference
from toolfold_specs.reference import State, System
from toolfold_specs.systems import distinct_systems
from verification.systems import legal_states, reachable

USUAL, DEEP = 5, 6
"""The greatest number of groups."""


@frozen
class Counts:
    """The numbers of systems, reachable states, granted or unchanged requests, and refused ones."""

    systems: int = 0
    states: int = 0
    granted: int = 0
    refused: int = 0


KNOWN = {
    1: Counts(1, 2, 4, 0),
    2: Counts(3, 10, 39, 1),
    3: Counts(11, 55, 315, 15),
    4: Counts(74, 506, 3766, 282),
    5: Counts(828, 7323, 66502, 6728),
    6: Counts(18644, 205172, 2183938, 278126),
}


class Disagreement(Exception):
    """The core and the reference model disagree; the message says where."""


def explore(size: int) -> Counts:
    """Return the counts for systems of that many groups.

    Raises:
        Disagreement: The core and the reference model disagree.
    """
    systems = states = granted = refused = 0
    for system in distinct_systems(size):
        found = reachable(system)
        if frozenset(found) != legal_states(system):
            raise Disagreement(f"{system}: the reachable states are not the legal ones (SPEC INV-4)")
        tools = _tool_set(system)
        for state in found:
            denied = sum(not _agree(system, tools, state, group) for group in system.groups)
            granted += 2 * size - denied
            refused += denied
        systems += 1
        states += len(found)
    return Counts(systems, states, granted, refused)


def _tool_set(system: System) -> ToolSet:
    tools = ToolSet("system")
    paths = system.paths()
    for path in paths:
        tools.register_group(path)
    for members in system.exclusions:
        tools.register_exclusion(*(paths[member] for member in members))
    return tools


def _agree(system: System, tools: ToolSet, state: State, group: int) -> bool:
    """Compare both requests for a group; return whether its activation was granted."""
    paths = system.paths()
    now = restore(tools.catalog.forest, (paths[number] for number in state)).after
    wanted = reference.activate(system, state, group)
    try:
        opened: Plan | str = plan(now, TransitionRequest([paths[group]]))
    except ParentInactive as error:
        opened = error.parent
    _compare(system, state, f"activate {paths[group]}", wanted, opened)
    closed = plan(now, TransitionRequest((), [paths[group]]))
    _compare(system, state, f"deactivate {paths[group]}", reference.deactivate(system, state, group), closed)
    return wanted.kind != "refused"


def _compare(system: System, state: State, asked: str, wanted: reference.Answer[State], got: Plan | str) -> None:
    paths = system.paths()
    if isinstance(got, str):
        right = wanted.detail is not None and paths[wanted.detail] == got
    else:
        active = {paths[number] for number in wanted.state}
        right = wanted.kind != "refused" and set(got.after.paths) == active
        right = right and got.changes == (wanted.kind == "changed")
    if not right:
        raise Disagreement(f"{system}, active {sorted(state)}: {asked} should be {wanted}, but is {got}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Explore and print a table; return 0, or 1 if something disagrees or a number is unexpected."""
    parser = argparse.ArgumentParser(prog="python -m verification.explore", description="Explore all small systems.")
    parser.add_argument("--deep", action="store_true", help=f"up to {DEEP} groups instead of {USUAL}; takes minutes")
    options = parser.parse_args(arguments)
    print("groups  systems   states  granted  refused  seconds")
    for size in range(1, (DEEP if options.deep else USUAL) + 1):
        begun = perf_counter()
        try:
            found = explore(size)
        except Disagreement as error:
            print(error, file=sys.stderr)
            return 1
        counts = f"{found.systems:9,}{found.states:9,}{found.granted:9,}{found.refused:9,}"
        print(f"{size:6}{counts}{perf_counter() - begun:9.1f}", flush=True)
        if found != KNOWN[size]:
            print(f"expected for {size} groups: {KNOWN[size]}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
