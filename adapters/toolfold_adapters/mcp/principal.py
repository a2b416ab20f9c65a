"""The sessions of authenticated callers: in the modern era each has lists of its own (SPEC DEL-6).

Each caller has one session, on all its connections; its lists are private, and changes are sent to that caller's
subscriptions only. Chosen with `delivery="principal"`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from toolfold import Session, ToolSet
from toolfold.spi import SessionPool

from .callers import caller_of, principal_of
from .selection import Selection
from .subscriptions import Subscriptions, unauthenticated


class PrincipalSessions:
    """The sessions of authenticated callers.

    Args:
        tools: The tool set.
        default: The initial state of a caller's session.
        pool: The pool of these sessions.
        subscriptions: The subscriptions of the callers.
    """

    def __init__(
        self, tools: ToolSet, default: Selection, pool: SessionPool[Session], subscriptions: Subscriptions
    ) -> None:
        self._tools = tools
        self._default = default
        self._pool = pool
        self._subscriptions = subscriptions

    @asynccontextmanager
    async def session(self, server: Any, ctx: Any) -> AsyncGenerator[Session]:
        """Yield the session of the caller of a request."""
        caller = principal_of(ctx)
        if not caller:
            raise unauthenticated()
        yield await self._pool.get_or_open(caller, lambda: self._new_session(ctx, caller))

    def _new_session(self, ctx: Any, caller: str) -> Session:
        profile = self._default.profile
        start = self._default.paths(self._tools.catalog_under(profile))
        session = self._tools.open_session(profile, start, caller=caller_of(ctx))
        session.on_list_changed(partial(self._subscriptions.announce, caller=caller))
        self._subscriptions.follow(caller, session)
        return session
