"""The subject of the proofs: the axioms of a catalog, and the rules of SPEC 4 as updates of a state.

The rules have two forms that are proved equal: sets, as in SPEC ACT-4 and ACT-5, and the transition table that the core
runs, `toolfold.machine.TABLE`, applied region by region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from attrs import frozen

from toolfold import RegionState as Region
from toolfold.machine import TABLE, Effect, Guard, Relation, Row
from toolfold.machine import RegionEvent as Event

from .logic import (
    FALSE,
    And,
    Facts,
    Formula,
    If,
    Implies,
    Not,
    Or,
    State,
    Term,
    above,
    every,
    excludes,
    own,
    parents,
    some,
)

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
        "a profile has what is above its groups": every(
            lambda a, x: Implies(above(a, x), And(Implies(own(x), own(a)), Implies(parents(x), parents(a))))
        ),
    }
)
"""What registration guarantees: a forest (SPEC REG-2), exclusion sets without a group and its ancestor (REG-3), and
profiles under which a group exists with all above it (PRO-1).

Exclusion sets are represented by their pairs, and parents by ancestors, which is equivalent in a finite forest.
"""


def within(top: Term, x: Term) -> Formula:
    """Return that `x` is in `sub*(top)`: it is `top` or below it."""
    return Or(x == top, above(top, x))


def displaced(g: Term, x: Term) -> Formula:
    """Return that activating `g` displaces `x`: it is in `sub*(e)` for some e in `excl(g)`."""
    return some(lambda e: And(excludes(g, e), within(e, x)))


def granted(state: State, g: Term) -> Formula:
    """Return that an activation of `g` is granted: all ancestors are active (SPEC ACT-2)."""
    return every(lambda a: Implies(above(a, g), state(a)))


def restore(state: State, g: Term) -> State:
    """Return the state after `g` is restored, if its ancestors are active and no partner was restored before it."""
    allowed = And(granted(state, g), Not(some(lambda e: And(excludes(g, e), state(e)))))
    return lambda x: Or(state(x), And(x == g, allowed))


Update: TypeAlias = Callable[[State, Term], State]


def activate(state: State, g: Term) -> State:
    """Return the state after a request to activate `g` (SPEC ACT-2, ACT-4)."""
    return lambda x: If(granted(state, g), Or(x == g, And(state(x), Not(displaced(g, x)))), state(x))


def deactivate(state: State, g: Term) -> State:
    """Return the state after a request to deactivate `g` (SPEC ACT-5)."""
    return lambda x: And(state(x), Not(within(g, x)))


def activate_path(state: State, g: Term) -> State:
    """Return the state after one transition that activates `g` with all its ancestors (SPEC ACT-9)."""
    return lambda x: Or(within(x, g), And(state(x), Not(some(lambda a: And(within(a, g), displaced(a, x))))))


def both(own: State, parents: State) -> State:
    """Return the groups that exist for a child: those that its profile and its parent's have (SPEC GWY-16)."""
    return lambda x: And(own(x), parents(x))


@frozen
class Rules:
    """The rules that a theorem is about: the specified ones, or those of a mutant."""

    activate: Update = activate
    deactivate: Update = deactivate
    activate_path: Update = activate_path
    restore: Update = restore
    bound: Callable[[State, State], State] = both
    table: Mapping[tuple[Region, Event], tuple[Row, ...]] = TABLE


SPECIFIED = Rules()


def bounded(update: Update, bound: State) -> Update:
    """Return an update for a session that has some groups alone: a request of any other one changes nothing."""
    return lambda state, g: lambda x: If(bound(g), update(state, g)(x), state(x))


# The table

Regions: TypeAlias = Callable[[Term], Mapping[Region, Formula]]
Reached: TypeAlias = Callable[[Term], Formula]


def regions(state: State) -> Regions:
    """Return the state of each group's region, given the set of active groups."""

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
    """Return the regions after `event` was delivered to the groups that it reaches, by the rows of the table.

    Guards are evaluated in `after`, the state once the event was handled.
    """

    def of(x: Term) -> Mapping[Region, Formula]:
        old, here = now(x), reached(x)
        return {
            target: Or(
                And(Not(here), old[target]),
                *(
                    And(here, old[source], holds(row.guard, after, x))
                    for source, row in _rows(rules, event)
                    if row.target is target
                ),
            )
            for target in Region
        }

    return of


def run(rules: Rules, now: Regions, event: Event, reached: Reached, after: State) -> Regions:
    """Return the regions after `event` and all events that the rows emit were handled."""
    moved = delivered(rules, now, event, reached, after)
    emissions = dict.fromkeys(emission for _, row in _rows(rules, event) for emission in row.emits)
    for emission in emissions:
        emitters = [(source, row) for source, row in _rows(rules, event) if emission in row.emits]

        def emitted(x: Term, to: Relation = emission.to, emitters: Emitters = emitters) -> Formula:
            return some(lambda y: And(reached(y), _emits(emitters, now(y), after, y), _related(to, y, x)))

        moved = run(rules, moved, emission.event, emitted, after)
    return moved


def holds(guard: Guard, state: State, x: Term) -> Formula:
    """Return that a guard holds at `x` in a state."""
    partner_active = some(lambda e: And(excludes(x, e), state(e)))
    return {
        Guard.NONE: Not(FALSE),
        Guard.ANCESTORS_ACTIVE: granted(state, x),
        Guard.ANCESTOR_INACTIVE: Not(granted(state, x)),
        Guard.PARTNER_ACTIVE: partner_active,
        Guard.PARTNERS_INACTIVE: Not(partner_active),
    }[guard]


def effect(rules: Rules, state: State, event: Event, wanted: Effect, g: Term) -> Formula:
    """Return that the table has the `wanted` effect when `event` reaches `g` in `state`."""
    here = regions(state)(g)
    rows = _rows(rules, event)
    return Or(FALSE, *(And(here[source], holds(row.guard, state, g)) for source, row in rows if row.effect is wanted))


def requested(rules: Rules, state: State, event: Event, g: Term, after: State) -> Regions:
    """Return the regions after a request: its event at `g`, and the events that follow."""
    return run(rules, regions(state), event, lambda x: x == g, after)


Emitters: TypeAlias = Sequence[tuple[Region, Row]]


def _rows(rules: Rules, event: Event) -> Emitters:
    return [(source, row) for (source, of_event), rows in rules.table.items() if of_event is event for row in rows]


def _emits(emitters: Emitters, old: Mapping[Region, Formula], after: State, y: Term) -> Formula:
    return Or(FALSE, *(And(old[source], holds(row.guard, after, y)) for source, row in emitters))


def _related(to: Relation, y: Term, x: Term) -> Formula:
    return excludes(y, x) if to is Relation.PARTNERS else above(y, x)
