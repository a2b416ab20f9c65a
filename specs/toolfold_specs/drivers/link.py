"""The way to an MCP server: its address, and the loop that its connections run in.

A server over stdio often takes longer to start than to answer some requests, and so does the import of the SDK. So the
first one is started before that import, and others ahead of the connections that need them, as soon as two were seen to
run side by side: where the newest process takes over what an older one was using, such as a lock file, none is.
"""

from __future__ import annotations

from contextlib import ExitStack, suppress
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from anyio.from_thread import BlockingPortal, start_blocking_portal

from toolfold_specs.exchange import Exchange, Transcript
from toolfold_specs.extras import required

from .process import Address, Child, Command
from .protocol import Era
from .replies import START_TIMEOUT, TIMEOUT, TargetNotStarted

if TYPE_CHECKING:
    from mcp.server import Server

    from .connection import Connection

required("mcp")


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
        self._open: dict[Connection, None] = {}
        self._closing: list[Thread] = []
        self._unused: Connection | None = None
        self._spare: Child | None = None
        """A server that is started ahead."""
        self._side_by_side: bool | None = None
        """Whether servers can run side by side; None if that was not seen yet."""
        self._transcript = Transcript()
        self._over = False
        self._start_ahead()

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
        earlier, spare, self._spare = next(reversed(self._open), None), self._spare, None
        try:
            connection = self._connect(extension, spare)
        except TargetNotStarted:
            if spare is None or not self._side_by_side:
                raise
            self._side_by_side = False  # perhaps only one can run at a time
            connection = self._connect(extension, None)
        if self._side_by_side is None and self.own_processes and earlier is not None:
            self._side_by_side = earlier.is_served()
        if self._side_by_side:
            self._start_ahead()
        return connection

    def put_back(self, connection: Connection) -> None:
        """Take back a connection that was not used for a call; `connect` returns it next."""
        self._unused = connection

    def replaced(self, connection: Connection) -> Connection:
        """Return a new connection in place of one, which is closed."""
        other: Connection | None = None
        if self.own_processes and self._side_by_side is not False:
            try:
                other = self.connect()
            except TargetNotStarted:
                if self._side_by_side:
                    raise
                self._side_by_side = False
        self.release(connection)
        return self.connect() if other is None else other

    def release(self, connection: Connection) -> None:
        """Close a connection: meanwhile, if servers can run side by side."""
        if self._side_by_side:
            self._close_meanwhile(connection)
        else:
            connection.close()

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
        """Close all connections, and end the processes that were started for them; no other can be made."""
        self._over = True
        for connection in tuple(self._open):
            self._close_meanwhile(connection)
        if self._spare is not None:
            self._loop.call(self._spare.end, 0)
        while self._closing:
            self._closing.pop().join()
        if self._portal is not None:  # another thread may be opening a connection
            self._portal.call(self._portal.stop, True)
        self._portal = self._spare = None
        self._stack.close()

    @property
    def _loop(self) -> BlockingPortal:
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal())
        return self._portal

    def _start_ahead(self) -> None:
        """Start a server for the next connection, unless there is one."""
        if isinstance(self._address.target, Command) and self._spare is None and not self._over:
            spare = Child(self._address.target)
            with suppress(OSError):  # `connect` tries again, and says why
                self._loop.call(spare.start)
                self._spare = spare

    def _connect(self, extension: str | None, started: Child | None) -> Connection:
        from .connection import Connection  # with the SDK, whose import takes as long as a server's start

        if self._over:
            raise TargetNotStarted("The run is over.")
        connection = Connection(self._address, self._loop, self._transcript, extension, started, self._forget)
        self._open[connection] = None
        return connection

    def _close_meanwhile(self, connection: Connection) -> None:
        self._forget(connection)
        closing = Thread(target=connection.close)
        closing.start()
        self._closing.append(closing)

    def _forget(self, connection: Connection) -> None:
        self._open.pop(connection, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
