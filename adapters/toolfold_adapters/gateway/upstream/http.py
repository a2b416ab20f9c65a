"""Upstreams over HTTP: transports that bound what they read, and logins that hold up no other request (SPEC GWY-8).

Only an upstream at a URL needs this module, and with it an HTTP client.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from http import HTTPStatus

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.sse import sse_client

from ...http_client import http_transport
from ...lines import MessageTooLarge
from ..config.settings import UpstreamConfig
from .life import LoginFailed
from .wire import Transport

SSE_SECONDS = 24 * 3600.0
"""How long a stream of the older HTTP transport may be silent; the SDK has no way to say for ever."""


def transport_to(url: str, config: UpstreamConfig, auth: httpx2.Auth | None) -> Transport:
    """Return what carries the messages of an upstream at a URL, to be entered once."""
    headers = dict(config.headers)
    make = _bounding(config.max_message_bytes)
    if config.transport == "sse":
        return sse_client(url, headers=headers, auth=auth, sse_read_timeout=SSE_SECONDS, httpx_client_factory=make)
    return http_transport(url, headers, auth, make, config.max_message_bytes)


def _bounding(limit: int) -> Callable[..., httpx2.AsyncClient]:
    """Return what makes HTTP clients that read no answer of more bytes than `limit`, but for streams of events."""

    async def bound(response: httpx2.Response) -> None:
        if not _is_stream(response):
            response.stream = _Bounded(response, limit)
            response.headers.pop("content-encoding", None)  # what it yields is decoded

    def make(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [bound]})

    return make


def _is_stream(response: httpx2.Response) -> bool:
    """Return whether the SDK reads a response event by event, with a limit for each, whatever the server calls it."""
    asked, kind = response.request, response.headers.get("content-type", "").lower()
    streamed = asked.method != "DELETE" and "text/event-stream" in asked.headers.get("accept", "")
    return response.is_success and streamed and kind.startswith("text/event-stream")


class _Bounded(httpx2.AsyncByteStream):
    """The decoded body of a response; reading it fails once more has come than may."""

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        self._body = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._body.aiter_bytes():
            size += len(part)
            if size > self._limit:
                raise httpx2.StreamError(str(MessageTooLarge(self._limit)))
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


class Login(httpx2.Auth):
    """Has the SDK's provider log in where a server wants that, and lets all other requests go side by side.

    The provider has one request answered before the next is sent, so that a slow call would hold up all others.
    """

    def __init__(self, provider: OAuthClientProvider) -> None:
        self._provider = provider

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token that there is, and log in if it was refused, or the token has expired."""
        context = self._provider.context
        if context.current_tokens is None or context.is_token_valid():
            if context.current_tokens is not None:
                request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            response = yield request
            if response.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                return
        try:
            async with aclosing(self._provider.async_auth_flow(request)) as flow:
                with suppress(StopAsyncIteration):
                    sent = await anext(flow)
                    while True:
                        response = yield sent
                        sent = await flow.asend(response)
        except OAuthFlowError as error:
            raise LoginFailed(f"the login that it wants failed ({error}); try again") from error
