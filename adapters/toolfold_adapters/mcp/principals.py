"""Principal delivery: in the modern era the list follows the authenticated caller (SPEC DEL-6).

Each caller has one session, whatever connection a request comes from; its list is private, and its changes are told to
that caller's streams only. Chosen with `delivery="principal"`.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from anyio.abc import TaskGroup
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from toolfold import Session, ToolSet, WireNames
from toolfold.catalog import Kind
from toolfold.pool import SessionPool

from .answers import AnswerOptions, SessionAnswers
from .callers import caller_of, principal_of
from .notify import EVENTS, WAITING
from .render import Renderer
from .selection import Selection


class Streams:
    """The `subscriptions/listen` streams of a server: one bus for each caller, or one for all.

    Args:
        by_caller: Whether a caller hears only of its own changes, and of what is announced to everybody.

    `running` has the task groups of those who run the server, in which announcements go out.
    """

    def __init__(self, *, by_caller: bool) -> None:
        self.running: list[TaskGroup] = []
        self._by_caller = by_caller
        self._due: dict[str | None, deque[frozenset[str]]] = {}
        self._publishing = False
        self._buses: dict[str, tuple[InMemorySubscriptionBus, ListenHandler]] = {}
        self._listening: dict[str, int] = {}
        self._followed: WeakValueDictionary[str, Session] = WeakValueDictionary()

    async def listen(self, ctx: Any, params: Any) -> Any:
        """Serve one stream until its client leaves."""
        caller = principal_of(ctx) if self._by_caller else ""
        if self._by_caller and not caller:
            raise unauthenticated()
        if caller not in self._buses:
            bus = InMemorySubscriptionBus()
            self._buses[caller] = (bus, ListenHandler(bus, max_subscriptions=sys.maxsize))
        self._listening[caller] = self._listening.get(caller, 0) + 1
        try:
            return await self._buses[caller][1](ctx, params)
        finally:
            self._listening[caller] -= 1
            if not self._listening[caller]:
                del self._listening[caller], self._buses[caller]

    def follow(self, caller: str, session: Session) -> None:
        """Take note that a caller's session says when lists changed, also when that is announced to everybody."""
        self._followed[caller] = session

    def announce(self, kinds: frozenset[str], caller: str | None = None) -> None:
        """Tell a caller's streams soon that lists changed; or those of all whose session does not do so itself.

        What waits to be told is bounded: the last of it covers the rest.
        """
        if not self.running:
            return
        due = self._due.setdefault(caller, deque())
        due.append(kinds if len(due) < WAITING else due.pop() | kinds)
        if not self._publishing:
            self._publishing = True
            self.running[0].start_soon(self._publish_due)

    async def _publish_due(self) -> None:
        try:
            while self._due:
                caller = next(iter(self._due))
                kinds = self._due[caller].popleft()
                if not self._due[caller]:
                    del self._due[caller]
                await self._publish(kinds, caller)
        finally:
            self._publishing = False

    async def _publish(self, kinds: frozenset[str], caller: str | None) -> None:
        events = sorted({EVENTS[kind] for kind in kinds}, key=lambda event: str(event.__name__))
        for one in [caller] if caller is not None else [one for one in self._buses if not self._is_followed(one)]:
            for event in events:
                if one in self._buses:
                    await self._buses[one][0].publish(event())

    def _is_followed(self, caller: str) -> bool:
        session = self._followed.get(caller)
        return session is not None and session.is_open


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
        pool: Has the callers' sessions.
        streams: Where callers listen.
        options: How tools are described in answers (SPEC CTL-4).
    """

    def __init__(
        self,
        tools: ToolSet,
        wire: WireNames,
        built: Selection,
        pool: SessionPool,
        streams: Streams,
        options: AnswerOptions,
    ) -> None:
        self._tools = tools
        self._wire = wire
        self._built = built
        self._pool = pool
        self._streams = streams
        self._renderer = Renderer(wire, modern=True)
        self._answers = SessionAnswers(self._renderer, options, wire)

    async def list(self, server: Any, ctx: Any, kind: Kind, cursor: str | None) -> dict[str, Any]:
        """Return a page of the caller's list."""
        session = await self._session(ctx)
        return {**self._renderer.page(self._answers.page(session, kind, cursor), kind), "cacheScope": "private"}

    async def call(self, server: Any, ctx: Any, name: str, arguments: dict[str, Any] | None) -> dict[str, Any]:
        """Return what a tool answers in the caller's session."""
        return self._renderer.result(await self._answers.call(await self._session(ctx), name, arguments, ctx))

    async def prompt(self, server: Any, ctx: Any, name: str, arguments: dict[str, str] | None) -> Any:
        """Return the messages of a prompt in the caller's session."""
        session = await self._session(ctx)
        return self._renderer.other(await session.get_prompt(name, arguments, ctx, self._wire.to_wire))

    async def read(self, server: Any, ctx: Any, uri: str) -> Any:
        """Return the contents of a resource in the caller's session."""
        contents = await (await self._session(ctx)).read(uri, ctx, self._wire.to_wire)
        return self._renderer.contents(contents)

    async def _session(self, ctx: Any) -> Session:
        caller = principal_of(ctx)
        if not caller:
            raise unauthenticated()
        return await self._pool.get_or_open(caller, lambda: self._new_session(ctx, caller))

    def _new_session(self, ctx: Any, caller: str) -> Session:
        profile = self._built.profile
        start = self._built.paths(self._tools.catalog_under(profile))
        session = self._tools.open_session(profile, start, caller=caller_of(ctx))
        session.on_list_changed(partial(self._streams.announce, caller=caller))
        self._streams.follow(caller, session)
        return session
