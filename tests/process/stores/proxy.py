"""A TCP proxy that loses answers, for tests of connections that break or hang."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.abc import ByteReceiveStream, SocketAttribute, SocketStream
from attrs import define


@define
class Proxy:
    """Forwards connections to a port of loopback.

    Attributes:
        target: The port, for connections to come.
        port: The port that it listens on itself.
        lose: After how many answers from now to lose one, and to close its connection; `None` for never.
        withhold: After how many answers to withhold one, while the connection stays open.
        silent: Whether no answer is forwarded.
    """

    target: int
    port: int = 0
    lose: int | None = None
    withhold: int | None = None
    silent: bool = False

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Run it."""
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            self.port = listener.extra(SocketAttribute.local_port)
            tasks.start_soon(listener.serve, self._serve)
            yield
            tasks.cancel_scope.cancel()

    async def _serve(self, client: SocketStream) -> None:
        with suppress(OSError):  # nobody listens there
            async with (
                client,
                await anyio.connect_tcp("127.0.0.1", self.target) as server,
                anyio.create_task_group() as tasks,
            ):
                for forward in (self._requests(client, server), self._answers(server, client)):
                    tasks.start_soon(self._until_closed, forward, tasks.cancel_scope)

    async def _until_closed(self, forward: Coroutine[Any, Any, None], scope: anyio.CancelScope) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            await forward
        scope.cancel()

    async def _requests(self, client: ByteReceiveStream, server: SocketStream) -> None:
        async for data in client:
            await server.send(data)

    async def _answers(self, server: ByteReceiveStream, client: SocketStream) -> None:
        async for data in server:
            if self.silent or self._counted("withhold"):
                continue
            if self._counted("lose"):
                return
            await client.send(data)

    def _counted(self, what: str) -> bool:
        """Return whether the answer is the one that this happens to."""
        left: int | None = getattr(self, what)
        if left is not None:
            setattr(self, what, left - 1 if left else None)
        return left == 0
