"""`serve`: a tool set over stdio or streamable HTTP; and `run`, a program that does (SPEC DEL-10)."""

from __future__ import annotations

import sys
from asyncio import get_running_loop
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from secrets import token_urlsafe
from threading import current_thread, main_thread
from typing import Any, Literal, Unpack, get_args

import anyio
from mcp.server.lowlevel import Server
from mcp.server.runner import serve_loop
from mcp_types import PROTOCOL_VERSION_META_KEY, JSONRPCRequest
from starlette.types import ASGIApp

from toolfold import ConfigError, ToolSet
from toolfold.spi import table

from ..tally import Tally
from ..transport.lines import Messages, standard_streams
from ..transport.signals import cancelled_by_signals, stdin_closed_by_signals
from .http.application import Existing, as_server, http_app, is_fastmcp
from .http.auth import Authentication
from .http.guards import BODY_TIMEOUT, HEADER_TIMEOUT, MAX_REQUEST_BYTES
from .options import DEFAULTS, ServerOptions
from .request import own_client
from .sdk import low_level_of, serve_era

SHUTDOWN_TIMEOUT = 5.0

MOST_BEFORE = 9
"""How many messages are retained that come before the first request, with that one."""

Ready = Callable[[str], None]
Transport = Literal["stdio", "http"]
Era = Literal["auto", "legacy"]


async def serve(
    tools: ToolSet | Existing,
    *,
    transport: Transport = "stdio",
    host: str = "127.0.0.1",
    port: int = 8000,
    path: str = "/mcp",
    allowed_hosts: Iterable[str] = (),
    allowed_origins: Iterable[str] = (),
    max_request_bytes: int = MAX_REQUEST_BYTES,
    header_timeout: float = HEADER_TIMEOUT,
    body_timeout: float = BODY_TIMEOUT,
    forwarded_allow_ips: str | None = None,
    shutdown_timeout: float = SHUTDOWN_TIMEOUT,
    auth: Authentication | None = None,
    live: ASGIApp | None = None,
    logins: ASGIApp | None = None,
    era: Era = "auto",
    many_clients: bool = False,
    on_ready: Ready | None = None,
    **options: Unpack[ServerOptions],
) -> None:
    """Serve until the client disconnects (stdio) or a signal asks the process to end.

    Sessions are closed then, with their hooks; SIGTERM is no failure, and a second signal does not wait. Over HTTP,
    `/health` and `/ready` answer probes, and calls in progress are finished before the server ends.

    Args:
        tools: The tool set to serve, or a server of the SDK or of FastMCP.
        transport: `"stdio"` or `"http"`.
        host: The address to bind.
        port: The port to bind; 0 for any free one.
        path: The path of the endpoint.
        allowed_hosts: `Host` headers to accept, as `name`, `name:port` or `name:*`; needed if `host` is not loopback.
        allowed_origins: `Origin` headers to accept, likewise with a scheme.
        max_request_bytes: The size of a body above which a request is refused with status 413.
        header_timeout: Seconds in which a connection must send the head of a request (SPEC SAF-5).
        body_timeout: Seconds in which the body must follow; otherwise the request is refused with status 408.
        forwarded_allow_ips: The addresses of the proxies whose `X-Forwarded-For` header is trusted, separated by
            commas, or `"*"`; `None` for none. Without it, all callers behind a proxy have one address.
        shutdown_timeout: Seconds that calls in progress are given when the server is asked to end.
        auth: Who may call it over HTTP; everybody who reaches it unless given.
        live: The operator's page, `toolfold_diagrams.live(tools)`, to be served at /live over HTTP.
        logins: The pages on which callers log in at the servers of a gateway, to be served at /login; see `http_app`.
        era: Over stdio, `"auto"`: the era that the client asks for; `"legacy"`: up to 2025-11-25 alone, so that a
            client that asks for the modern one falls back, and what it opens enters its list (SPEC DEL-12).
        many_clients: Over stdio, whether who starts the process passes on requests of several clients, as a proxy or a
            test kit does: then each state has a handle, and a call opens nothing.
        on_ready: Called with the URL once the server accepts requests; over stdio with `"stdio"`.
        options: Those of `build_server`; of a server that is made already `limits` alone, for its connections.

    Raises:
        ConfigError: A setting is wrong, or the address can't be bound.
        ToolfoldError: Its background work has failed, so that it has ended (SPEC STO-8).
    """
    if transport not in get_args(Transport):
        raise ConfigError(f'There is no transport {transport!r}; use "stdio" or "http".')
    if transport == "http" and era != "auto":
        raise ConfigError(f"Over HTTP each request says its era: leave out era={era!r}.")
    if transport == "stdio" and options.get("delivery") == "principal":
        raise ConfigError("Callers are not authenticated over stdio: delivery='principal' needs transport='http'.")
    limits = options.get("limits", DEFAULTS)
    if not isinstance(tools, ToolSet):
        options.pop("limits", None)
    server = as_server(tools, options)
    if transport == "stdio":
        await run_stdio(server, era, on_ready, many_clients=many_clients)
        return
    from .http.operation import ConnectionBounds, serve_http, within_descriptors  # h11, which stdio does without

    app = http_app(
        server,
        host=host,
        path=path,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        max_request_bytes=max_request_bytes,
        auth=auth,
        live=live,
        logins=logins,
    )
    connections = ConnectionBounds(
        header_timeout=header_timeout,
        body_timeout=body_timeout,
        tally=Tally("connections", within_descriptors(limits.connections)),
        by_address=forwarded_allow_ips is None,
    )
    await serve_http(app, host, port, path, connections, forwarded_allow_ips, shutdown_timeout, on_ready)


