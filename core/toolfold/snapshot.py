"""The snapshot: the immutable value `(catalog, active groups, facts)` (SPEC 1).

Equal snapshots of one catalog are one object while any of them is in use, so what is worked out for a state, such as
its list, is worked out once and shared by every session in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from .catalog import Catalog, bits

NO_FACTS: Mapping[str, Any] = MappingProxyType({})


@frozen(eq=False, weakref_slot=True)
class Snapshot:
    """One state of one session; compare by identity.

    `mask` holds the active groups as a bit set, `order` their numbers in order of activation where the catalog's quota
    needs it (SPEC ACT-10), else it is empty. Make one with `Snapshot.of`.
    """

    catalog: Catalog
    mask: int
    order: tuple[int, ...] = ()
    facts: Mapping[str, Any] = NO_FACTS
    memo: dict[Any, Any] = field(init=False, factory=dict[Any, Any], repr=False)

    @classmethod
    def of(
        cls, catalog: Catalog, mask: int = 0, order: tuple[int, ...] = (), facts: Mapping[str, Any] = NO_FACTS
    ) -> Snapshot:
        """Return the one snapshot of these values."""
        key: Hashable = (mask, order, repr(sorted(facts.items()))) if facts or order else mask
        found = catalog.interned.get(key)
        if found is None:
            found = cls(catalog, mask, order, MappingProxyType(dict(facts)) if facts else NO_FACTS)
            catalog.interned[key] = found
        return found

    @cached_property
    def active(self) -> tuple[str, ...]:
        """The paths of the active groups, in canonical order."""
        return tuple(self.catalog.groups[number].path for number in bits(self.mask))

    def is_active(self, path: str) -> bool:
        """Return whether the group is active; an unknown one is not."""
        number = self.catalog.index.get(path)
        return number is not None and bool(self.mask >> number & 1)

    def with_facts(self, facts: Mapping[str, Any]) -> Snapshot:
        """Return this snapshot with other facts."""
        return Snapshot.of(self.catalog, self.mask, self.order, facts)

    def moved_to(self, catalog: Catalog) -> Snapshot:
        """Return the same state in another catalog, normalised; see `normalise` (SPEC REG-7)."""
        if catalog is self.catalog:
            return self
        paths = [group.path for group in self.catalog.groups]
        in_order = [paths[number] for number in self.order] if self.order else self.active
        kept, _ = normalise(catalog, in_order)
        return Snapshot.of(catalog, mask_of(catalog, kept), order_of(catalog, kept), self.facts)


def mask_of(catalog: Catalog, paths: Iterable[str]) -> int:
    """Return groups as a bit set; raises `GroupNotFound`."""
    mask = 0
    for path in paths:
        mask |= 1 << catalog.number(path)
    return mask


def order_of(catalog: Catalog, paths: Iterable[str]) -> tuple[int, ...]:
    """Return the activation order to keep for groups given oldest first: empty unless the quota needs it."""
    return tuple(catalog.index[path] for path in paths) if catalog.evict_oldest else ()


def normalise(catalog: Catalog, paths: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return `(kept, dropped)`: what of a set of active groups is a legal state of `catalog` (SPEC PER-2).

    Unknown groups are dropped, then those without active parents, then, of an exclusion set, all but the first in
    canonical order with whatever is below the dropped ones.
    """
    asked = list(dict.fromkeys(paths))
    mask = mask_of(catalog, (path for path in asked if path in catalog.index))
    for number in bits(mask):
        if catalog.ancestors[number] & ~mask:
            mask &= ~(1 << number)
    for number in bits(mask):
        if mask >> number & 1:
            mask &= ~catalog.displaces[number]
    kept = [path for path in asked if path in catalog.index and mask >> catalog.index[path] & 1]
    return kept, [path for path in asked if path not in kept]
