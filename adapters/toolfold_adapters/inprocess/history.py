"""Which groups a conversation had loaded, by its messages (SPEC GRP-6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from attrs import define

from toolfold import Catalog, Snapshot, ToolfoldError
from toolfold.spi import RequestView

from .arguments import read_arguments
from .messages import PastCall
from .outcome import has_failed
from .spelling import Speller
from .turn import Call, batches

FailureCheck = Callable[[PastCall], bool | None]
"""Says whether a call failed; `None` to go by how it was answered."""


@define
class Replay:
    """Takes the steps of past turns again, in the order in which they were taken.

    Attributes:
        snapshot: The state that they have led to so far.
        view_of: Gives the view of a snapshot.
        speller: Knows the names that the model has for the tools.
        check: Says whether a call failed, in place of how it was answered.
    """

    snapshot: Snapshot
    view_of: Callable[[Snapshot], RequestView]
    speller: Speller
    check: FailureCheck | None = None

    def states(self, turn: Iterable[PastCall]) -> Iterator[Snapshot]:
        """Give the states that the calls of a turn led to, one after the other.

        A call that failed, or that is refused by now, leads nowhere.
        """
        catalog = self.snapshot.catalog
        past = list(turn)
        calls = [Call(self._meant(one, catalog), read_arguments(one.arguments)) for one in past]
        for batch in batches(calls, lambda: self.view_of(self.snapshot)):
            for number in chain.from_iterable(batch):
                steps = calls[number].steps(catalog)
                for step in () if not steps or self._failed(past[number], calls[number], catalog) else steps:
                    try:
                        self.snapshot = self.snapshot.after(step)
                    except ToolfoldError:
                        continue
                    yield self.snapshot

    def _meant(self, past: PastCall, catalog: Catalog) -> str:
        if past.name:
            return self.speller.meant(past.name)
        return next((name for name, spec in catalog.tools.items() if spec.loader is not None), "")

    def _failed(self, past: PastCall, call: Call, catalog: Catalog) -> bool:
        failed = None if self.check is None else self.check(past)
        return has_failed(past, call, self.speller.spell(call.name), catalog) if failed is None else failed
