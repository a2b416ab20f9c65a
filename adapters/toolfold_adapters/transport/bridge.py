"""A bridge from standard input and output to a server at a URL, for clients that can only start commands (SPEC GWY-10).

Messages pass as they are, in either era. What HTTP asks for beside them, its headers, follows from what passes: the
version that was agreed on, and in the modern era the method, the name and the marked arguments of each request.

A server may be restarted: what it has not taken is sent again, in a new session, and the client is asked to list again.
A request that it may have taken before it ended is not repeated: it gets an error, which says so.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.client.streamable_http import MCP_SESSION_ID
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    CONNECTION_CLOSED,
    PROTOCOL_VERSION_META_KEY,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolfold import ToolfoldError
from toolfold.spi import table

from .http_client import CONNECT_SECONDS, http_transport
from .http_headers import ModernHeaders
from .http_refusals import session_forgotten
from .lines import standard_streams

PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, *[1.0] * 15)
"""Seconds between attempts to reach the server, before a request gets an error instead."""


class ServerAway(ToolfoldError):
    """Nothing answers at the URL of a bridge, at its start."""


class Headers:
    """What goes with each message over HTTP, learned from the messages themselves.

    `list_changes` is whether the server says in a session when its tools change.
    """

    def __init__(self) -> None:
        self.list_changes = False
        self._version: str | None = None
        self._asked: dict[RequestId, str] = {}
        self._modern = ModernHeaders()

    def of(self, message: Any) -> dict[str, str]:
        """Return the headers of a message of the client, and note what it asks for."""
        if not isinstance(message, JSONRPCRequest | JSONRPCNotification):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        params = message.params or {}
        if isinstance(message, JSONRPCRequest) and message.method in ("initialize", "tools/list"):
            self._asked[message.id] = message.method
        version = (table(params.get("_meta")) or {}).get(PROTOCOL_VERSION_META_KEY)
        if not isinstance(version, str):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        return self._modern.of(version, message.method, params)

    def learn(self, message: Any) -> None:
        """Take note of an answer of the server: which version it speaks, and which arguments are headers."""
        if not isinstance(message, JSONRPCResponse):
            return
        asked = self._asked.pop(message.id, None)
        if asked == "initialize":
            version = message.result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None
            capabilities = table(message.result.get("capabilities")) or {}
            self.list_changes = bool((table(capabilities.get("tools")) or {}).get("listChanged"))
        elif asked == "tools/list":
            tools: list[Any] = message.result.get("tools") or []
            for tool in map(table, tools):
                self._modern.learn(str((tool or {}).get("name")), (tool or {}).get("inputSchema"))


async def bridge(url: str, headers: Mapping[str, str]) -> None:
    """Pass messages between standard input and output and the server at `url`, until either ends.

    Args:
        url: The URL of the server.
        headers: More for the headers of each request.

    Raises:
        ServerAway: Nothing answers there.
    """
    await _check_reachable(url)
    known = Headers()
    async with standard_streams() as (incoming, outgoing):

        async def renewed() -> None:
            """Have the client list again what a server that was restarted offers."""
            if known.list_changes:
                changed = JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
                await outgoing.send(SessionMessage(changed))

        transport = http_transport(url, dict(headers), None, partial(ReconnectingClient, renewed))
        await _carry(incoming, outgoing, transport, known)


async def _carry(incoming: Any, outgoing: Any, transport: Any, known: Headers) -> None:
    """Pass messages between a client's streams and a transport to a server, until either ends."""

    async def up(write: Any, tasks: TaskGroup) -> None:
        async with incoming:
            async for item in incoming:
                if isinstance(item, SessionMessage):
                    metadata = ClientMessageMetadata(headers=known.of(item.message))
                    await write.send(SessionMessage(item.message, metadata))
        tasks.cancel_scope.cancel()

    async with outgoing, transport as (read, write), anyio.create_task_group() as tasks:
        tasks.start_soon(up, write, tasks)
        async for item in read:
            if isinstance(item, SessionMessage):
                known.learn(item.message)
                await outgoing.send(SessionMessage(item.message))
        tasks.cancel_scope.cancel()


async def _check_reachable(url: str) -> None:
    """Find out whether anything listens at a URL, before a client waits for it."""
    parsed = httpx2.URL(url)
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            await (await anyio.connect_tcp(parsed.host, port)).aclose()
    except (OSError, TimeoutError) as error:
        raise ServerAway(_away(url, error)) from error


def _away(url: str, error: BaseException) -> str:
    return f"Nothing answers at {url} ({type(error).__name__}); start it there: toolfold serve TARGET --http"


# -- a client that outlives its server --------------------------------------------------------------------------------


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
        if session is not None and await session_forgotten(response) and await self._begin_again(session, request):
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
