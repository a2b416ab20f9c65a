"""The configuration: the states of all regions of a forest at one moment, as an immutable value.

Equal configurations of one forest are one object while any of them is in use, so they are compared by identity, and
what is computed for one is shared by all sessions in it.
"""

from __future__ import annotations

from functools import cached_property

from attrs import frozen

from .forest import Forest
from .table import RegionState


@frozen(eq=False, repr=False, weakref_slot=True)
class Configuration:
    """The states of a forest's regions; make one with `initial`, others with `planner.plan` and `planner.restore`.

    `active` and `locked` are bit sets of groups; all others are inactive. `order` holds the numbers of the active
    groups, the longest-active first, where the forest evicts by age (SPEC ACT-10), else it is empty.
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