async def run_stdio(
    server: Any, era: Era = "auto", on_ready: Ready | None = None, *, many_clients: bool = False
) -> None:
    """Serve over standard input and output, until the client leaves (SPEC DEL-12).

    Args:
        server: The server.
        era: `"auto"`: that of the client's first request, or of an `initialize` that comes after `server/discover`.
            `"legacy"`: up to 2025-11-25 alone, so that a client that asks for the modern one falls back.
        on_ready: Called with `"stdio"` once signals and messages are taken.
        many_clients: Whether who starts the process passes on requests of several clients, so that only a handle tells
            a modern one from the others.

    Raises:
        ConfigError: There is no such era, or the server has no say in it.
    """
    if era not in get_args(Era):
        raise ConfigError(f'era must be "auto" or "legacy", not {era!r}.')
    announce: Ready = on_ready or (lambda _: None)
    own_client.set("" if many_clients else token_urlsafe(16))
    if is_fastmcp(server):
        if era != "auto":
            raise ConfigError("A server of FastMCP decides itself which eras it serves: leave out era.")
        with stdin_closed_by_signals():
            announce("stdio")
            await server.run_stdio_async(show_banner=False)
        return
    low = low_level_of(server)
    assert low is not None
    async with standard_streams() as (read, write):
        announce("stdio")
        await serve_streams(low, era, read, write)


async def serve_streams(low: Server[Any], era: Era, read: Any, write: Any) -> None:
    """Serve one client over streams of messages, until it leaves; see `run_stdio`."""
    async with low.lifespan(low) as state:
        await serve_client(low, state, era, read, write)


async def serve_client(
    low: Server[Any], state: Any, era: Era, read: Any, write: Any, *, session: str | None = None
) -> None:
    """Serve one client of a running server over streams of messages, until it leaves.

    Args:
        low: The server.
        state: What its lifespan yields.
        era: See `run_stdio`.
        read: What comes from the client.
        write: What goes there.
        session: The name of its legacy session, if that may outlive the connection.
    """
    options = low.create_initialization_options()
    if era == "legacy":
        await serve_loop(low, read, write, lifespan_state=state, init_options=options, session_id=session)
        return
    async with write, read, anyio.create_task_group() as tasks:

        async def begun(messages: _Opening) -> None:
            request = await messages.first_request()
            modern = _is_modern(request)
            await serve_era(low, messages, write.clone(), state, options, modern=modern, session=session)
            tasks.cancel_scope.cancel()

        await begun(_Opening(read, lambda messages: tasks.start_soon(begun, messages)))


