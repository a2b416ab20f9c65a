"""The sessions of legacy clients (up to 2025-11-25): one for each connection (SPEC DEL-1).

A session is opened by the first request that needs it, with the groups that this request selects (SPEC DEL-4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server import Server, ServerRequestContext

from toolfold import Session, ToolfoldError, ToolSet
from toolfold.spi import Caller, Tally

from ...sdk import connection_of
from ..callers import caller_of
from ..notify import Notifier
from ..stored_connections import StoredConnections
from .selection import DefaultSelection, Selection, selection_of

_KEY = "toolfold"


class ConnectionSession:
    """A connection and its session, which is opened by the first request that needs it."""

    def __init__(self, tools: ToolSet, selection: Selection, notifier: Notifier, caller: Caller) -> None:
        self._tools = tools
        self._selection = selection
        self.notifier = notifier
        self._caller = caller
        self._session: Session | None = None
        self._opening = anyio.Lock()

    async def session(self) -> Session:
        """Return the open session of this connection, a new one if the last has ended."""
        async with self._opening:
            if self._session is None or not self._session.is_open:
                profile = self._selection.profile
                start = self._selection.paths(self._tools.catalog_under(profile))
                session = await self._tools.open_session(profile, start, caller=self._caller).start()
                session.on_list_changed(self.notifier.changed)
                self._session = session
            return self._session

    async def end(self) -> None:
        """End the session; hooks that fail are reported to observers, since the client has gone."""
        if self._session is not None:
            with suppress(ExceptionGroup, ToolfoldError):
                await self._session.close()


class ConnectionSessions:
    """The sessions of legacy connections.

    Args:
        tools: The tool set.
        default: The selection that the server was built with; an HTTP request that opens a session may override it.
        tally: Counts the sessions.
        tasks_of: Returns the task group of the running server, given the context of a request.
        stored: Has the sessions of connections over HTTP, if they are in a store.
    """

    def __init__(
        self,
        tools: ToolSet,
        default: DefaultSelection,
        tally: Tally,
        tasks_of: Callable[[Any], TaskGroup],
        stored: StoredConnections | None = None,
    ) -> None:
        self._tools = tools
        self._default = default
        self._tally = tally
        self._tasks_of = tasks_of
        self._stored = stored

    @asynccontextmanager
    async def session(self, server: Server[Any], ctx: ServerRequestContext[Any, Any]) -> AsyncGenerator[Session]:
        """Yield the session of a request's connection; the client is notified of changes before the answer."""
        if self._stored is not None and connection_of(ctx).session_id is not None:
            async with self._stored.session(ctx) as stored:
                yield stored
            return
        connection = self._connection(server, ctx)
        async with connection.notifier.during(ctx):
            yield await connection.session()

    def _connection(self, server: Server[Any], ctx: ServerRequestContext[Any, Any]) -> ConnectionSession:
        connection = connection_of(ctx)
        found: ConnectionSession | None = connection.state.get(_KEY)
        if found is None:
            caller = caller_of(ctx)
            self._tally.take(caller)
            connection.exit_stack.callback(self._tally.give_back, caller)  # after the end of the session, below
            notifier = Notifier(server, connection, self._tasks_of(ctx))
            selection = selection_of(self._tools, self._default, ctx.request)
            found = connection.state[_KEY] = ConnectionSession(self._tools, selection, notifier, caller)
            connection.exit_stack.push_async_callback(found.end)
        return found
