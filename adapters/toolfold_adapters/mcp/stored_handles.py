"""Handles that name a session which a store has, that of the server itself or one with others (SPEC DEL-3, STO-4)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakKeyDictionary

from anyio import CancelScope

from toolfold import HandleInvalid, Profile, Session, Snapshot, StoredSessions, StoreError, StoreUnavailable
from toolfold.spi import Caller

from .handles import AGAIN


class StoredHandles:
    """Makes and reads handles of stored sessions, which are short and, unlike signed ones, without a dot."""

    def __init__(self, sessions: StoredSessions) -> None:
        self._sessions = sessions
        self._drafts: dict[Session, str] = {}
        self._last_active: WeakKeyDictionary[Session, tuple[str, ...]] = WeakKeyDictionary()

    @asynccontextmanager
    async def request_session(
        self, snapshot: Snapshot, profile: Profile | None, owner: Session | None, caller: Caller, principal: str
    ) -> AsyncGenerator[Session]:
        """Yield a session whose first step creates its record; it ends with the request, unless `issue` is called."""
        handle = secrets.token_urlsafe(16)
        name = _name(handle, principal)
        session = self._sessions.draft(name, profile, caller, snapshot=snapshot, owner=owner, what="request-")
        self._drafts[session] = handle
        try:
            yield session
        finally:
            if self._drafts.pop(session, None) is not None:
                with CancelScope(shield=True):
                    await self._sessions.discard(session)

    async def issue(self, session: Session, principal: str) -> str:
        """Store the session of a request and return its handle; raises `QuotaExceeded` (SPEC SAF-4)."""
        if session not in self._drafts:  # its groups have no hooks, but a signed handle would be too long
            handle = secrets.token_urlsafe(16)
            name = _name(handle, principal)
            session = self._sessions.draft(name, session.profile, session.caller, snapshot=session.snapshot)
            self._drafts[session] = handle
        await self._sessions.ensure(session)
        await self.give_back(session)
        return self._drafts.pop(session)

    async def get(self, handle: str, principal: str, *, reading: bool = False) -> Session:
        """Return the session of a handle, for a request that it is to be given back after.

        With `reading`, one whose state was known will do while the store does not answer (SPEC STO-5).

        Raises:
            HandleInvalid: There is none, it belongs to another caller, it has expired, or groups that its session
                inherits from another one have been closed there.
            StoreError: It is in a store, which can't be used.
        """
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
        """Store what a request has set, and note the active groups as those that its caller knows of."""
        self._last_active[session] = session.active
        await session.flush()

    def discarded(self, session: Session) -> tuple[str, ...]:
        """Return the groups that were active at the last answer to the caller and no longer exist."""
        known, before = session.catalog.index, self._last_active.get(session, ())
        return tuple(dict.fromkeys((*session.discarded, *(path for path in before if path not in known))))

    async def end_if_over(self, handle: str, principal: str) -> None:
        """End the session of a handle that was refused, if it is over."""
        await self._sessions.end_if_over(_name(handle, principal))


def _unknown() -> HandleInvalid:
    return HandleInvalid(f"The handle is not one of this server for this caller, or has expired. {AGAIN}")


def _name(handle: str, principal: str) -> str:
    return f"{handle} {principal}"
