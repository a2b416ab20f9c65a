"""The properties of the machine, each stated once under its clause: ALWAYS holds, and SOMETIMES occurs.

A property is a formula about one transition: a request, the groups active before it, and those active after it. The
`Forest` of the transition interprets the quantifiers: as loops over a given system (`Finite`), or as quantifiers over
forests of any size (`verification.proofs.logic`). So the kit, the exhaustive tests, the reference model and the proofs
share the text.

An ALWAYS may hold vacuously. So each has a SOMETIMES with the same clause, a situation in which it could fail, and the
kit counts a clause as held only if such a situation occurred. INV-4 and INV-5 are about several transitions and are
shown by exploration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

from attrs import frozen

Group: TypeAlias = Any  # a number, or a term of a proof
Formula: TypeAlias = Any  # a bool, or a formula of a proof: both have & and |
Groups: TypeAlias = Callable[[Group], Formula]
"""A set of groups, as its membership function."""
Request: TypeAlias = Literal["activate", "deactivate", "restore", "transition"]


class Forest(Protocol):
    """Groups with their ancestors and exclusions, and the logic of formulas about them."""

    def every(self, among: Groups, body: Groups, /) -> Formula:
        """Return that the body holds for every group of a set."""
        ...

    def some(self, among: Groups, body: Groups, /) -> Formula:
        """Return that the body holds for some group of a set."""
        ...

    def no(self, formula: Formula, /) -> Formula:
        """Return the negation."""
        ...

    def above(self, group: Group, /) -> Groups:
        """Return the proper ancestors of a group."""
        ...

    def below(self, group: Group, /) -> Groups:
        """Return the proper descendants of a group."""
        ...

    def partners(self, group: Group, /) -> Groups:
        """Return the groups that share an exclusion set with one."""
        ...


def parents_active(forest: Forest, state: Groups) -> Formula:
    """Return that a state satisfies INV-1."""
    return forest.every(state, lambda x: forest.every(forest.above(x), state))


def exclusive(forest: Forest, state: Groups) -> Formula:
    """Return that a state satisfies INV-2."""
    return forest.every(state, lambda x: forest.every(forest.partners(x), lambda e: forest.no(state(e))))


@frozen
class Step:
    """A request in a state, and the state after it; `group` is None in a transition of several requests."""

    forest: Forest
    request: Request
    group: Group
    before: Groups
    after: Groups

    @property
    def activates(self) -> bool:
        """Whether it is a request to activate."""
        return self.request == "activate"

    def within(self, top: Group, x: Group) -> Formula:
        """Return that a group is `top` or a descendant of it."""
        return (x == top) | self.forest.below(top)(x)

    @cached_property
    def granted(self) -> Formula:
        """All ancestors of the group are active."""
        return self.forest.every(self.forest.above(self.group), self.before)

    @cached_property
    def unchanged(self) -> Formula:
        """The state after is the state before."""
        return self.forest.every(self.before, self.after) & self.forest.every(self.after, self.before)

    @cached_property
    def activated(self) -> Formula:
        """The group was inactive and is active."""
        return self.forest.no(self.before(self.group)) & self.after(self.group)

    def displaced(self, x: Group) -> Formula:
        """Return that activating the group displaces another: a partner or a descendant of one."""
        return self.partner(lambda e: self.within(e, x))

    def partner(self, body: Groups) -> Formula:
        """Return that the body holds for some partner of the group."""
        return self.forest.some(self.forest.partners(self.group), body)

    def deactivated(self, x: Group) -> Formula:
        """Return that a group was active and no longer is."""
        return self.before(x) & self.forest.no(self.after(x))

    def stayed(self, x: Group) -> Formula:
        """Return that a group was active and still is."""
        return self.before(x) & self.after(x)

    def misread(self, x: Group) -> Formula:
        """Return that a group would be displaced if exclusion were transitive or inherited (SPEC ACT-7)."""
        forest, group = self.forest, self.group

        def excludes(other: Group) -> Formula:
            return forest.some(forest.partners(other), lambda e: self.within(e, x))

        inherited = forest.some(forest.above(group), excludes) | forest.some(forest.below(group), excludes)
        by_ancestor = self.partner(
            lambda e: forest.some(forest.above(e), lambda p: self.within(p, x) | excludes(p)) | excludes(e)
        )
        return inherited | by_ancestor


ANY: tuple[Request, ...] = ("activate", "deactivate", "restore", "transition")
SINGLE: tuple[Request, ...] = ("activate", "deactivate")


@frozen
class Property:
    """A formula about transitions, with its clause, its name in words, and the requests that it applies to."""

    clause: str
    name: str
    formula: Callable[[Step], Formula]
    requests: tuple[Request, ...]

    def __call__(self, step: Step) -> Formula:
        """Return the formula for a transition with one of these requests."""
        return self.formula(step)

    def __str__(self) -> str:
        return f"{self.clause}: {self.name}"


def _satisfied(step: Step) -> Formula:
    return step.before(step.group) if step.activates else step.forest.no(step.before(step.group))


def _nothing_else(step: Step) -> Formula:
    removed: Groups = step.displaced if step.activates else lambda x: step.within(step.group, x)
    possible: Groups = (lambda x: (x == step.group) | step.before(x)) if step.activates else step.before
    forest = step.forest
    return forest.every(step.before, lambda x: removed(x) | step.after(x)) & forest.every(step.after, possible)


ALWAYS: Sequence[Property] = (
    Property("INV-1", "active groups have active parents", lambda s: parents_active(s.forest, s.after), ANY),
    Property("INV-2", "no two active groups exclude one another", lambda s: exclusive(s.forest, s.after), ANY),
    Property("ACT-2", "a refused request changes nothing", lambda s: s.granted | s.unchanged, ("activate",)),
    Property(
        "ACT-3", "a satisfied request changes nothing", lambda s: s.forest.no(_satisfied(s)) | s.unchanged, SINGLE
    ),
    Property(
        "ACT-4",
        "the group is activated, and displaced groups are deactivated",
        lambda s: (
            s.forest.no(s.granted)
            | s.after(s.group)
            & s.forest.every(s.forest.above(s.group), s.after)
            & s.forest.every(s.after, lambda x: s.forest.no(s.displaced(x)))
        ),
        ("activate",),
    ),
    Property(
        "ACT-5",
        "the group is deactivated with its descendants",
        lambda s: s.forest.every(s.after, lambda x: s.forest.no(s.within(s.group, x))),
        ("deactivate",),
    ),
    Property(
        "ACT-8",
        "no descendant is activated with the group",
        lambda s: s.forest.every(s.forest.below(s.group), lambda x: s.before(x) | s.forest.no(s.after(x))),
        ("activate",),
    ),
    Property(
        "ACT-7",
        "exclusion is neither transitive nor inherited",
        lambda s: s.forest.every(s.before, lambda x: s.after(x) | s.displaced(x) | s.forest.no(s.misread(x))),
        ("activate",),
    ),
    Property("ACT-6", "nothing else changes", _nothing_else, SINGLE),
)
"""In the order in which a wrong state is attributed to them, the most specific first."""

SOMETIMES: Sequence[Property] = (
    Property(
        "INV-1",
        "a group is deactivated with a descendant",
        lambda s: s.forest.some(s.before, lambda x: s.deactivated(x) & s.forest.some(s.forest.below(x), s.deactivated)),
        ("activate", "deactivate", "transition"),
    ),
    Property("INV-2", "a partner is displaced", lambda s: s.partner(s.deactivated), ("activate",)),
    Property(
        "ACT-2",
        "a group below two inactive ones is refused",
        lambda s: s.forest.some(
            s.forest.above(s.group),
            lambda a: s.forest.no(s.before(a)) & s.forest.some(s.forest.below(a), lambda b: _inactive_above(s, b)),
        ),
        ("activate",),
    ),
    Property("ACT-3", "a request is already satisfied", _satisfied, SINGLE),
    Property(
        "ACT-4",
        "a partner is displaced with a descendant",
        lambda s: s.partner(lambda e: s.deactivated(e) & s.forest.some(s.forest.below(e), s.deactivated)),
        ("activate",),
    ),
    Property(
        "ACT-4",
        "several partners are displaced at once",
        lambda s: s.partner(lambda e: s.deactivated(e) & s.partner(lambda d: s.forest.no(d == e) & s.deactivated(d))),
        ("activate",),
    ),
    Property(
        "ACT-5",
        "a group is deactivated with a grandchild",
        lambda s: s.forest.some(s.forest.below(s.group), lambda c: s.forest.some(s.forest.below(c), s.deactivated)),
        ("deactivate",),
    ),
    Property(
        "ACT-6",
        "another group stays active",
        lambda s: (s.activated if s.activates else s.deactivated(s.group)) & s.forest.some(s.before, s.after),
        SINGLE,
    ),
    Property(
        "ACT-7",
        "a nested partner is displaced, and its parent stays active",
        lambda s: s.partner(lambda e: s.deactivated(e) & s.forest.some(s.forest.above(e), s.stayed)),
        ("activate",),
    ),
    Property(
        "ACT-7",
        "a partner of a partner stays active",
        lambda s: s.activated & s.partner(lambda e: s.forest.some(s.forest.partners(e), s.stayed)),
        ("activate",),
    ),
    Property(
        "ACT-7",
        "a partner of a descendant stays active",
        lambda s: s.activated & s.forest.some(s.forest.below(s.group), lambda c: _partner_of(s, c)),
        ("activate",),
    ),
    Property(
        "ACT-8",
        "a group with descendants is activated",
        lambda s: s.activated & s.forest.some(s.forest.below(s.group), lambda c: s.forest.no(s.before(c))),
        ("activate",),
    ),
)
"""Situations that must occur, each with the clause that could fail in it."""


def _inactive_above(step: Step, x: Group) -> Formula:
    return step.forest.below(x)(step.group) & step.forest.no(step.before(x))


def _partner_of(step: Step, x: Group) -> Formula:
    return step.forest.some(step.forest.partners(x), step.stayed)


def broken(step: Step) -> Iterable[Property]:
    """Return the properties in `ALWAYS` that a transition in a given system violates."""
    return (known for known in ALWAYS if step.request in known.requests and not known(step))


class Members(frozenset[int]):
    """A set of groups that is also its membership function."""

    def __call__(self, group: int) -> bool:
        """Return whether a group is a member."""
        return group in self


class Finite:
    """A given forest: its groups are numbers, and its quantifiers are loops."""

    def __init__(self, parents: Sequence[int | None], exclusions: Iterable[frozenset[int]]) -> None:
        above: list[Members] = []
        for parent in parents:
            above.append(Members() if parent is None else Members({parent, *above[parent]}))
        groups = range(len(parents))
        sets = tuple(exclusions)
        self._above = above
        self._below = [Members(x for x in groups if group in above[x]) for group in groups]
        self._partners = [Members(x for some in sets if group in some for x in some - {group}) for group in groups]

    def every(self, among: Groups, body: Groups, /) -> bool:
        """Return whether the body holds for every group of a set."""
        return all(map(body, _members(among)))

    def some(self, among: Groups, body: Groups, /) -> bool:
        """Return whether the body holds for some group of a set."""
        return any(map(body, _members(among)))

    def no(self, formula: bool, /) -> bool:
        """Return the negation."""
        return not formula

    def above(self, group: int, /) -> Members:
        """Return the proper ancestors of a group."""
        return self._above[group]

    def below(self, group: int, /) -> Members:
        """Return the proper descendants of a group."""
        return self._below[group]

    def partners(self, group: int, /) -> Members:
        """Return the groups that share an exclusion set with one."""
        return self._partners[group]


def _members(among: Groups) -> Members:
    assert isinstance(among, Members)
    return among
