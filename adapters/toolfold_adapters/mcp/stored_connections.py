"""Legacy sessions over HTTP that are in a store: any process that shares it goes on with them by id (SPEC STO-4).

The record is made by the handshake, and has what the client said in it. A process that gets a request with an id that
it does not know repeats the handshake with the SDK on the client's behalf. Lists that have changed are part of the
record until the next request, or a process that has the client's standing stream, claims to notify the client of them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any
from weakref import WeakValueDictionary

from anyio.abc import TaskGroup
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from toolfold import QuotaExceeded, Session, StoredSessions, StoreError, ToolSet
from toolfold.errors import KeyInUse
from toolfold.spi import table

from ..sdk import connection_of
from .delivery.selection import DefaultSelection, selection_of
from .limits import caller_of, principal_of
from .notify import Notifier

_KEY = "toolfold.stored"


class StoredConnection:
    """The client of a stored session, as far as it is connected to this process."""

    def __init__(self, notifier: Notifier, tasks: TaskGroup) -> None:
        self.notifier = notifier
        self.session: Session | None = None
        self.requests = 0
        self._tasks = tasks

    def follow(self, session: Session) -> None:
        """Notify the client of changes of its session from now on."""
        self.session, session.executor.stored.client = session, self

    def owed(self) -> None:
        """Notify the client of changed lists on its standing stream, unless a request is under way, which will."""
        self._tasks.start_soon(self._send_owed)

    async def _send_owed(self) -> None:
        if not self.requests and self.notifier.can_receive:
            await self.claim()

    def announced(self, kinds: frozenset[str]) -> None:
        """Notify the client of an announcement."""
        self.notifier.changed(kinds)

    async def claim(self) -> None:
        """Notify the client of changed lists, unless another process does."""
        if self.session is not None:
            with suppress(StoreError):  # they stay in the record
                for kinds in await self.session.executor.claim():
                    self.notifier.changed(kinds)


class StoredConnections:
    """The stored sessions of legacy connections.

    Args:
        tools: The tool set.
        default: The selection that the server was built with; the handshake may override it.
        sessions: Where they are.
        tasks_of: Returns the task group of the running server, given the context of a request.

    `server` is to be set.
    """

    server: Server[Any]

    def __init__(
        self,
        tools: ToolSet,
        default: DefaultSelection,
        sessions: StoredSessions,
        tasks_of: Callable[[Any], TaskGroup],
    ) -> None:
        self.sessions = sessions
        self._tools = tools
        self._default = default
        self._tasks_of = tasks_of
        self._over: set[str | None] = set()
        self._connected: WeakValueDictionary[str | None, StoredConnection] = WeakValueDictionary()

    @asynccontextmanager
    async def session(self, ctx: ServerRequestContext[Any, Any]) -> AsyncGenerator[Session]:
        """Yield the session of a request; the client is notified of changes before the answer.

        Raises:
            MCPError: It has been ended.
            StoreError: The store can't be used.
        """
        session_id, found = connection_of(ctx).session_id, self._connection(ctx)
        async with found.notifier.during(ctx):
            session = await self.sessions.get(_name(session_id), reading=is_list(ctx))
            if session is None:
                self._over.add(session_id)
                raise MCPError(code=INTERNAL_ERROR, message="The session has ended; initialize a new one.")
            found.follow(session)
            found.requests += 1
            try:
                yield session
            finally:
                found.requests -= 1
                await session.flush()
            if found.notifier.can_deliver:
                await found.claim()

    def _connection(self, ctx: ServerRequestContext[Any, Any]) -> StoredConnection:
        """Return what this process has of the connection of a request."""
        connection = connection_of(ctx)
        found: StoredConnection | None = connection.state.get(_KEY)
        if found is None:
            tasks = self._tasks_of(ctx)
            found = connection.state[_KEY] = StoredConnection(Notifier(self.server, connection, tasks), tasks)
            self._connected[connection.session_id] = found
        return found

    def stream_opened(self, session_id: str) -> None:
        """Notify a client, whose standing stream has opened here, of lists that changed while it had none."""
        found = self._connected.get(session_id)
        if found is not None:
            found.owed()

    async def remember(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Store the session that a handshake opens, as middleware of the server."""
        result = await call_next(ctx)
        session_id = connection_of(ctx).session_id
        if ctx.method != "initialize" or session_id is None:
            return result
        selection = selection_of(self._tools, self._default, ctx.request)
        session = self.sessions.draft(
            _name(session_id),
            selection.profile,
            caller_of(ctx),
            start=selection.paths(self._tools.runtime.catalogs.under(selection.profile)),
            notifies=True,
            about=dict(ctx.params or {}),
        )
        try:
            await self.sessions.ensure(session)
            self._connection(ctx).follow(session)
        except KeyInUse:  # the handshake is repeated on behalf of a client that another process has met
            with suppress(StoreError):
                if (known := await self.sessions.peek(_name(session_id))) is not None:
                    self._connection(ctx).follow(known)
        except (QuotaExceeded, StoreError) as error:
            self._over.add(session_id)
            raise MCPError(code=INTERNAL_ERROR, message=str(error)) from error
        return result

    async def handshake(self, session_id: str) -> dict[str, Any] | None:
        """Return what a client said when it opened a session, if the caller of this request may use it.

        Raises:
            StoreError: The record is damaged, or the store can't be used.
        """
        session = await self.sessions.peek(_name(session_id))
        if session is None:
            return None
        if (params := table(session.executor.stored.content.about)) is None:
            raise StoreError("The stored session is damaged, so it can't be used. Initialize a new one.")
        return params

    def is_over(self, session_id: str) -> bool:
        """Return, once, whether a request of a session was refused because there is no such session in the store."""
        over = session_id in self._over
        self._over.discard(session_id)
        return over

    async def end(self, session_id: str) -> None:
        """End a session, as its client asked."""
        session = await self.sessions.get(_name(session_id))
        if session is not None:
            await self.sessions.discard(session)


def is_list(ctx: ServerRequestContext[Any, Any]) -> bool:
    """Return whether a request asks for a list, which can be answered from what is known (SPEC STO-5)."""
    return str(ctx.method).endswith("/list")


def is_store_away(session: Session) -> bool:
    """Return whether a list of a session is of the state that was known last, since the store did not answer."""
    return (journal := session.executor.journal) is not None and journal.is_away


def _name(session_id: str | None) -> str:
    return f"{session_id} {principal_of(None)}"