class _Opening(Messages):
    """The messages of a client that has not decided on an era: it may begin anew after a `server/discover`.

    A host asks `server/discover`, and one whose answer takes it too long, because this process is starting, begins
    anew in the other era; what serves its messages has but one, and is then given no more of them.

    Args:
        messages: The messages.
        begin: Serves those from an `initialize` on.
        first: The first of them, if they begin anew.
    """

    def __init__(self, messages: Any, begin: Callable[[_Opening], object], *first: Any) -> None:
        self._messages = messages
        self._begin = begin
        self._first = deque[Any](first, maxlen=MOST_BEFORE)
        self._probed = False
        self._decided = bool(first)

    async def first_request(self) -> JSONRPCRequest | None:
        """Return the first request, which still is among the messages, or `None` if there is none."""
        while not self._first or not isinstance(self._first[-1].message, JSONRPCRequest):
            try:
                item = await anext(self._messages)
            except (StopAsyncIteration, anyio.ClosedResourceError):
                return None
            if not isinstance(item, Exception):
                self._first.append(item)
        return self._first[-1].message

    async def __anext__(self) -> Any:
        item = self._first.popleft() if self._first else await anext(self._messages)
        if not self._decided and isinstance(message := getattr(item, "message", None), JSONRPCRequest):
            if self._probed and message.method == "initialize":
                self._begin(_Opening(self._messages, self._begin, item))
                await anyio.sleep_forever()
            self._probed = message.method == "server/discover"
            self._decided = not self._probed
        return item


def _is_modern(request: JSONRPCRequest | None) -> bool:
    """Return whether a client that begins with a request is of the modern era."""
    params = {} if request is None else request.params or {}
    meta = table(params.get("_meta")) or {}
    return request is not None and request.method != "initialize" and PROTOCOL_VERSION_META_KEY in meta


# -- a program that serves, from its start to its end -----------------------------------------------------------------

ELSEWHERE = "await toolfold_adapters.mcp.serve(tools)"


def run(tools: ToolSet, transport: Transport, bound: Mapping[str, Any], **options: Unpack[ServerOptions]) -> None:
    """Serve until the client disconnects or a signal asks the process to end, which then has the usual status.

    Args:
        tools: The tool set.
        transport: `"stdio"` or `"http"`.
        bound: `host`, `port` and `path` for HTTP; those that are `None` are not given.
        options: The options of `build_server`.

    Raises:
        ConfigError: A setting is wrong, the address can't be bound, or this is not the place for a program.
    """
    _check_place()
    given = {name: value for name, value in bound.items() if value is not None}
    if given and transport == "stdio":
        raise ConfigError(f'{next(iter(given))} is for HTTP: give transport="http" too, or leave it out.')
    with cancelled_by_signals() as shutdown:
        anyio.run(partial(serve, tools, transport=transport, on_ready=_announce, **given, **options))
    shutdown.exit_if_signalled()


def _check_place() -> None:
    """Raise `ConfigError` in a thread, or in an event loop."""
    try:
        get_running_loop()
    except RuntimeError:
        if current_thread() is main_thread():
            return
        raise ConfigError(f"run handles signals, which only the main thread can; in another, {ELSEWHERE}.") from None
    problem = 'run starts an event loop, and one is running: call it under if __name__ == "__main__", or'
    raise ConfigError(f"{problem} {ELSEWHERE}.")


def _announce(url: str) -> None:
    if url != "stdio":
        print(f"toolfold: serving {url}", file=sys.stderr, flush=True)
