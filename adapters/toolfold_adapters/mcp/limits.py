"""The limits of what a server holds and does at a time, in all and per caller (SPEC SAF-4, SES-4, STO-7).

A caller is the principal of an authenticated request, else the address that it came from. Over stdio and in memory no
caller is known, and only the total is limited. Whoever reaches a limit is refused, with the time to try again; or, with
`when_full="end_idlest"`, the session that the same caller has left idle for longest is ended, and never another's.
Each refusal is logged, and counted by OpenTelemetry's metric `toolfold.refusals` (SPEC SAF-7).
"""

from __future__ import annotations

import logging

from attrs import field, frozen
from opentelemetry import metrics

from toolfold import ConfigError, Limit
from toolfold.spi import Full, quoted

log = logging.getLogger("toolfold.mcp")

_refusals = metrics.get_meter("toolfold").create_counter(
    "toolfold.refusals", "{refusal}", "Requests and connections that were refused because a limit was reached."
)


@frozen(kw_only=True)
class Limits:
    """The limits of what a server holds and does at a time.

    Behind a reverse proxy all requests come from its address: then let callers authenticate, trust the proxy's
    `X-Forwarded-For` (`forwarded_allow_ips` of `serve`), or set `per_caller` to `None`.

    Attributes:
        connections: Connections to `serve` over HTTP; always counted by address. Probes and requests that end a session
            are answered beyond it.
        sessions: Sessions of clients of the era up to 2025-11-25.
        handles: Sessions stored between requests of the era from 2026-07-28: for handles, for principals, and for
            selections of groups with hooks.
        calls: Requests in progress, with the transitions and hooks that they wait for, and the threads of synchronous
            handlers, also those of cancelled requests until they end.
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
                raise ConfigError(f"{name} can't be ended to make room; their when_full must be 'refuse'.")


DEFAULTS = Limits()


def record_refusal(full: Full) -> None:
    """Log and count that somebody was refused because a limit was reached (SPEC SAF-7)."""
    _refusals.add(1, {"toolfold.limit": full.what})
    log.warning("refused %s: %s", quoted(full.caller or "a client"), full)
