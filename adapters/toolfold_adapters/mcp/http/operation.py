"""A server in operation: its connections, the probes of its operator, and its end (SPEC DEL-10, SAF-4, SAF-5).

uvicorn has no time-outs for requests, and its limit of connections is not per caller. A shutdown lets calls finish.

GET /health    200 while the process answers; 503 once its background work has died, when the process ends (SPEC STO-8)
GET /ready     200 while it accepts work; 503 before that, and once it has been asked to end
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from types import FrameType
from typing import Any, cast

import anyio
import h11
import uvicorn
from attrs import evolve, field
from starlette.responses import JSONResponse, Response
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import get_remote_addr

from toolfold import ConfigError, Limit, ToolfoldError
from toolfold.spi import Caller, Full, frozen

from ...tally import Tally
from ..request import address
from .application import HttpApp
from .guards import limit_response

CLOSING_SECONDS = 3
"""How long connections may take to close at the end. A container is given ten seconds in all by default."""
EXEMPT = Limit(64, 32)
"""Connections beyond the limit whose request is read: it may be a probe, or end a session (SPEC SAF-7)."""
DESCRIPTORS_OF_OTHERS = 192
"""File descriptors that are reserved for anything but connections within the limit."""

_TIMED_OUT = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
_CLOSE = (b"connection", b"close")


@frozen
class ConnectionBounds:
    """The limits of connections (SPEC SAF-4, SAF-5).

    Attributes:
        header_timeout: Seconds from the connection, or from the previous response, to the end of a request's head.
        body_timeout: Seconds from there to the end of its body.
        tally: Counts the connections.
        exempt: Counts those beyond the limit whose request is read.
        by_address: Whether they are also counted by address; not behind proxies, which connect for others.
    """

    header_timeout: float
    body_timeout: float
    tally: Tally
    by_address: bool = True
    exempt: Tally = field(factory=lambda: Tally("connections", EXEMPT))

    def __attrs_post_init__(self) -> None:
        for name in ("header_timeout", "body_timeout"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name} must be more than 0 seconds, not {getattr(self, name)}.")

    def protocol(self) -> type[asyncio.Protocol]:
        """Return a factory of the protocol of each connection, for `uvicorn.Config`."""
        return cast(type[asyncio.Protocol], partial(BoundedProtocol, self))


class BoundedProtocol(H11Protocol):
    """uvicorn's connection with limits: one too many is refused, and one whose client takes too long is closed.

    The head of a request must arrive in a bounded time, and so must its body. A response may take any time, since
    subscriptions are responses that last.
    """

    def __init__(self, bounds: ConnectionBounds, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._bounds = bounds
        self._timeouts: dict[Any, float] = {h11.IDLE: bounds.header_timeout, h11.SEND_BODY: bounds.body_timeout}
        self._counted: tuple[Tally, Caller] | None = None
        self._awaited: tuple[Any, Any] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request of the connection; if it is one too many, only some requests are answered."""
        peer = get_remote_addr(transport) if self._bounds.by_address else None
        caller = None if peer is None else address(peer[0])
        tally = self._bounds.tally
        try:
            tally.take(caller)
        except Full as full:
            tally = self._bounds.exempt
            if not tally.has_room(caller):
                transport.write(_raw(limit_response(full)))
                transport.abort()
                return
            tally.add(caller)
            self.app = cast(Any, _Exempt(self.app, full))
        self._counted = (tally, caller)
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Parse the data, and restart the timer if another part is awaited now."""
        super().data_received(data)
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is no HTTP; if the request has its response already, which uvicorn overlooks, only close."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Release the connection's place and stop the timer."""
        if self._counted is not None:
            tally, caller = self._counted
            tally.give_back(caller)
            super().connection_lost(exc)
            self._stop()

    def _watch(self) -> None:
        """Restart the timer if another part of a request, or another request, is awaited than before."""
        awaited = (self.conn.their_state, self.cycle)
        if awaited == self._awaited:
            return
        self._stop()
        self._awaited = awaited
        seconds = self._timeouts.get(self.conn.their_state)
        if seconds is not None and not self.transport.is_closing():
            self._timer = self.loop.call_later(seconds, self._expire)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        begun = self.conn.our_state is h11.IDLE and self.conn.trailing_data[0]
        if begun or self.conn.our_state is h11.SEND_RESPONSE:
            self.transport.write(_TIMED_OUT)
        self.transport.abort()


class _Exempt:
    """The application for a connection that is one too many: it answers probes and requests that end a session.

    It refuses all others, and closes the connection after either (SPEC SAF-7).
    """

    def __init__(self, app: Any, full: Full) -> None:
        self._app = app
        self._full = full

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exempt = is_probe(scope) or scope["method"] == "DELETE"

        async def send_last(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), _CLOSE]
            await send(message)

        await (self._app if exempt else limit_response(self._full))(scope, receive, send_last)


def _raw(response: Response) -> bytes:
    """Return a response as it is sent."""
    status = HTTPStatus(response.status_code)
    headers = b"".join(b"%s: %s\r\n" % header for header in (*response.raw_headers, _CLOSE))
    return b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (status, status.phrase.encode(), headers, bytes(response.body))


