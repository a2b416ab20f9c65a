"""`http_app`: a tool set, or an existing server, as an ASGI application (SPEC DEL-10, INT-1)."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, Literal, Unpack, get_args

import anyio
from mcp.server import MCPServer, Server
from mcp.server.runner import serve_dual_era_loop, serve_loop
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import JSONRPCRequest
from starlette.applications import Starlette
from starlette.types import ASGIApp

from toolfold import ConfigError, ToolSet

from ...sdk import low_level_of
from ..callers import one_client
from ..options import ServerOptions
from ..server import build_server
from .auth import Authentication
from .guards import MAX_REQUEST_BYTES, HttpApp, guarded_app
from .operator import OperatorPage, check_operator_page

Existing = Server[Any] | MCPServer[Any]
Era = Literal["auto", "legacy"]


def http_app(
    served: ToolSet | Existing,
    *,
    host: str = "127.0.0.1",
    path: str = "/mcp",
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    max_request_bytes: int = MAX_REQUEST_BYTES,
    auth: Authentication | None = None,
    live: ASGIApp | None = None,
    **options: Unpack[ServerOptions],
) -> HttpApp:
    """Return an ASGI application that serves MCP over streamable HTTP, to be run or mounted (SPEC DEL-10, INT-1).

    It refuses requests for other servers. Mounted in a Starlette or FastAPI application, it needs its lifespan run:
    `FastAPI(lifespan=app.lifespan)`; without that, requests raise `ConfigError`.

    Args:
        served: A tool set; or a server, with groups or without.
        host: The address that it is bound to.
        path: The path of the endpoint, below that of the mount.
        allowed_hosts: `Host` headers to accept, as `name`, `name:port` or `name:*`; needed if `host` is not loopback.
        allowed_origins: `Origin` headers to accept, likewise with a scheme.
        max_request_bytes: The size of a body above which a request is refused with status 413.
        auth: Who may call it; everybody who reaches it unless given.
        live: The operator's page, `toolfold_diagrams.live(tools)`, to be served at /live: on loopback, or for the
            operators that `auth` names.
        options: Those of `build_server`, for a tool set.

    Raises:
        ConfigError: A name is not that of a host or an origin, the path does not start with `/`, or `host` is not
            loopback and no host names are given; options are given for a server that is made already; or the live page
            would not be the operator's alone.
    """
    if live is not None:
        check_operator_page(host, path, auth)
    server = as_server(served, options)
    return guarded_app(
        partial(_application, server, host, auth),
        host=host,
        path=path,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        max_request_bytes=max_request_bytes,
        **({} if live is None else {"beside": partial(OperatorPage, page=live, auth=auth)}),
    )


def as_server(served: Any, options: ServerOptions) -> Any:
    """Return the server of a tool set, or a server unchanged; raises `ConfigError` for options of a server."""
    if isinstance(served, ToolSet):
        return build_server(served, **options)
    if options:
        raise ConfigError(
            f"{next(iter(options))} is an option for tool sets; {type(served).__name__} is a server that is made "
            "already: give its options to group_server."
        )
    if low_level_of(served) is None and not is_fastmcp(served):
        raise ConfigError(f"{type(served).__name__} can't be served: give a ToolSet, or a server of the MCP SDK.")
    return served


def is_fastmcp(served: object) -> bool:
    """Return whether a server is one of FastMCP, without importing that."""
    return any(kind.__module__.partition(".")[0] == "fastmcp" for kind in type(served).__mro__)


async def run_stdio(server: Any, era: Era = "auto", *, many_clients: bool = False) -> None:
    """Serve over standard input and output, until the client leaves (SPEC DEL-12).

    Args:
        server: The server.
        era: `"auto"`: that of the client's first request, or of an `initialize` that comes after `server/discover`.
            `"legacy"`: up to 2025-11-25 alone, so that a client that asks for the modern one falls back.
        many_clients: Whether who starts the process passes on requests of several clients, so that only a handle tells
            a modern one from the others.

    Raises:
        ConfigError: There is no such era, or the server has no say in it.
    """
    if era not in get_args(Era):
        raise ConfigError(f'era must be "auto" or "legacy", not {era!r}.')
    one_client.set(not many_clients)
    if is_fastmcp(server):
        if era != "auto":
            raise ConfigError("A server of FastMCP decides itself which eras it serves: leave out era.")
        await server.run_stdio_async(show_banner=False)
        return
    low = low_level_of(server)
    assert low is not None
    async with stdio_server() as (read, write):
        await serve_streams(low, era, read, write)


async def serve_streams(low: Server[Any], era: Era, read: Any, write: Any) -> None:
    """Serve one client over streams of messages, until it leaves; see `run_stdio`."""
    options = low.create_initialization_options()
    async with low.lifespan(low) as state:
        if era == "legacy":
            await serve_loop(low, read, write, lifespan_state=state, init_options=options)
        else:
            await _serve_either(
                partial(serve_dual_era_loop, low, lifespan_state=state, init_options=options), read, write
            )


async def _serve_either(serve: Callable[[Any, Any], Coroutine[Any, Any, None]], read: Any, write: Any) -> None:
    """Serve a client in the era of its first request, or in that of an `initialize` after a `server/discover`.

    A host asks `server/discover`, and one whose answer takes it too long, because this process is starting, begins
    anew in the other era; what `serve` serves has but one.
    """
    async with write, read, anyio.create_task_group() as tasks, AsyncExitStack() as sending:

        async def begun() -> Any:
            send, receive = anyio.create_memory_object_stream[Any](0)
            await sending.enter_async_context(send)
            tasks.start_soon(serve, receive, write.clone())
            return send

        send, probed, decided = await begun(), False, False
        async for item in read:
            method = _request_in(item)
            if probed and method == "initialize" and not decided:
                send = await begun()
            probed = probed or method == "server/discover"
            decided = decided or method not in ("", "server/discover")
            await send.send(item)


def _request_in(item: Any) -> str:
    """Return the method of a request, or an empty text for whatever else comes over a stream."""
    message = getattr(item, "message", None)
    return message.method if isinstance(message, JSONRPCRequest) else ""


def _application(server: Any, host: str, auth: Authentication | None, path: str, max_request_bytes: int) -> Starlette:
    """Return the application of a server; hosts and origins are checked in front of it, exactly."""
    if is_fastmcp(server):
        if auth is not None:
            raise ConfigError("A server of FastMCP authenticates its callers itself: FastMCP(auth=...).")
        app: Starlette = server.http_app(path=path, host_origin_protection=False)
        return app
    made: Starlette = server.streamable_http_app(
        streamable_http_path=path,
        host=host,
        max_request_body_size=max_request_bytes,
        **({} if auth is None else {"auth": auth.settings, "token_verifier": auth.verifier}),
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    return made
