"""`serve`: a tool set over stdio or streamable HTTP (SPEC DEL-10)."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any, Literal

import anyio
import uvicorn
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from toolfold import ConfigError, ToolSet

from .server import build_server

LOOPBACK = ("127.0.0.1", "localhost", "::1")
MAX_REQUEST_BYTES = 4 * 1024 * 1024
SHUTDOWN_SECONDS = 3

Ready = Callable[[str], None]


async def serve(
    tools: ToolSet,
    *,
    transport: Literal["stdio", "http"] = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    max_request_bytes: int = MAX_REQUEST_BYTES,
    on_ready: Ready | None = None,
    **options: Any,
) -> None:
    """Serve until the client leaves (stdio) or the process is told to end (HTTP).

    Args:
        tools: What to serve.
        transport: `"stdio"` or `"http"`.
        host: The address to bind; loopback unless given.
        port: The port to bind; 0 for any that is free.
        path: The path of the endpoint.
        allowed_hosts: `Host` headers to accept, as `name:port` or `name:*`; needed if `host` is not loopback.
        allowed_origins: `Origin` headers to accept, likewise with a scheme.
        max_request_bytes: The size of a request above which it is refused with status 413.
        on_ready: Is called with the URL once the server takes requests; over stdio with `"stdio"`.
        options: Those of `build_server`.

    Raises:
        ConfigError: A setting is wrong, or the address can't be bound.
    """
    server = build_server(tools, **options)
    if transport == "stdio":
        if on_ready is not None:
            on_ready("stdio")
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())
        return
    if transport != "http":
        raise ConfigError(f'There is no transport {transport!r}; use "stdio" or "http".')
    if not path.startswith("/"):
        raise ConfigError(f"The path of the endpoint must start with /, as in {'/' + path!r}; it is {path!r}.")
    security = security_settings(host, allowed_hosts, allowed_origins)
    await _serve_http(server, host, port, path, security, max_request_bytes, on_ready)


def security_settings(
    host: str, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()
) -> TransportSecuritySettings:
    """Return which `Host` and `Origin` headers are accepted: those of loopback, and those given (SPEC DEL-10).

    Raises:
        ConfigError: `host` is not loopback, and no host names are given.
    """
    hosts, origins = list(allowed_hosts), list(allowed_origins)
    if host in LOOPBACK:
        names = ["127.0.0.1", "localhost", "[::1]"]
        hosts += [form for name in names for form in (name, f"{name}:*")]
        origins += [f"http://{form}" for name in names for form in (name, f"{name}:*")]
    elif not hosts:
        raise ConfigError(
            f"{host} can be reached from elsewhere: say under which names with allowed_hosts "
            '(--allow-host), such as "tools.example.org:*", or bind to 127.0.0.1.'
        )
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


async def _serve_http(
    server: Server[Any],
    host: str,
    port: int,
    path: str,
    security: TransportSecuritySettings,
    max_request_bytes: int,
    on_ready: Ready | None,
) -> None:
    app = server.streamable_http_app(
        streamable_http_path=path,
        host=host,
        transport_security=security,
        max_request_body_size=max_request_bytes,
    )
    listener = _listen(host, port)
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address}:{listener.getsockname()[1]}{path}"
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=SHUTDOWN_SECONDS, ws="none")
    await _run(_AnnouncingServer(config, url, on_ready), listener)


async def _run(server: uvicorn.Server, listener: socket.socket) -> None:
    """Run the server to its end; if cancelled, let it close its connections and sessions first."""
    ended = anyio.Event()

    async def run() -> None:
        with anyio.CancelScope(shield=True):
            await server.serve(sockets=[listener])
        ended.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        try:
            await ended.wait()
        finally:
            server.should_exit = True


class _AnnouncingServer(uvicorn.Server):
    """A server that says when it takes requests."""

    def __init__(self, config: uvicorn.Config, url: str, on_ready: Ready | None) -> None:
        super().__init__(config)
        self._url = url
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._on_ready is not None and not self.should_exit:
            self._on_ready(self._url)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that say they are TCP; without it answers wait for acknowledgements
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host}:{port} can't be bound: {error.strerror}. Choose another --host or --port."
        ) from error
    return listener
