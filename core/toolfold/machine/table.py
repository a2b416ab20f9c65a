"""The transition table of a group's region: the program (SPEC 4, ACT-11).

Each group has a region of the machine that is LOCKED (an ancestor is inactive), INACTIVE or ACTIVE. `TABLE` says, for
each state and event, under which guard the region goes where, what its session does about that, and which events it
emits to the regions around it. What the table has no row for can't happen: `rows` refuses it, naming state and event.

`interpreter` is the semantics of these rows, `compiled` the form of them that runs. Both read nothing else, so a row
that is changed here changes what groups do.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType

from .._values import frozen
from ..errors import IllegalEvent


class RegionState(Enum):
    """The states of a group's region."""

    LOCKED = "locked"
    INACTIVE = "inactive"
    ACTIVE = "active"

    __hash__ = object.__hash__  # members are compared by identity; Enum's own hash is many times slower

    @property
    def word(self) -> str:
        """What people read in its place: open, closed or locked."""
        return {"active": "open", "inactive": "closed"}.get(self.value, self.value)


class RegionEvent(Enum):
    """What can happen to a group's region: requests, and the events that other regions emit."""

    ACTIVATE = "activate"
    DEACTIVATE = "deactivate"
    RESTORE = "restore"
    DISPLACED = "displaced"
    ANCESTOR_ACTIVATED = "ancestor activated"
    ANCESTOR_DEACTIVATED = "ancestor deactivated"

    __hash__ = object.__hash__


class Guard(Enum):
    """Conditions on the regions around a group, as they are when the event reaches it."""

    NONE = ""
    ANCESTORS_ACTIVE = "all ancestors active"
    ANCESTOR_INACTIVE = "an ancestor inactive"
    PARTNERS_INACTIVE = "no partner active"
    PARTNER_ACTIVE = "a partner active"

    __hash__ = object.__hash__


class Effect(Enum):
    """What happens beside the change of state: which of the group's hooks runs, or that the request is refused."""

    NOTHING = "nothing"
    SET_UP = "set up"
    TEAR_DOWN = "tear down"
    REFUSE = "refuse"

    __hash__ = object.__hash__


class Relation(Enum):
    """Which other regions an event is emitted to."""

    PARTNERS = "partners"
    DESCENDANTS = "descendants"

    __hash__ = object.__hash__


@frozen
class Emission:
    """An event that goes to all regions that stand in a relation to the one that emits it."""

    event: RegionEvent
    to: Relation


@frozen
class Row:
    """One row of the table: under `guard`, go to `target`, do `effect`, and emit `emits`."""

    target: RegionState
    effect: Effect = Effect.NOTHING
    guard: Guard = Guard.NONE
    emits: tuple[Emission, ...] = ()


_DISPLACE = Emission(RegionEvent.DISPLACED, Relation.PARTNERS)
_ACTIVATED = Emission(RegionEvent.ANCESTOR_ACTIVATED, Relation.DESCENDANTS)
_DEACTIVATED = Emission(RegionEvent.ANCESTOR_DEACTIVATED, Relation.DESCENDANTS)

_LOCKED, _INACTIVE, _ACTIVE = RegionState.LOCKED, RegionState.INACTIVE, RegionState.ACTIVE

Table = Mapping[tuple[RegionState, RegionEvent], tuple[Row, ...]]

TABLE: Table = MappingProxyType(
    {
        (_LOCKED, RegionEvent.ACTIVATE): (Row(_LOCKED, Effect.REFUSE),),
        (_INACTIVE, RegionEvent.ACTIVATE): (Row(_ACTIVE, Effect.SET_UP, emits=(_DISPLACE, _ACTIVATED)),),
        (_ACTIVE, RegionEvent.ACTIVATE): (Row(_ACTIVE),),
        (_LOCKED, RegionEvent.DEACTIVATE): (Row(_LOCKED),),
        (_INACTIVE, RegionEvent.DEACTIVATE): (Row(_INACTIVE),),
        (_ACTIVE, RegionEvent.DEACTIVATE): (Row(_INACTIVE, Effect.TEAR_DOWN, emits=(_DEACTIVATED,)),),
        # A stored state is restored group by group; of partners the first one stays (PER-2).
        (_LOCKED, RegionEvent.RESTORE): (Row(_LOCKED),),
        (_INACTIVE, RegionEvent.RESTORE): (
            Row(_ACTIVE, Effect.SET_UP, Guard.PARTNERS_INACTIVE, (_ACTIVATED,)),
            Row(_INACTIVE, guard=Guard.PARTNER_ACTIVE),
        ),
        (_LOCKED, RegionEvent.DISPLACED): (Row(_LOCKED),),
        (_INACTIVE, RegionEvent.DISPLACED): (Row(_INACTIVE),),
        (_ACTIVE, RegionEvent.DISPLACED): (Row(_INACTIVE, Effect.TEAR_DOWN, emits=(_DEACTIVATED,)),),
        (_LOCKED, RegionEvent.ANCESTOR_ACTIVATED): (
            Row(_INACTIVE, guard=Guard.ANCESTORS_ACTIVE),
            Row(_LOCKED, guard=Guard.ANCESTOR_INACTIVE),
        ),
        (_LOCKED, RegionEvent.ANCESTOR_DEACTIVATED): (Row(_LOCKED),),
        (_INACTIVE, RegionEvent.ANCESTOR_DEACTIVATED): (Row(_LOCKED),),
        (_ACTIVE, RegionEvent.ANCESTOR_DEACTIVATED): (Row(_LOCKED, Effect.TEAR_DOWN),),
    }
)


def rows(state: RegionState, event: RegionEvent, table: Table = TABLE) -> tuple[Row, ...]:
    """Return the rows for an event in a state; raises `IllegalEvent` if that can't happen."""
    found = table.get((state, event))
    if found is None:
        raise IllegalEvent(state.value, event.value)
    return found
