"""The snapshot: the immutable value `(catalog, configuration, facts)` (SPEC 1).

Equal snapshots of one catalog are one object while any of them is in use, so what is computed for a state, such as
its list, is computed once and shared by every session in it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import cached_property, partial
from types import MappingProxyType
from typing import Any

from attrs import field

from ._catalog.catalog import Catalog
from ._catalog.components import Component, Group, Kind
from ._extras import Displayed
from ._memo import Memo, Memory
from ._values import frozen
from .machine import Configuration, Plan, RegionState, TransitionRequest, bits, plan

NO_FACTS: Mapping[str, Any] = MappingProxyType({})


@frozen
class GroupInfo:
    """A group as a session sees it. `tool_count` counts user tools directly in the group.

    SPEC LST-4.
    """

    name: str
    description: str
    display_name: str
    state: RegionState
    active: bool
    parent: str | None
    tool_count: int


@frozen
class Page:
    """One page of a list, and the cursor of the next one, or `None` at the end.

    SPEC LST-2.
    """

    items: tuple[Component, ...]
    next_cursor: str | None = None

    @property
    def tools(self) -> tuple[Component, ...]:
        """The items, in ascending order of name."""
        return self.items

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the items."""
        return tuple(component.name for component in self.items)


@frozen(eq=False)
class Outlook:
    """What one snapshot offers of one kind: what is certainly listed, as one page, and what depends on predicates."""

    page: Page
    undecided: tuple[Component, ...]


@frozen(eq=False, weakref_slot=True)
class Snapshot(Displayed):
    """One state of one session; compare by identity. Make one with `Snapshot.of`.

    `outlooks` and `memo` hold what others compute once for a snapshot; see `Memo`.
    """

    catalog: Catalog
    configuration: Configuration
    facts: Mapping[str, Any] = NO_FACTS
    outlooks: dict[Kind, Outlook] = field(init=False, factory=dict[Kind, Outlook], repr=False)
    memo: Memory = field(init=False, factory=dict[Memo[Any, Any], Any], repr=False)

    @classmethod
    def of(
        cls, catalog: Catalog, configuration: Configuration | None = None, facts: Mapping[str, Any] = NO_FACTS
    ) -> Snapshot:
        """Return the one snapshot of these values; without a configuration, that in which sessions begin."""
        configuration = configuration or catalog.initial
        key: Hashable = (configuration, repr(sorted(facts.items()))) if facts else configuration
        found = catalog.interned.get(key)
        if found is None:
            found = cls(catalog, configuration, MappingProxyType(dict(facts)) if facts else NO_FACTS)
            catalog.interned[key] = found
        return found

    @cached_property
    def active(self) -> tuple[str, ...]:
        """The paths of the active groups, in canonical order."""
        return self.configuration.paths

    def in_order(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return the active groups in the order of `paths`; those that are not among them come last."""
        first = dict.fromkeys(path for path in paths if self.is_active(path))
        return (*first, *(path for path in self.active if path not in first))

    def is_active(self, path: str) -> bool:
        """Return whether the group is active; an unknown one is not."""
        return self.configuration.is_active(path)

    @property
    def selectable_groups(self) -> tuple[Group, ...]:
        """The groups that a request may name, and those that are active anyway, in canonical order.

        SPEC SES-6.
        """
        named = bits(self.catalog.selectable | self.configuration.active)
        return tuple(self.catalog.groups[number] for number in named)

    @property
    def groups(self) -> tuple[GroupInfo, ...]:
        """All groups with their states, in canonical order, without root.

        SPEC LST-4.
        """
        catalog = self.catalog
        infos: list[GroupInfo] = []
        for number, group in enumerate(catalog.groups):
            state = self.configuration.state(number)
            infos.append(
                GroupInfo(
                    name=group.path,
                    description=group.description,
                    display_name=group.display_name,
                    state=state,
                    active=state is RegionState.ACTIVE,
                    parent=group.parent,
                    tool_count=catalog.tool_counts.get(group.path, 0),
                )
            )
        return tuple(infos)

    def after(self, request: TransitionRequest) -> Snapshot:
        """Return the snapshot that a request leads to; raises as `plan`."""
        return self.at(self.plan(request).after)

    def plan(self, request: TransitionRequest) -> Plan:
        """Return the plan of a request; raises as `machine.plan`, and `QuotaExceeded`.

        SPEC ACT-10, FND-3.
        """
        quota = self.catalog.quota
        return plan(self.configuration, request) if quota is None else quota.plan(self.configuration, request)

    def at(self, configuration: Configuration) -> Snapshot:
        """Return this snapshot in another configuration of its catalog's groups."""
        return Snapshot.of(self.catalog, configuration, self.facts)

    def with_facts(self, facts: Mapping[str, Any]) -> Snapshot:
        """Return this snapshot with other facts."""
        return Snapshot.of(self.catalog, self.configuration, facts)

    def moved_to(self, catalog: Catalog) -> Snapshot:
        """Return the same state as far as another catalog allows it.

        SPEC REG-7, PER-2.
        """
        if catalog is self.catalog:
            return self
        return _MOVED.of(self.memo, catalog, partial(self._moved_to, catalog))

    def _moved_to(self, catalog: Catalog) -> Snapshot:
        return Snapshot.of(catalog, catalog.restored(self.configuration.oldest_first).after, self.facts)


_MOVED = Memo[Catalog, Snapshot](most=1)
"""A snapshot in the newest catalog."""


@frozen
class Change:
    """What one committed transition did.

    `activated` and `deactivated` name groups in canonical order. `lists` holds the kinds of lists that now differ
    (`"tool"`, `"prompt"`, `"resource"`, `"resource_template"`). `failures` are the hooks that failed under `force`.
    `states` are the state before it and the one after it, for its caller and not for observers: by the time that the
    caller goes on, the session may be in another one.
    """

    activated: tuple[str, ...] = ()
    deactivated: tuple[str, ...] = ()
    lists: frozenset[str] = frozenset()
    failures: tuple[Exception, ...] = ()
    states: tuple[Snapshot, Snapshot] | None = field(default=None, eq=False, repr=False)

    @property
    def list_changed(self) -> bool:
        """Whether the list of tools that the session is given has changed."""
        return "tool" in self.lists

    def __bool__(self) -> bool:
        return bool(self.activated or self.deactivated)
