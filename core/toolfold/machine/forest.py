"""The forest: groups by path, their parents, and the sets of groups that exclude one another (SPEC 1, ACT-7).

A configuration is the states of all its regions at one moment. Equal ones of one forest are one object while any of
them is in use, so they are compared by identity, and what is computed for one is shared by all sessions in it.

A group's number is its place in canonical order, so a set of groups is an integer used as a bit set, its ascending bits
are the canonical order, and an ancestor's bit is below its descendants'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import Any
from weakref import WeakValueDictionary

from attrs import field

from .._names import ancestors, canonical_key, check_name
from .._values import frozen
from ..errors import DuplicateName, ExclusionConflict, GroupNotFound
from .table import RegionState


def bits(mask: int) -> list[int]:
    """Return the numbers in a bit set, ascending: the canonical order."""
    numbers: list[int] = []
    while mask:
        low = mask & -mask
        numbers.append(low.bit_length() - 1)
        mask ^= low
    return numbers


@frozen(eq=False)
class Forest:
    """An immutable forest of groups; make one with `Forest.of`.

    All tuples are indexed by a group's number and hold bit sets of numbers: `ancestors[g]`, `children[g]` and
    `descendants[g]` without g, `subtree[g]` with it, `partners[g]` (who excludes g), and `displaces[g]` (the partners
    with all below them). Configurations of an `ordered` forest know in which order their groups became active.
    """

    paths: tuple[str, ...]
    exclusions: tuple[frozenset[str], ...]
    ordered: bool
    index: Mapping[str, int]
    ancestors: tuple[int, ...]
    children: tuple[int, ...]
    descendants: tuple[int, ...]
    subtree: tuple[int, ...]
    partners: tuple[int, ...]
    displaces: tuple[int, ...]
    roots: int
    interned: WeakValueDictionary[Any, Any] = field(init=False, factory=WeakValueDictionary[Any, Any], repr=False)

    @classmethod
    def of(
        cls,
        paths: Iterable[str],
        exclusions: Iterable[Iterable[str]] = (),
        *,
        ordered: bool = False,
    ) -> Forest:
        """Return the forest of some groups.

        Args:
            paths: The groups, or one; `"a.b"` is in `"a"`, which must be given too.
            exclusions: Sets of groups of which at most one may be active.
            ordered: Whether configurations differ by the order in which their groups became active.

        Raises:
            InvalidName, DuplicateName: A group has no valid name, or is given twice.
            GroupNotFound: A parent, or a group in an exclusion set, is not among the groups.
            ExclusionConflict: A group and an ancestor of it can't exclude one another, nor can fewer than two different
                groups (SPEC REG-3).
        """
        in_order = tuple(sorted(map(check_name, paths_of(paths)), key=canonical_key))
        index = {path: number for number, path in enumerate(in_order)}
        if len(index) < len(in_order):
            raise DuplicateName("group", next(one for one, other in pairwise(in_order) if one == other))
        above = [_numbers(index, ancestors(path)) for path in in_order]
        children, descendants = [0] * len(in_order), [0] * len(in_order)
        for number, mask in enumerate(above):
            for ancestor in bits(mask):
                descendants[ancestor] |= 1 << number
            if mask:
                children[mask.bit_length() - 1] |= 1 << number
        sets = tuple(map(exclusion_of, exclusions))
        alone = [1 << number for number in range(len(in_order))]
        subtree = [own | below for own, below in zip(alone, descendants, strict=True)]
        return cls(
            paths=in_order,
            exclusions=sets,
            ordered=ordered,
            index=MappingProxyType(index),
            ancestors=tuple(above),
            children=tuple(children),
            descendants=tuple(descendants),
            subtree=tuple(subtree),
            partners=_excluded(sets, index, alone),
            displaces=_excluded(sets, index, subtree),
            roots=sum(own for own, mask in zip(alone, above, strict=True) if not mask),
        )

    def number(self, path: str) -> int:
        """Return the number of a group, or raise `GroupNotFound` with near matches.

        SPEC ACT-1, ERR-2.
        """
        try:
            return self.index[path]
        except (KeyError, TypeError):  # a list can't be looked up
            raise GroupNotFound(path, self.paths) from None

    def mask(self, paths: Iterable[str]) -> int:
        """Return groups as a bit set; raises `GroupNotFound`."""
        return sum({1 << self.number(path) for path in paths})

    def named(self, mask: int) -> tuple[str, ...]:
        """Return the paths of the groups in a bit set, in canonical order."""
        return tuple(self.paths[number] for number in bits(mask))


@frozen(eq=False, repr=False, weakref_slot=True)
class Configuration:
    """The states of a forest's regions; make one with `initial`, others with `planner.plan` and `planner.restore`.

    `active` and `locked` are bit sets of groups; all others are inactive. `order` holds the numbers of the active
    groups, the longest-active first, where the forest is ordered (SPEC ACT-10), else it is empty.
    """

    forest: Forest
    active: int
    locked: int
    order: tuple[int, ...] = ()

    @classmethod
    def of(cls, forest: Forest, active: int, locked: int, order: tuple[int, ...] = ()) -> Configuration:
        """Return the one configuration of these values; they are not checked."""
        key = (active, locked, order)
        found = forest.interned.get(key)
        if found is None:
            found = forest.interned[key] = cls(forest, active, locked, order)
        return found

    @classmethod
    def initial(cls, forest: Forest) -> Configuration:
        """Return the configuration in which no group is active."""
        everything = (1 << len(forest.paths)) - 1
        return cls.of(forest, 0, everything & ~forest.roots)

    def __repr__(self) -> str:
        return f"<Configuration: {', '.join(self.paths) or 'no group'} active of {len(self.forest.paths)}>"

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The paths of the active groups, in canonical order."""
        return self.forest.named(self.active)

    @property
    def oldest_first(self) -> tuple[str, ...]:
        """The paths of the active groups: the longest-active first where that is known, else in canonical order."""
        return tuple(self.forest.paths[number] for number in self.order) or self.paths

    def state(self, number: int) -> RegionState:
        """Return the state of the region of the group `number`."""
        if self.active >> number & 1:
            return RegionState.ACTIVE
        return RegionState.LOCKED if self.locked >> number & 1 else RegionState.INACTIVE

    def is_active(self, path: str) -> bool:
        """Return whether the group is active; an unknown one is not."""
        number = self.forest.index.get(path)
        return number is not None and bool(self.active >> number & 1)


