"""How much a server holds and does for its callers at a time: in all, and for each of them (SPEC SAF-4, SES-4, STO-7).

A caller is the principal of an authenticated request, else the address that it came from. Over stdio and in memory no
caller is known, and only the limit in all counts. What is full refuses what is new, and says when to come again; where
it makes room instead, it ends what the same caller has left idle for longest, and nothing of anybody else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from math import ceil
from typing import Literal, get_args

from attrs import field, frozen

from toolfold import ConfigError, QuotaExceeded
from toolfold.spi import counted

from .callers import Caller

SOON = 1.0
"""Seconds after which to come again, where nothing tells when there will be room."""

WhenFull = Literal["refuse", "end_idlest"]


@frozen
class Limit:
    """The greatest number of something at a time; `None` for no limit.

    Attributes:
        total: How many there may be in all.
        per_caller: How many of them may be one caller's.
        when_full: `"refuse"` a new one, or `"end_idlest"` of the same caller to make room.
    """

    total: int | None
    per_caller: int | None
    when_full: WhenFull = "refuse"

    def __attrs_post_init__(self) -> None:
        for count in (self.total, self.per_caller):
            if count is not None and count < 1:
                raise ConfigError(f"A limit must be at least 1, not {count}; None stands for no limit.")
        if self.when_full not in get_args(WhenFull):
            raise ConfigError(f"when_full must be one of 'refuse', 'end_idlest', not {self.when_full!r}.")


@frozen(kw_only=True)
class Limits:
    """What a server holds and does for its callers at a time.

    Behind a reverse proxy all requests come from its address: then callers have to authenticate, or the proxy's
    `X-Forwarded-For` be believed (`forwarded_allow_ips` of `serve`), or `per_caller` be `None`.

    Attributes:
        connections: Connections to `serve` over HTTP; by address, also where callers authenticate.
        sessions: Sessions of clients of the era up to 2025-11-25.
        handles: Sessions kept between requests of the era from 2026-07-28: for handles, for principals, and for
            selections of groups with hooks.
        calls: Requests under way, with the steps and hooks that they wait for, and the threads of plain handlers: also
            those of requests that were cancelled, until they end.
        streams: Streams of `subscriptions/listen`.
    """

    connections: Limit = field(default=Limit(10_000, 500))
    sessions: Limit = field(default=Limit(10_000, 1_000))
    handles: Limit = field(default=Limit(10_000, 1_000, "end_idlest"))
    calls: Limit = field(default=Limit(1_000, 100))
    streams: Limit = field(default=Limit(1_000, 100))

    def __attrs_post_init__(self) -> None:
        for name in ("connections", "calls", "streams"):
            if getattr(self, name).when_full != "refuse":
                raise ConfigError(f"{name} are not ended to make room; their when_full must be 'refuse'.")


DEFAULTS = Limits()


class Full(QuotaExceeded):
    """There is no room for one more.

    Attributes:
        own: Whether the caller itself has as many as it may; otherwise there are too many in all.
        retry_after: Seconds after which to come again.
    """

    def __init__(self, what: str, limit: int, own: bool, seconds: float) -> None:
        self.own = own
        self.retry_after = max(1, ceil(seconds))
        whose, less = (" of one caller", "end one of them, or try") if own else (" in all", "try")
        unit = "second" if self.retry_after == 1 else "seconds"
        super().__init__(f"{what}{whose}", limit, f"{less} again in {self.retry_after} {unit}")


class Tally:
    """Counts how many there are of something, in all and of each caller.

    Args:
        what: What is counted, in the plural.
        limit: How many there may be.
    """

    def __init__(self, what: str, limit: Limit) -> None:
        self.limit = limit
        self._what = what
        self._held: Counter[Caller] = Counter()
        self._total = 0

    def has_room(self, caller: Caller) -> bool:
        """Return whether a caller may have one more."""
        return self._exceeded(caller) is None

    def check(self, caller: Caller, retry_after: Callable[[bool], float] = lambda own: SOON) -> None:
        """Raise `Full` if there is no room for one more of a caller's.

        `retry_after` gives the seconds after which there may be some: under the caller's own limit, or that in all.
        """
        exceeded = self._exceeded(caller)
        if exceeded is not None:
            limit, own = exceeded
            raise Full(self._what, limit, own, retry_after(own))

    def take(self, caller: Caller, retry_after: Callable[[bool], float] = lambda own: SOON) -> None:
        """Count one more of a caller's; raises as `check` does."""
        self.check(caller, retry_after)
        self._held[caller] += 1
        self._total += 1

    def give_back(self, caller: Caller) -> None:
        """Count one less of a caller's."""
        self._total -= 1
        self._held[caller] -= 1
        if not self._held[caller]:
            del self._held[caller]

    @contextmanager
    def held(self, caller: Caller) -> Generator[None]:
        """Count one more of a caller's for as long as the context lasts, and threads that it leaves behind.

        Raises:
            Full: There is no room.
        """
        self.take(caller)
        with counted(partial(self.give_back, caller)):
            yield

    def _exceeded(self, caller: Caller) -> tuple[int, bool] | None:
        """Return the limit that has been reached, and whether it is the caller's own."""
        total, own = self.limit.total, self.limit.per_caller
        if own is not None and caller is not None and self._held[caller] >= own:
            return own, True
        if total is not None and self._total >= total:
            return total, False
        return None


class Tallies:
    """What there is of all that one server limits."""

    def __init__(self, limits: Limits) -> None:
        self.sessions = Tally("sessions", limits.sessions)
        self.handles = Tally("kept sessions", limits.handles)
        self.calls = Tally("requests under way", limits.calls)
        self.streams = Tally("subscriptions", limits.streams)
