"""Callers, and the limits of what a server holds and does at a time, in all and for each (SPEC SAF-4, SES-4, STO-7).

A caller is the principal of an authenticated request, else the address that it came from. Over stdio and in memory no
caller is known, and only the total is limited. Whoever reaches a limit is refused, with the time to try again; or, with
`when_full="end_idlest"`, the session that the same caller has left idle for longest is ended, and never another's.
Each refusal is logged, and counted by OpenTelemetry's metric `toolfold.refusals` (SPEC SAF-7).
"""

from __future__ import annotations

import ipaddress
import json
import logging
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from attrs import field, frozen
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from opentelemetry import metrics

from toolfold import ConfigError, Limit
from toolfold.spi import Caller, Full, quoted

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
        handles: Sessions stored between requests of the era from 2026-07-28: for handles; and as many for principals
            and selections of groups with hooks, which others share, so that none of them ends to make room.
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


# -- callers --------------------------------------------------------------------------------------------------------

one_client: ContextVar[bool] = ContextVar("one_client", default=False)
"""Whether all requests to the process come from one client, as over stdio (SPEC DEL-12)."""

_PREFIX = 64
"""The prefix length of an IPv6 network that counts as one caller: its owner has all addresses in it."""


def principal_of(ctx: Any) -> str:
    """Return what identifies the caller of a request, or `""` where callers are not authenticated."""
    token = get_access_token()
    return "" if token is None else json.dumps(principal_components(token))


def client_of(ctx: Any) -> str:
    """Return what the client of a request calls itself, or `""`."""
    params = ctx.session.client_params
    return "" if params is None else str(params.client_info.name)


def caller_of(ctx: Any) -> Caller:
    """Return the caller of a request: a principal, else an address, or `None` over stdio and in memory."""
    client = ctx.request.client if ctx.request is not None else None
    return caller_at(client.host if client is not None else None)


def caller_at(host: str | None) -> Caller:
    """Return the caller of the current HTTP request, which comes from `host`."""
    principal = principal_of(None)
    if principal:
        return f"principal {principal}"
    return None if host is None else address(host)


@lru_cache(maxsize=1024)
def address(host: str) -> str:
    """Return the address by which a caller at `host` is counted: in IPv6 that of its network."""
    try:
        parsed = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:  # a proxy may send any text
        return f"address {host[:64]}"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is None:
            return f"address {ipaddress.ip_network((parsed, _PREFIX), strict=False)}"
        return f"address {parsed.ipv4_mapped}"
    return f"address {parsed}"
