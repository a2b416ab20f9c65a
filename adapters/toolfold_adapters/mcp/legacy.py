"""Session delivery, for clients of the era up to 2025-11-25: each connection has a session of its own (SPEC DEL-1)."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup
from mcp.server import Server, ServerRequestContext
from mcp.server.connection import Connection

from toolfold import Profile, Session, ToolSet, WireNames
from toolfold.catalog import Kind

from ..sdk import connection_of
from .notify import Notifier
from .render import Renderer

log = logging.getLogger("toolfold.mcp")

_KEY = "toolfold"


class Link:
    """A connection and its session, which is opened by the first request that needs it."""

    def __init__(self, tools: ToolSet, profile: Profile | None, active: tuple[str, ...], notifier: Notifier) -> None:
        self._tools = tools
        self._profile = profile
        self._active = active
        self.notifier = notifier
        self._session: Session | None = None
        self._opening = anyio.Lock()

    async def session(self) -> Session:
        """Return the open session of this connection; a new one if it has ended meanwhile."""
        async with self._opening:
            if self._session is None or not self._session.is_open:
                session = await self._tools.open_session(self._profile, self._active).start()
                session.on_list_changed(self.notifier.changed)
                self._session = session
            return self._session

    async def end(self) -> None:
        """End the session; what its hooks raise is logged, since nobody is there to be told."""
        if self._session is not None:
            try:
                await self._session.close()
            except ExceptionGroup:
                log.exception("session %s ended with failing hooks", self._session.id)


class SessionDelivery:
    """Answers legacy requests from the session of their connection."""

    def __init__(self, tools: ToolSet, wire: WireNames, profile: Profile | None, active: Iterable[str]) -> None:
        self._tools = tools
        self._wire = wire
        self._profile = profile
        self._active = tuple(active)
        self._renderer = Renderer(wire, modern=False)

    async def list(self, server: Server[Any], ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of what the session lists."""
        async with self._request(server, ctx) as session:
            return self._renderer.page(session.list(kind, cursor), kind)

    async def call(self, server: Server[Any], ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return what a tool answers in the session."""
        async with self._request(server, ctx) as session:
            result = await session.call(
                self._wire.from_wire(name),
                arguments,
                progress=ctx.session.report_progress,
                request=ctx,
                spell=self._wire.to_wire,
            )
            return self._renderer.result(result)

    async def prompt(self, server: Server[Any], ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt in the session."""
        async with self._request(server, ctx) as session:
            return await session.get_prompt(name, arguments, ctx)

    async def read(self, server: Server[Any], ctx: Any, uri: str) -> Any:
        """Return the contents of a resource in the session."""
        async with self._request(server, ctx) as session:
            return await session.read(uri, ctx)

    @asynccontextmanager
    async def _request(self, server: Server[Any], ctx: ServerRequestContext[TaskGroup, Any]) -> AsyncIterator[Session]:
        link = self._link(server, connection_of(ctx), ctx.lifespan_context)
        async with link.notifier.within(ctx):
            yield await link.session()

    def _link(self, server: Server[Any], connection: Connection, tasks: TaskGroup) -> Link:
        link: Link | None = connection.state.get(_KEY)
        if link is None:
            link = Link(self._tools, self._profile, self._active, Notifier(server, connection, tasks))
            connection.state[_KEY] = link
            connection.exit_stack.push_async_callback(link.end)
        return link
