"""The machine: the one place where changes of state are decided (SPEC 4).

Rules
-----
Groups form a forest. Each group has a region of the machine that is LOCKED (an ancestor is inactive), INACTIVE or
ACTIVE. Exclusion sets name groups of which at most one may be active; no member is an ancestor of another.

* A group is activated only while all its ancestors are active; its exclusion partners leave, with what is below them.
* A group is deactivated with everything below it.
* Nothing else changes. Exclusion is neither transitive nor inherited, and what has left does not come back by itself.

Theory of operation
-------------------
`TABLE` is the transition table of one region: state × event → rows of guard, target and effect. `lookup` is the only
reader; what has no row is refused there. `plan` applies the table to the whole forest: it looks up what the request
means for its own region, and, if that region enters or leaves, delivers the events that follow from it to the regions
around it: `displaced` to its exclusion partners, `ancestor_left` and `ancestor_entered` to descendants.
Delivering an event to many regions at once is arithmetic on bit sets, where the table says what becomes of the
active ones. A plan is a value; nothing here waits, calls out or remembers.

Invariants of every reachable state: INV-1 parents of active groups are active, INV-2 no exclusion set has two active
members, INV-3 root has no state, INV-4 every group can be reached by activations, INV-5 a plan is a function of
snapshot and step alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from types import MappingProxyType

from attrs import field, frozen

from .catalog import Catalog, bits, paths_of
from .errors import ExclusionConflict, IllegalEvent, ParentInactive, QuotaExceeded
from .snapshot import Snapshot


class State(Enum):
    """The states of a group's region."""

    LOCKED = "locked"
    INACTIVE = "inactive"
    ACTIVE = "active"

    __hash__ = object.__hash__  # members are compared by identity; Enum's own hash is many times slower


class Event(Enum):
    """The events of a group's region."""

    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    DISPLACED = "displaced"
    ANCESTOR_ENTERED = "ancestor entered"
    ANCESTOR_LEFT = "ancestor left"

    __hash__ = object.__hash__


class Effect(Enum):
    """What a transition does beside changing the state."""

    NOTHING = "nothing"
    ENTER = "enter"
    LEAVE = "leave"
    REFUSE = "refuse"


class Guard(Enum):
    """Conditions on the ancestors of the group, as they are once the event has happened."""

    NONE = ""
    ANCESTORS_ACTIVE = "all ancestors active"
    ANCESTOR_INACTIVE = "an ancestor inactive"


@frozen
class Row:
    """One row of the table: under `guard` go to `target` and do `effect`."""

    target: State
    effect: Effect
    guard: Guard = Guard.NONE


TABLE: Mapping[tuple[State, Event], tuple[Row, ...]] = MappingProxyType(
    {
        (State.LOCKED, Event.ACTIVATE): (Row(State.LOCKED, Effect.REFUSE),),
        (State.LOCKED, Event.DEACTIVATE): (Row(State.LOCKED, Effect.NOTHING),),
        (State.LOCKED, Event.DISPLACED): (Row(State.LOCKED, Effect.NOTHING),),
        (State.LOCKED, Event.ANCESTOR_ENTERED): (
            Row(State.INACTIVE, Effect.NOTHING, Guard.ANCESTORS_ACTIVE),
            Row(State.LOCKED, Effect.NOTHING, Guard.ANCESTOR_INACTIVE),
        ),
        (State.LOCKED, Event.ANCESTOR_LEFT): (Row(State.LOCKED, Effect.NOTHING),),
        (State.INACTIVE, Event.ACTIVATE): (Row(State.ACTIVE, Effect.ENTER),),
        (State.INACTIVE, Event.DEACTIVATE): (Row(State.INACTIVE, Effect.NOTHING),),
        (State.INACTIVE, Event.DISPLACED): (Row(State.INACTIVE, Effect.NOTHING),),
        (State.INACTIVE, Event.ANCESTOR_LEFT): (Row(State.LOCKED, Effect.NOTHING),),
        (State.ACTIVE, Event.ACTIVATE): (Row(State.ACTIVE, Effect.NOTHING),),
        (State.ACTIVE, Event.DEACTIVATE): (Row(State.INACTIVE, Effect.LEAVE),),
        (State.ACTIVE, Event.DISPLACED): (Row(State.INACTIVE, Effect.LEAVE),),
        (State.ACTIVE, Event.ANCESTOR_LEFT): (Row(State.LOCKED, Effect.LEAVE),),
    }
)


def lookup(state: State, event: Event, ancestors_active: bool) -> Row:
    """Return the row for an event in a state, or raise `IllegalEvent` if that can't happen.

    `ancestors_active` tells whether all ancestors of the group are active once the event has happened.
    """
    for row in TABLE.get((state, event), ()):
        if row.guard is Guard.NONE or (row.guard is Guard.ANCESTORS_ACTIVE) == ancestors_active:
            return row
    raise IllegalEvent(state.value, event.value)


LEAVES: Mapping[Event, bool] = MappingProxyType(
    {event: rows[0].effect is Effect.LEAVE for (state, event), rows in TABLE.items() if state is State.ACTIVE}
)
"""Whether an event makes the active groups that it reaches leave: the table's column for ACTIVE."""


@frozen
class Step:
    """A request: groups to deactivate, then groups to activate, as one (SPEC ACT-9)."""

    activate: tuple[str, ...] = field(default=(), converter=paths_of)
    deactivate: tuple[str, ...] = field(default=(), converter=paths_of)


