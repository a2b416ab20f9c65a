"""The groups that a conversation had loaded, according to its messages (SPEC GRP-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain

from attrs import define

from toolfold import Catalog, Snapshot, ToolfoldError, TransitionRequest
from toolfold.spi import RequestView, opened_by_search

from .arguments import read_arguments
from .failures import has_failed
from .messages import PastCall
from .turn import Call, batches
from .wire_names import WireNameCodec

FailureCheck = Callable[[PastCall], bool | None]
"""Returns whether a call failed; `None` to decide by its answer."""


@define
class Replay:
    """Replays the transition requests of past turns, in the order in which they were made.

    Attributes:
        snapshot: The state after the requests so far.
        view_of: Returns the view of a snapshot.
        names: The names by which the model knows the tools.
        check: Returns whether a call failed, in place of its answer.
    """

    snapshot: Snapshot
    view_of: Callable[[Snapshot], RequestView]
    names: WireNameCodec
    check: FailureCheck | None = None

    def states(self, turn: Iterable[PastCall]) -> Iterator[Snapshot]:
        """Yield the states after the calls of a turn, one after the other.

        Calls that failed, or that would now be refused, have no effect.
        """
        catalog = self.snapshot.catalog
        past = list(turn)
        calls = [Call(self._tool_name(one, catalog), read_arguments(one.arguments)) for one in past]
        for batch in batches(calls, lambda: self.view_of(self.snapshot)):
            for number in chain.from_iterable(batch):
                requests = calls[number].requests(catalog) or _of_search(calls[number], past[number], catalog)
                for request in () if not requests or self._failed(past[number], calls[number], catalog) else requests:
                    try:
                        self.snapshot = self.snapshot.after(request)
                    except ToolfoldError:
                        continue
                    yield self.snapshot

    def _tool_name(self, past: PastCall, catalog: Catalog) -> str:
        if past.name:
            return self.names.from_wire(past.name)
        return next(
            (name for name, component in catalog.tools.items() if component.control and component.control[0] == "load"),
            "",
        )

    def _failed(self, past: PastCall, call: Call, catalog: Catalog) -> bool:
        failed = None if self.check is None else self.check(past)
        return has_failed(past, call, self.names.to_wire(call.name), catalog) if failed is None else failed


def _of_search(call: Call, past: PastCall, catalog: Catalog) -> Sequence[TransitionRequest]:
    """Return what a search requested, by its answer: what it opened depended on what it found (SPEC FND-1)."""
    component = catalog.tools.get(call.name)
    if component is None or component.control is None or component.control[0] != "find":
        return ()
    opened = tuple(path for path in opened_by_search(past.text) if path in catalog.index)
    return (TransitionRequest(activate=opened),) if opened else ()
