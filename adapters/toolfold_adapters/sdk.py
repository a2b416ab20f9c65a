"""The only module that uses private parts of the `mcp` SDK, where there is no public API."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from mcp.client.session import ClientSession
from mcp.server import Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.streamable_http import GET_STREAM_KEY, StreamableHTTPServerTransport
from mcp.shared.dispatcher import CallOptions, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.types import ASGIApp


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


# -- the client's side, for the gateway -------------------------------------------------------------------------------


async def raw_request(
    session: ClientSession, method: str, params: Mapping[str, Any], on_progress: ProgressFnT | None = None
) -> dict[str, Any]:
    """Return the result of a request as it came: not validated, nothing left out, nothing filled in.

    `ClientSession.send_request` validates the whole result, so that one broken item loses the others. Cancelling it
    sends `notifications/cancelled`.

    Raises:
        MCPError: The server answered with an error, or the connection is closed (see `connection_lost`).
    """
    data: dict[str, Any] = {"method": method, "params": dict(params)}
    if "_meta" in params:
        data["params"]["_meta"] = dict(params["_meta"])
    options: CallOptions = {}
    session._stamp(data, options)  # pyright: ignore[reportPrivateUsage]
    if on_progress is not None:
        options["on_progress"] = on_progress
    return await session._dispatcher.send_raw_request(  # pyright: ignore[reportPrivateUsage]
        method, data["params"], options
    )


def is_closed(session: ClientSession) -> bool:
    """Return whether the connection to the server has ended."""
    return bool(getattr(session._dispatcher, "_closed", False))  # pyright: ignore[reportPrivateUsage]


def connection_lost(session: ClientSession, error: MCPError) -> bool:
    """Return whether `error` says that no answer can come any more, and is not the server's own.

    A server may use the same code for errors of its own, so the code alone does not tell.
    """
    return error.code == CONNECTION_CLOSED and (is_closed(session) or error.message.startswith("SSE stream"))


def learn_headers(session: ClientSession, name: str, input_schema: Any) -> str | None:
    """Have calls of a tool repeat the arguments that its schema marks as headers; return what is wrong with the marks.

    Nothing happens on a connection of the legacy era. `ClientSession.list_tools` does this for the tools that it lists;
    whoever lists them by `raw_request` has to do it for each.
    """
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return None
    problem = find_invalid_x_mcp_header(input_schema)
    if problem is None:
        maps = session._x_mcp_header_maps  # pyright: ignore[reportPrivateUsage]
        maps[name] = x_mcp_header_map(input_schema)
    return problem
