"""What carries messages over streamable HTTP, on the side of a client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID, streamable_http_client

CONNECT_SECONDS = 30.0


@asynccontextmanager
async def http_transport(
    url: str,
    headers: dict[str, str],
    auth: httpx2.Auth | None,
    make: Callable[..., httpx2.AsyncClient] = httpx2.AsyncClient,
    limit: int | None = None,
) -> AsyncGenerator[tuple[Any, Any]]:
    """Carry messages over streamable HTTP for the duration of the block.

    Args:
        url: Where to.
        headers: More for the headers of each request.
        auth: Authorizes requests.
        make: Makes the HTTP client.
        limit: The most bytes of an event in a stream; other answers are limited by a client that `_bounding` makes.
    """
    # A call takes as long as its caller waits, and a result has the size that it has.
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
    async with (
        make(headers=headers, timeout=timeout, auth=auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=limit) as streams,
    ):
        client.event_hooks["response"].append(_by_status)
        yield streams


async def _by_status(response: httpx2.Response) -> None:
    """Have the SDK go by the status 404, and not by the body, where a server no longer knows a session.

    The protocol gives this status that meaning, but each server writes an error of its own beside it.
    """
    if response.status_code == 404 and MCP_SESSION_ID in response.request.headers:
        response.headers.pop("content-type", None)
