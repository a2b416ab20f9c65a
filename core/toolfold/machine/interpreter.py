"""The semantics of the table: an event runs to completion over the rows, one region at a time (SPEC ACT-11).

It is written to be read, and to be compared with: `compiled.Run` does the same with bit sets, and tests hold the two
against each other for every request in every state of every small forest.
"""

from __future__ import annotations

from collections import deque

from ..errors import IllegalEvent
from .forest import Configuration, Forest, bits
from .table import TABLE, Effect, Guard, RegionEvent, RegionState, Relation, Row, Table, rows


class Interpreter:
    """One run over the regions of a forest: `send` events, then ask for the states and the effects."""

    def __init__(self, before: Configuration, table: Table = TABLE) -> None:
        self.forest: Forest = before.forest
        self.states = [before.state(number) for number in range(len(before.forest.paths))]
        self.effects: list[tuple[Effect, int]] = []
        self._table = table

    def send(self, event: RegionEvent, number: int) -> None:
        """Let an event reach a region, and all events that follow from it.

        Raises:
            IllegalEvent: The table has no row for an event in the state of the region that it reached.
        """
        queue = deque([(event, number)])
        while queue:
            event, number = queue.popleft()
            row = self._row(event, number)
            self.states[number] = row.target
            self.effects.append((row.effect, number))
            for emission in row.emits:
                queue.extend((emission.event, other) for other in bits(self._related(emission.to, number)))

    def _row(self, event: RegionEvent, number: int) -> Row:
        state = self.states[number]
        for row in rows(state, event, self._table):
            if self._holds(row.guard, number):
                return row
        raise IllegalEvent(state.value, event.value)

    def _holds(self, guard: Guard, number: int) -> bool:
        ancestors_active = all(map(self._is_active, bits(self.forest.ancestors[number])))
        partner_active = any(map(self._is_active, bits(self.forest.partners[number])))
        return {
            Guard.NONE: True,
            Guard.ANCESTORS_ACTIVE: ancestors_active,
            Guard.ANCESTOR_INACTIVE: not ancestors_active,
            Guard.PARTNER_ACTIVE: partner_active,
            Guard.PARTNERS_INACTIVE: not partner_active,
        }[guard]

    def _is_active(self, number: int) -> bool:
        return self.states[number] is RegionState.ACTIVE

    def _related(self, relation: Relation, number: int) -> int:
        return (self.forest.partners if relation is Relation.PARTNERS else self.forest.descendants)[number]

    # -- what `compiled.Run` has as bit sets ------------------------------------------------------------------------

    @property
    def active(self) -> int:
        """The active groups."""
        return self._in(RegionState.ACTIVE)

    @property
    def locked(self) -> int:
        """The locked groups."""
        return self._in(RegionState.LOCKED)

    @property
    def refused(self) -> bool:
        """Whether a row refused the request."""
        return any(effect is Effect.REFUSE for effect, _ in self.effects)

    @property
    def set_up(self) -> int:
        """The groups that were set up, and not torn down again."""
        return self._net(Effect.SET_UP, Effect.TEAR_DOWN)

    @property
    def torn_down(self) -> int:
        """The groups that were torn down, and not set up again."""
        return self._net(Effect.TEAR_DOWN, Effect.SET_UP)

    def _in(self, state: RegionState) -> int:
        return sum(1 << number for number, one in enumerate(self.states) if one is state)

    def _net(self, effect: Effect, opposite: Effect) -> int:
        done, undone = ([number for one, number in self.effects if one is counted] for counted in (effect, opposite))
        return sum(1 << number for number in set(done) if done.count(number) > undone.count(number))
