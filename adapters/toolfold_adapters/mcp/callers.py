"""The caller of a request: its principal, or else the address that it came from (SPEC DEL-6, SAF-4)."""

from __future__ import annotations

import ipaddress
import json
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components

from toolfold.spi import Caller

one_client: ContextVar[bool] = ContextVar("one_client", default=False)
"""Whether all requests to the process come from one client, as over stdio (SPEC DEL-12)."""

_PREFIX = 64
"""The prefix length of an IPv6 network that counts as one caller: its owner has all addresses in it."""


def principal_of(ctx: Any) -> str:
    """Return what identifies the caller of a request, or `""` where callers are not authenticated."""
    token = get_access_token()
    return "" if token is None else json.dumps(principal_components(token))


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
