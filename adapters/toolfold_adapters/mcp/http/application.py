"""`http_app`: a tool set, or an existing server, as an ASGI application (SPEC DEL-10, INT-1)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast
from urllib.parse import quote

from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send

from toolfold import ConfigError, ToolSet

from ..options import ServerOptions
from ..sdk import low_level_of
from ..server import build_server
from .auth import Authentication, CallerPages, OperatorPage, check_operator_page
from .guards import MAX_REQUEST_BYTES, Addresses, guarded

if TYPE_CHECKING:
    from mcp.server import MCPServer

Existing: TypeAlias = "Server[Any] | MCPServer[Any]"


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
    logins: ASGIApp | None = None,
    **options: Unpack[ServerOptions],
) -> HttpApp:
    """Return an ASGI application that serves MCP over streamable HTTP, to be run or mounted.

    It refuses requests for other servers. Mounted in a Starlette or FastAPI application, it needs its lifespan run:
    `FastAPI(lifespan=app.lifespan)`; without that, requests raise `ConfigError`.

    SPEC DEL-10, INT-1.

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
        logins: The pages on which callers log in at the servers of a gateway, to be served at /login for those whom
            `auth` knows.
        options: Those of `build_server`, for a tool set.

    Raises:
        ConfigError: A name is not that of a host or an origin, the path does not start with `/`, or `host` is not
            loopback and no host names are given; options are given for a server that is made already; or the live page
            would not be the operator's alone.
    """
    if live is not None:
        check_operator_page(host, path, auth)
    server = as_server(served, options)
    if not path.startswith("/"):
        raise ConfigError(f"The path of the endpoint must start with /, as in {'/' + path!r}; it is {path!r}.")
    addresses = Addresses.of(host, allowed_hosts, allowed_origins)
    app = _application(server, host, auth, path, max_request_bytes)

    def beside(inner: ASGIApp) -> ASGIApp:
        inner = inner if live is None else OperatorPage(inner, live, auth)
        return inner if logins is None or auth is None else CallerPages(inner, logins, auth)

    return HttpApp(app, _at_both_paths(guarded(app, addresses, max_request_bytes, beside), path))


def _at_both_paths(app: ASGIApp, path: str) -> ASGIApp:
    """Return an application whose endpoint answers with and without a slash at its end.

    A redirect would name the scheme and host of this side of a proxy, and clients do not follow it with a body.
    """
    other = path.rstrip("/") if path.endswith("/") else f"{path}/"

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        if other and scope["type"] == "http" and scope["path"] == f"{scope.get('root_path', '')}{other}":
            found = scope["path"].removesuffix(other) + path
            scope = {**scope, "path": found, "raw_path": quote(found).encode()}
        await app(scope, receive, send)

    return answer


class HttpApp:
    """An ASGI application that serves MCP, alone or mounted in another one: made by `http_app` (SPEC DEL-10, INT-1).

    An application that mounts it has to run its `lifespan`: `FastAPI(lifespan=app.lifespan)`.

    Attributes:
        running: Whether its lifespan runs, so that it answers requests.
        failure: What has ended its lifespan while it ran, so that it answers none any more (SPEC STO-8).
    """

    def __init__(self, app: Starlette, guarded: ASGIApp) -> None:
        self._app = app
        self._guarded = guarded
        self._context = app.router.lifespan_context
        self.running = False
        self.failure: Exception | None = None
        app.router.lifespan_context = cast("Any", self.lifespan)  # also where it runs alone

    @asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncGenerator[Mapping[str, Any]]:
        """Run the server for the duration of the block; it can run once."""
        try:
            async with self._context(self._app) as state:
                self.running = True
                yield state or {}
        except Exception as error:
            self.failure = error if self.running else None
            raise
        finally:
            self.running = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and not self.running:
            raise ConfigError(
                "The MCP server does not run: give its lifespan to the application that it is mounted in, as in "
                "FastAPI(lifespan=app.lifespan), or enter app.lifespan() in that of your own."
            )
        await self._guarded(scope, receive, send)


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
