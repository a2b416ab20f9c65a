"""Session delivery, for clients of the era up to 2025-11-25: each connection has a session of its own (SPEC DEL-1).

A session begins when the first request needs it, in what that request selects (SPEC DEL-4).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server import Server, ServerRequestContext

from toolfold import InvalidArguments, Session, ToolfoldError, ToolNotFound, ToolResult, ToolSet, WireNames
from toolfold.spi import Caller, Kind, Tally

from ..sdk import connection_of
from .answers import AnswerOptions, SessionAnswers
from .callers import caller_of
from .notify import Notifier
from .proxy import CallToolProxy
from .render import Renderer, unknown_text
from .selection import SELECTION_FAILURES, Selection, refusal_text, selection_of

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
        """Return the open session of this connection; a new one if it has ended meanwhile."""
        async with self._opening:
            if self._session is None or not self._session.is_open:
                profile = self._selection.profile
                start = self._selection.paths(self._tools.catalog_under(profile))
                session = await self._tools.open_session(profile, start, caller=self._caller).start()
                session.on_list_changed(self.notifier.changed)
                self._session = session
            return self._session

    async def end(self) -> None:
        """End the session; observers are notified of hooks that fail, since no client is there any more."""
        if self._session is not None:
            with suppress(ExceptionGroup, ToolfoldError):
                await self._session.close()


class SessionDelivery:
    """Answers legacy requests from the session of their connection.

    Args:
        tools: What is delivered.
        wire: The names that clients see.
        default: What the server was built to begin with; an HTTP request that opens a session may select otherwise.
        proxy: The call-tool proxy, for clients that never list again; `None` to do without (SPEC DEL-8).
        options: How tools are described in answers (SPEC CTL-4).
        tally: Counts the sessions.
    """

    def __init__(
        self,
        tools: ToolSet,
        wire: WireNames,
        default: Selection,
        proxy: CallToolProxy | None,
        options: AnswerOptions,
        tally: Tally,
    ) -> None:
        self._tools = tools
        self._tally = tally
        self._wire = wire
        self._default = default
        self._proxy = proxy
        self._renderer = Renderer(wire, modern=False)
        self._answers = SessionAnswers(self._renderer, options, wire)

    async def list(self, server: Server[Any], ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of what the session lists."""
        async with self._request(server, ctx) as session:
            extra = (self._proxy.spec,) if self._proxy and kind == "tool" and session.catalog.groups else ()
            return self._renderer.page(self._answers.page(session, kind, cursor, extra), kind)

    async def call(self, server: Server[Any], ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return what a tool answers in the session."""
        try:
            async with self._request(server, ctx) as session:
                result = await self._answer(ctx, session, name, arguments)
        except SELECTION_FAILURES as error:
            result = ToolResult.of_text(refusal_text(error), is_error=True)
        return self._renderer.result(result)

    async def prompt(self, server: Server[Any], ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt in the session."""
        async with self._request(server, ctx) as session:
            return self._renderer.plain(await session.get_prompt(name, arguments, ctx, self._wire.to_wire))

    async def read(self, server: Server[Any], ctx: Any, uri: str) -> Any:
        """Return the contents of a resource in the session."""
        async with self._request(server, ctx) as session:
            return self._renderer.contents(await session.read(uri, ctx, self._wire.to_wire))

    async def _answer(self, ctx: Any, session: Session, name: str, arguments: dict[str, Any] | None) -> ToolResult:
        if self._proxy is None or name != self._proxy.name or not session.catalog.groups:
            return await self._answers.call(session, name, arguments, ctx)
        try:
            call = self._proxy.unpack(arguments)
        except InvalidArguments as error:
            return ToolResult.of_text(str(error), is_error=True)
        try:
            return await self._answers.call(session, call.name, call.arguments, ctx, proxied=True)
        except ToolNotFound as error:
            return ToolResult.of_text(unknown_text(error, call.name), is_error=True)

    @asynccontextmanager
    async def _request(self, server: Server[Any], ctx: ServerRequestContext[TaskGroup, Any]) -> AsyncGenerator[Session]:
        link = self._link(server, ctx)
        async with link.notifier.during(ctx):
            yield await link.session()

    def _link(self, server: Server[Any], ctx: ServerRequestContext[TaskGroup, Any]) -> ConnectionSession:
        connection = connection_of(ctx)
        link: ConnectionSession | None = connection.state.get(_KEY)
        if link is None:
            caller = caller_of(ctx)
            self._tally.take(caller)
            connection.exit_stack.callback(self._tally.give_back, caller)  # after the end of the link, below
            notifier = Notifier(server, connection, ctx.lifespan_context)
            link = ConnectionSession(
                self._tools, selection_of(self._tools, self._default, ctx.request), notifier, caller
            )
            connection.state[_KEY] = link
            connection.exit_stack.push_async_callback(link.end)
        return link