def within_descriptors(limit: Limit) -> Limit:
    """Return a limit of connections that leaves the process file descriptors for everything else.

    One caller that could take all that are left gets its share of them (see `share_of`).
    """
    if sys.platform == "win32":  # sockets are no file descriptors there
        return limit
    import resource

    from ...tally import share_of

    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most == resource.RLIM_INFINITY:
        return limit
    room = max(1, most - DESCRIPTORS_OF_OTHERS, most // 2)
    total, own = room if limit.total is None else min(limit.total, room), limit.per_caller
    lowered = own is not None and total != limit.total and own >= total
    return evolve(limit, total=total, per_caller=share_of(total, own) if lowered else own)


# -- probes, and the end -----------------------------------------------------------------------------------------------

HEALTH, READY = "/health", "/ready"
ENDING = "toolfold.ending"
"""The extension of a scope that returns whether the server is ending, for streams that end with it."""

_STREAMING_METHOD = b"subscriptions/listen"


class Operation:
    """An ASGI application with probes in front, which counts the calls that it is answering.

    The probes say nothing about the tools, so they are answered for any host name: a check of a container knows its
    address at most.
    """

    def __init__(self, app: HttpApp) -> None:
        self._app = app
        self._ending = False
        self.answering = 0
        """How many calls are being answered."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["extensions"] = {**(scope.get("extensions") or {}), ENDING: lambda: self._ending}
        if is_probe(scope):
            await self._probe(scope["path"])(scope, receive, send)
        elif _is_call(scope):
            self.answering += 1
            try:
                await self._app(scope, receive, send)
            finally:
                self.answering -= 1
        else:
            await self._stream(scope, receive, send)

    async def _stream(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, and complete the stream that the SDK abandons when the server ends."""
        is_open = False

        async def send_on(message: Message) -> None:
            nonlocal is_open
            is_open = message["type"] == "http.response.start" or message.get("more_body", False)
            await send(message)

        await self._app(scope, receive, send_on)
        if is_open:
            await send({"type": "http.response.body", "body": b""})

    def _probe(self, path: str) -> JSONResponse:
        if self.has_failed:
            return JSONResponse({"status": "failed"}, 503)
        if path == HEALTH:
            return JSONResponse({"status": "ok"})
        if self._ending or not self._app.running:
            return JSONResponse({"status": "ending" if self._ending else "starting"}, 503)
        return JSONResponse({"status": "ready"})

    @property
    def has_failed(self) -> bool:
        """Whether what runs beside the requests has died."""
        return self._app.failure is not None

    def end(self) -> None:
        """Answer that the server is ending from now on."""
        self._ending = True


def is_probe(scope: Scope) -> bool:
    """Return whether a request asks how the server is."""
    return scope["path"] in (HEALTH, READY) and scope["method"] in ("GET", "HEAD")


def _is_call(scope: Scope) -> bool:
    """Return whether a request is answered in finite time; streams of notifications end with the server."""
    return scope["method"] == "POST" and (b"mcp-method", _STREAMING_METHOD) not in scope["headers"]


class OperatedServer(uvicorn.Server):
    """uvicorn's server; it announces when it accepts requests, and lets calls finish before it ends.

    Asked to end, it accepts no more connections and gives the calls in progress some seconds, then it ends the streams
    that are left. A second signal does that at once.
    """

    def __init__(
        self, config: uvicorn.Config, operation: Operation, shutdown_timeout: float, on_ready: Callable[[], Any]
    ) -> None:
        super().__init__(config)
        self._operation = operation
        self._shutdown_timeout = shutdown_timeout
        self._on_ready = on_ready
        self._asked = False
        self._deadline: float | None = None
        self._signal: int | None = None

    def end(self) -> None:
        """Ask the server to end."""
        self._asked = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle a signal: uvicorn's own handling ends streams immediately, and with them the answers of calls."""
        if self._asked:
            super().handle_exit(sig, frame)
        else:
            self._asked, self._signal = True, sig

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Announce that the server accepts requests."""
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()

    async def on_tick(self, counter: int) -> bool:
        """Return whether to end.

        That is once asked to, when all calls are answered, or time is up, or a second signal came; and at once if the
        background work has died.
        """
        if self._operation.has_failed:
            self.should_exit = True
        if self._asked and not self.should_exit and self._is_drained():
            if self._signal not in (None, signal.SIGTERM):  # uvicorn raises it again, which ends the program
                super().handle_exit(self._signal, None)
            self.should_exit = True
        return await super().on_tick(counter)

    def _is_drained(self) -> bool:
        """Accept no more connections, and return whether the calls in progress are answered, or their time is up."""
        if self._deadline is None:
            for server in self.servers:
                server.close()
            self._operation.end()
            self._deadline = anyio.current_time() + self._shutdown_timeout
        return not self._operation.answering or anyio.current_time() >= self._deadline


async def serve_http(
    app: HttpApp,
    host: str,
    port: int,
    path: str,
    connections: ConnectionBounds,
    forwarded_allow_ips: str | None,
    shutdown_timeout: float,
    on_ready: Callable[[str], None] | None,
) -> None:
    """Bind an address and serve an application there until it ends; see `serve`."""
    listener = _listen(host, port)
    address = f"[{host}]" if ":" in host else host
    url = f"http://{address}:{listener.getsockname()[1]}{path}"
    operation = Operation(app)
    config = uvicorn.Config(
        operation,
        http=connections.protocol(),
        ws="none",
        log_config=None,
        timeout_graceful_shutdown=CLOSING_SECONDS,
        proxy_headers=forwarded_allow_ips is not None,
        forwarded_allow_ips=forwarded_allow_ips,
    )
    server = OperatedServer(config, operation, shutdown_timeout, lambda: on_ready(url) if on_ready else None)
    await _run(server, listener)
    if app.failure is not None:
        raise ToolfoldError("The server has ended: its background work failed, as the log says.") from app.failure


async def _run(server: OperatedServer, listener: socket.socket) -> None:
    """Run the server until it ends; if cancelled, let it finish its calls and close its sessions first."""
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
            server.end()


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets declared as TCP; without it, answers wait for acknowledgements
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform == "win32":  # where SO_REUSEADDR would let two servers take one port
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
    else:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host}:{port} can't be bound: {error.strerror}. Choose another --host or --port."
        ) from error
    return listener
