"""Handles that name a session which the server has: in its memory, or in a store (SPEC DEL-3, STO-4)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol
from weakref import WeakKeyDictionary

from anyio import CancelScope

from toolfold import HandleInvalid, Profile, Session, Snapshot, StoredSessions, StoreError, StoreUnavailable, ToolSet
from toolfold.spi import Caller, SessionPool

from .handles import AGAIN


class StoredHandles(Protocol):
    """Makes and reads handles of stored sessions, which are short and, unlike signed ones, without a dot."""

    def check(self, caller: Caller) -> None:
        """Raise `QuotaExceeded` if it is known that a caller can have no more sessions."""
        ...

    def request_session(
        self, snapshot: Snapshot, profile: Profile | None, owner: Session | None, caller: Caller, principal: str
    ) -> AbstractAsyncContextManager[Session]:
        """Yield a session that ends with the request, unless `issue` has stored it; see `ToolSet.request_session`."""
        ...

    async def issue(self, session: Session, principal: str) -> str:
        """Store the session of a request and return its handle; raises `QuotaExceeded` (SPEC SAF-4)."""
        ...

    async def get(self, handle: str, principal: str, *, reading: bool = False) -> Session:
        """Return the session of a handle, for a request that it is to be given back after.

        With `reading`, one whose state was known will do while the store does not answer (SPEC STO-5).

        Raises:
            HandleInvalid: There is none, it belongs to another caller, it has expired, or groups that its session
                inherits from another one have been closed there.
            StoreError: It is in a store, which can't be used.
        """
        ...

    async def give_back(self, session: Session) -> None:
        """Record the active groups of a session as those that its caller knows of, at the end of a request."""
        ...

    def discarded(self, session: Session) -> tuple[str, ...]:
        """Return the groups that were active at the last answer to the caller and no longer exist."""
        ...

    async def end_if_over(self, handle: str, principal: str) -> None:
        """End the session of a handle that was refused, if it is over."""
        ...


class HandlesInMemory:
    """Handles of sessions in the memory of this process; see `StoredHandles`."""

    def __init__(self, tools: ToolSet, pool: SessionPool[Session]) -> None:
        self._tools = tools
        self._pool = pool
        self._last_active: WeakKeyDictionary[Session, tuple[str, ...]] = WeakKeyDictionary()

    def check(self, caller: Caller) -> None:
        """Raise `QuotaExceeded` if there is no room for a session of a caller."""
        self._pool.check(caller)

    def request_session(
        self, snapshot: Snapshot, profile: Profile | None, owner: Session | None, caller: Caller, principal: str
    ) -> AbstractAsyncContextManager[Session]:
        """Yield a session for one request."""
        return self._tools.request_session(snapshot, profile, owner, caller)

    async def issue(self, session: Session, principal: str) -> str:
        """Store a session and return its handle."""
        handle = secrets.token_urlsafe(16)
        await self._pool.admit(session, _name(handle, principal))
        self._note(session)
        return handle

    async def get(self, handle: str, principal: str, *, reading: bool = False) -> Session:
        """Return the session of a handle."""
        session = self._pool.find(_name(handle, principal))
        if session is None:
            raise _unknown()
        return session

    async def give_back(self, session: Session) -> None:
        """Record what its caller knows of."""
        self._note(session)

    def _note(self, session: Session) -> None:
        self._last_active[session] = session.active

    def discarded(self, session: Session) -> tuple[str, ...]:
        """Return the groups that no longer exist."""
        known = session.catalog.index
        return tuple(path for path in self._last_active.get(session, ()) if path not in known)

    async def end_if_over(self, handle: str, principal: str) -> None:
        """End the session of a handle that was refused, if it is over."""
        await self._pool.end_if_over(_name(handle, principal))


class HandlesInStore:
    """Handles of sessions in a store, which any process that shares it can use; see `StoredHandles`."""

    def __init__(self, sessions: StoredSessions) -> None:
        self._sessions = sessions
        self._drafts: dict[Session, str] = {}

    def check(self, caller: Caller) -> None:
        """Do nothing: the store knows, and refuses before the first hook."""

    @asynccontextmanager
    async def request_session(
        self, snapshot: Snapshot, profile: Profile | None, owner: Session | None, caller: Caller, principal: str
    ) -> AsyncGenerator[Session]:
        """Yield a session whose first step creates its record."""
        handle = secrets.token_urlsafe(16)
        session = self._sessions.draft(_name(handle, principal), profile, caller, snapshot=snapshot, owner=owner)
        self._drafts[session] = handle
        try:
            yield session
        finally:
            if self._drafts.pop(session, None) is not None:
                with CancelScope(shield=True):
                    await self._sessions.discard(session)

    async def issue(self, session: Session, principal: str) -> str:
        """Store the session of a request and return its handle."""
        if session not in self._drafts:  # its groups have no hooks, but a signed handle would be too long
            handle = secrets.token_urlsafe(16)
            name = _name(handle, principal)
            session = self._sessions.draft(name, caller=session.caller, snapshot=session.snapshot)
            self._drafts[session] = handle
        await session.executor.ensure()
        await session.flush()
        return self._drafts.pop(session)

    async def get(self, handle: str, principal: str, *, reading: bool = False) -> Session:
        """Return the session of a handle."""
        try:
            session = await self._sessions.get(_name(handle, principal), reading=reading)
        except StoreUnavailable:
            raise
        except StoreError as error:
            raise HandleInvalid(f"{error} {AGAIN}") from error
        if session is None:
            raise _unknown()
        return session

    async def give_back(self, session: Session) -> None:
        """Store what the request has set."""
        await session.flush()

    def discarded(self, session: Session) -> tuple[str, ...]:
        """Return the groups that no longer exist."""
        return session.discarded

    async def end_if_over(self, handle: str, principal: str) -> None:
        """Do nothing: sweeps end what is over."""


def _unknown() -> HandleInvalid:
    return HandleInvalid(f"The handle is not one of this server for this caller, or has expired. {AGAIN}")


def _name(handle: str, principal: str) -> str:
    return f"{handle} {principal}"
