"""First-order logic of groups: a thin, typed layer on z3, which is untyped.

There is one sort, `Group`, with two relations, `above` and `excludes`, and a set, the groups that are active `before`.
They are uninterpreted, so what is proved about them holds for forests of any size. A state is a function from a group
to the formula that says whether it is active. An update maps one such function to another; it is substituted where it
is used, not axiomatised. So every query is in the decidable fragment ∃*∀* over one sort, without functions, where z3
finds an answer and models are finite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from itertools import product
from operator import itemgetter
from string import ascii_lowercase
from typing import Any, Literal, TypeAlias, cast

from attrs import frozen

z3: Any = import_module("z3")  # it is untyped

Term: TypeAlias = Any  # a group
Formula: TypeAlias = Any
State: TypeAlias = Callable[[Term], Formula]
Body: TypeAlias = (
    Callable[[Term], Formula] | Callable[[Term, Term], Formula] | Callable[[Term, Term, Term], Formula]
)  # of a quantifier
Facts: TypeAlias = Mapping[str, Formula]  # by their names in unsat cores

And: Callable[..., Formula] = z3.And
Or: Callable[..., Formula] = z3.Or
Not: Callable[[Formula], Formula] = z3.Not
Implies: Callable[[Formula, Formula], Formula] = z3.Implies
If: Callable[[Formula, Formula, Formula], Formula] = z3.If
FALSE: Formula = z3.BoolVal(False)

GROUP: Any = z3.DeclareSort("Group")
above: Callable[[Term, Term], Formula] = z3.Function("above", GROUP, GROUP, z3.BoolSort())
"""above(a, x): a is a proper ancestor of x."""
excludes: Callable[[Term, Term], Formula] = z3.Function("excludes", GROUP, GROUP, z3.BoolSort())
"""excludes(x, e): e is in `excl(x)`."""
before: State = z3.Function("before", GROUP, z3.BoolSort())
"""The state before the request: an arbitrary one."""
other: State = z3.Function("other", GROUP, z3.BoolSort())
"""A second arbitrary state, to compare with."""

own: State = z3.Function("own", GROUP, z3.BoolSort())
"""The groups that exist under the profile of a child."""
parents: State = z3.Function("parents", GROUP, z3.BoolSort())
"""The groups that exist under the profile of its parent."""

EFFORT = 2_000_000
"""The resource limit of z3 for one query, which, unlike a time limit, is deterministic."""
LARGEST = 6  # groups in a world to search for


def group(name: str) -> Term:
    """Return the constant of that name: an arbitrary group."""
    return z3.Const(name, GROUP)


def every(body: Body) -> Formula:
    """Return that `body` holds for all groups; it takes one argument for each quantified group."""
    return _bound(z3.ForAll, body)


def some(body: Body) -> Formula:
    """Return that `body` holds for some groups; it takes one argument for each quantified group."""
    return _bound(z3.Exists, body)


def _bound(quantifier: Callable[..., Formula], body: Body) -> Formula:
    # Fresh names, because z3 binds by name: a nested quantifier must not capture an outer variable.
    variables = [z3.FreshConst(GROUP, name) for name in signature(body).parameters]
    return quantifier(variables, cast(Callable[..., Formula], body)(*variables))


class AnyForest:
    """Forests of any size: the `toolfold_specs.properties.Forest` with the quantifiers of the logic."""

    def every(self, among: State, body: State, /) -> Formula:
        """Return that the body holds for every group of a set."""
        return every(lambda x: Implies(among(x), body(x)))

    def some(self, among: State, body: State, /) -> Formula:
        """Return that the body holds for some group of a set."""
        return some(lambda x: And(among(x), body(x)))

    def no(self, formula: Formula, /) -> Formula:
        """Return the negation."""
        return Not(formula)

    def above(self, x: Term, /) -> State:
        """Return the proper ancestors of a group."""
        return lambda a: above(a, x)

    def below(self, x: Term, /) -> State:
        """Return the proper descendants of a group."""
        return lambda c: above(x, c)

    def partners(self, x: Term, /) -> State:
        """Return the groups that share an exclusion set with one."""
        return lambda e: excludes(x, e)


FOREST = AnyForest()


@frozen
class Scene:
    """What to show of a world: the roles of groups, and named states in the order of events."""

    roles: Sequence[str]
    states: Mapping[str, State]


@frozen
class World:
    """A small model found by z3: groups, their relations, roles and states."""

    groups: tuple[str, ...]
    above: tuple[tuple[str, str], ...]
    excludes: tuple[tuple[str, str], ...]
    roles: Mapping[str, str]
    states: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        """Return a description."""
        exclusions = [
            f"{one} and {two} exclude one another" if (two, one) in self.excludes else f"{one} excludes {two} one-way"
            for one, two in self.excludes
            if one <= two or (two, one) not in self.excludes
        ]
        parts = [
            f"groups {', '.join(self.groups)}",
            *(f"{lower} is below {upper}" for upper, lower in self.above),
            *exclusions,
            *(f"{role} is {name}" for role, name in self.roles.items() if role != name),
            *(f"{state}: {', '.join(active) or 'none'}" for state, active in self.states.items()),
        ]
        return "; ".join(parts)


@frozen
class Obligation:
    """What has to be proved for an induction: the facts imply the goal."""

    name: str
    facts: Facts
    goal: Formula


def number(name: str) -> Any:
    """Return the constant of that name: an arbitrary whole number."""
    return z3.Int(name)


def fulfilled(obligation: Obligation, largest: int | None = None) -> Finding:
    """Return whether an obligation can fail: "impossible" if it is proved.

    With `largest` only worlds of so many groups are looked at, in which every answer is found.
    """
    solver = z3.Solver()
    solver.set("rlimit", EFFORT * 5)
    for name, fact in obligation.facts.items():
        solver.assert_and_track(fact, name)
    solver.add(Not(obligation.goal))
    if largest is not None:
        solver.add(_are_all([z3.Const(f"member {number}", GROUP) for number in range(largest)]))
    answer = solver.check()
    if answer == z3.unsat:
        return Finding("impossible", core=tuple(sorted(map(str, solver.unsat_core()))))
    return Finding("possible") if answer == z3.sat else Finding("unknown", reason=str(solver.reason_unknown()))


@frozen
class Finding:
    """Whether facts are satisfiable."""

    answer: Literal["possible", "impossible", "unknown"]
    core: tuple[str, ...] = ()
    """The names of facts that are unsatisfiable, if they are impossible."""
    reason: str = ""
    """Why the answer is unknown, if it is."""


def ask(facts: Facts) -> Finding:
    """Return whether the facts are satisfiable in a world of any size."""
    solver = _solver()
    for name, fact in facts.items():
        solver.assert_and_track(fact, name)
    answer = solver.check()
    if answer == z3.sat:
        return Finding("possible")
    if answer == z3.unsat:
        core = {str(name) for name in solver.unsat_core()}
        return Finding("impossible", core=tuple(name for name in facts if name in core))
    return Finding("unknown", reason=str(solver.reason_unknown()))


def smallest_world(facts: Iterable[Formula], scene: Scene, least: int = 1) -> World | None:
    """Return a smallest world in which the facts hold, or `None` if there is none of up to `LARGEST` groups.

    `least` is a lower bound of its size.
    """
    solver = _solver()
    solver.add(*facts)
    for size in range(least, LARGEST + 1):
        members = [z3.Const(f"member {number}", GROUP) for number in range(size)]
        solver.push()
        solver.add(_are_all(members))
        if solver.check() == z3.sat:
            return _read(solver.model(), members, scene)
        solver.pop()
    return None


def _are_all(members: Sequence[Term]) -> Formula:
    return every(lambda x: Or(*(x == member for member in members)))


def _read(model: Any, members: Sequence[Term], scene: Scene) -> World:
    def holds(formula: Formula) -> bool:
        return bool(z3.is_true(model.eval(_among(members, formula), model_completion=True)))

    roles = {role: next(member for member in members if holds(group(role) == member)) for role in scene.roles}
    names = _names(members, roles)
    named = sorted(names.items(), key=itemgetter(1))
    pairs = [(one, two) for one in named for two in named]
    return World(
        groups=tuple(name for _, name in named),
        above=tuple((upper, lower) for (one, upper), (two, lower) in pairs if holds(above(one, two))),
        excludes=tuple((name, excluded) for (one, name), (two, excluded) in pairs if holds(excludes(one, two))),
        roles={role: names[member] for role, member in roles.items()},
        states={
            name: tuple(called for member, called in named if holds(state(member)))
            for name, state in scene.states.items()
        },
    )


def _among(members: Sequence[Term], formula: Formula) -> Formula:
    """Return the formula with its quantifiers expanded over `members`, because models don't evaluate quantifiers."""
    if z3.is_quantifier(formula):
        choices = product(members, repeat=formula.num_vars())
        instances = [_among(members, z3.substitute_vars(formula.body(), *choice)) for choice in choices]
        return And(*instances) if formula.is_forall() else Or(*instances)
    parts = [(part, _among(members, part)) for part in formula.children() if z3.is_bool(part)]
    return z3.substitute(formula, *parts) if parts else formula


def _names(members: Sequence[Term], roles: Mapping[str, Term]) -> dict[Term, str]:
    """Return the name of each group: its first role, or a letter."""
    names: dict[Term, str] = {}
    for role, member in roles.items():
        names.setdefault(member, role)
    letters = (letter for letter in ascii_lowercase if letter not in roles)
    return {member: names.get(member) or next(letters) for member in members}


def _solver() -> Any:
    solver = z3.SolverFor("UF")
    solver.set("rlimit", EFFORT)
    solver.set("core.minimize", True)  # a core has only what it needs
    return solver
