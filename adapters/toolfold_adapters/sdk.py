"""The only module that uses private parts of the `mcp` SDK, where there is no public API."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mcp.server import MCPServer, Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.streamable_http import GET_STREAM_KEY, StreamableHTTPServerTransport
from starlette.types import ASGIApp


def low_level_of(server: object) -> Server[Any] | None:
    """Return the low-level server that an SDK server is or has; `None` for anything else.

    An `MCPServer` lets nobody else see the handlers of its tools, or extend its lifespan, after it is made.
    """
    given: Any = server
    if isinstance(server, MCPServer):
        given = given._lowlevel_server
    return given if isinstance(given, Server) else None  # pyright: ignore[reportUnknownVariableType]


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the persistent connection of a request: in the legacy era one for each session or process."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def has_standing_stream(server: Server[Any], connection: Connection) -> bool:
    """Return whether messages outside a request can reach the client now.

    They always can over stdio; over streamable HTTP the client must have opened the session's GET stream.
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
    """Return when an unused session expires, by the clock of the event loop; never during a request."""
    return math.inf if transport.idle_scope is None else transport.idle_scope.deadline


def wrap_endpoint(server: Server[Any], guard: Callable[[ASGIApp], ASGIApp]) -> None:
    """Put a guard in front of the endpoint of a server's HTTP application, behind its authentication."""
    manager: Any = server.session_manager  # its type for the endpoint is its own class only
    manager.asgi_app = guard(manager.asgi_app)


def can_notify_in_responses(server: Server[Any], connection: Connection) -> bool:
    """Return whether a notification sent during a request reaches the client: not if responses are plain JSON."""
    manager = server._session_manager  # pyright: ignore[reportPrivateUsage]
    return connection.session_id is None or manager is None or not manager.json_response
