"""Legacy sessions (up to 2025-11-25) over HTTP: how many are open, and those in a store (SPEC SES-4, SAF-4, STO-4).

The SDK opens one for every handshake, and its only limit is a total, which a single client can exhaust. So requests
that would open a session are counted before the SDK sees them. A session in a store may have been opened by another
process, or an earlier one; then its handshake is repeated with the SDK first. What the SDK has of such a session is a
cache, so an idle one makes room here whatever the limit does when it is reached: the store has the limit of sessions.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Container
from math import inf
from typing import Any
from weakref import WeakValueDictionary

import anyio
from mcp.server.lowlevel import Server
from mcp.server.streamable_http import MCP_SESSION_ID_HEADER
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp_types import INTERNAL_ERROR
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold import Limit, StoreError
from toolfold.spi import Caller, Full, quoted

from ...tally import Tally
from ..address.legacy import LegacySessions
from ..principal import principal_of
from ..request import caller_at
from ..sdk import (
    end_http_session,
    http_sessions,
    idle_deadline,
    let_http_sessions_reopen,
    open_http_session,
    wrap_endpoint,
)
from .guards import error_response, limit_response

log = logging.getLogger("toolfold.mcp")

FORGOTTEN = 64
"""How many sessions that have ended may still be recorded, about."""
LATER = 30.0
"""Seconds after which to try again if all sessions are in use."""


def guard_sessions(server: Server[Any], limit: Limit, legacy: LegacySessions) -> None:
    """Put the limit of sessions, and those in a store, in front of the endpoint of a server's HTTP application."""
    if not server.session_manager.stateless:
        tally = Tally("sessions", limit)
        let_http_sessions_reopen(server)
        wrap_endpoint(server, lambda endpoint: HttpSessions(endpoint, server, tally, legacy))


