"""Limits on how many of something there may be at a time: in all, and for each caller (SPEC SAF-4, SES-4, STO-7).

At the limit, anything new is refused, with the time to try again where it is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Literal, get_args

from attrs import frozen

from ._usercode import counted
from .errors import ConfigError, QuotaExceeded

Caller = str | None
"""Where requests come from, such as a principal or an address; `None` where that is not known."""

WhenFull = Literal["refuse", "end_idlest"]

SOON = 1.0
"""Seconds after which to try again, where it is not known when there will be room."""


@frozen
class Limit:
    """The greatest number of something at a time; `None` for no limit.

    Attributes:
        total: How many there may be in all.
        per_caller: How many of them may belong to one caller, where callers are known.
        when_full: `"refuse"` a new one, or `"end_idlest"` of the same caller to make room.
    """

    total: int | None
    per_caller: int | None = None
    when_full: WhenFull = "refuse"

    def __attrs_post_init__(self) -> None:
        for count in (self.total, self.per_caller):
            if count is not None and count < 1:
                raise ConfigError(f"A limit must be at least 1, not {count}; None stands for no limit.")
        if self.when_full not in get_args(WhenFull):
            raise ConfigError(f"when_full must be one of 'refuse', 'end_idlest', not {self.when_full!r}.")


class Full(QuotaExceeded):
    """There is no room for one more, but there will be.

    Attributes:
        own: Whether the caller itself has as many as it may; otherwise there are too many in all.
        caller: Who was refused.
        retry_after: Seconds after which to try again.
    """

    def __init__(self, what: str, limit: int, own: bool, caller: Caller, seconds: float) -> None:
        self.own = own
        self.caller = caller
        self.retry_after = max(1, ceil(seconds))
        whose, less = (" of one caller", "end one of them, or try") if own else (" in all", "try")
        unit = "second" if self.retry_after == 1 else "seconds"
        super().__init__(f"{what}{whose}", limit, f"{less} again in {self.retry_after} {unit}")


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

    def has_room(self, caller: Caller) -> bool:
        """Return whether a caller may have one more."""
        return self.exceeded(caller) is None

    def exceeded(self, caller: Caller) -> tuple[int, bool] | None:
        """Return the limit that has been reached, and whether it is the caller's own; `None` while there is room."""
        total, own = self.limit.total, self.limit.per_caller
        if own is not None and caller is not None and self._counts[caller] >= own:
            return own, True
        if total is not None and self._total >= total:
            return total, False
        return None

    def take(self, caller: Caller, retry_after: Callable[[bool], float] = lambda own: SOON) -> None:
        """Count one more for a caller, or raise `Full`.

        `retry_after` gives the seconds after which there may be room: under the caller's own limit, or that in all.
        """
        if exceeded := self.exceeded(caller):
            limit, own = exceeded
            raise Full(self.what, limit, own, caller, retry_after(own))
        self.add(caller)

    def add(self, caller: Caller) -> None:
        """Count one more for a caller, whatever the limit."""
        self._counts[caller] += 1
        self._total += 1

    def give_back(self, caller: Caller) -> None:
        """Count one less for a caller."""
        self._total -= 1
        self._counts[caller] -= 1
        if not self._counts[caller]:
            del self._counts[caller]

    @contextmanager
    def held(self, caller: Caller) -> Generator[None]:
        """Count one more for a caller until the context ends and the threads that it abandons have ended.

        Raises:
            Full: There is no room.
        """
        self.take(caller)
        with counted(partial(self.give_back, caller)):
            yield
