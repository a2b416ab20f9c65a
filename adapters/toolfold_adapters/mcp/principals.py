"""Principal delivery: in the modern era the list follows the authenticated caller (SPEC DEL-6).

Each caller has one session, whatever connection a request comes from; its list is private, and its changes are told to
that caller's streams only. Chosen with `delivery="principal"`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import anyio
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import principal_components
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from toolfold import Session, ToolResult, ToolSet, WireNames
from toolfold.catalog import Kind

from .handles import KeptSessions, end
from .notify import EVENTS
from .render import Renderer
from .selection import Selection


def principal_of(ctx: Any) -> str:
    """Return what identifies the caller of a request, or `""` where callers are not authenticated."""
    token = get_access_token()
    return "" if token is None else json.dumps(principal_components(token))


class Streams:
    """The `subscriptions/listen` streams of a server: one bus for each caller, or one for all.

    Args:
        by_caller: Whether a caller hears only of its own changes, and of what is announced to everybody.
    """

    def __init__(self, *, by_caller: bool) -> None:
        self._by_caller = by_caller
        self._buses: dict[str, tuple[InMemorySubscriptionBus, ListenHandler]] = {}
        self._listening: dict[str, int] = {}

    async def listen(self, ctx: Any, params: Any) -> Any:
        """Serve one stream until its client leaves."""
        caller = principal_of(ctx) if self._by_caller else ""
        if self._by_caller and not caller:
            raise unauthenticated()
        if caller not in self._buses:
            bus = InMemorySubscriptionBus()
            self._buses[caller] = (bus, ListenHandler(bus))
        self._listening[caller] = self._listening.get(caller, 0) + 1
        try:
            return await self._buses[caller][1](ctx, params)
        finally:
            self._listening[caller] -= 1
            if not self._listening[caller]:
                del self._listening[caller], self._buses[caller]

    async def publish(self, kinds: frozenset[str], caller: str | None = None) -> None:
        """Tell one caller's streams, or all of them, that lists changed."""
        events = sorted({EVENTS[kind] for kind in kinds}, key=lambda event: str(event.__name__))
        for bus, _ in [self._buses[caller]] if caller in self._buses else [] if caller else [*self._buses.values()]:
            for event in events:
                await bus.publish(event())


def unauthenticated() -> MCPError:
    """Return the refusal of a request whose caller is unknown."""
    return MCPError(
        code=INVALID_REQUEST,
        message="This server keeps its lists by caller, and the request is not authenticated: send a bearer token.",
    )


class PrincipalDelivery:
    """Answers modern requests from the session of their caller.

    Args:
        tools: What is delivered.
        wire: The names that clients see.
        built: What a caller's session begins with.
        kept: The callers' sessions.
        streams: Where callers listen.
    """

    def __init__(self, tools: ToolSet, wire: WireNames, built: Selection, kept: KeptSessions, streams: Streams) -> None:
        self._tools = tools
        self._wire = wire
        self._built = built
        self._kept = kept
        self._streams = streams
        self._renderer = Renderer(wire, modern=True)
        self._opening = anyio.Lock()

    async def list(self, server: Any, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of the caller's list."""
        session = await self._session(ctx)
        return {**self._renderer.page(session.list(kind, cursor), kind), "cacheScope": "private"}

    async def call(self, server: Any, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return what a tool answers in the caller's session."""
        session = await self._session(ctx)
        result: ToolResult = await session.call(
            self._wire.from_wire(name),
            arguments,
            progress=ctx.session.report_progress,
            request=ctx,
            spell=self._wire.to_wire,
        )
        return self._renderer.result(result)

    async def prompt(self, server: Any, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt in the caller's session."""
        return self._renderer.other(await (await self._session(ctx)).get_prompt(name, arguments, ctx))

    async def read(self, server: Any, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource in the caller's session."""
        contents = await (await self._session(ctx)).read(uri, ctx)
        return self._renderer.contents(contents)

    async def _session(self, ctx: Any) -> Session:
        caller = principal_of(ctx)
        if not caller:
            raise unauthenticated()
        async with self._opening:
            session = self._kept.find(caller)
            if session is None:
                profile = self._built.profile
                start = self._built.paths(self._tools.catalog_under(profile))
                session = await self._tools.open_session(profile, start).start()
                session.on_list_changed(self._teller(ctx, caller))
                self._kept.keep(caller, session)
                for gone in self._kept.surplus():
                    ctx.lifespan_context.start_soon(end, gone)
            return session

    def _teller(self, ctx: Any, caller: str) -> Callable[[frozenset[str]], None]:
        tasks = ctx.lifespan_context

        def tell(kinds: frozenset[str]) -> None:
            tasks.start_soon(self._streams.publish, kinds, caller)

        return tell
