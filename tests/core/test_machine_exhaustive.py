"""States × requests of every small system, compared with the reference, and the laws that hold in all of them.

The systems are those of `FAMILIES`; the states are all reachable ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, product

import pytest

from tests.core.support import FAMILIES, World, one_each, subsets, tool_set, world
from toolfold import ExclusionConflict, Forest, ParentInactive, Session, ToolfoldError, TransitionRequest, plan
from toolfold.machine import Configuration, Interpreter, Plan, close, restore
from toolfold_specs import reference as model
from toolfold_specs.properties import ALWAYS, SOMETIMES, Members, Property, Request, Step
from toolfold_specs.reference import Answer, System
from toolfold_specs.reference import State as Active
from verification.systems import as_pairs, reachable, wide_systems

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


@pytest.mark.spec("INV-1", "INV-2", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8")
@pytest.mark.parametrize("known", ALWAYS, ids=str)
def test_always(known: Property) -> None:
    assert all(known(step) for step in steps() if step.request in known.requests)


@pytest.mark.spec("INV-1", "INV-2", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8")
@pytest.mark.parametrize("known", SOMETIMES, ids=str)
def test_sometimes(known: Property) -> None:
    """Without these, what always holds could hold of a machine that never moves."""
    assert any(known(step) for step in steps() if step.request in known.requests)


def test_every_clause_that_always_holds_also_has_a_situation_that_sometimes_happens() -> None:
    assert {known.clause for known in ALWAYS} == {known.clause for known in SOMETIMES}


@cache
def steps() -> tuple[Step, ...]:
    """The result of every request for one group in every state of every system."""
    return tuple(
        Step(here.system.forest, request, group, Members(active), Members(answer_of(here, active, now, asked).state))
        for here, active, now in positions()
        for group in here.system.groups
        for request, asked in steps_for(here, group)
    )


def steps_for(here: World, group: int) -> tuple[tuple[Request, TransitionRequest], ...]:
    return ("activate", here.request([group])), ("deactivate", here.request((), [group]))


@pytest.mark.spec("INV-1", "INV-2")
def test_the_reachable_states_are_exactly_those_that_satisfy_the_invariants() -> None:
    for system in EVERY:
        here = world(system)
        frontier = [Configuration.initial(here.catalog.forest)]
        found = set(frontier)
        while frontier:
            now = frontier.pop()
            for path in here.paths:
                for request in (TransitionRequest(path), TransitionRequest((), path)):
                    try:
                        after = plan(now, request).after
                    except ParentInactive:
                        continue
                    frontier += [after] if after not in found else []
                    found.add(after)
        legal = {frozenset(some) for some in subsets(system.groups, 4) if model.legal(system, frozenset(some))}
        assert {here.active(one.active) for one in found} == legal


@pytest.mark.spec("INV-4")
def test_every_group_can_be_reached_from_every_state_by_activations() -> None:
    for here, active, _ in positions():
        for group in here.system.groups:
            snapshot = here.at(active)
            for target in (*here.system.ancestors(group), group):
                snapshot = snapshot.after(here.request([target]))
            assert snapshot.is_active(here.paths[group])


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


# Through sessions


@pytest.mark.spec("ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-9", "INV-1", "INV-2", "SES-1")
async def test_sessions_agree_with_the_reference_in_answers_groups_and_lists() -> None:
    for system in chain.from_iterable(FAMILIES[family] for family in SMALL):
        tools = tool_set(system)
        here = world(system)
        idle = await tools.open_session().start()
        for active in reachable(system):
            for activate, deactivate in [*((pair, ()) for pair in subsets(system.groups, 2)), *one_each(system)]:
                async with tools.open_session(active=here.named(active)) as session:
                    answer = await asked(here, session, activate, deactivate)
                    assert answer == model.step(system, active, activate, deactivate)
                    check_reads(here, session, answer.state)
        check_reads(here, idle, frozenset())
        await idle.close()


async def asked(
    here: World, session: Session, activate: tuple[int, ...], deactivate: tuple[int, ...]
) -> Answer[Active]:
    """Make a request of a session, by the simplest method for it."""
    before = frozenset(here.paths.index(path) for path in session.active)
    try:
        match activate, deactivate:
            case (group,), ():
                changed = await session.activate(here.paths[group])
            case (), (group,):
                changed = await session.deactivate(here.paths[group])
            case _:
                change = await session.transition(here.named(activate), here.named(deactivate))
                now = frozenset(here.paths.index(path) for path in session.active)
                assert change.activated == here.named(here.system.canonical(now - before))
                assert change.deactivated == here.named(here.system.canonical(before - now))
                changed = bool(change)
    except ParentInactive as error:
        return Answer("refused", before, "ParentInactive", here.paths.index(error.parent))
    except ExclusionConflict:
        return Answer("refused", before, "ExclusionConflict")
    now = frozenset(here.paths.index(path) for path in session.active)
    return Answer("changed" if changed else "unchanged", now)


def check_reads(here: World, session: Session, active: Active) -> None:
    """Check that every reading of a session shows exactly these groups as active."""
    system = here.system
    infos = {info.name: (info.state.value, info.active) for info in session.list_groups()}
    assert infos == {
        here.paths[group]: (model.region(system, active, group), group in active) for group in system.groups
    }
    assert list(infos) == list(here.named(system.canonical(system.groups)))
    assert session.active == here.named(system.canonical(active))
    assert session.list_tools().names == tuple(sorted(f"{path}.t" for path in here.named(active)))
