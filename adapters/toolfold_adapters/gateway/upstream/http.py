"""Upstreams over HTTP: transports that bound what they read (SPEC GWY-8).

Only an upstream at a URL needs this module, and with it an HTTP client.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import httpx2
from mcp.client.sse import sse_client
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError

from ...transport.http_client import http_transport
from ...transport.http_large import Bounded, Events, Message
from ...transport.http_refusals import refusal_of
from ...transport.lines import Around, Item, misread
from ..config.settings import UpstreamConfig
from .life import Refused
from .wire import Transport

ADDRESS = "toolfold.address"
"""The extension of a request that has the address to ask in place of the one that its host has by then, if any."""
OTHER_BYTES = 1024 * 1024
"""How long an answer may be that is no message: a page, or one of a login."""
SSE_SECONDS = 24 * 3600.0
"""How long a stream of the older HTTP transport may be silent; the SDK has no way to say for ever."""


def transport_to(url: str, config: UpstreamConfig, auth: httpx2.Auth | None) -> Transport:
    """Return what carries the messages of an upstream at a URL, to be entered once."""
    headers = dict(config.headers)
    make = _bounding(config.max_message_bytes)
    if config.transport == "sse":
        return _older_transport(url, headers, auth, make)
    return http_transport(url, headers, auth, make, config.max_message_bytes)


@asynccontextmanager
async def _older_transport(
    url: str, headers: dict[str, str], auth: httpx2.Auth | None, make: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[Any]:
    """Carry messages over the older HTTP transport; raises `Refused` if there is no stream of events."""
    async with AsyncExitStack() as stack:
        client = sse_client(url, headers=headers, auth=auth, sse_read_timeout=SSE_SECONDS, httpx_client_factory=make)
        try:
            streams = await stack.enter_async_context(client)
        except httpx2.HTTPStatusError as error:
            raise Refused(INTERNAL_ERROR, await refusal_of(error.response) or "") from error
        read, write = streams
        yield _Misread(read), write


class _Misread(Around):
    """Messages of the SDK, which has an error in the place of what it can't read, with broken answers as errors."""

    async def __anext__(self) -> Item:
        item = await anext(self._stream)
        return misread(item) if isinstance(item, ValidationError) else item


async def to_address(request: httpx2.Request) -> None:
    """Have a request sent to the address that was checked for it, by the name of its host all the same.

    Nobody else is asked over that connection, who may have the address, too, but not the name.
    """
    if (address := request.extensions.get(ADDRESS)) is not None:
        request.extensions = {**request.extensions, "sni_hostname": request.url.host}
        request.url = request.url.copy_with(host=address)
        request.headers["connection"] = "close"


def _bounding(limit: int) -> Callable[..., httpx2.AsyncClient]:
    """Return what makes HTTP clients that read no message of more bytes than `limit`, and nothing long on the loop."""

    async def bound(response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "").lower()
        if _is_stream(response):
            response.stream = Events(response, limit)
        elif response.request.method == "POST" and _takes_streams(response) and kind.startswith("application/json"):
            response.stream = Message(response, limit)
        else:
            response.stream = Bounded(response, min(limit, OTHER_BYTES))
        response.headers.pop("content-encoding", None)  # what it yields is decoded
        if response.is_error and response.request.method == "GET":
            with suppress(httpx2.StreamError, httpx2.HTTPError):
                await response.aread()  # its reason: whoever raises an error closes it

    def make(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(
            headers=headers, timeout=timeout, auth=auth, event_hooks={"request": [to_address], "response": [bound]}
        )

    return make


def _is_stream(response: httpx2.Response) -> bool:
    """Return whether the SDK reads a response event by event, with a limit for each, whatever the server calls it."""
    kind = response.headers.get("content-type", "").lower()
    streamed = response.request.method != "DELETE" and _takes_streams(response)
    return response.is_success and streamed and kind.startswith("text/event-stream")


def _takes_streams(response: httpx2.Response) -> bool:
    """Return whether a response answers a message, or may be a stream of such; others are of a login."""
    return "text/event-stream" in response.request.headers.get("accept", "")