def paths_of(paths: Iterable[str]) -> tuple[str, ...]:
    """Return group paths as a tuple; a single text is one path, not its letters."""
    return (paths,) if isinstance(paths, str) else tuple(paths)


def exclusion_of(paths: Iterable[str]) -> frozenset[str]:
    """Return an exclusion set: two or more different groups, of which none contains another (SPEC REG-3)."""
    given = paths_of(paths)
    if len(members := frozenset(given)) < 2 or len(members) != len(given):
        named = ", ".join(map(repr, given)) or "none"
        raise ExclusionConflict(given, f"An exclusion set needs two or more different groups, and not: {named}.")
    for path in sorted(members):
        if above := members.intersection(ancestors(path)):
            outer = min(above)
            problem = f"{outer!r} contains {path!r}, which needs it active, so they can't exclude one another."
            raise ExclusionConflict((outer, path), problem)
    return members


def _numbers(index: Mapping[str, int], paths: Iterable[str]) -> int:
    mask = 0
    for path in paths:
        if path not in index:
            raise GroupNotFound(path, tuple(index))
        mask |= 1 << index[path]
    return mask


def _excluded(exclusions: Iterable[frozenset[str]], index: Mapping[str, int], with_each: list[int]) -> tuple[int, ...]:
    """Return for each group the bit set of those that exclude it, each as `with_each` gives it."""
    excluded = [0] * len(with_each)
    for exclusion in exclusions:
        members = bits(_numbers(index, exclusion))
        everyone = 0
        for member in members:
            everyone |= with_each[member]
        for member in members:
            excluded[member] |= everyone & ~with_each[member]
    return tuple(excluded)
