"""Every change to the transition table, in any column of any row, and every deletion, changes behaviour (SPEC ACT-11).

A mutant that behaves like the table must be listed in `table_equivalents.toml`, with the reason; one that is listed and
no longer behaves so, or no longer exists, fails too.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, product
from pathlib import Path

import pytest
from attrs import evolve, frozen

from tests.core.support import FAMILIES, one_each, subsets, world
from toolfold.machine import (
    TABLE,
    Effect,
    Emission,
    Guard,
    Plan,
    RegionEvent,
    RegionState,
    Relation,
    Row,
    Run,
    close,
    plan,
    restore,
)
from toolfold.machine.compiled import compile_table
from toolfold.machine.planner import Runner
from toolfold.machine.table import Table
from toolfold_specs.reference import System
from verification.systems import reachable

DEEPER = (
    System((None, 0, 1, None), (frozenset({2, 3}),)),  # what is locked may exclude something active
    System((None, None, 1), (frozenset({0, 2}),)),  # the same, and it comes later in canonical order
)
EQUIVALENTS = Path(__file__).with_name("table_equivalents.toml")


@frozen
class Mutant:
    """The table with one change, which its name describes."""

    name: str
    table: Table


def mutants() -> Iterator[Mutant]:
    """Yield the table with another value in one column of one row, for each value, and with one row deleted."""
    for key, rows in TABLE.items():
        state, event = key
        for place, row in enumerate(rows):
            here = f"{state.value}, {event.value}" + (f" [{row.guard.value}]" if row.guard is not Guard.NONE else "")
            for what, other in others(row):
                yield Mutant(f"{here}: {what}", {**TABLE, key: (*rows[:place], other, *rows[place + 1 :])})
            left = {**TABLE, key: (*rows[:place], *rows[place + 1 :])}
            yield Mutant(f"{here}: deleted", left if left[key] else {k: v for k, v in TABLE.items() if k != key})


def others(row: Row) -> Iterator[tuple[str, Row]]:
    """Yield the row with one column changed, and what is changed."""
    for target in RegionState:
        if target is not row.target:
            yield f"target {target.value}", evolve(row, target=target)
    for effect in Effect:
        if effect is not row.effect:
            yield f"effect {effect.value}", evolve(row, effect=effect)
    for guard in Guard:
        if guard is not row.guard:
            yield f"guard {guard.value or 'none'}", evolve(row, guard=guard)
    for place, emission in enumerate(row.emits):
        before, behind = row.emits[:place], row.emits[place + 1 :]
        words = f"{emission.event.value} to {emission.to.value}"
        yield f"does not emit {words}", evolve(row, emits=(*before, *behind))
        for event, to in product(RegionEvent, Relation):
            other = Emission(event, to)
            if (event is emission.event) != (to is emission.to):
                yield f"emits {event.value} to {to.value} for {words}", evolve(row, emits=(*before, other, *behind))


MUTANTS = {mutant.name: mutant for mutant in mutants()}


# What distinguishes a mutant from the table


Situation = Callable[[Runner], Plan]


@cache
def situations() -> tuple[Situation, ...]:
    """Every request, end and restoration in every state of all systems of up to three groups, and of two more."""
    found: list[Situation] = []
    for system in chain(*(FAMILIES[family] for family in ("pairs-1", "pairs-2", "pairs-3", "wide-3")), DEEPER):
        here = world(system)
        for active in reachable(system):
            now = here.at(active).configuration
            for groups in [*((some, ()) for some in subsets(system.groups, 2)), *one_each(system)]:
                found.append(partial(plan, now, here.request(*groups)))
            found.append(partial(close, now, ()))
        found += [partial(restore, here.catalog.forest, here.named(stored)) for stored in subsets(system.groups, 3)]
    return tuple(found)


def outcome(situation: Situation, runner: Runner) -> tuple[object, ...]:
    try:
        found = situation(runner)
    except Exception as error:
        return type(error), str(error)
    return found.after, found.activated, found.deactivated


@cache
def expected() -> tuple[tuple[object, ...], ...]:
    return tuple(outcome(situation, Run) for situation in situations())


def differs(table: Table, runner: Runner) -> bool:
    """Whether some situation has another outcome under a table."""
    return any(outcome(situation, runner) != right for situation, right in zip(situations(), expected(), strict=True))


def compiled(table: Table) -> Runner:
    program = compile_table(table)
    return lambda before: Run(before, program)


def equivalents() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8"))["equivalent"]
    return found


@pytest.mark.spec("ACT-11")
def test_the_number_of_mutants_and_of_those_that_are_equivalent_is_the_one_in_the_file() -> None:
    counts = tomllib.loads(EQUIVALENTS.read_text(encoding="utf-8"))["counts"]
    assert counts == {"mutants": len(MUTANTS), "equivalent": len(equivalents())}
    assert equivalents().keys() <= MUTANTS.keys()
    assert all(reason for reason in equivalents().values())


@pytest.mark.spec("ACT-11")
@pytest.mark.parametrize("state", RegionState)
def test_every_change_to_a_row_changes_behaviour_unless_it_is_shown_to_be_equivalent(state: RegionState) -> None:
    of_state = [mutant for name, mutant in MUTANTS.items() if name.startswith(f"{state.value}, ")]
    unnoticed = {mutant.name for mutant in of_state if not differs(mutant.table, compiled(mutant.table))}
    assert unnoticed == {name for name in equivalents() if name.startswith(f"{state.value}, ")}
