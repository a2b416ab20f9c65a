"""What carries messages over streamable HTTP, on the side of a client."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from .http_large import Whole
from .http_refusals import Answers

CONNECT_SECONDS = 30.0
END_SECONDS = 2.0
"""How long a server may take to end a session."""


@asynccontextmanager
async def http_transport(
    url: str,
    headers: dict[str, str],
    auth: httpx2.Auth | None,
    make: Callable[..., httpx2.AsyncClient] = httpx2.AsyncClient,
    limit: int | None = None,
) -> AsyncGenerator[tuple[Any, Any]]:
    """Carry messages over streamable HTTP for the duration of the block; refusals by a status are errors that say why.

    Args:
        url: Where to.
        headers: More for the headers of each request.
        auth: Authorizes requests.
        make: Makes the HTTP client.
        limit: The most bytes of an event in a stream; other answers are limited by a client that `_bounding` makes.
    """
    # A call takes as long as its caller waits, and a result has the size that it has.
    timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
    answers = Answers()
    async with (
        make(headers=headers, timeout=timeout, auth=auth) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=limit) as streams,
    ):
        read, write = streams
        client.event_hooks["request"].append(_hurry_the_end)
        client.event_hooks["response"].append(answers.note)
        yield answers.reading(Whole(read)), write


async def _hurry_the_end(request: httpx2.Request) -> None:
    """Let the end of a session wait for little: its connection may be dead, and who wants a new one waits for that."""
    if request.method == "DELETE":
        request.extensions["timeout"] = httpx2.Timeout(END_SECONDS).as_dict()
