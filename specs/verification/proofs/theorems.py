"""The theorems as data: `THEOREMS` always hold; `OCCURRENCES` can occur, so the theorems are not vacuous.

The properties of single transitions are those of `toolfold_specs.properties`, for every request that they apply to. The
other theorems are about results, several transitions, and the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from attrs import evolve, frozen

from toolfold import RegionState as Region
from toolfold.machine import Effect
from toolfold.machine import RegionEvent as Event
from toolfold_specs.properties import ALWAYS, SOMETIMES, Property, Request, Step, exclusive, parents_active

from .logic import (
    FOREST,
    And,
    Formula,
    Implies,
    Not,
    Or,
    Scene,
    State,
    above,
    before,
    every,
    excludes,
    group,
    other,
    own,
    parents,
)
from .rules import Regions, Rules, Update, bounded, displaced, effect, granted, regions, requested, within

Premises = Mapping[str, Formula]
Goal = Callable[[State], Formula]

C, E, G, H, K, P, T, X = (group(name) for name in "ceghkptx")

NOTHING_MORE: Premises = MappingProxyType({})
LEGAL: Premises = {"INV-1 before": parents_active(FOREST, before), "INV-2 before": exclusive(FOREST, before)}
GRANTED: Premises = {"all above g are active": granted(before, G)}


@frozen
class Claim:
    """The statement of a theorem under some rules: the axioms and the premises imply the goal."""

    goal: Formula
    scene: Scene
    premises: Premises


@frozen
class Theorem:
    """A claim with a name and its clauses."""

    name: str
    clauses: tuple[str, ...]
    claim: Callable[[Rules], Claim]


def _claim(goal: Formula, roles: str, premises: Premises, **states: State) -> Claim:
    """Return the claim that a legal state before and the premises imply the goal."""
    named = {name.replace("_", " "): state for name, state in states.items()}
    return Claim(goal, Scene(tuple(roles), {"active before": before, **named}), {**LEGAL, **premises})


@frozen
class _Update:
    """The update of a request, and the name of the state after it."""

    noun: str
    rule: Callable[[Rules], Update]
    after: str
    clauses: tuple[str, ...] = ()
    """The clauses of every theorem about it."""

    def claim(self, goal: Callable[[State], Formula], roles: str, premises: Premises) -> Callable[[Rules], Claim]:
        def claim(rules: Rules) -> Claim:
            after = self.rule(rules)(before, G)
            return _claim(goal(after), roles, premises, **{self.after: after})

        return claim

    def theorem(self, known: Property, request: Request) -> Theorem:
        """Return a property of transitions as a theorem about this request."""
        claim = self.claim(lambda after: known(Step(FOREST, request, G, before, after)), "g", NOTHING_MORE)
        return Theorem(f"{self.noun}: {known.name}", tuple(dict.fromkeys((known.clause, *self.clauses))), claim)


UPDATES: Mapping[Request, _Update] = {
    "activate": _Update("activation", lambda rules: rules.activate, "after_activating_g"),
    "deactivate": _Update("deactivation", lambda rules: rules.deactivate, "after_deactivating_g"),
    "restore": _Update("restoration", lambda rules: rules.restore, "after_restoring_g", ("PER-2",)),
    "transition": _Update(
        "activation of a path", lambda rules: rules.activate_path, "after_activating_the_path_to_g", ("ACT-9",)
    ),
}


def _about(
    request: Request, goal: Goal, roles: str = "g", premises: Premises = NOTHING_MORE
) -> Callable[[Rules], Claim]:
    return UPDATES[request].claim(goal, roles, premises)


def _equal(one: State, two: State) -> Formula:
    return every(lambda x: one(x) == two(x))


def _subset(one: State, two: State) -> Formula:
    return every(lambda x: Implies(one(x), two(x)))


def _consistent(state: State, pool: Goal) -> Formula:
    return And(parents_active(FOREST, state), exclusive(FOREST, state), every(lambda x: Implies(state(x), pool(x))))


# Claims about results, several requests, and the table


def _greatest_with(rules: Rules) -> Claim:
    after = rules.activate(before, G)
    premises = {
        **GRANTED,
        "the other state is consistent, has g, and is a subset of the groups before with g": And(
            other(G), _consistent(other, lambda x: Or(before(x), x == G))
        ),
    }
    goal = And(after(G), _consistent(after, lambda x: Or(before(x), x == G)), _subset(other, after))
    return _claim(goal, "g", premises, the_other_state=other, after_activating_g=after)


def _greatest_without(rules: Rules) -> Claim:
    after = rules.deactivate(before, G)
    premises = {
        "the other state is a consistent subset without g": And(Not(other(G)), _consistent(other, before)),
    }
    goal = And(Not(after(G)), _consistent(after, before), _subset(other, after))
    return _claim(goal, "g", premises, the_other_state=other, after_deactivating_g=after)


def _reactivated(rules: Rules) -> Claim:
    away = rules.deactivate(before, G)
    back = rules.activate(away, G)
    premises = {"g is active": before(G), "c is below g": above(G, C)}
    goal = And(back(G), Not(back(C)))
    return _claim(goal, "gc", premises, after_deactivating_g=away, after_activating_g_again=back)


def _reactivated_after_displacement(rules: Rules) -> Claim:
    away = rules.activate(before, E)
    back = rules.activate(away, G)
    premises = {
        "e excludes g": excludes(E, G),
        "all above e are active": granted(before, E),
        "c is below g": above(G, C),
    }
    goal = And(Implies(granted(away, G), back(G)), Not(back(C)))
    return _claim(goal, "gec", premises, after_activating_e=away, after_activating_g=back)


def _path_by_its_parent(rules: Rules) -> Claim:
    above_p, above_g = rules.activate_path(before, P), rules.activate_path(before, G)
    by_step = rules.activate(above_p, G)
    premises = {"p is the parent of g": every(lambda a: above(a, G) == within(a, P))}
    return _claim(
        _equal(by_step, above_g), "gp", premises, after_the_path_to_p=above_p, then_activating_g=by_step, in_one=above_g
    )


def _path_to_a_root(rules: Rules) -> Claim:
    path, plain = rules.activate_path(before, G), rules.activate(before, G)
    premises = {"nothing is above g": every(lambda a: Not(above(a, G)))}
    return _claim(_equal(path, plain), "g", premises, after_the_path_to_g=path, after_activating_g=plain)


def _deactivations_commute(rules: Rules) -> Claim:
    gh = rules.deactivate(rules.deactivate(before, G), H)
    hg = rules.deactivate(rules.deactivate(before, H), G)
    return _claim(_equal(gh, hg), "gh", {}, after_deactivating_g_then_h=gh, after_deactivating_h_then_g=hg)


def _activations_commute(rules: Rules) -> Claim:
    gh = rules.activate(rules.activate(before, G), H)
    hg = rules.activate(rules.activate(before, H), G)
    premises = {
        **GRANTED,
        "all above h are active": granted(before, H),
        "g does not displace h": Not(displaced(G, H)),
        "h does not displace g": Not(displaced(H, G)),
    }
    return _claim(_equal(gh, hg), "gh", premises, after_activating_g_then_h=gh, after_activating_h_then_g=hg)


def _step_activates_all(rules: Rules) -> Claim:
    one = rules.activate(before, G)
    two = rules.activate(one, H)
    premises = {
        **GRANTED,
        "all above h are active by then": granted(one, H),
        "h does not displace g": Not(displaced(H, G)),
    }
    return _claim(And(two(G), two(H)), "gh", premises, after_activating_g=one, then_activating_h=two)


def _progress(rules: Rules) -> Claim:
    after = rules.activate(before, T)
    premises = {
        "t is the topmost inactive group on the path to g": And(within(T, G), Not(before(T)), granted(before, T))
    }
    goal = And(after(T), every(lambda a: Implies(And(within(a, G), before(a)), after(a))))
    return _claim(goal, "gt", premises, after_activating_t=after)


def _table_activates(rules: Rules) -> Claim:
    after = rules.activate(before, G)
    return _agree(requested(rules, before, Event.ACTIVATE, G, after), after)


def _table_deactivates(rules: Rules) -> Claim:
    after = rules.deactivate(before, G)
    return _agree(requested(rules, before, Event.DEACTIVATE, G, after), after)


def _table_restores(rules: Rules) -> Claim:
    after = rules.restore(before, G)
    claim = _agree(requested(rules, before, Event.RESTORE, G, after), after)
    return evolve(claim, premises={**claim.premises, "g is inactive": Not(before(G))})


def _agree(table: Regions, after: State) -> Claim:
    """Return the claim that by the table every region has its state in `after`."""
    by_table, by_sets = table(X), regions(after)(X)
    goal = And(*(by_table[region] == by_sets[region] for region in Region))
    return _claim(goal, "gx", {}, after_by_the_table=lambda x: table(x)[Region.ACTIVE], after_by_the_sets=after)


def _table_answers(rules: Rules) -> Claim:
    refuses, sets_up = (effect(rules, before, Event.ACTIVATE, wanted, G) for wanted in (Effect.REFUSE, Effect.SET_UP))
    tears_down = effect(rules, before, Event.DEACTIVATE, Effect.TEAR_DOWN, G)
    goal = And(
        refuses == Not(granted(before, G)),
        sets_up == And(granted(before, G), Not(before(G))),
        tears_down == before(G),
    )
    return _claim(goal, "g", {})


def _child_stays_within(update: Callable[[Rules], Update]) -> Callable[[Rules], Claim]:
    """Return the claim that all that a child has after a request, its profile and its parent's have."""

    def claim(rules: Rules) -> Claim:
        after = bounded(update(rules), rules.bound(own, parents))(before, G)
        goal = every(lambda x: Implies(after(x), And(own(x), parents(x))))
        premises = {"it has nothing else before": every(lambda x: Implies(before(x), And(own(x), parents(x))))}
        return _claim(goal, "g", premises, **_PROFILES, after_the_request_for_g=after)

    return claim


