"""The notifications of a legacy connection that its lists have changed: one for each change (SPEC DEL-1, NTF-1, NTF-2).

A change during a request is sent on that request's own stream, before its answer, which reaches clients with and
without a standing stream. Any other change is sent on the standing stream. While there is none, one notification for
each kind of list is queued, however often it changed, and sent with the next request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import mcp_types as types
from anyio.abc import TaskGroup
from mcp.server import Server, ServerRequestContext
from mcp.server.connection import Connection
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

from ..names import GROUPS_CHANGED, GROUPS_EXTENSION
from ..sdk import can_notify_in_responses, has_standing_stream

METHODS = {
    "tool": "notifications/tools/list_changed",
    "prompt": "notifications/prompts/list_changed",
    "resource": "notifications/resources/list_changed",
    "resource_template": "notifications/resources/list_changed",
}
EVENTS: dict[str, Any] = {
    "tool": ToolsListChanged,
    "prompt": PromptsListChanged,
    "resource": ResourcesListChanged,
    "resource_template": ResourcesListChanged,
}
"""The event that is published to the subscriptions of modern clients when a kind of list changes."""

MAX_WAITING = 16
"""How many notifications of one kind may be queued for a client with a stream; the last one covers the rest."""


class Notifier:
    """The notifications of one connection."""

    def __init__(self, server: Server[Any], connection: Connection, tasks: TaskGroup) -> None:
        self._server = server
        self._connection = connection
        self.tasks = tasks
        self._pending: deque[str] = deque()
        self._sending = False

    def changed(self, kinds: frozenset[str]) -> None:
        """Queue notifications that lists have changed."""
        groups = {GROUPS_CHANGED} if declares_groups(self._connection.client_params) else set[str]()
        methods = sorted({METHODS[kind] for kind in kinds} | groups)
        scope = _request_scope.get()
        if scope is not None and scope.carries(self):
            _queue(scope.pending, methods, MAX_WAITING)
        else:
            self._owe(methods)

    @asynccontextmanager
    async def during(self, ctx: ServerRequestContext[Any, Any]) -> AsyncGenerator[None]:
        """Send notifications of changes during a request, and queued ones, on the request's own stream.

        If the request is cancelled, its changes are notified of later like any others.
        """
        scope = RequestScope(self if can_notify_in_responses(self._server, self._connection) else None)
        token = _request_scope.set(scope)
        try:
            yield
            while scope.pending or (scope.notifier is not None and self._pending and not self._sending):
                method = (scope.pending or self._pending).popleft()
                await ctx.session.send_notification(notification(method), related_request_id=ctx.request_id)
            self._owe(())
        finally:
            _request_scope.reset(token)
            scope.notifier = None
            if scope.pending:
                self._owe(scope.pending)

    def _owe(self, methods: Iterable[str]) -> None:
        """Send notifications on the standing stream; while there is none, one of each kind is queued."""
        can_receive = self.can_receive
        _queue(self._pending, methods, MAX_WAITING if can_receive else 1)
        if can_receive and not self._sending:
            self._sending = True
            self.tasks.start_soon(self._send_pending)

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


def declares_groups(handshake: types.InitializeRequestParams | None) -> bool:
    """Return whether a legacy client declared the draft extension for groups in its handshake (SPEC DEL-5).

    One that declares it among its extensions there can't be told that the server has it, and is served without.
    """
    return handshake is not None and GROUPS_EXTENSION in (handshake.capabilities.experimental or {})


class RequestScope:
    """A request in progress, and the notifications to send before its answer."""

    def __init__(self, notifier: Notifier | None) -> None:
        self.notifier = notifier
        self.pending: deque[str] = deque()

    def carries(self, notifier: Notifier) -> bool:
        """Return whether changes of that connection are notified of in this request."""
        return self.notifier is notifier


_request_scope: ContextVar[RequestScope | None] = ContextVar("toolfold_request_scope", default=None)


def notification(method: str, params: types.NotificationParams | None = None) -> Any:
    """Return a notification, of the protocol or of an extension."""
    return types.Notification[types.NotificationParams | None, str](method=method, params=params)


def _queue(queue: deque[str], methods: Iterable[str], most: int) -> None:
    """Queue notifications, up to `most` of each kind."""
    for method in methods:
        if queue.count(method) < most:
            queue.append(method)
