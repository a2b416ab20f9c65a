"""The private parts of the `mcp` SDK that servers and clients need, where there is no public API: all are used here."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

from mcp.server import runner
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, authorization_context
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.models import InitializationOptions
from mcp.server.streamable_http import GET_STREAM_KEY, StreamableHTTPServerTransport
from mcp_types import ListToolsResult, Tool
from opentelemetry import trace
from opentelemetry.propagate import get_global_textmap
from starlette.types import ASGIApp, Message, Receive, Scope

if TYPE_CHECKING:
    from mcp.client.session import ClientSession
    from mcp.server import MCPServer


def is_mcp_server(server: object) -> TypeGuard[MCPServer[Any]]:
    """Return whether a server is an `MCPServer`, without importing that: there is none before somebody has."""
    module = sys.modules.get("mcp.server.mcpserver.server")
    return module is not None and isinstance(server, module.MCPServer)


def low_level_of(server: object) -> Server[Any] | None:
    """Return the low-level server that an SDK server is or has; `None` for anything else.

    An `MCPServer` does not show the handlers of its tools, or let its lifespan be extended, after it is made.
    """
    given: Any = server
    if is_mcp_server(server):
        given = given._lowlevel_server
    return given if isinstance(given, Server) else None  # pyright: ignore[reportUnknownVariableType]


def trace_what_is_recorded(server: Server[Any]) -> None:
    """Have a server make spans of requests where they are of use: there is a provider, or the client has a trace."""
    made = next((one for one in server.middleware if isinstance(one, OpenTelemetryMiddleware)), None)
    if made is None:
        return

    async def traced(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        provided = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
        of_use = provided or not get_global_textmap().fields.isdisjoint(ctx.meta or ())
        return await (made(ctx, call_next) if of_use else call_next(ctx))

    server.middleware[server.middleware.index(made)] = traced


async def serve_era(
    server: Server[Any],
    read: Any,
    write: Any,
    lifespan: Any,
    options: InitializationOptions,
    *,
    modern: bool,
    session: str | None = None,
) -> None:
    """Serve one client over streams of messages in one era, as the SDK does once a first request has shown the era.

    A legacy session that may outlive the connection has a name.

    For that it has another task receive each message, and pass it on.
    """
    if modern:
        await runner._serve_modern_stream(server, read, write, lifespan_state=lifespan, raise_exceptions=False)  # pyright: ignore[reportPrivateUsage]
    else:
        await runner._serve_legacy_stream(  # pyright: ignore[reportPrivateUsage]
            server,
            read,
            write,
            lifespan_state=lifespan,
            session_id=session,
            init_options=options,
            raise_exceptions=False,
        )


def connection_of(ctx: ServerRequestContext[Any, Any]) -> Connection:
    """Return the persistent connection of a request: in the legacy era one for each session or process."""
    return ctx.session._connection  # pyright: ignore[reportPrivateUsage]


def has_standing_stream(server: Server[Any], connection: Connection) -> bool:
    """Return whether messages outside a request can reach the client now.

    They always can over streams of both directions; over streamable HTTP the client must have opened the session's GET
    stream.
    """
    if connection.session_id is None or server._session_manager is None:  # pyright: ignore[reportPrivateUsage]
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


def when_http_is_served(server: Server[Any], prepare: Callable[[], None]) -> None:
    """Have `prepare` called when the HTTP application of a server was made: its session manager is known then."""
    given: Any = server
    make = given.streamable_http_app

    def streamable_http_app(**options: Any) -> Any:
        app = make(**options)
        prepare()
        return app

    given.streamable_http_app = streamable_http_app  # as a subclass would, but the server exists
    if given._session_manager is not None:
        prepare()


def wrap_endpoint(server: Server[Any], guard: Callable[[ASGIApp], ASGIApp]) -> None:
    """Put a guard in front of the endpoint of a server's HTTP application, behind its authentication."""
    manager: Any = server.session_manager  # its type for the endpoint is its own class only
    manager.asgi_app = guard(manager.asgi_app)


def let_http_sessions_reopen(server: Server[Any]) -> None:
    """Have a legacy session that ends over HTTP not take along the one that was opened under its id since.

    The SDK forgets what has ended by its id, some time after it was ended, since it opens no id twice.
    """
    manager: Any = server.session_manager
    discard = manager._discard_session

    async def discard_session(session_id: str, transport: StreamableHTTPServerTransport) -> None:
        if http_sessions(server).get(session_id, transport) is transport:
            await discard(session_id, transport)
        else:
            await transport.terminate()

    manager._discard_session = discard_session


async def end_http_session(server: Server[Any], session_id: str) -> None:
    """End the transport of a legacy session that is open over HTTP, if it is: from now on its id is unknown."""
    transport = http_sessions(server).get(session_id)
    if transport is not None:
        await server.session_manager._discard_session(session_id, transport)  # pyright: ignore[reportPrivateUsage]


async def open_http_session(
    server: Server[Any], session_id: str, scope: Scope, handshake: Iterable[tuple[Scope, Receive]]
) -> None:
    """Open a legacy session of a given id, whose handshake is repeated, as if its client had sent it here.

    If that is cancelled, wherever it is, there is no such session.
    """
    manager = server.session_manager
    transport = StreamableHTTPServerTransport(
        mcp_session_id=session_id,
        is_json_response_enabled=manager.json_response,
        event_store=manager.event_store,
        security_settings=manager.security_settings,
        retry_interval=manager.retry_interval,
        idle_timeout=manager.session_idle_timeout,
    )
    user = scope.get("user")
    if isinstance(user, AuthenticatedUser):
        manager._session_owners[session_id] = authorization_context(user)  # pyright: ignore[reportPrivateUsage]
    manager._server_instances[session_id] = transport  # pyright: ignore[reportPrivateUsage]
    opening, *rest = handshake

    async def ignore(message: Message) -> None:
        """Drop what would be the answer."""

    try:
        await manager._serve_opening_request(transport, *opening, ignore)  # pyright: ignore[reportPrivateUsage]
        for request in rest:
            await transport.handle_request(*request, ignore)
    except BaseException:
        await manager._discard_session(session_id, transport)  # pyright: ignore[reportPrivateUsage]
        raise


def can_notify_in_responses(server: Server[Any], connection: Connection) -> bool:
    """Return whether a notification sent during a request reaches the client: not if responses are plain JSON."""
    manager = server._session_manager  # pyright: ignore[reportPrivateUsage]
    return connection.session_id is None or manager is None or not manager.json_response


def known_to_client(session: ClientSession, tools: Iterable[Tool]) -> list[Tool]:
    """Return which tools a client may call; its calls of them have headers and checked results, as of listed ones."""
    listed = ListToolsResult(tools=[*tools])
    return session._absorb_tool_listing(listed, complete=False).tools  # pyright: ignore[reportPrivateUsage]