def _parent_can_too(rules: Rules) -> Claim:
    by_child = bounded(rules.activate_path, rules.bound(own, parents))(before, G)
    by_parent = bounded(rules.activate_path, parents)(other, G)
    premises = {"the child opens g": And(Not(before(G)), by_child(G))}
    return _claim(by_parent(G), "g", premises, **_PROFILES, the_state_of_its_parent=other)


_PROFILES: Mapping[str, State] = {"the_profile_of_the_child": own, "that_of_its_parent": parents}


THEOREMS: tuple[Theorem, ...] = (
    *(UPDATES[request].theorem(known, request) for known in ALWAYS for request in known.requests),
    Theorem(
        "restoration changes nothing but its group",
        ("PER-2",),
        _about("restore", lambda after: every(lambda x: Or(x == G, after(x) == before(x)))),
    ),
    # Results
    Theorem("activation gives the greatest consistent set with the group", ("ACT-4", "ACT-6"), _greatest_with),
    Theorem("deactivation gives the greatest consistent set without the group", ("ACT-5", "ACT-6"), _greatest_without),
    Theorem("a reactivated group has no active children", ("ACT-8",), _reactivated),
    Theorem(
        "a displaced group that is reactivated has no active children", ("ACT-8",), _reactivated_after_displacement
    ),
    # Transitions of many requests
    Theorem(
        "activation of a path activates the group from any state",
        ("ACT-9", "INV-4"),
        _about("transition", lambda after: every(lambda a: Implies(within(a, G), after(a)))),
    ),
    Theorem("a path to a root group is its activation", ("ACT-9",), _path_to_a_root),
    Theorem("a path is the path to the parent, then the activation of the group", ("ACT-9",), _path_by_its_parent),
    Theorem("deactivations commute", ("ACT-9",), _deactivations_commute),
    Theorem("activations commute where neither displaces the other", ("ACT-9",), _activations_commute),
    Theorem(
        "a transition activates all requested groups if the later does not displace the earlier",
        ("ACT-9",),
        _step_activates_all,
    ),
    Theorem(
        "eviction spares the target, pinned groups and their ancestors",
        ("ACT-10",),
        _about(
            "deactivate",
            lambda after: every(lambda a: Implies(within(a, K), after(a))),
            roles="gk",
            premises={"k is active": before(K), "g is neither k nor above k": Not(within(G, K))},
        ),
    ),
    # Reachability
    Theorem("activation of the topmost inactive group on a path makes progress", ("INV-4",), _progress),
    # A child, whose profile is within its parent's
    *(
        Theorem(f"{one.noun} by a child stays within its parent", ("GWY-16",), _child_stays_within(one.rule))
        for one in UPDATES.values()
    ),
    Theorem("what a child can open, its parent can open, whatever it has open", ("GWY-16",), _parent_can_too),
    # The table that the core runs
    Theorem("the table answers requests as the rules do", ("ACT-2", "ACT-3"), _table_answers),
    Theorem("the table gives the sets of an activation", ("ACT-4", "ACT-6"), _table_activates),
    Theorem("the table gives the sets of a deactivation", ("ACT-5", "ACT-6"), _table_deactivates),
    Theorem("the table gives the sets of a restoration", ("PER-2",), _table_restores),
)


OCCURRENCES: tuple[Theorem, ...] = (
    *(UPDATES[request].theorem(known, request) for known in SOMETIMES for request in known.requests),
    Theorem(
        "a path displaces what excludes an ancestor",
        ("ACT-9",),
        _about(
            "transition",
            lambda after: And(above(P, G), excludes(P, E), before(E), Not(after(E)), after(G)),
            roles="gpe",
        ),
    ),
)
"""Situations of the theorems, each of which occurs in some world."""
