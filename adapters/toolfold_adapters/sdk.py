"""The one module that touches private parts of the `mcp` SDK: what it offers no public way to."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.streamable_http import GET_STREAM_KEY, StreamableHTTPServerTransport
from starlette.types import ASGIApp


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the durable connection behind a request: one for each session or process of the legacy era."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def has_standing_stream(server: Server[Any], connection: Connection) -> bool:
    """Return whether messages outside of a request reach the client now.

    A pipe always carries them; over streamable HTTP the client must have opened the session's GET stream.
    """
    if connection.session_id is None:
        return connection.has_standalone_channel
    transport = http_sessions(server).get(connection.session_id)
    streams = transport._request_streams if transport is not None else {}  # pyright: ignore[reportPrivateUsage]
    return GET_STREAM_KEY in streams


def http_sessions(server: Server[Any]) -> Mapping[str, StreamableHTTPServerTransport]:
    """Return the transports of the legacy sessions that are open over HTTP, by session id."""
    manager = server._session_manager  # pyright: ignore[reportPrivateUsage]
    return {} if manager is None else manager._server_instances  # pyright: ignore[reportPrivateUsage]


def idle_deadline(transport: StreamableHTTPServerTransport) -> float:
    """Return when a session ends unless it is used, by the clock of the event loop: never while a request lasts."""
    return math.inf if transport.idle_scope is None else transport.idle_scope.deadline


def wrap_endpoint(server: Server[Any], guard: Callable[[ASGIApp], ASGIApp]) -> None:
    """Put a guard in front of the endpoint of a server that has an HTTP application, behind its authentication."""
    manager: Any = server.session_manager  # which types the endpoint as what it makes it itself
    manager.asgi_app = guard(manager.asgi_app)


def can_notify_in_responses(server: Server[Any], connection: Connection) -> bool:
    """Return whether a notification sent within a request reaches the client: not where responses are plain JSON."""
    manager = server._session_manager  # pyright: ignore[reportPrivateUsage]
    return connection.session_id is None or manager is None or not manager.json_response
