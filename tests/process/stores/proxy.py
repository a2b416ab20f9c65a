"""A TCP proxy that loses answers, for tests of connections that break or hang."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel
from anyio.abc import ByteReceiveStream, SocketAttribute, SocketStream
from attrs import define


@define
class Proxy:
    """Forwards connections to a port of loopback.

    Attributes:
        target: The port, for connections to come.
        port: The port that it listens on itself.
        lose: After how many answers from now to lose one, and to close its connection; `None` for never.
        meanwhile: What happens before the connection is closed whose answer is lost.
        silent: Whether no answer is forwarded.
    """

    target: int
    port: int = 0
    lose: int | None = None
    meanwhile: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint
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
            if self.silent:
                continue
            left = self.lose
            if left is not None:
                self.lose = left - 1 if left else None
            if left == 0:
                await self.meanwhile()
                return
            await client.send(data)
