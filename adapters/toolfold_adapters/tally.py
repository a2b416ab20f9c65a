"""Counting what there is of something at a time, in all and for each caller, up to a limit (SPEC SAF-4).

At the limit, anything new is refused, with the time to try again where it is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from toolfold import Limit
from toolfold.spi import Caller, Full, counted

SOON = 1.0
"""Seconds after which to try again, where it is not known when there will be room."""


def share_of(total: int, per_caller: int | None) -> int | None:
    """Return how many one caller may have of fewer in all: a quarter at most, so that it leaves some to others."""
    return None if per_caller is None else min(per_caller, max(1, total // 4))


class Tally:
    """Counts how many of something there are, in all and for each caller.

    Args:
        what: What is counted, in the plural.
        limit: How many there may be.
    """

    def __init__(self, what: str, limit: Limit) -> None:
        self.what = what
        self.limit = limit
        self._counts: Counter[Caller] = Counter()
        self._total = 0

    @property
    def total(self) -> int:
        """How many there are."""
        return self._total

    def has_room(self, caller: Caller) -> bool:
        """Return whether a caller may have one more."""
        return self.exceeded(caller) is None

    def exceeded(self, caller: Caller, number: int = 1, most: int | None = None) -> tuple[int, bool] | None:
        """Return the limit that more would exceed, and whether it is the caller's own; `None` while there is room.

        `most` is how many this caller may have, if that is fewer than others may.
        """
        total, own = self.limit.total, self.limit.per_caller
        own = most if own is None else own if most is None else min(own, most)
        if own is not None and caller is not None and self._counts[caller] + number > own:
            return own, True
        if total is not None and self._total + number > total:
            return total, False
        return None

    def take(
        self,
        caller: Caller,
        retry_after: Callable[[bool], float] = lambda own: SOON,
        *,
        number: int = 1,
        most: int | None = None,
    ) -> None:
        """Count one more for a caller, or `number` more, or raise `Full`.

        `retry_after` gives the seconds after which there may be room: under the caller's own limit, or that in all.
        `most` is as for `exceeded`.
        """
        if exceeded := self.exceeded(caller, number, most):
            limit, own = exceeded
            raise Full(self.what, limit, own, caller, retry_after(own))
        self.add(caller, number)

    def add(self, caller: Caller, number: int = 1) -> None:
        """Count more for a caller, whatever the limit."""
        self._counts[caller] += number
        self._total += number

    def give_back(self, caller: Caller, number: int = 1) -> None:
        """Count less for a caller."""
        self._total -= number
        self._counts[caller] -= number
        if not self._counts[caller]:
            del self._counts[caller]

    def held(self, caller: Caller) -> AbstractContextManager[None]:
        """Count one more for a caller, and return a context at whose end it is given back, once its threads have ended.

        Raises:
            Full: There is no room.
        """
        self.take(caller)
        return counted(partial(self.give_back, caller))
