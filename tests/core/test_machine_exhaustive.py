"""States × requests of every small system, planned by the machine and compared with the reference.

Through sessions the kit compares them, in test_machine_stateful.py. The systems are those of `FAMILIES`; the states are
all reachable ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product

import pytest

from tests.core.support import FAMILIES, World, one_each, subsets, world
from toolfold import ExclusionConflict, Forest, ParentInactive, ToolfoldError, TransitionRequest, plan
from toolfold.machine import Configuration, Interpreter, Plan, close, restore
from toolfold_specs import reference as model
from toolfold_specs.reference import Answer, System
from toolfold_specs.reference import State as Active
from toolfold_specs.systems import distinct_systems
from verification.systems import as_pairs, legal_states, reachable, wide_systems

SMALL = ("pairs-1", "pairs-2", "pairs-3", "wide-3")
EVERY = tuple(system for family in FAMILIES.values() for system in family)
Position = tuple[World, Active, Configuration]
Groups = tuple[tuple[int, ...], tuple[int, ...]]


@cache
def positions() -> tuple[Position, ...]:
    """Every system in every reachable state."""
    return tuple(
        (here, active, here.at(active).configuration)
        for system in EVERY
        for here in [world(system)]
        for active in reachable(system)
    )


def requests(system: System) -> Iterator[Groups]:
    """All requests for several groups; of four groups, those of up to two activations and up to one deactivation."""
    some, few = (3, 3) if len(system.groups) < 4 else (2, 1)
    return product(subsets(system.groups, some), subsets(system.groups, few))


def answer_of(here: World, active: Active, now: Configuration, request: TransitionRequest) -> Answer[Active]:
    """The answer of the machine, in the terms of the reference."""
    try:
        planned = plan(now, request)
    except ParentInactive as error:
        check_refusal(here, request, error.group)
        return Answer("refused", active, "ParentInactive", here.paths.index(error.parent))
    except ExclusionConflict as error:
        check_refusal(here, request, error.groups[1], error.groups[0])
        return Answer("refused", active, "ExclusionConflict")
    after = here.active(planned.after.active)
    assert planned.before is now
    assert here.active(planned.activated) == after - active
    assert here.active(planned.deactivated) == active - after
    assert planned.changes is (planned.after is not now)
    return Answer("changed" if planned.changes else "unchanged", after)


def check_refusal(here: World, request: TransitionRequest, group: str, other: str | None = None) -> None:
    """Check that a refusal is about a group that was asked for, and one that excludes it or what it is in."""
    assert group in request.activate
    if other is not None:
        first, second = here.paths.index(other), here.paths.index(group)
        assert {first, *here.system.ancestors(first)} & here.system.excluded(second)


@pytest.mark.spec("ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "ACT-9")
def test_every_request_in_every_state_is_answered_as_by_the_reference() -> None:
    answers = set[object]()
    for here, active, now in positions():
        for activate, deactivate in requests(here.system):
            answer = answer_of(here, active, now, here.request(reversed(activate), reversed(deactivate)))
            assert answer == model.step(here.system, active, activate, deactivate)
            answers.add((answer.kind, answer.error, bool(deactivate)))
    kinds = [("changed", None), ("unchanged", None), ("refused", "ParentInactive"), ("refused", "ExclusionConflict")]
    assert answers == {(*kind, deactivates) for kind in kinds for deactivates in (True, False)}


@pytest.mark.spec("CNF-6", "INV-1", "INV-2", "INV-4", "ACT-6")
def test_every_state_of_all_systems_of_five_groups_is_reached_and_answered_from_as_by_the_reference() -> None:
    counted = Counter[str]()
    for system in distinct_systems(5):
        found, here = reachable(system), world(system)
        assert frozenset(found) == legal_states(system)
        counted += Counter(systems=1, states=len(found))
        for active, group in product(found, system.groups):
            now = here.at(active).configuration
            for asked in (((group,), ()), ((), (group,))):
                answer = answer_of(here, active, now, here.request(*asked))
                assert answer == model.step(system, active, *asked)
                counted["refused" if answer.kind == "refused" else "granted"] += 1
    assert counted == {"systems": 828, "states": 7323, "granted": 66502, "refused": 6728}


@pytest.mark.spec("ACT-4", "ACT-11")
def test_a_set_excludes_what_its_pairs_exclude() -> None:
    """So the machine, which knows the partners of groups alone, needs no walks through systems of wider sets."""
    for system in (*wide_systems(3), *wide_systems(4)):
        forests = [
            Forest.of(paths, [[paths[member] for member in members] for members in each.exclusions])
            for each in (system, as_pairs(system))
            for paths in [each.paths()]
        ]
        assert forests[0].partners == forests[1].partners
        assert forests[0].displaces == forests[1].displaces


# The interpreter of the rows and their compiled form


def outcome(planned: Callable[[], Plan]) -> tuple[object, ...]:
    try:
        found = planned()
    except ToolfoldError as error:
        return type(error), str(error)
    return found.after, found.activated, found.deactivated


@pytest.mark.spec("ACT-11")
def test_the_compiled_table_does_what_the_interpreter_of_its_rows_does() -> None:
    for here, _, now in positions():
        for activate, deactivate in one_each(here.system):
            request = here.request(activate, deactivate)
            assert outcome(partial(plan, now, request)) == outcome(partial(plan, now, request, Interpreter))
        for groups in subsets(here.system.groups, 1):
            keep = [path for group in groups for path in here.named((*here.system.ancestors(group), group))]
            assert outcome(partial(close, now, keep)) == outcome(partial(close, now, keep, Interpreter))


@pytest.mark.spec("ACT-11", "PER-2")
def test_any_set_of_groups_is_restored_by_the_compiled_table_as_by_the_interpreter() -> None:
    for system in EVERY:
        here = world(system)
        for stored in subsets(system.groups, 4):
            asked = partial(restore, here.catalog.forest, here.named(stored))
            assert outcome(asked) == outcome(partial(asked, Interpreter))


@pytest.mark.spec("ACT-11", "LST-4")
def test_the_states_of_all_regions_are_those_of_the_reference() -> None:
    for here, active, now in positions():
        states = {group: now.state(here.catalog.index[here.paths[group]]).value for group in here.system.groups}
        assert states == {group: model.region(here.system, active, group) for group in here.system.groups}


# What always holds, and what sometimes happens


@pytest.mark.spec("INV-5")
def test_the_same_snapshot_and_request_give_the_same_snapshot_whatever_the_history() -> None:
    for here, active, _ in positions():
        snapshot = here.at(active)
        for group in here.system.groups:
            try:
                after = snapshot.after(here.request([group]))
            except ParentInactive:
                continue
            back = snapshot.after(here.request((), here.system.groups))
            again = back.after(here.request(active))
            assert again is snapshot
            assert again.after(here.request([group])) is after
