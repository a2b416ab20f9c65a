"""The way to an MCP server: its address, and the loop that its connections run in."""

from __future__ import annotations

from contextlib import ExitStack
from threading import Thread
from types import TracebackType
from typing import Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolfold_specs.exchange import Exchange, Transcript
from toolfold_specs.extras import extras_named

from .connection import Address, Connection
from .process import Child, Command
from .protocol import Era
from .replies import START_TIMEOUT, TIMEOUT
from .spares import Spares

with extras_named():
    from mcp.server import Server


class Link:
    """Makes connections to a server. Use it with `with`, or `close` it.

    Args:
        target: A `Command` to start, once for each connection, the URL of a running server, or one in this process.
        era: "legacy" for sessions, up to 2025-11-25; "modern" for 2026-07-28.
        timeout: Seconds within which each request is to be answered.
        start_timeout: Seconds within which the server is to be ready.
    """

    def __init__(
        self,
        target: Command | str | Server[Any],
        era: Era = "legacy",
        timeout: float = TIMEOUT,
        start_timeout: float = START_TIMEOUT,
    ) -> None:
        self._address = Address(target, era, timeout, start_timeout)
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._spares: Spares | None = None
        self._open: dict[Connection, None] = {}
        self._closing: list[Thread] = []
        self._unused: Connection | None = None
        self._transcript = Transcript()

    @property
    def era(self) -> Era:
        """The era that is spoken."""
        return self._address.era

    @property
    def timeout(self) -> float:
        """Seconds within which each request is to be answered."""
        return self._address.timeout

    @property
    def name(self) -> str:
        """The setting, as reports call it: "stdio, legacy"."""
        transport = "http" if isinstance(self._address.target, str) else "stdio" if self.own_processes else "in process"
        return f"{transport}, {self.era}"

    @property
    def own_processes(self) -> bool:
        """Whether each connection has a server of its own."""
        return isinstance(self._address.target, Command)

    def connect(self, extension: str | None = None) -> Connection:
        """Return a new connection.

        Args:
            extension: An extension of the protocol that the client declares.

        Raises:
            TargetNotStarted: There is no such server, or it does not speak the protocol of the era.
        """
        if self._unused is not None and extension is None:
            unused, self._unused = self._unused, None
            return unused
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal())
            if isinstance(self._address.target, Command):
                self._spares = Spares(self._address.target, self._portal, self._connect)
        return self._connect(extension, None) if self._spares is None else self._spares.connect(extension)

    def put_back(self, connection: Connection) -> None:
        """Take back a connection that was not used for a call; `connect` returns it next."""
        self._unused = connection

    def replaced(self, connection: Connection) -> Connection:
        """Return a new connection in place of one, which is closed: meanwhile, if servers can run side by side."""
        if self._spares is None or not self._spares.side_by_side:
            connection.close()
            return self.connect()
        self._forget(connection)
        closing = Thread(target=connection.close)
        closing.start()
        self._closing.append(closing)
        return self.connect()

    def begin(self) -> None:
        """Forget what was sent and received so far."""
        self._transcript.begin([connection.number for connection in self._open])

    def keep(self) -> None:
        """Note that the last request matters for what is found out."""
        self._transcript.keep()

    def exchange(self) -> Exchange | None:
        """Return what was sent and received since `begin`; None of a server in this process."""
        target = self._address.target
        if not isinstance(target, str | Command):
            return None
        return self._transcript.exchange(target if isinstance(target, str) else target.command)

    def close(self) -> None:
        """Close all connections, and end the processes that were started for them."""
        for connection in tuple(self._open):
            connection.close()
        if self._spares is not None:
            self._spares.close()
        while self._closing:
            self._closing.pop().join()
        self._portal = self._spares = None
        self._stack.close()

    def _connect(self, extension: str | None, started: Child | None) -> Connection:
        assert self._portal is not None
        connection = Connection(self._address, self._portal, self._transcript, extension, started, self._forget)
        self._open[connection] = None
        return connection

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
