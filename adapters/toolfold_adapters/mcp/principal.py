"""Principal delivery: in the modern era the list follows the authenticated caller (SPEC DEL-6).

Each caller has one session, whatever connection a request comes from; its list is private, and its changes go to that
caller's subscriptions only. Chosen with `delivery="principal"`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from toolfold import Session, ToolSet, WireNames
from toolfold.spi import Kind, SessionPool

from .answers import AnswerOptions, SessionAnswers
from .callers import caller_of, principal_of
from .render import Renderer
from .selection import Selection
from .subscriptions import Subscriptions, unauthenticated


class PrincipalDelivery:
    """Answers modern requests from the session of their caller.

    Args:
        tools: What is delivered.
        wire: The names that clients see.
        default: What a caller's session begins with.
        pool: Has the callers' sessions.
        subscriptions: Where callers listen.
        options: How tools are described in answers (SPEC CTL-4).
    """

    def __init__(
        self,
        tools: ToolSet,
        wire: WireNames,
        default: Selection,
        pool: SessionPool[Session],
        subscriptions: Subscriptions,
        options: AnswerOptions,
    ) -> None:
        self._tools = tools
        self._wire = wire
        self._default = default
        self._pool = pool
        self._subscriptions = subscriptions
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
        return self._renderer.plain(await session.get_prompt(name, arguments, ctx, self._wire.to_wire))

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
        profile = self._default.profile
        start = self._default.paths(self._tools.catalog_under(profile))
        session = self._tools.open_session(profile, start, caller=caller_of(ctx))
        session.on_list_changed(partial(self._subscriptions.announce, caller=caller))
        self._subscriptions.follow(caller, session)
        return session
