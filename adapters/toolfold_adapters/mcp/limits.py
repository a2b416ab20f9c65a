"""How much a server holds and does for its callers at a time: in all, and for each of them (SPEC SAF-4, SES-4, STO-7).

A caller is the principal of an authenticated request, else the address that it came from. Over stdio and in memory no
caller is known, and only the limit in all counts. What is full refuses what is new, and says when to try again; where
it makes room instead, it ends what the same caller has left idle for longest, and nothing of anybody else.
"""

from __future__ import annotations

from attrs import field, frozen

from toolfold import ConfigError
from toolfold.spi import Limit


@frozen(kw_only=True)
class Limits:
    """What a server holds and does for its callers at a time.

    Behind a reverse proxy all requests come from its address: then callers have to authenticate, or the proxy's
    `X-Forwarded-For` be believed (`forwarded_allow_ips` of `serve`), or `per_caller` be `None`.

    Attributes:
        connections: Connections to `serve` over HTTP; by address, also where callers authenticate.
        sessions: Sessions of clients of the era up to 2025-11-25.
        handles: Sessions stored between requests of the era from 2026-07-28: for handles, for principals, and for
            selections of groups with hooks.
        calls: Requests under way, with the transitions and hooks that they wait for, and the threads of plain handlers:
            also those of requests that were cancelled, until they end.
        streams: Subscriptions of `subscriptions/listen`.
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
