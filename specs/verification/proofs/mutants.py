"""Wrong rules, each refuted by a theorem: they show that the theorems can fail, and that the axioms are needed."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType

from attrs import frozen

from toolfold import RegionState as Region
from toolfold.machine import TABLE, Effect, Guard, Row
from toolfold.machine import RegionEvent as Event

from .logic import And, Formula, If, Not, Or, State, Term, above, excludes, some
from .rules import SPECIFIED, Rules, activate, deactivate, displaced, granted, within


@frozen
class Mutant:
    """Rules with one fault, or axioms of which some are missing, and the theorem that is refuted by that."""

    name: str
    theorem: str
    rules: Rules = SPECIFIED
    without: tuple[str, ...] = ()


def _displacing(reaches: Callable[[Term, Term], Formula]) -> Rules:
    """Return the rules with another notion of what an activation displaces."""

    def changed(state: State, g: Term) -> State:
        return lambda x: If(granted(state, g), Or(x == g, And(state(x), Not(reaches(g, x)))), state(x))

    return Rules(activate=changed)


def _displaced_transitively(g: Term, x: Term) -> Formula:
    return Or(displaced(g, x), some(lambda e: And(excludes(g, e), displaced(e, x), Not(within(x, g)))))


def _displaced_for_children(g: Term, x: Term) -> Formula:
    return Or(displaced(g, x), some(lambda c: And(above(g, c), displaced(c, x), Not(within(x, g)))))


def _displaced_with_parents(g: Term, x: Term) -> Formula:
    return Or(displaced(g, x), some(lambda e: And(excludes(g, e), above(x, e), Not(within(x, g)))))


def _unguarded(state: State, g: Term) -> State:
    return lambda x: Or(x == g, And(state(x), Not(displaced(g, x))))


def _enabling_below(state: State, g: Term) -> State:
    return lambda x: Or(activate(state, g)(x), And(granted(state, g), above(g, x)))


def _toggling(state: State, g: Term) -> State:
    return lambda x: And(activate(state, g)(x), Not(And(x == g, state(g))))


def _denying(state: State, g: Term) -> State:
    return state


def _leaving_grandchildren(state: State, g: Term) -> State:
    return lambda x: And(state(x), x != g, Not(And(above(g, x), Not(some(lambda m: And(above(g, m), above(m, x)))))))


def _path_without_the_ancestors_partners(state: State, g: Term) -> State:
    return lambda x: Or(within(x, g), And(state(x), Not(displaced(g, x))))


def _table(state: Region, event: Event, row: Row) -> Rules:
    """Return the rules with another row of the table."""
    return Rules(table=MappingProxyType({**TABLE, (state, event): (row,)}))


MUTANTS: tuple[Mutant, ...] = (
    # Activation
    Mutant(
        "activation displaces partners, not what is below them",
        "activation: active groups have active parents",
        _displacing(excludes),
    ),
    Mutant(
        "activation displaces nothing",
        "activation: no two active groups exclude one another",
        _displacing(lambda g, x: x != x),
    ),
    Mutant(
        "activation has no precondition",
        "activation: active groups have active parents",
        Rules(activate=_unguarded),
    ),
    Mutant(
        "activation clears all but its ancestors",
        "activation: nothing else changes",
        _displacing(lambda g, x: Not(within(x, g))),
    ),
    Mutant(
        "activation clears what is below it",
        "activation: what is so already changes nothing",
        _displacing(lambda g, x: Or(displaced(g, x), above(g, x))),
    ),
    Mutant(
        "activation displaces partners of partners",
        "activation: exclusion is neither transitive nor inherited",
        _displacing(_displaced_transitively),
    ),
    Mutant(
        "activation displaces for its descendants",
        "activation: exclusion is neither transitive nor inherited",
        _displacing(_displaced_for_children),
    ),
    Mutant(
        "activation displaces parents of partners",
        "activation: exclusion is neither transitive nor inherited",
        _displacing(_displaced_with_parents),
    ),
    Mutant(
        "activation brings what is below with it",
        "a group that is activated again comes back without its children",
        Rules(activate=_enabling_below),
    ),
    Mutant("activation toggles", "activation: what is so already changes nothing", Rules(activate=_toggling)),
    Mutant(
        "activation is always denied",
        "activation: the group opens, and what it displaces closes",
        Rules(activate=_denying),
    ),
    # Deactivation
    Mutant(
        "deactivation takes the group alone",
        "deactivation: active groups have active parents",
        Rules(deactivate=lambda state, g: lambda x: And(state(x), x != g)),
    ),
    Mutant(
        "deactivation leaves grandchildren",
        "deactivation: active groups have active parents",
        Rules(deactivate=_leaving_grandchildren),
    ),
    Mutant(
        "deactivation takes ancestors too",
        "deactivation: nothing else changes",
        Rules(deactivate=lambda state, g: lambda x: And(deactivate(state, g)(x), Not(above(x, g)))),
    ),
    Mutant(
        "deactivation is always denied",
        "deactivation: the group closes, and all below it",
        Rules(deactivate=_denying),
    ),
    # Paths
    Mutant(
        "a path displaces for its last group alone",
        "activation of a path: no two active groups exclude one another",
        Rules(activate_path=_path_without_the_ancestors_partners),
    ),
    # The table
    Mutant(
        "the table leaves groups active when an ancestor leaves",
        "the table gives the sets of a deactivation",
        _table(Region.ACTIVE, Event.ANCESTOR_DEACTIVATED, Row(Region.ACTIVE, Effect.NOTHING)),
    ),
    Mutant(
        "the table leaves a displaced group active",
        "the table gives the sets of an activation",
        _table(Region.ACTIVE, Event.DISPLACED, Row(Region.ACTIVE, Effect.NOTHING)),
    ),
    Mutant(
        "the table unlocks without looking at the ancestors",
        "the table gives the sets of an activation",
        _table(Region.LOCKED, Event.ANCESTOR_ACTIVATED, Row(Region.INACTIVE, Effect.NOTHING)),
    ),
    Mutant(
        "the table grants an activation to a locked group",
        "the table answers requests as the rules do",
        _table(Region.LOCKED, Event.ACTIVATE, Row(Region.ACTIVE, Effect.SET_UP)),
    ),
    Mutant(
        "the table emits nothing when a displaced group is torn down",
        "the table gives the sets of an activation",
        _table(Region.ACTIVE, Event.DISPLACED, Row(Region.INACTIVE, Effect.TEAR_DOWN)),
    ),
    Mutant(
        "the table restores a group beside its partner",
        "the table gives the sets of a restoration",
        _table(Region.INACTIVE, Event.RESTORE, Row(Region.ACTIVE, Effect.SET_UP, Guard.NONE)),
    ),
    # Axioms
    Mutant(
        "exclusion may hold between a group and its ancestor",
        "activation: active groups have active parents",
        without=("no group excludes an ancestor",),
    ),
    Mutant(
        "exclusion may be one-way",
        "activation: no two active groups exclude one another",
        without=("exclusion is symmetric",),
    ),
    Mutant(
        "a group may exclude itself",
        "activation: no two active groups exclude one another",
        without=("no group excludes itself",),
    ),
    Mutant(
        "a group may be above itself",
        "a group that is activated again comes back without its children",
        without=("above is irreflexive",),
    ),
    Mutant(
        "being above need not be transitive",
        "deactivation: active groups have active parents",
        without=("above is transitive",),
    ),
    Mutant(
        "a group may have two parents",
        "activation of a path: no two active groups exclude one another",
        without=("ancestors form a chain",),
    ),
)