class HttpSessions:
    """Passes on a request that opens a session if there is room for one, and others after their session is known.

    Whoever has no rights is refused (SPEC GWY-19).

    Args:
        app: The endpoint of the SDK.
        server: The server of that endpoint.
        tally: Counts the sessions.
        legacy: The sessions of its connections, which may be in a store.
    """

    def __init__(self, app: ASGIApp, server: Server[Any], tally: Tally, legacy: LegacySessions) -> None:
        self._app = app
        self._server = server
        self._tally = tally
        self._legacy = legacy
        self._resumes = legacy.stored is not None
        self._opened: dict[str, Caller] = {}
        self._resuming: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        principal, session_id = principal_of(None), Headers(scope=scope).get(MCP_SESSION_ID_HEADER)
        if session_id is not None:
            self._legacy.on_request(session_id, principal)
        try:
            self._legacy.selections.rights(principal)
        except MCPError as error:
            log.warning("refused a request of %r: it has no rights", quoted(str(principal)))
            await error_response(403, str(error))(scope, receive, send)
            return
        opens = session_id is None and _is_legacy(scope)
        try:
            if opens:
                await self._take(_caller(scope))
            elif session_id is not None and self._resumes:
                await self._resume(session_id, scope)
        except (Full, StoreError) as error:
            await _refusal(error)(scope, receive, send)
            return
        if opens:
            session_id = await self._open(_caller(scope), scope, receive, send)
        elif scope["method"] == "GET" and self._resumes and session_id is not None:
            await self._stream(session_id, scope, receive, send)
        else:
            await self._app(scope, receive, send)
        if self._resumes and session_id is not None and self._legacy.is_over(session_id):
            await self._end(session_id)  # so that the SDK answers 404 from now on
        elif scope["method"] == "DELETE" and session_id not in http_sessions(self._server):
            self._forget(session_id)

    async def _open(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> str | None:
        """Pass a request on; return the session that the response opens, and release its place if there is none."""
        opened: str | None = None

        async def watch(message: Message) -> None:
            nonlocal opened
            if message["type"] == "http.response.start" and message["status"] < 400 and opened is None:
                opened = Headers(raw=message["headers"]).get(MCP_SESSION_ID_HEADER)
                if opened is not None:
                    self._opened[opened] = caller
            await send(message)

        try:
            await self._app(scope, receive, watch)
        finally:
            if opened is None:
                self._tally.give_back(caller)
        return opened

    async def _stream(self, session_id: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request that opens a standing stream, on which its client is notified of what it missed."""

        async def watch(message: Message) -> None:
            await send(message)
            if message["type"] == "http.response.start" and message["status"] < 400:
                self._legacy.stream_opened(session_id)

        await self._app(scope, receive, watch)

    # -- sessions of other processes ----------------------------------------------------------------------------------

    async def _resume(self, session_id: str, scope: Scope) -> None:
        """Have the SDK know the session of a request, if it is in the store; end it there if that is the request."""
        async with self._resuming.setdefault(session_id, anyio.Lock()):
            if session_id not in http_sessions(self._server):
                if (params := await self._legacy.handshake(session_id)) is None:
                    return
                # DELETE is not refused, and ends it below. What ended here automatically may still count.
                if scope["method"] != "DELETE" and session_id not in self._opened:
                    caller = _caller(scope)
                    await self._take(caller)
                    self._opened[session_id] = caller
                await open_http_session(self._server, session_id, scope, _handshake(scope, params))
        if scope["method"] == "DELETE":
            await self._legacy.end(session_id)

    # -- room ---------------------------------------------------------------------------------------------------------

    async def _take(self, caller: Caller) -> None:
        """Take a place for a session, ending an idle one if need be and allowed; raises `Full`."""
        most = self._legacy.most_sessions(principal_of(None))
        most = None if self._resumes else most  # the store counts those of all processes
        known = len(http_sessions(self._server))
        if self._tally.exceeded(caller, most=most) or len(self._opened) > 2 * known + FORGOTTEN:
            self._forget_ended()
        if (exceeded := self._tally.exceeded(caller, most=most)) is not None:
            _, own = exceeded
            if self._resumes:
                await self._end_idlest({caller} if own else None)
            elif self._tally.limit.when_full == "end_idlest":
                await self._end_idlest({caller})
        self._tally.take(caller, lambda own: self._seconds_left({caller} if own else None), most=most)

    def _forget_ended(self) -> None:
        open_now = http_sessions(self._server)
        for session_id in [one for one in self._opened if one not in open_now]:
            self._forget(session_id)

    def _forget(self, session_id: str | None) -> None:
        """Give back the place of a session that has ended, if it had one."""
        if session_id is not None and session_id in self._opened:
            self._tally.give_back(self._opened.pop(session_id))

    async def _end_idlest(self, callers: Container[Caller] | None) -> None:
        """End the session of some callers, or of all, that has been idle for the longest time, if any is idle."""
        deadline, session_id = self._idlest(callers)
        if deadline < inf:
            await self._end(session_id)

    async def _end(self, session_id: str) -> None:
        """End what the SDK has of a session."""
        self._forget(session_id)
        await end_http_session(self._server, session_id)

    def _seconds_left(self, callers: Container[Caller] | None) -> float:
        """Return the seconds until the next idle session expires, or a guess if none is idle."""
        deadline, _ = self._idlest(callers)
        return deadline - anyio.current_time() if deadline < inf else LATER

    def _idlest(self, callers: Container[Caller] | None) -> tuple[float, str]:
        """Return the deadline and the id of the session that has been idle for longest, of some callers or of all."""
        open_now = http_sessions(self._server)
        mine = [one for one, caller in self._opened.items() if callers is None or caller in callers]
        return min(((idle_deadline(open_now[one]), one) for one in mine if one in open_now), default=(inf, ""))


def _caller(scope: Scope) -> Caller:
    return caller_at(scope["client"][0] if scope.get("client") else None)


def _is_legacy(scope: Scope) -> bool:
    return Headers(scope=scope).get(MCP_PROTOCOL_VERSION_HEADER) in (None, *HANDSHAKE_PROTOCOL_VERSIONS)


def _refusal(error: Full | StoreError) -> Response:
    if isinstance(error, Full):
        return limit_response(error)
    return error_response(503, str(error), INTERNAL_ERROR, {"retry-after": "1"})


def _handshake(scope: Scope, params: dict[str, Any]) -> list[tuple[Scope, Receive]]:
    """Return the two requests of a handshake, as the client sent them."""
    own = (b"content-type", b"accept", b"content-length", b"mcp-protocol-version", b"last-event-id")
    headers = [(name, value) for name, value in scope["headers"] if name not in own]
    headers += [(b"content-type", b"application/json"), (b"accept", b"application/json, text/event-stream")]
    messages: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": "toolfold-resume", "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
    ]
    return [({**scope, "method": "POST", "headers": headers}, _body(message)) for message in messages]


def _body(message: dict[str, Any]) -> Receive:
    sent = False

    async def receive() -> Message:
        nonlocal sent
        if sent:
            await anyio.sleep_forever()
        sent = True
        return {"type": "http.request", "body": json.dumps(message).encode(), "more_body": False}

    return receive
