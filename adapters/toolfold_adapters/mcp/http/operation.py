"""A server in operation: the probes of whoever runs it, and a shutdown that lets calls finish (SPEC DEL-10, SAF-5).

GET /health    200 while the process answers; 503 once its background work has died, when the process ends (SPEC STO-8)
GET /ready     200 while it accepts work; 503 before that, and once it has been asked to end
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from types import FrameType
from typing import Any

import anyio
import uvicorn
from starlette.responses import JSONResponse
from starlette.types import Message, Receive, Scope, Send

from .application import HttpApp

HEALTH, READY = "/health", "/ready"
ENDING = "toolfold.ending"
"""The extension of a scope that returns whether the server is ending, for streams that end with it."""

_STREAMING_METHOD = b"subscriptions/listen"


class Operation:
    """An ASGI application with probes in front, which counts the calls that it is answering.

    The probes say nothing about the tools, so they are answered for any host name: whoever checks a container knows its
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
