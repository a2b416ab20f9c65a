"""Proofs by induction: what holds for any number of requests, at any depth, and for any number of active groups.

z3 does no induction. An induction here is its obligations: the base, the step, and what follows from the claim for all
numbers; each is a formula that z3 proves. That base and step give the claim for all numbers is the least number
principle: if it did not hold for all, there would be a least number for which it does not. That principle, for an
arbitrary claim, is an obligation as well (`least`). The recursive definitions of what an induction is about (ancestors,
states after requests, counts) are facts of its obligations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from attrs import evolve, frozen

from toolfold_specs.properties import exclusive, parents_active

from .logic import (
    FALSE,
    FOREST,
    GROUP,
    And,
    Facts,
    Formula,
    Implies,
    Not,
    Obligation,
    Or,
    State,
    Term,
    above,
    before,
    every,
    fulfilled,
    group,
    number,
    some,
    z3,
)
from .rules import AXIOMS, SPECIFIED, Rules, displaced, granted, within

FEW = 3
"""How many groups a world for a counterexample has."""

depth: Callable[[Term], Any] = z3.Function("depth", GROUP, z3.IntSort())
"""How many groups are above a group."""
parent: Callable[[Term], Term] = z3.Function("parent", GROUP, GROUP)
"""The group that it is registered in, unless it is a root."""
is_root: State = z3.Function("is_root", GROUP, z3.BoolSort())
opened: Callable[[Term, Term], Formula] = z3.Function("opened", GROUP, GROUP, z3.BoolSort())
"""opened(g, x): x is active once the groups on the path to g were activated one after another."""
G, T, X, Y = (group(name) for name in "gtxy")

TREE: Facts = MappingProxyType(
    {
        "a root has depth 0": every(lambda x: Implies(is_root(x), depth(x) == 0)),
        "a group is one deeper than its parent": every(
            lambda x: Implies(Not(is_root(x)), depth(x) == depth(parent(x)) + 1)
        ),
        "depths are not negative": every(lambda x: depth(x) >= 0),
        "above are the parent and what is above it": every(
            lambda a, x: above(a, x) == And(Not(is_root(x)), Or(a == parent(x), above(a, parent(x))))
        ),
    }
)
"""What registration stores: each group has a parent or is a root, and was registered after its parent."""
EXCLUSION: Facts = {name: fact for name, fact in AXIOMS.items() if "exclu" in name}


@frozen
class Induction:
    """A claim for all numbers, as the obligations that it is proved by."""

    name: str
    clauses: tuple[str, ...]
    obligations: Callable[[Rules], Sequence[Obligation]]


def _for_depth(claim: Callable[[Term], Formula], tree: Facts = TREE, more: Facts = MappingProxyType({})) -> Obligation:
    """Return the base and step at once: what holds of all groups that are less deep than x holds of x."""
    less = every(lambda z: Implies(depth(z) < depth(X), claim(z)))
    return Obligation("what holds of the less deep holds of x", {**tree, **more, "of the less deep": less}, claim(X))


def _shallower(x: Term) -> Formula:
    return every(lambda a: Implies(above(a, x), depth(a) < depth(x)))


def _transitive(x: Term) -> Formula:
    return every(lambda a, b: Implies(And(above(a, b), above(b, x)), above(a, x)))


def _chained(x: Term) -> Formula:
    return every(lambda a, b: Implies(And(above(a, x), above(b, x)), Or(a == b, above(a, b), above(b, a))))


def _closed(x: Term) -> Formula:
    return Implies(before(x), every(lambda a: Implies(above(a, x), before(a))))


def ancestors(tree: Facts = TREE) -> Sequence[Obligation]:
    """Return the obligations for the axioms about ancestors, from parents alone."""
    shallower = {"what is above is less deep": every(_shallower)}
    return (
        _for_depth(_shallower, tree),
        Obligation("so no group is above itself", {**tree, **shallower}, every(lambda x: Not(above(x, x)))),
        _for_depth(_transitive, tree),
        _for_depth(_chained, tree),
    )


def _parents_active(state: State) -> Formula:
    return every(lambda x: Implies(And(state(x), Not(is_root(x))), state(parent(x))))


def by_parents(tree: Facts = TREE) -> Sequence[Obligation]:
    """Return the obligations for INV-1: active parents all the way up are active ancestors, and the other way round."""
    return (
        _for_depth(_closed, tree, {"parents are active": _parents_active(before)}),
        Obligation(
            "and parents are ancestors",
            {**tree, "ancestors are active": parents_active(FOREST, before)},
            _parents_active(before),
        ),
    )


def _legal(state: State) -> Formula:
    return And(parents_active(FOREST, state), exclusive(FOREST, state))


def requests(rules: Rules) -> Sequence[Obligation]:
    """Return the obligations for any sequence of requests: it begins legal, and each request keeps that."""

    def nothing(x: Term) -> Formula:
        return x != x

    updates = {
        "an activation": rules.activate,
        "a deactivation": rules.deactivate,
        "an activation of a path": rules.activate_path,
        "a restoration": rules.restore,
    }
    return (
        Obligation("without a request nothing is open", AXIOMS, _legal(nothing)),
        *(
            Obligation(f"{name} after n requests", {**AXIOMS, "legal after n": _legal(before)}, _legal(rule(before, G)))
            for name, rule in updates.items()
        ),
    )


def paths(rules: Rules) -> Sequence[Obligation]:
    """Return the obligations for depth: opening a path group by group gives the state of the path at once."""
    root = every(lambda x, y: Implies(is_root(x), opened(x, y) == rules.activate(before, x)(y)))
    nested = every(
        lambda x, y: Implies(Not(is_root(x)), opened(x, y) == rules.activate(lambda z: opened(parent(x), z), x)(y))
    )
    less = {
        "of its parent": Implies(
            Not(is_root(X)),
            every(lambda y: opened(parent(X), y) == rules.activate_path(before, parent(X))(y)),
        ),
        "the path begins with a root": root,
        "and goes on from the parent": nested,
        "legal before": _legal(before),
    }
    goal = opened(X, Y) == rules.activate_path(before, X)(Y)
    derived = {name: fact for name, fact in AXIOMS.items() if "ancestors" in name or "above" in name}
    tree = {name: fact for name, fact in TREE.items() if "above" in name}
    return (Obligation("what holds of the parent of x holds of x", {**derived, **EXCLUSION, **tree, **less}, goal),)


def reached(rules: Rules) -> Sequence[Obligation]:
    """Return the obligations for INV-4: with the topmost inactive group activated k times, k groups of a path are."""
    k = number("k")
    known = {**AXIOMS, "what is above is less deep": every(_shallower), "depths": every(lambda x: depth(x) >= 0)}

    def so_far(state: State, limit: Any) -> Formula:
        return every(lambda a: Implies(And(within(a, G), depth(a) < limit), state(a)))

    after = rules.activate(before, T)
    facts = {
        **known,
        "the first k of the path are active": so_far(before, k),
        "t is the next of the path": And(within(T, G), depth(T) == k),
    }

    def there(x: Term) -> Formula:
        return Implies(And(k >= 0, k <= depth(x)), some(lambda a: And(within(a, x), depth(a) == k)))

    return (
        _for_depth(there),
        Obligation("none has to be", known, so_far(before, z3.IntVal(0))),
        Obligation("the next one is activated, and none is closed", facts, so_far(after, k + 1)),
        Obligation("at last the group is", {**known, "all": so_far(before, depth(G) + 1)}, before(G)),
    )


def counts(rules: Rules, by: int = 1) -> Sequence[Obligation]:
    """Return the obligations for a count: a state without one of the active groups has fewer of them (ACT-10).

    Groups are numbered; `many(n)` and `left(n)` are how many of the first n are active before and after. So evictions
    come to an end: a count can't become less for ever.
    """
    after = rules.deactivate(before, G)
    n, gone = number("n"), number("gone")
    many, left = (z3.Function(name, z3.IntSort(), z3.IntSort()) for name in ("many", "left"))
    was, still = (z3.Function(name, z3.IntSort(), z3.BoolSort()) for name in ("was", "still"))

    def counted(count: Any, state: Any) -> Formula:
        return count(n + 1) == count(n) + z3.If(state(n), 1, 0)

    def claim(count: Any) -> Formula:
        return And(left(count) <= many(count), Implies(gone < count, left(count) + by <= many(count)))

    facts = {
        "none of none is active": And(many(0) == 0, left(0) == 0),
        "the next is counted": And(counted(many, was), counted(left, still)),
        "nothing is opened": Implies(still(n), was(n)),
        "one is closed": Implies(n == gone, And(was(n), Not(still(n)))),
        "numbers are not negative": And(n >= 0, gone >= 0),
    }
    return (
        Obligation(
            "what is evicted is closed, and nothing is opened",
            {"g is active": before(G)},
            And(Not(after(G)), every(lambda x: Implies(after(x), before(x)))),
        ),
        Obligation("of none, no more are left", facts, claim(z3.IntVal(0))),
        Obligation("of one more", {**facts, "of the first n": claim(n)}, claim(n + 1)),
    )


def least(begins: bool = True) -> Sequence[Obligation]:
    """Return the principle itself: a claim that holds of 0, and of n + 1 if of n, fails of no least number."""
    m = number("m")
    claim = z3.Function("claim", z3.IntSort(), z3.BoolSort())
    facts = {
        "it holds of n + 1 if of n": Implies(And(m > 0, claim(m - 1)), claim(m)),
        "m is the least of which it may not hold": And(m >= 0, Implies(m > 0, claim(m - 1))),
        **({"it holds of 0": claim(0)} if begins else {}),
    }
    return (Obligation("there is no least number of which it does not hold", facts, claim(m)),)


INDUCTIONS: tuple[Induction, ...] = (
    Induction("the least number principle", ("CNF-6",), lambda _: least()),
    Induction("ancestors by parents are a forest", ("REG-2",), lambda _: ancestors()),
    Induction("active parents are active ancestors", ("INV-1",), lambda _: by_parents()),
    Induction("any number of requests preserves INV-1 and INV-2", ("INV-1", "INV-2", "ACT-9"), requests),
    Induction("a path that is opened group by group is the path at once", ("ACT-9",), paths),
    Induction("any group is reached, however deep it is", ("INV-4",), reached),
    Induction("an eviction leaves fewer active groups", ("ACT-10",), counts),
)


@frozen
class Broken:
    """An induction with one fault, so that one of its obligations fails."""

    name: str
    of: str
    obligations: Sequence[Obligation]


def _unguarded(state: State, g: Term) -> State:
    return lambda x: Or(x == g, And(state(x), Not(displaced(g, x))))


def _closing_all_else(state: State, g: Term) -> State:
    return lambda x: Or(x == g, And(state(x), Not(granted(state, g))))


def _path_that_displaces_nothing(state: State, g: Term) -> State:
    return lambda x: Or(within(x, g), state(x))


def _without(name: str) -> Facts:
    return {known: fact for known, fact in TREE.items() if known != name}


BROKEN: tuple[Broken, ...] = (
    Broken("nothing holds of 0", "the least number principle", least(begins=False)),
    Broken(
        "a group may be as deep as its parent",
        "ancestors by parents are a forest",
        ancestors(_without("a group is one deeper than its parent")),
    ),
    Broken(
        "what is above has nothing to do with parents",
        "active parents are active ancestors",
        by_parents(_without("above are the parent and what is above it")),
    ),
    Broken(
        "activation has no precondition",
        "any number of requests preserves INV-1 and INV-2",
        requests(Rules(activate=_unguarded)),
    ),
    Broken(
        "a path displaces nothing",
        "a path that is opened group by group is the path at once",
        paths(Rules(activate_path=_path_that_displaces_nothing)),
    ),
    Broken(
        "activation closes all else",
        "any group is reached, however deep it is",
        reached(Rules(activate=_closing_all_else)),
    ),
    Broken("an eviction leaves two fewer", "an eviction leaves fewer active groups", counts(SPECIFIED, by=2)),
    Broken(
        "an eviction leaves the group itself",
        "an eviction leaves fewer active groups",
        counts(Rules(deactivate=lambda state, g: lambda x: And(state(x), Not(above(g, x))))),
    ),
)


@frozen
class Result:
    """What z3 answers to the obligations of an induction: the names of those that are not as expected."""

    name: str
    clauses: tuple[str, ...]
    obligations: int
    failures: tuple[str, ...]


def proved(induction: Induction) -> Result:
    """Return whether each obligation is proved, and its facts can hold, so that none is proved of nothing."""
    asked = induction.obligations(SPECIFIED)
    failures = [f"not proved: {one.name}" for one in asked if fulfilled(one).answer != "impossible"]
    anything = [evolve(one, goal=FALSE) for one in asked]
    failures += [f"vacuous: {one.name}" for one in anything if fulfilled(one, FEW).answer != "possible"]
    return Result(induction.name, induction.clauses, len(asked), tuple(failures))


def refuted(broken: Broken) -> bool:
    """Return whether an obligation of a broken induction has a counterexample of a few groups."""
    return any(fulfilled(one, FEW).answer == "possible" for one in broken.obligations)
