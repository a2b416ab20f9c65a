"""The sessions of authenticated callers: in the modern era each has lists of its own (SPEC DEL-6).

Each caller has one session, on all its connections; its lists are private, and changes are sent to that caller's
subscriptions only. Chosen with `delivery="principal"`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from weakref import WeakSet

from toolfold import Session, ToolSet
from toolfold.spi import StoredSession

from ..callers import caller_of, principal_of
from ..shared import Opener
from ..stored_connections import is_list
from ..subscriptions import Subscriptions, unauthenticated
from .selection import DefaultSelection


class PrincipalSessions:
    """The sessions of authenticated callers.

    Args:
        tools: The tool set.
        default: The initial state of a caller's session.
        opened: Opens these sessions.
        subscriptions: The subscriptions of the callers.
    """

    def __init__(self, tools: ToolSet, default: DefaultSelection, opened: Opener, subscriptions: Subscriptions) -> None:
        self._tools = tools
        self._default = default
        self._opened = opened
        self._subscriptions = subscriptions
        self._followed: WeakSet[Session] = WeakSet()

    @asynccontextmanager
    async def session(self, server: Any, ctx: Any) -> AsyncGenerator[Session]:
        """Yield the session of the caller of a request."""
        session = await self.follow(ctx)
        try:
            yield session
        finally:
            if isinstance(session, StoredSession):
                await session.flush()

    async def follow(self, ctx: Any) -> Session:
        """Return the session of the caller of a request, whose changes its subscribers are notified of."""
        caller = principal_of(ctx)
        if not caller:
            raise unauthenticated()
        default = self._default.now()
        start = default.paths(self._tools.catalog_under(default.profile))
        session = await self._opened(caller, default.profile, start, caller_of(ctx), reading=is_list(ctx))
        if session not in self._followed:
            self._followed.add(session)
            session.on_list_changed(partial(self._subscriptions.announce, caller=caller))
            self._subscriptions.follow(caller, session)
        return session
