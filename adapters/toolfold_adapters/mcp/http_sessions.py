"""The limit of legacy sessions (up to 2025-11-25) that are open over HTTP, in all and per caller (SPEC SES-4, SAF-4).

The SDK opens one for every handshake, and its only limit is a total, which a single client can exhaust. So requests
that would open a session are counted before the SDK sees them.
"""

from __future__ import annotations

from collections.abc import Container
from math import inf
from typing import Any

import anyio
from mcp.server import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold.spi import Caller, Full, Tally

from ..sdk import http_sessions, idle_deadline
from .callers import caller_at
from .http import error_response

FORGOTTEN = 64
"""How many sessions that have ended may still be recorded, about."""
LATER = 30.0
"""Seconds after which to try again if all sessions are in use."""


class BoundedSessions:
    """Passes on a request that opens a session only if there is room for one.

    Args:
        app: The endpoint of the SDK.
        server: The server of that endpoint.
        tally: Counts the sessions.
    """

    def __init__(self, app: ASGIApp, server: Server[Any], tally: Tally) -> None:
        self._app = app
        self._server = server
        self._tally = tally
        self._opened: dict[str, Caller] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if not _opens_session(scope):
            await self._app(scope, receive, send)
            return
        caller = caller_at(scope["client"][0] if scope.get("client") else None)
        try:
            await self._take(caller)
        except Full as full:
            headers = {"retry-after": str(full.retry_after)}
            response = error_response(429 if full.own else 503, str(full), INTERNAL_ERROR, headers)
            await response(scope, receive, send)
        else:
            await self._open(caller, scope, receive, send)

    async def _take(self, caller: Caller) -> None:
        """Take a place for a session, ending an idle one if need be and allowed; raises `Full`."""
        if not self._tally.has_room(caller) or len(self._opened) > 2 * len(http_sessions(self._server)) + FORGOTTEN:
            self._forget_ended()
        if not self._tally.has_room(caller) and self._tally.limit.when_full == "end_idlest":
            await self._end_idlest(caller)
        self._tally.take(caller, lambda own: self._seconds_left({caller} if own else None))

    async def _open(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and release the place unless the response opens a session."""
        opened = False

        async def watch(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < 400 and not opened:
                session_id = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if session_id is not None:
                    self._opened[session_id] = caller
                    opened = True
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if not opened:
                self._tally.give_back(caller)

    def _forget_ended(self) -> None:
        open_now = http_sessions(self._server)
        for session_id in [one for one in self._opened if one not in open_now]:
            self._tally.give_back(self._opened.pop(session_id))

    async def _end_idlest(self, caller: Caller) -> None:
        """End the session of a caller that has been idle for the longest time, if any is idle."""
        deadline, session_id = self._idlest({caller})
        if deadline < inf:
            del self._opened[session_id]
            await http_sessions(self._server)[session_id].terminate()
            self._tally.give_back(caller)

    def _seconds_left(self, callers: Container[Caller] | None) -> float:
        """Return the seconds until the next idle session expires, or a guess if none is idle."""
        deadline, _ = self._idlest(callers)
        return deadline - anyio.current_time() if deadline < inf else LATER

    def _idlest(self, callers: Container[Caller] | None) -> tuple[float, str]:
        """Return the deadline and the id of the session that has been idle for longest, of some callers or of all."""
        open_now = http_sessions(self._server)
        mine = [one for one, caller in self._opened.items() if callers is None or caller in callers]
        return min(((idle_deadline(open_now[one]), one) for one in mine if one in open_now), default=(inf, ""))


def _opens_session(scope: Scope) -> bool:
    """Return whether the SDK opens a session for a request."""
    if scope["type"] != "http":
        return False
    headers = Headers(scope=scope)
    legacy = headers.get(MCP_PROTOCOL_VERSION_HEADER) in (None, *HANDSHAKE_PROTOCOL_VERSIONS)
    return legacy and MCP_SESSION_ID_HEADER not in headers
