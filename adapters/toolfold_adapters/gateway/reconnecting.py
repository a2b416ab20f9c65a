"""An HTTP client that outlives its server: what a restarted one has not taken is sent again, in a new session.

A request that the server may have taken before it ended is not repeated: it gets an error, which says so (SPEC GWY-10).
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import anyio
import httpx2
from mcp.client.streamable_http import MCP_SESSION_ID
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import CONNECTION_CLOSED

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, *[1.0] * 15)
"""Seconds between attempts to reach the server, before a request gets an error instead."""


class ReconnectingClient(httpx2.AsyncClient):
    """Sends the messages of one client, in a session that is begun anew when the server no longer knows it.

    Args:
        renewed: Is awaited after each new session.
        settings: Those of the class above.
    """

    def __init__(self, renewed: Callable[[], Awaitable[None]], **settings: Any) -> None:
        super().__init__(**settings)
        self._renewed = renewed
        self._begun: httpx2.Request | None = None  # with `initialize`
        self._session: str | None = None  # in place of the one that the sender knows
        self._renewing = anyio.Lock()

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Return the answer to a request, or an error in its place."""
        if request.method not in ("POST", "GET"):
            return await super().send(self._in_session(request), **options)
        if request.method == "POST" and json.loads(await request.aread()).get("method") == "initialize":
            self._begun, self._session = request, None
        sent = self._in_session(request)
        response = await self._patiently(sent, **options)
        session = sent.headers.get(MCP_SESSION_ID)
        if response.status_code == 404 and session is not None and await self._begin_again(session, request):
            await response.aclose()
            response = await self._patiently(self._in_session(request), **options)
        if request.method == "GET":
            response.stream = _UntilLost(response.stream)
        return response

    def _in_session(self, request: httpx2.Request) -> httpx2.Request:
        """Return a request with the session of the present server."""
        if self._session is None or MCP_SESSION_ID not in request.headers:
            return request
        headers = httpx2.Headers(request.headers)
        headers[MCP_SESSION_ID] = self._session
        return httpx2.Request(
            request.method, request.url, headers=headers, stream=request.stream, extensions=request.extensions
        )

    async def _patiently(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        """Send a request once the server is there; the stream of its messages has no end to wait for."""
        attempt = 0
        while True:
            pause = PAUSES[min(attempt, len(PAUSES) - 1)]
            attempt += 1
            try:
                return await super().send(request, **options)
            except (httpx2.ConnectError, httpx2.ConnectTimeout):
                if request.method == "POST" and attempt == len(PAUSES):
                    return _error(request, "Nothing answers there now. Start the server again, and repeat the call.")
            except httpx2.TransportError:
                if request.method == "POST":
                    return _error(
                        request, "The server ended before it answered. It may have done what was asked: look first."
                    )
            await anyio.sleep(pause)

    async def _begin_again(self, session: str, request: httpx2.Request) -> bool:
        """Begin a session in place of one; return whether there is another now."""
        async with self._renewing:
            if self._begun is None or session != (self._session or session):
                return self._begun is not None
            answer = await super().send(self._begun)
            if (begun := answer.headers.get(MCP_SESSION_ID)) is None:
                return False
            self._session = begun
            kept = ("accept", "authorization", MCP_PROTOCOL_VERSION_HEADER)
            headers = {key: request.headers[key] for key in kept if key in request.headers}
            headers[MCP_SESSION_ID] = begun
            initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            await super().send(self.build_request("POST", request.url, headers=headers, json=initialized))
        await self._renewed()
        return True


class _UntilLost(httpx2.AsyncByteStream):
    """A stream that simply ends where its connection is lost."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with suppress(httpx2.TransportError):
            async for chunk in self._stream:
                yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def _error(request: httpx2.Request, message: str) -> httpx2.Response:
    error = {"code": CONNECTION_CLOSED, "message": message}
    return httpx2.Response(502, request=request, json={"jsonrpc": "2.0", "id": None, "error": error})
