"""What is proved about: the axioms of a catalog, and the rules of SPEC 4 as updates of a state.

The rules have two forms that are proved equal: sets, as SPEC ACT-4 and ACT-5 put them, and the transition table that
the core really runs, `toolfold.machine.TABLE`, applied region by region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias

from attrs import frozen

from toolfold.machine import TABLE, Effect, Event, Guard, Row
from toolfold.machine import State as Region

from .logic import FALSE, And, Facts, Formula, If, Implies, Not, Or, State, Term, above, every, excludes, some

AXIOMS: Facts = MappingProxyType(
    {
        "above is irreflexive": every(lambda x: Not(above(x, x))),
        "above is transitive": every(lambda a, b, c: Implies(And(above(a, b), above(b, c)), above(a, c))),
        "ancestors form a chain": every(
            lambda a, b, x: Implies(And(above(a, x), above(b, x)), Or(a == b, above(a, b), above(b, a)))
        ),
        "no group excludes itself": every(lambda x: Not(excludes(x, x))),
        "exclusion is symmetric": every(lambda x, y: Implies(excludes(x, y), excludes(y, x))),
        "no group excludes an ancestor": every(
            lambda x, y: Implies(excludes(x, y), And(Not(above(x, y)), Not(above(y, x))))
        ),
    }
)
"""What registration sees to: a forest (SPEC REG-2), and sets of distinct groups none above another (SPEC REG-3).

An exclusion set stands for its pairs, and parents for ancestors: in a finite forest INV-1 and INV-2 mean the same.
"""


def within(top: Term, x: Term) -> Formula:
    """Return that `x` is in `sub*(top)`: it is `top`, or below it."""
    return Or(x == top, above(top, x))


def displaced(g: Term, x: Term) -> Formula:
    """Return that activating `g` displaces `x`: x is in `sub*(e)` for some e in `excl(g)`."""
    return some(lambda e: And(excludes(g, e), within(e, x)))


def inv_1(state: State) -> Formula:
    """Return that parents of active groups are active (SPEC INV-1)."""
    return every(lambda a, x: Implies(And(state(x), above(a, x)), state(a)))


def inv_2(state: State) -> Formula:
    """Return that no exclusion set has two active members (SPEC INV-2)."""
    return every(lambda x, y: Implies(And(state(x), state(y)), Not(excludes(x, y))))


def granted(state: State, g: Term) -> Formula:
    """Return that an activation of `g` is not refused: all ancestors are active (SPEC ACT-2)."""
    return every(lambda a: Implies(above(a, g), state(a)))


Update: TypeAlias = Callable[[State, Term], State]


def activate(state: State, g: Term) -> State:
    """Return the state after a request to activate `g` (SPEC ACT-2, ACT-4)."""
    return lambda x: If(granted(state, g), Or(x == g, And(state(x), Not(displaced(g, x)))), state(x))


def deactivate(state: State, g: Term) -> State:
    """Return the state after a request to deactivate `g` (SPEC ACT-5)."""
    return lambda x: And(state(x), Not(within(g, x)))


def activate_path(state: State, g: Term) -> State:
    """Return the state after one step that activates `g` with all its ancestors (SPEC ACT-9)."""
    return lambda x: Or(within(x, g), And(state(x), Not(some(lambda a: And(within(a, g), displaced(a, x))))))


@frozen
class Rules:
    """The rules that a theorem is about: the right ones, unless a mutant is to be refuted."""

    activate: Update = activate
    deactivate: Update = deactivate
    activate_path: Update = activate_path
    table: Mapping[tuple[Region, Event], tuple[Row, ...]] = TABLE


SPECIFIED = Rules()


# The table

Regions: TypeAlias = Callable[[Term], Mapping[Region, Formula]]
Reached: TypeAlias = Callable[[Term], Formula]


def regions(state: State) -> Regions:
    """Return, for each group, in which state its region is while `state` is the set of active groups."""

    def of(x: Term) -> Mapping[Region, Formula]:
        unlocked = granted(state, x)
        active = state(x)
        return {
            Region.ACTIVE: active,
            Region.INACTIVE: And(Not(active), unlocked),
            Region.LOCKED: And(Not(active), Not(unlocked)),
        }

    return of


def delivered(rules: Rules, now: Regions, event: Event, reached: Reached, after: State) -> Regions:
    """Return the regions once `event` has come to the groups that it reaches, by the rows of the table.

    Guards are judged on the ancestors as they are in `after`, when the event has happened.
    """

    def of(x: Term) -> Mapping[Region, Formula]:
        old, here = now(x), reached(x)
        return {
            target: Or(
                And(Not(here), old[target]),
                *(
                    And(here, old[source], _guard(row, after, x))
                    for (source, of_event), rows in rules.table.items()
                    for row in rows
                    if of_event is event and row.target is target
                ),
            )
            for target in Region
        }

    return of


def _guard(row: Row, after: State, x: Term) -> Formula:
    if row.guard is Guard.NONE:
        return Not(FALSE)
    return granted(after, x) if row.guard is Guard.ANCESTORS_ACTIVE else Not(granted(after, x))


def effect(rules: Rules, state: State, event: Event, wanted: Effect, g: Term) -> Formula:
    """Return that the table answers `event` at `g` in `state` with the effect that is `wanted`."""
    here = regions(state)(g)
    rows = [
        (source, row) for (source, of_event), all_rows in rules.table.items() if of_event is event for row in all_rows
    ]
    return Or(FALSE, *(And(here[source], _guard(row, state, g)) for source, row in rows if row.effect is wanted))


def activated_by_table(rules: Rules, state: State, g: Term, after: State) -> Regions:
    """Return the regions after `activate`: its own event, then those that follow, as `toolfold.machine` sends them."""
    enters = effect(rules, state, Event.ACTIVATE, Effect.ENTER, g)

    def below_a_partner(x: Term) -> Formula:
        return some(lambda e: And(excludes(g, e), state(e), above(e, x)))

    now = delivered(rules, regions(state), Event.ACTIVATE, lambda x: x == g, after)
    now = delivered(rules, now, Event.DISPLACED, lambda x: And(enters, excludes(g, x)), after)
    now = delivered(rules, now, Event.ANCESTOR_LEFT, lambda x: And(enters, below_a_partner(x)), after)
    return delivered(rules, now, Event.ANCESTOR_ENTERED, lambda x: And(enters, above(g, x)), after)


def deactivated_by_table(rules: Rules, state: State, g: Term, after: State) -> Regions:
    """Return the regions after `deactivate`, likewise."""
    leaves = effect(rules, state, Event.DEACTIVATE, Effect.LEAVE, g)
    now = delivered(rules, regions(state), Event.DEACTIVATE, lambda x: x == g, after)
    return delivered(rules, now, Event.ANCESTOR_LEFT, lambda x: And(leaves, above(g, x)), after)
