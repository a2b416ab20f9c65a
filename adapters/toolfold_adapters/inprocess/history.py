"""The groups that a conversation had loaded, according to its messages (SPEC GRP-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from attrs import define

from toolfold import Catalog, HandleInvalid, Snapshot, ToolfoldError, ToolSet, TransitionRequest
from toolfold.spi import opened_by_search, read_state

from .failures import has_failed
from .late_openai import search_tool
from .messages import PastCall, read_arguments
from .turn import Call, batches
from .wire_names import ToolOrder

FailureCheck = Callable[[PastCall], bool | None]
"""Returns whether a call failed; `None` to decide by its answer."""


@define
class Replay:
    """Replays the transition requests of past turns, in the order in which they were made.

    Attributes:
        snapshot: The state after the requests so far.
        tools: The tool set.
        order: The order of the tools that the model was given.
        check: Returns whether a call failed, in place of its answer.
    """

    snapshot: Snapshot
    tools: ToolSet
    order: ToolOrder
    check: FailureCheck | None = None

    def after(self, turns: Iterable[Iterable[PastCall]]) -> Snapshot:
        """Return the state after these turns; the order is then that of the tools which the model was given."""
        self.order.listed(self.tools.runtime.view_of(self.snapshot))
        for turn in turns:
            before = self.snapshot
            for state in self._states(turn):
                self.order.update(state)
            if self.snapshot is not before:
                self.order.listed(self.tools.runtime.view_of(self.snapshot))
        return self.snapshot

    def _states(self, turn: Iterable[PastCall]) -> Iterator[Snapshot]:
        """Yield the states after the calls of a turn, one after the other.

        Calls that failed, or that would now be refused, have no effect. Where answers have a state, nothing is
        replayed: the turn leads to the latest of them.
        """
        catalog = self.snapshot.catalog
        past = list(turn)
        if (recorded := self._recorded(past)) is not None:
            self.snapshot = recorded
            yield recorded
            return
        calls = [Call(self._tool_name(one, catalog), read_arguments(one.arguments)) for one in past]
        for batch in batches(calls, lambda: self.tools.runtime.view_of(self.snapshot)):
            for number in chain.from_iterable(batch):
                requests = calls[number].requests(catalog) or self._of_search(calls[number], past[number], catalog)
                for request in () if not requests or self._failed(past[number], calls[number], catalog) else requests:
                    try:
                        self.snapshot = self.snapshot.after(request)
                    except ToolfoldError:
                        continue
                    yield self.snapshot

    def _recorded(self, past: Iterable[PastCall]) -> Snapshot | None:
        """Return the state that was stored with the answers, the latest one, as the current catalog allows it."""
        states = (one.state for one in past if one.state is not None and one.state.get("tools") == self.tools.name)
        latest = max(states, key=_answers_before, default=None)
        try:
            return None if latest is None else read_state(self.tools.name, latest).snapshot(self.snapshot.catalog)
        except HandleInvalid:
            return None

    def _tool_name(self, past: PastCall, catalog: Catalog) -> str:
        if past.name:
            return self.order.names.from_wire(past.name)
        search = search_tool(catalog)
        return "" if search is None else search.name

    def _failed(self, past: PastCall, call: Call, catalog: Catalog) -> bool:
        failed = None if self.check is None else self.check(past)
        return has_failed(past, call, self.order.names.to_wire(call.name), catalog) if failed is None else failed

    def _of_search(self, call: Call, past: PastCall, catalog: Catalog) -> Sequence[TransitionRequest]:
        """Return what a search requested, by its answer: what it opened depended on what it found (SPEC FND-1)."""
        component = catalog.tools.get(call.name)
        if component is None or component.control is None or component.control[0] != "find":
            return ()
        opened = opened_by_search(past.text)
        if past.found is not None:
            found = [catalog.tools.get(self.order.names.from_wire(name)) for name in past.found]
            opened = tuple(dict.fromkeys(one.group for one in found if one is not None and one.group is not None))
        known = tuple(path for path in opened if path in catalog.index)
        return (TransitionRequest(activate=known),) if known else ()


def _answers_before(state: Mapping[str, Any]) -> int:
    count = state.get("answered")
    return count if isinstance(count, int) else 0
