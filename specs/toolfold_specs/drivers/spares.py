"""Servers over stdio that are started ahead: many take longer to start than to answer a few requests.

They are only for servers that can run side by side: where the newest process takes over what an older one was using,
such as a lock file, none is started ahead.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from anyio.from_thread import BlockingPortal

from .connection import Connection
from .process import Child, Command
from .replies import TargetNotStarted

FEW = 3
"""The number of connections after which servers are started ahead: whoever makes so many makes more."""

NUMBER = 1
"""The number of servers that are started ahead; those that are left at the end were for nothing."""


class Spares:
    """Makes connections to servers of a command, some of them started ahead.

    Args:
        command: Starts a server.
        portal: The loop that the processes belong to.
        connect: Makes a connection that declares an extension, or none; to a server that runs already, or to a new one.
    """

    def __init__(
        self, command: Command, portal: BlockingPortal, connect: Callable[[str | None, Child | None], Connection]
    ) -> None:
        self._command = command
        self._portal = portal
        self._connect = connect
        self._number = NUMBER
        self._ready: list[Child] = []
        self._beside: Connection | None = None
        self._tried = False
        self._made = 0

    @property
    def side_by_side(self) -> bool:
        """Whether servers were seen to run side by side."""
        return self._tried and self._number > 0

    def connect(self, extension: str | None) -> Connection:
        """Return a new connection; raises `TargetNotStarted`."""
        connection = self._next(extension)
        self._made += 1
        if self._made <= FEW or not self._number:
            return connection
        if self._tried:
            self._portal.call(self._fill)
            return connection
        return connection if extension is not None else self._try_side_by_side(connection)

    def close(self) -> None:
        """End those that are left; from now on there are none."""
        self._number = 0
        while self._ready:
            self._portal.call(self._ready.pop().end, 0)

    def _next(self, extension: str | None) -> Connection:
        if extension is None and self._beside is not None:
            beside, self._beside = self._beside, None
            return beside
        if self._ready:
            try:
                return self._connect(extension, self._ready.pop(0))
            except TargetNotStarted:  # perhaps only one can run at a time
                self.close()
        return self._connect(extension, None)

    def _try_side_by_side(self, connection: Connection) -> Connection:
        """Return the connection that still works once another server has started beside the one of this connection."""
        self._tried = True
        try:
            beside = self._connect(None, None)
        except TargetNotStarted:
            self.close()
            return connection
        if connection.is_served():
            self._beside = beside
            return connection
        connection.close()
        self.close()
        return beside

    async def _fill(self) -> None:
        """Start as many as are wanted."""
        with suppress(OSError):
            while len(self._ready) < self._number:
                spare = Child(self._command)
                await spare.start()
                self._ready.append(spare)
