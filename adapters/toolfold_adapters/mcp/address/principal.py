"""The sessions of authenticated callers, with `delivery="principal"` (SPEC DEL-6)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from weakref import WeakSet

import mcp_types as types
from attrs import define, field
from mcp.shared.exceptions import MCPError

from toolfold import Session, StoredSessions, StoreError

from ..principal import principal_of
from ..request import Request, Selections, caller_of, is_list
from ..subscriptions import Subscriptions
from .reference import ByList, ListedSessions

LOST = (
    "What was stored of your open groups is damaged, so they are closed, and nothing was done. Open the groups that "
    "you need again."
)
_READ_BY_MODELS = ("tools/call", "prompts/get", "resources/read")
"""The requests that say so, once."""


@define(eq=False)
class PrincipalSessions(ListedSessions):
    """The sessions of authenticated callers.

    Args:
        selections: The initial state of a caller's session is what the server was built with.
        sessions: Where these are.
        subscriptions: The subscriptions of the callers.
    """

    _selections: Selections
    _sessions: StoredSessions
    _subscriptions: Subscriptions
    _followed: WeakSet[Session] = field(init=False, factory=WeakSet[Session])
    _lost: WeakSet[Session] = field(init=False, factory=WeakSet[Session])

    @asynccontextmanager
    async def state(self, request: Request, *_: object) -> AsyncGenerator[tuple[Session, ByList]]:
        """Yield the session of the caller of a request, whose list has what is open."""
        session = await self.follow(request.ctx)
        if session in self._lost and request.ctx.method in _READ_BY_MODELS:
            self._lost.discard(session)
            raise StoreError(LOST)
        async with session.storing():
            yield session, self.reference(session)

    async def follow(self, ctx: Any) -> Session:
        """Return the session of the caller of a request, whose changes its subscribers are notified of."""
        principal = principal_of(ctx)
        if not principal.authenticated:
            raise unauthenticated()
        caller, default = principal.key, self._selections.of_caller(ctx)
        damaged: list[bool] = []
        session = await self._sessions.get_or_create(
            caller,
            default.profile,
            default.paths,
            caller_of(ctx),
            reading=is_list(ctx),
            on_damage=lambda: damaged.append(True),
        )
        self._selections.bind(session, principal)
        if damaged:
            self._lost.add(session)
        if session not in self._followed:
            self._followed.add(session)
            session.on_list_changed(partial(self._subscriptions.announce, caller=caller))
            self._subscriptions.follow(caller, session)
        return session


def unauthenticated() -> MCPError:
    """Return the refusal of a request that is not authenticated."""
    return MCPError(
        code=types.INVALID_REQUEST,
        message="This server has lists for each caller, and the request is not authenticated: send a bearer token.",
    )
