"""The sessions of legacy connections, and the notifications that their lists have changed (SPEC DEL-1, NTF-1, STO-4).

A change during a request is sent on that request's own stream, before its answer, which reaches clients with and
without a standing stream. Any other change is sent on the standing stream. While there is none, one notification for
each kind of list is queued, however often it changed, and sent with the next request.

A session ends with its connection, unless there is a store. Then one over HTTP is found by its id, and any process goes
on with it. Its record is made by the handshake, and has what the client said in it. A process that gets a request with
an id that it does not know repeats the handshake with the SDK on the client's behalf. Lists that have changed are part
of the record until the next request, or a process that has the client's standing stream, claims to notify the client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakValueDictionary

import anyio
import mcp_types as types
from anyio.abc import TaskGroup
from attrs import define, field
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from toolfold import QuotaExceeded, Session, StoredSessions, StoreError, ToolfoldError, ToolSet
from toolfold.errors import KeyInUse
from toolfold.spi import table

from ...names import GROUPS_CHANGED, LISTS
from ...tally import Tally
from ..principal import Principal, principal_of
from ..request import Request, Selections, caller_of, declares_groups, is_list, own_client
from ..sdk import can_notify_in_responses, connection_of, has_standing_stream
from .reference import ByList, ListedSessions

T = TypeVar("T")

_KEY = "toolfold"

MAX_WAITING = 16
"""How many notifications of one kind may be queued for a client with a stream; the last one covers the rest."""


# -- connections and their notifications -------------------------------------------------------------------------------


@define(eq=False)
class LegacyConnection:
    """A connection of a client to this process: its session, and the notifications that lists of it have changed.

    Args:
        server: The server.
        connection: What the SDK has of it.
        tasks: Where notifications outside of requests are sent.

    Attributes:
        session: The session that the client is notified of.
        requests: How many requests on a stored session are under way here.
    """

    _server: Server[Any]
    _connection: Connection
    _tasks: TaskGroup
    session: Session | None = None
    requests: int = 0
    _opening: anyio.Lock = field(init=False, factory=anyio.Lock)
    _pending: deque[str] = field(init=False, factory=deque[str])
    _sending: bool = field(init=False, default=False)

    def notify(self, kinds: frozenset[str]) -> None:
        """Queue notifications that lists have changed."""
        groups = {GROUPS_CHANGED} if declares_groups(self._connection.client_params) else set[str]()
        methods = sorted({one.changed for kind, one in LISTS.items() if kind in kinds} | groups)
        scope = _request_scope.get()
        if scope is not None and scope.connection is self:
            queue(scope.pending, methods, MAX_WAITING)
        else:
            self._send(methods)

    @asynccontextmanager
    async def during(self, ctx: ServerRequestContext[Any, Any]) -> AsyncGenerator[None]:
        """Send notifications of changes during a request, and queued ones, on the request's own stream.

        If the request is cancelled, its changes are notified of later like any others.
        """
        scope = RequestScope(self if can_notify_in_responses(self._server, self._connection) else None)
        token = _request_scope.set(scope)
        try:
            yield
            while scope.pending or (scope.connection is not None and self._pending and not self._sending):
                method = (scope.pending or self._pending).popleft()
                await ctx.session.send_notification(notification(method), related_request_id=ctx.request_id)
            if self._pending:
                self._send(())
        finally:
            _request_scope.reset(token)
            scope.connection = None
            if scope.pending:
                self._send(scope.pending)

    def _send(self, methods: Iterable[str]) -> None:
        """Send notifications on the standing stream; while there is none, one of each kind is queued."""
        can_receive = self.can_receive
        queue(self._pending, methods, MAX_WAITING if can_receive else 1)
        if can_receive and self._pending and not self._sending:
            self._sending = True
            self._tasks.start_soon(self._send_pending)

    async def _send_pending(self) -> None:
        try:
            while self._pending and self.can_receive:
                await self._connection.notify(self._pending.popleft(), None)
        finally:
            self._sending = False

    @property
    def can_deliver(self) -> bool:
        """Whether what is sent during a request reaches the client: in its response, or on a standing stream."""
        return can_notify_in_responses(self._server, self._connection) or self.can_receive

    @property
    def can_receive(self) -> bool:
        """Whether messages outside a request can reach the client now."""
        return has_standing_stream(self._server, self._connection)

    # -- a session of its own -----------------------------------------------------------------------------------------

    async def opened(self, make: Callable[[], Session]) -> Session:
        """Return the open session of this connection, a new one if there is none or the last has ended."""
        if (session := self.session) is not None and session.is_open:
            return session
        async with self._opening:
            if (session := self.session) is None or not session.is_open:
                session = await make().start()
                session.on_list_changed(self.notify)
                self.session = session
            return session

    async def end(self) -> None:
        """End the session; hooks that fail are reported to observers, since the client has gone."""
        if self.session is not None:
            with suppress(ExceptionGroup, ToolfoldError):
                await self.session.close()

    # -- a stored one -------------------------------------------------------------------------------------------------

    def follow(self, session: Session) -> None:
        """Notify the client of changes of a stored session from now on."""
        self.session = session
        session.follow(self.changed)

    def changed(self, announced: frozenset[str]) -> None:
        """Notify the client of an announcement, or of what is pending, unless a request is under way, which will."""
        if announced:
            self.notify(announced)
        else:
            self._tasks.start_soon(self._claim_pending)

    async def _claim_pending(self) -> None:
        if not self.requests and self.can_receive:
            await self.claim()

    async def claim(self) -> None:
        """Notify the client of changed lists, unless another process does."""
        if self.session is not None:
            with suppress(StoreError):  # they stay in the record
                for kinds in await self.session.claim():
                    self.notify(kinds)


@define(eq=False)
class RequestScope:
    """A request in progress: whose changes are notified of in it, and the notifications to send before its answer."""

    connection: LegacyConnection | None
    pending: deque[str] = field(factory=deque[str])


_request_scope: ContextVar[RequestScope | None] = ContextVar("toolfold_request_scope", default=None)


def notification(method: str, params: types.NotificationParams | None = None) -> Any:
    """Return a notification, of the protocol or of an extension."""
    return types.Notification[types.NotificationParams | None, str](method=method, params=params)


def queue(waiting: deque[T], notifications: Iterable[T], most: int) -> None:
    """Queue notifications, up to `most` of each kind: the last one covers the rest."""
    for one in notifications:
        if waiting.count(one) < most:
            waiting.append(one)


# -- sessions ----------------------------------------------------------------------------------------------------------


@define(eq=False)
class LegacySessions(ListedSessions):
    """The sessions of legacy connections.

    Args:
        tools: The tool set.
        selections: What the HTTP request that opens a session selects, or else what the server was built with.
        tally: Counts the sessions of connections.
        tasks_of: Returns the task group of the running server, given the context of a request.
        stored: Has the sessions of connections over HTTP, if they are in a store.

    `server` is to be set. `most_sessions` returns how many a caller may have over HTTP, if that is fewer than others;
    `on_request` is called with the name of the SDK's session and the sender of each request over HTTP, refused or not.
    """

    _tools: ToolSet
    selections: Selections
    _tally: Tally
    _tasks_of: Callable[[Any], TaskGroup]
    stored: StoredSessions | None = None
    server: Server[Any] = field(init=False)
    most_sessions: Callable[[Principal], int | None] = field(init=False, default=lambda _: None)
    on_request: Callable[[str, Principal], None] = field(init=False, default=lambda _, __: None)
    _over: set[str | None] = field(init=False, factory=set[str | None])
    _connected: WeakValueDictionary[str | None, LegacyConnection] = field(
        init=False, factory=WeakValueDictionary[str | None, LegacyConnection]
    )

    @asynccontextmanager
    async def state(self, request: Request, *_: object) -> AsyncGenerator[tuple[Session, ByList]]:
        """Yield the session of a connection, whose list has what is open, and then notify the client of changes.

        Raises:
            MCPError: It is in a store, and has been ended.
            StoreError: The store can't be used.
        """
        ctx = request.ctx
        connection = self._connection(ctx, sdk := connection_of(ctx))
        async with connection.during(ctx):
            if (stored := self._stored_for(sdk)) is None:
                session = await connection.opened(lambda: self._new(request))
                self.selections.bind(session, request.principal)
                yield session, self.reference(session)
                return
            session = await self._found(stored, ctx)
            self.selections.bind(session, request.principal)
            connection.follow(session)
            connection.requests += 1
            async with session.storing():
                try:
                    yield session, self.reference(session)
                finally:
                    connection.requests -= 1
            if connection.can_deliver:
                await connection.claim()

    def _connection(self, ctx: ServerRequestContext[Any, Any], connection: Connection) -> LegacyConnection:
        """Return what this process has of the connection of a request."""
        found: LegacyConnection | None = connection.state.get(_KEY)
        if found is None:
            made = LegacyConnection(self.server, connection, self._tasks_of(ctx))
            if self._stored_for(connection) is None:
                caller = caller_of(ctx)
                self._tally.take(caller)
                connection.exit_stack.callback(self._tally.give_back, caller)  # after the end of the session, below
                connection.exit_stack.push_async_callback(made.end)
            else:
                self._connected[connection.session_id] = made
            found = connection.state[_KEY] = made
        return found

    def _stored_for(self, connection: Connection) -> StoredSessions | None:
        return None if connection.session_id is None else self.stored

    def _new(self, request: Request) -> Session:
        selection = self.selections.of(request.ctx)
        return self._tools.open_session(selection.profile, selection.paths, caller=request.caller)

    # -- in a store ---------------------------------------------------------------------------------------------------

    async def _found(self, stored: StoredSessions, ctx: ServerRequestContext[Any, Any]) -> Session:
        session_id = connection_of(ctx).session_id
        session = await stored.get(_name(session_id), reading=is_list(ctx))
        if session is None and session_id == own_client.get():  # it lasts as long as its client, however rarely used
            known = ctx.session.client_params
            session = await self._opened(ctx, {} if known is None else known.model_dump(by_alias=True, mode="json"))
        if session is None:
            self._over.add(session_id)
            raise MCPError(code=INTERNAL_ERROR, message="The session has ended; initialize a new one.")
        return session

    async def remember(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Store the session that a handshake opens, as middleware of the server."""
        result = await call_next(ctx)
        connection = connection_of(ctx)
        stored, session_id = self._stored_for(connection), connection.session_id
        if ctx.method != "initialize" or stored is None:
            return result
        try:
            if (session := await self._opened(ctx, dict(ctx.params or {}))) is not None:
                self._connection(ctx, connection).follow(session)
        except (QuotaExceeded, StoreError) as error:
            self._over.add(session_id)
            raise MCPError(code=INTERNAL_ERROR, message=str(error)) from error
        return result

    async def _opened(self, ctx: ServerRequestContext[Any, Any], about: Mapping[str, Any]) -> Session | None:
        """Return the stored session of a connection, opened by a handshake: which is `about` it, and may be repeated.

        Raises:
            QuotaExceeded: There are as many as there may be.
            StoreError: The store can't be used.
        """
        name, selection = _name(connection_of(ctx).session_id), self.selections.of(ctx)
        stored = self.stored
        assert stored is not None
        session = stored.draft(
            name,
            selection.profile,
            caller_of(ctx),
            start=selection.paths,
            notifies=True,
            about=about,
            most=self.most_sessions(principal_of(ctx)),
        )
        try:
            await stored.ensure(session)
        except KeyInUse:  # another process has met the client
            with suppress(StoreError):
                return await stored.peek(name)
            return None
        return session

    async def handshake(self, session_id: str) -> dict[str, Any] | None:
        """Return what a client said when it opened a stored session, if the caller of this request may use it.

        Raises:
            StoreError: The record is damaged, or the store can't be used.
        """
        session = None if self.stored is None else await self.stored.peek(_name(session_id))
        if session is None:
            return None
        if (params := table(session.about)) is None:
            raise StoreError("The stored session is damaged, so it can't be used. Initialize a new one.")
        return params

    def stream_opened(self, session_id: str) -> None:
        """Notify a client, whose standing stream has opened here, of lists that changed while it had none."""
        if (found := self._connected.get(session_id)) is not None:
            found.changed(frozenset())

    def is_over(self, session_id: str) -> bool:
        """Return, once, whether a request of a session was refused because there is no such session in the store."""
        over = session_id in self._over
        self._over.discard(session_id)
        return over

    async def end(self, session_id: str) -> None:
        """End a stored session, as its client asked."""
        if self.stored is not None and (session := await self.stored.get(_name(session_id))) is not None:
            await self._tools.pool.end(session)


def _name(session_id: str | None) -> str:
    return f"{session_id} {principal_of(None).key}"
