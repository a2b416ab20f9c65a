"""The reference model: the activation rules in sets, written to be read, not to be fast.

A set of groups is consistent if it contains the parent of each of its groups and at most one member of each exclusion
set. Activating a group leads to the greatest consistent subset of the active groups and that group which contains it;
deactivating a group leads to the greatest consistent subset without it. Everything else is bookkeeping.

Nothing is imported from the library; the invariants are in `properties.py`. Groups are the numbers 0..n-1, every
function is total on them, and the identifiers ACT-n and INV-n name the rules.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, TypeAlias, TypeVar

from .properties import Finite, Members, exclusive, parents_active

Parents: TypeAlias = tuple[int | None, ...]
State: TypeAlias = frozenset[int]
Order: TypeAlias = tuple[int, ...]
Kind: TypeAlias = Literal["changed", "unchanged", "refused"]
Error: TypeAlias = Literal["ParentInactive", "ExclusionConflict", "QuotaExceeded"]
Region: TypeAlias = Literal["locked", "inactive", "active"]

S = TypeVar("S", bound=Hashable)


def ancestors_of(parents: Parents, group: int) -> tuple[int, ...]:
    """The proper ancestors of a group, the topmost first."""
    parent = parents[group]
    return () if parent is None else (*ancestors_of(parents, parent), parent)


def legal_exclusion(parents: Parents, members: frozenset[int]) -> bool:
    """Whether an exclusion set may be registered: two members or more, none an ancestor of another."""
    return len(members) >= 2 and not any(members & set(ancestors_of(parents, member)) for member in members)


@dataclass(frozen=True)
class System:
    """A forest of groups, each with a parent of a smaller number or none, and its exclusion sets."""

    parents: Parents
    exclusions: tuple[frozenset[int], ...] = ()

    def __post_init__(self) -> None:
        for group, parent in enumerate(self.parents):
            if parent is not None and not 0 <= parent < group:
                raise ValueError(f"the parent of group {group} must have a smaller number, not {parent}")
        for members in self.exclusions:
            if not members <= set(self.groups) or not legal_exclusion(self.parents, members):
                raise ValueError(f"not a legal exclusion set: {sorted(members)}")

    @property
    def groups(self) -> range:
        """The numbers of the groups."""
        return range(len(self.parents))

    @cached_property
    def forest(self) -> Finite:
        """The forest in which formulas are evaluated."""
        return Finite(self.parents, self.exclusions)

    def ancestors(self, group: int) -> tuple[int, ...]:
        """anc*(g): the proper ancestors, the topmost first."""
        return ancestors_of(self.parents, group)

    def subtree(self, group: int) -> frozenset[int]:
        """sub*(g): the group with its descendants."""
        return self.forest.below(group) | {group}

    def excluded(self, group: int) -> frozenset[int]:
        """excl(g): the groups that share an exclusion set with it."""
        return self.forest.partners(group)

    def paths(self) -> tuple[str, ...]:
        """The dotted path of every group, by number."""
        return tuple(".".join(f"g{step}" for step in (*self.ancestors(group), group)) for group in self.groups)

    def canonical(self, groups: Iterable[int]) -> tuple[int, ...]:
        """The distinct groups in canonical order: an ancestor before its descendants, else by number."""
        return tuple(sorted(set(groups), key=lambda group: (*self.ancestors(group), group)))


@dataclass(frozen=True)
class Answer(Generic[S]):
    """The answer to a request, with the state after it, which is the state before unless the kind is "changed"."""

    kind: Kind
    state: S
    error: Error | None = None
    detail: int | None = None
    """For ParentInactive the topmost inactive ancestor."""


def _settled(before: S, after: S) -> Answer[S]:
    return Answer("unchanged" if after == before else "changed", after)


def region(system: System, state: State, group: int) -> Region:
    """The state of the group's own region of the machine."""
    if not state.issuperset(system.ancestors(group)):
        return "locked"
    return "active" if group in state else "inactive"


def legal(system: System, state: State) -> bool:
    """INV-1 and INV-2."""
    members = Members(state)
    return bool(parents_active(system.forest, members) and exclusive(system.forest, members))


def supported(system: System, groups: State) -> State:
    """The greatest subset that contains the parent of each of its groups (INV-1)."""
    with_parent = frozenset(group for group in groups if (parent := system.parents[group]) is None or parent in groups)
    return with_parent if with_parent == groups else supported(system, with_parent)


def activate(system: System, state: State, group: int) -> Answer[State]:
    """ACT-2, ACT-3, ACT-4."""
    if group in state:
        return Answer("unchanged", state)
    for ancestor in system.ancestors(group):
        if ancestor not in state:
            return Answer("refused", state, "ParentInactive", ancestor)
    return Answer("changed", supported(system, state - system.excluded(group)) | {group})


def deactivate(system: System, state: State, group: int) -> Answer[State]:
    """ACT-3, ACT-5."""
    if group not in state:
        return Answer("unchanged", state)
    return Answer("changed", supported(system, state - {group}))


_activate_one, _deactivate_one = activate, deactivate


def step(system: System, state: State, activate: Sequence[int] = (), deactivate: Sequence[int] = ()) -> Answer[State]:
    """ACT-9: one atomic transition, refused as a whole with its first refused activation.

    It is also refused if an activation displaces a requested group, even one that was active before. A transition that
    ends in the state it began with is unchanged.
    """
    now = state
    for group in deactivate:
        now = _deactivate_one(system, now, group).state
    satisfied: set[int] = set()
    for group in system.canonical(activate):
        answer = _activate_one(system, now, group)
        if answer.kind == "refused":
            return Answer("refused", state, answer.error, answer.detail)
        if not satisfied <= answer.state:
            return Answer("refused", state, "ExclusionConflict")
        satisfied.add(group)
        now = answer.state
    return _settled(state, now)


def step_within(
    system: System,
    order: Order,
    activate: Sequence[int] = (),
    deactivate: Sequence[int] = (),
    *,
    limit: int | None = None,
    evict_oldest: bool = False,
    pinned: frozenset[int] = frozenset(),
    weights: Sequence[int] = (),
    room: int | None = None,
) -> Answer[Order]:
    """ACT-10, FND-3: a transition under limits, on the active groups in order of their activation, the oldest first.

    `limit` is the number of active groups, `room` their total weight. Where only the weight is too great, a group that
    weighs nothing with all below it is not evicted. The limits apply once, to the result of the whole transition, and
    only if it activates a group. A group that is active before and after keeps its place; newly activated groups follow
    in canonical order.
    """
    before = frozenset(order)
    answer = step(system, before, activate, deactivate)
    if answer.kind == "refused":
        return Answer("refused", order, answer.error, answer.detail)
    after = answer.state
    if after - before:
        required = set(activate) | (pinned & after)
        required |= {ancestor for group in required for ancestor in system.ancestors(group)}
        while (many := limit is not None and len(after) > limit) or (
            room is not None and sum(weights[group] for group in after) > room
        ):
            evictable = [
                group
                for group in order
                if group in after
                and group not in required
                and (many or any(weights[below] for below in system.subtree(group) & after))
            ]
            if not evict_oldest or not evictable:
                return Answer("refused", order, "QuotaExceeded")
            after -= system.subtree(evictable[0])
    stayed = tuple(group for group in order if group in after)
    return _settled(order, stayed + system.canonical(after - before))