@frozen
class Plan:
    """What a step comes to: the active groups after it, as a bit set, and where the quota needs it their order."""

    before: Snapshot
    mask: int
    order: tuple[int, ...] = ()

    @cached_property
    def after(self) -> Snapshot:
        """The snapshot after the step; the very one before it if nothing changes."""
        if not self.changes:
            return self.before
        return Snapshot.of(self.before.catalog, self.mask, self.order, self.before.facts)

    @property
    def entering(self) -> int:
        """The groups that are active after, but not before."""
        return self.mask & ~self.before.mask

    @property
    def leaving(self) -> int:
        """The groups that are active before, but not after."""
        return self.before.mask & ~self.mask

    @property
    def paths(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The groups that enter and those that leave, each in canonical order."""
        groups = self.before.catalog.groups
        entering = tuple(groups[number].path for number in bits(self.entering))
        return entering, tuple(groups[number].path for number in bits(self.leaving))

    @property
    def changes(self) -> bool:
        """Whether anything changes."""
        return self.before.mask != self.mask


def region(catalog: Catalog, mask: int, number: int) -> State:
    """Return the state of a group's region while the groups in `mask` are active."""
    if mask >> number & 1:
        return State.ACTIVE
    return State.LOCKED if catalog.ancestors[number] & ~mask else State.INACTIVE


def plan(snapshot: Snapshot, step: Step) -> Plan:
    """Return what `step` comes to in `snapshot` (SPEC ACT-1 to ACT-10).

    Raises:
        GroupNotFound: A group does not exist.
        ParentInactive: A group to activate has an inactive ancestor.
        ExclusionConflict: Two groups to activate exclude one another.
        QuotaExceeded: More groups would be active than the catalog allows, and none may be evicted.
    """
    catalog = snapshot.catalog
    mask, wanted = snapshot.mask, 0
    for number in _numbers(catalog, step.deactivate):
        mask = _deactivate(catalog, mask, number)
    for number in _numbers(catalog, step.activate):
        wanted |= 1 << number
        mask = _activate(catalog, mask, number, wanted)
    if catalog.max_active is not None and mask & ~snapshot.mask:
        mask = _within_quota(catalog, mask, wanted, snapshot.order)
    return Plan(snapshot, mask, _ordered(snapshot, mask) if catalog.evict_oldest else ())


def everything_left(snapshot: Snapshot, lent: int = 0) -> Plan:
    """Return the plan that deactivates every group, but for those `lent` by another session: the end (SPEC HOOK-9)."""
    return Plan(snapshot, snapshot.mask & lent)


def _numbers(catalog: Catalog, paths: tuple[str, ...]) -> list[int]:
    return sorted([catalog.number(path) for path in paths]) if paths else []


def _activate(catalog: Catalog, mask: int, number: int, wanted: int) -> int:
    state = region(catalog, mask, number)
    row = lookup(state, Event.ACTIVATE, state is not State.LOCKED)
    if row.effect is Effect.REFUSE:
        missing = next(bits(catalog.ancestors[number] & ~mask))
        raise ParentInactive(catalog.groups[number].path, catalog.groups[missing].path)
    if row.effect is not Effect.ENTER:
        return mask
    if displaced := mask & catalog.displaces[number]:
        if displaced & wanted:
            raise _conflict(catalog, number, displaced & wanted)
        partners = catalog.partners[number]
        mask = _deliver(Event.DISPLACED, partners, mask)
        mask = _deliver(Event.ANCESTOR_LEFT, displaced & ~partners, mask)
    return mask | 1 << number


def _deactivate(catalog: Catalog, mask: int, number: int) -> int:
    state = region(catalog, mask, number)
    row = lookup(state, Event.DEACTIVATE, state is not State.LOCKED)
    if row.effect is not Effect.LEAVE:
        return mask
    own = 1 << number
    return _deliver(Event.ANCESTOR_LEFT, catalog.subtree[number] & ~own, mask & ~own)


def _deliver(event: Event, to: int, mask: int) -> int:
    """Return the active groups once `event` has reached the groups in `to`."""
    return mask & ~to if LEAVES[event] else mask


def _within_quota(catalog: Catalog, mask: int, wanted: int, oldest_first: tuple[int, ...]) -> int:
    limit = catalog.max_active
    assert limit is not None
    if mask.bit_count() <= limit:
        return mask
    if catalog.evict_oldest:
        kept = wanted | catalog.pinned
        for number in oldest_first:
            if mask >> number & 1 and not catalog.subtree[number] & mask & kept:
                mask &= ~catalog.subtree[number]
                if mask.bit_count() <= limit:
                    return mask
    wished = ", ".join(repr(catalog.groups[number].path) for number in bits(wanted))
    raise QuotaExceeded("active groups", limit, f"deactivate a group before you activate {wished}")


def _ordered(before: Snapshot, mask: int) -> tuple[int, ...]:
    stayed = tuple(number for number in before.order if mask >> number & 1)
    return stayed + tuple(bits(mask & ~before.mask))


def _conflict(catalog: Catalog, number: int, displaced: int) -> ExclusionConflict:
    entering = catalog.groups[number].path
    displaced_path = catalog.groups[next(bits(displaced))].path
    return ExclusionConflict(
        (displaced_path, entering),
        f"{entering!r} and {displaced_path!r} can't be active together, so one step can't ask for both: leave one out.",
    )
