"""The table compiled into bit-set operations: an event reaches any number of regions at once (SPEC ACT-11).

Nothing is decided here. `compile_table` sorts the rows by event and leaves out those that do nothing; `Run` applies
them to the sets of locked, inactive and active groups, and delivers what they emit. It agrees with the interpreter on
every event in every configuration. Were the order of two events within a run to matter, the tests that compare the two
would show it.
"""

from __future__ import annotations

from collections.abc import Mapping

from .._values import frozen
from ..errors import IllegalEvent
from .forest import Configuration, bits
from .table import TABLE, Effect, Guard, RegionEvent, RegionState, Relation, Row, Table

_STATES = (RegionState.LOCKED, RegionState.INACTIVE, RegionState.ACTIVE)


@frozen
class Column:
    """What one event does: the rows of each state that do something, and the states that it can't happen in."""

    acting: tuple[tuple[int, tuple[Row, ...]], ...]
    illegal: tuple[int, ...]


Program = Mapping[RegionEvent, Column]


def compile_table(table: Table) -> Program:
    """Return the rows by event and place of the state, without those that do nothing whatever holds."""
    program: dict[RegionEvent, Column] = {}
    for event in RegionEvent:
        found = [(place, table.get((state, event))) for place, state in enumerate(_STATES)]
        acting = [(place, rows) for place, rows in found if rows is not None and rows != (Row(_STATES[place]),)]
        program[event] = Column(tuple(acting), tuple(place for place, rows in found if rows is None))
    return program


PROGRAM = compile_table(TABLE)


class Run:
    """One run over the regions of a forest: `send` events, then read the resulting states.

    `active` and `locked` are the groups in these states. `set_up` and `torn_down` are those whose hooks are to run:
    what was set up and torn down within one run is in neither. `refused` is whether a row refused the request.
    """

    __slots__ = ("_program", "active", "forest", "locked", "refused", "set_up", "torn_down")

    def __init__(self, before: Configuration, program: Program = PROGRAM) -> None:
        self.forest = before.forest
        self.active = before.active
        self.locked = before.locked
        self.set_up = 0
        self.torn_down = 0
        self.refused = False
        self._program = program

    def send(self, event: RegionEvent, number: int) -> None:
        """Let an event reach a region, and all events that follow from it.

        Raises:
            IllegalEvent: The table has no row for an event in the state of the region that it reached.
        """
        self._deliver(event, 1 << number)

    def _deliver(self, event: RegionEvent, to: int) -> None:
        """Let an event reach the regions `to`."""
        column = self._program[event]
        members = (to & self.locked, to & ~(self.locked | self.active), to & self.active)
        for place in column.illegal:
            if members[place]:
                raise IllegalEvent(_STATES[place].value, event.value)
        for place, rows in column.acting:
            left = members[place]
            if left:
                for row in rows:
                    hit = left if row.guard is Guard.NONE else self._where(row.guard, left)
                    if hit:
                        left ^= hit
                        self._take(row, _STATES[place], hit)
                if left:
                    raise IllegalEvent(_STATES[place].value, event.value)

    def _take(self, row: Row, source: RegionState, hit: int) -> None:
        """Move the regions `hit` as a row says, note its effect, and deliver what it emits."""
        if source is RegionState.ACTIVE:
            self.active ^= hit
        elif source is RegionState.LOCKED:
            self.locked ^= hit
        if row.target is RegionState.ACTIVE:
            self.active |= hit
        elif row.target is RegionState.LOCKED:
            self.locked |= hit
        if row.effect is Effect.SET_UP:
            undone = hit & self.torn_down
            self.torn_down ^= undone
            self.set_up |= hit ^ undone
        elif row.effect is Effect.TEAR_DOWN:
            undone = hit & self.set_up
            self.set_up ^= undone
            self.torn_down |= hit ^ undone
        elif row.effect is Effect.REFUSE:
            self.refused = True
        for emission in row.emits:
            if related := self._related(emission.to, hit):
                self._deliver(emission.event, related)

    def _related(self, relation: Relation, hit: int) -> int:
        masks = self.forest.partners if relation is Relation.PARTNERS else self.forest.descendants
        related = 0
        for number in bits(hit):
            related |= masks[number]
        return related

    def _where(self, guard: Guard, members: int) -> int:
        """Return those of the regions `members` for which a guard holds."""
        if guard in (Guard.ANCESTORS_ACTIVE, Guard.ANCESTOR_INACTIVE):
            held = self._unlocked(members)
            return held if guard is Guard.ANCESTORS_ACTIVE else members & ~held
        partners, active = self.forest.partners, self.active
        free = sum(1 << number for number in bits(members) if not partners[number] & active)
        return free if guard is Guard.PARTNERS_INACTIVE else members & ~free

    def _unlocked(self, members: int) -> int:
        """Return those of some regions whose ancestors are all active, by way of the smaller set.

        All ancestors of what is active are active (INV-1), so a group is unlocked if it is at root or its parent is.
        """
        forest, active = self.forest, self.active
        if members.bit_count() <= active.bit_count():
            return sum(1 << number for number in bits(members) if not forest.ancestors[number] & ~active)
        unlocked = forest.roots
        for number in bits(active):
            unlocked |= forest.children[number]
        return members & unlocked
