"""Wrong rules, each refuted by a theorem: the theorems can fail, and every axiom is needed."""

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
    """Rules with one fault, or without an axiom, and the theorem that no longer holds."""

    name: str
    theorem: str
    rules: Rules = SPECIFIED
    without: tuple[str, ...] = ()


def _displacing(reaches: Callable[[Term, Term], Formula]) -> Rules:
    """Return the rules with another definition of what an activation displaces."""

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


def _activating_below(state: State, g: Term) -> State:
    return lambda x: Or(activate(state, g)(x), And(granted(state, g), above(g, x)))


def _toggling(state: State, g: Term) -> State:
    return lambda x: And(activate(state, g)(x), Not(And(x == g, state(g))))


def _denying(state: State, g: Term) -> State:
    return state


def _sparing_grandchildren(state: State, g: Term) -> State:
    return lambda x: And(state(x), x != g, Not(And(above(g, x), Not(some(lambda m: And(above(g, m), above(m, x)))))))


def _path_without_the_ancestors_partners(state: State, g: Term) -> State:
    return lambda x: Or(within(x, g), And(state(x), Not(displaced(g, x))))


def _table(state: Region, event: Event, row: Row) -> Rules:
    """Return the rules with another row of the table."""
    return Rules(table=MappingProxyType({**TABLE, (state, event): (row,)}))


def _missing(axiom: str, theorem: str) -> Mutant:
    """Return the specified rules without an axiom."""
    return Mutant(f"without the axiom that {axiom}", theorem, without=(axiom,))


PARENTS_AFTER_ACTIVATION = "activation: active groups have active parents"
EXCLUSION_AFTER_ACTIVATION = "activation: no two active groups exclude one another"
PARENTS_AFTER_DEACTIVATION = "deactivation: active groups have active parents"
SATISFIED = "activation: a satisfied request changes nothing"
REACH = "activation: exclusion is neither transitive nor inherited"
PATH = "activation of a path: no two active groups exclude one another"
REACTIVATED = "a reactivated group has no active children"
CHILD = "activation of a path by a child stays within its parent"
TABLE_ACTIVATES = "the table gives the sets of an activation"

MUTANTS: tuple[Mutant, ...] = (
    # Activation
    Mutant("activation displaces partners, not what is below them", PARENTS_AFTER_ACTIVATION, _displacing(excludes)),
    Mutant("activation displaces nothing", EXCLUSION_AFTER_ACTIVATION, _displacing(lambda g, x: x != x)),
    Mutant("activation has no precondition", PARENTS_AFTER_ACTIVATION, Rules(activate=_unguarded)),
    Mutant(
        "activation clears all but its ancestors",
        "activation: nothing else changes",
        _displacing(lambda g, x: Not(within(x, g))),
    ),
    Mutant("activation clears what is below it", SATISFIED, _displacing(lambda g, x: Or(displaced(g, x), above(g, x)))),
    Mutant("activation displaces partners of partners", REACH, _displacing(_displaced_transitively)),
    Mutant("activation displaces for its descendants", REACH, _displacing(_displaced_for_children)),
    Mutant("activation displaces parents of partners", REACH, _displacing(_displaced_with_parents)),
    Mutant("activation activates what is below too", REACTIVATED, Rules(activate=_activating_below)),
    Mutant("activation toggles", SATISFIED, Rules(activate=_toggling)),
    Mutant(
        "activation is always denied",
        "activation: the group is activated, and displaced groups are deactivated",
        Rules(activate=_denying),
    ),
    # Deactivation
    Mutant(
        "deactivation affects only the group itself",
        PARENTS_AFTER_DEACTIVATION,
        Rules(deactivate=lambda state, g: lambda x: And(state(x), x != g)),
    ),
    Mutant("deactivation spares grandchildren", PARENTS_AFTER_DEACTIVATION, Rules(deactivate=_sparing_grandchildren)),
    Mutant(
        "deactivation deactivates ancestors too",
        "deactivation: nothing else changes",
        Rules(deactivate=lambda state, g: lambda x: And(deactivate(state, g)(x), Not(above(x, g)))),
    ),
    Mutant(
        "deactivation is always denied",
        "deactivation: the group is deactivated with its descendants",
        Rules(deactivate=_denying),
    ),
    # Paths
    Mutant(
        "a path displaces only the partners of its last group",
        PATH,
        Rules(activate_path=_path_without_the_ancestors_partners),
    ),
    # Children
    Mutant("a child has all that its own profile has", CHILD, Rules(bound=lambda own, parents: own)),
    Mutant("a child has all that its parent has", CHILD, Rules(bound=lambda own, parents: parents)),
    Mutant(
        "a child has what either profile has", CHILD, Rules(bound=lambda own, parents: lambda x: Or(own(x), parents(x)))
    ),
    Mutant(
        "a child can open what is in neither profile",
        "what a child can open, its parent can open, whatever it has open",
        Rules(bound=lambda own, parents: lambda x: x == x),
    ),
    # The table
    Mutant(
        "the table leaves groups active when an ancestor is deactivated",
        "the table gives the sets of a deactivation",
        _table(Region.ACTIVE, Event.ANCESTOR_DEACTIVATED, Row(Region.ACTIVE, Effect.NOTHING)),
    ),
    Mutant(
        "the table leaves a displaced group active",
        TABLE_ACTIVATES,
        _table(Region.ACTIVE, Event.DISPLACED, Row(Region.ACTIVE, Effect.NOTHING)),
    ),
    Mutant(
        "the table unlocks without a guard on the ancestors",
        TABLE_ACTIVATES,
        _table(Region.LOCKED, Event.ANCESTOR_ACTIVATED, Row(Region.INACTIVE, Effect.NOTHING)),
    ),
    Mutant(
        "the table grants the activation of a locked group",
        "the table answers requests as the rules do",
        _table(Region.LOCKED, Event.ACTIVATE, Row(Region.ACTIVE, Effect.SET_UP)),
    ),
    Mutant(
        "the table emits nothing when a displaced group is torn down",
        TABLE_ACTIVATES,
        _table(Region.ACTIVE, Event.DISPLACED, Row(Region.INACTIVE, Effect.TEAR_DOWN)),
    ),
    Mutant(
        "the table restores a group beside its partner",
        "the table gives the sets of a restoration",
        _table(Region.INACTIVE, Event.RESTORE, Row(Region.ACTIVE, Effect.SET_UP, Guard.NONE)),
    ),
    # Axioms
    _missing("no group excludes an ancestor", PARENTS_AFTER_ACTIVATION),
    _missing("exclusion is symmetric", EXCLUSION_AFTER_ACTIVATION),
    _missing("no group excludes itself", EXCLUSION_AFTER_ACTIVATION),
    _missing("above is irreflexive", REACTIVATED),
    _missing("above is transitive", PARENTS_AFTER_DEACTIVATION),
    _missing("ancestors form a chain", PATH),
    _missing("a profile has what is above its groups", CHILD),
)
