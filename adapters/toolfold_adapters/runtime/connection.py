"""The runtime's side of a connection: bytes each way, over a transport that stays registered with the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from socket import socket

from attrs import frozen

from ..transport.signals import CHUNK


@frozen(eq=False)
class Connection:
    """A connection that was accepted; made by `open_connection`."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter

    async def receive(self) -> bytes:
        """Return the next bytes; none at the end, or if the other side has gone."""
        with suppress(ConnectionError):
            return await self._reader.read(CHUNK)
        return b""

    async def send(self, data: bytes) -> None:
        """Send bytes, which stay whole, and wait while many are unsent; raises `OSError` if the other side has gone."""
        self._writer.write(data)
        await self._writer.drain()


@asynccontextmanager
async def open_connection(accepted: socket) -> AsyncGenerator[Connection]:
    """Yield the connection of a socket, and close it, after what was sent; raises `OSError`.

    A wait for the socket with each message costs a registration, its removal, and a turn of the loop.
    """
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(CHUNK, loop)
    protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, accepted)
    writer = asyncio.StreamWriter(transport, protocol, reader, loop)
    try:
        yield Connection(reader, writer)
    finally:
        writer.close()
