"""Handles: how a protocol without sessions refers to a state (SPEC DEL-2, DEL-3).

Without hooks a handle is the signed snapshot itself: the server stores nothing, every replica with the key can read it,
and a client can branch from it. With hooks it identifies a stored session, which has what the hooks opened; and what
the hooks of a selection open is in a session that all requests with that selection share.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary

from anyio.abc import TaskGroup
from attrs import field

from toolfold import (
    HandleInvalid,
    Session,
    StoredSessions,
    StoreError,
    StoreUnavailable,
    ToolSet,
)
from toolfold.spi import Caller, Described, Kind, frozen

from ...names import HANDLE_HEADER, HANDLE_META, NO_HANDLE
from ..request import Request, Selection, Selections, own_client
from .reference import ByHandle, ListSource
from .signed import AGAIN, MAX_LENGTH, Reading, SignedHandles, is_signed

Handles = Literal["auto", "stored"]


@frozen(eq=False)
class HandleStates:
    """The states of modern requests, which handles name or the requests select.

    A stored session has a short handle, without a dot, unlike a signed one. A client that has a process or a connection
    of its own has one session for all its requests, whether they give a handle or not (SPEC DEL-12); its lists are as
    constant.

    Args:
        tools: The tool set.
        selections: What requests select, or else what the server was built with.
        signed: Makes handles for catalogs without hooks.
        short: Whether to make no signed ones.
        stored: The sessions of the others.
        shared: The sessions that run the hooks of groups that requests select.
        tasks_of: Returns the task group of the running server, given the context of a request.
    """

    _tools: ToolSet
    _selections: Selections
    _signed: SignedHandles
    _short: bool
    _stored: StoredSessions
    _shared: StoredSessions
    _tasks_of: Callable[[Any], TaskGroup]
    _last_active: WeakKeyDictionary[Session, tuple[str, ...]] = field(
        init=False, factory=WeakKeyDictionary[Session, tuple[str, ...]]
    )
    _shown: WeakKeyDictionary[Session, dict[str, Described]] = field(
        init=False, factory=WeakKeyDictionary[Session, dict[str, Described]]
    )

    def handle_of(self, request: Request, given: str | None = None) -> str | None:
        """Return the handle that names the session of a request: the one among its arguments, else the one it carries.

        Of a client that has a process or a connection of its own, what the arguments say does not count, and there is
        always one.
        """
        carried, own = carried_handle(request.ctx), own_client.get()
        return carried or own if own else given or carried

    @asynccontextmanager
    async def reading(self, request: Request) -> AsyncGenerator[ListSource]:
        """Yield what a list is made from.

        While the store of a session does not answer, the state that was known last will do (SPEC STO-5).
        """
        handle, selection = carried_handle(request.ctx), self._selections.of(request.ctx)
        private = handle is not None or self._selections.is_private(request.ctx)
        if handle is None:
            yield ListSource(selection.start, private=private)
        elif is_signed(handle):
            snapshot, discarded = self._signed_state(request, selection, handle)
            yield ListSource(snapshot, discarded=discarded, private=private)
        else:
            session = await self._session(request, selection, handle, reading=True)
            yield ListSource(session.snapshot, session, discarded=self._discarded(session), private=private)

    @asynccontextmanager
    async def state(
        self, request: Request, kind: Kind, name: str, handle: str | None
    ) -> AsyncGenerator[tuple[Session, ByHandle]]:
        """Yield the session that a handle names, or that a request selects; one that is not stored ends with it.

        Raises:
            HandleInvalid: There is none, it belongs to another caller, or groups that its session inherits from another
                one have been closed there.
            HandleExpired: It has expired.
            StoreError: The session is in a store, which can't be used.
        """
        selection, caller = self._selections.of(request.ctx), request.caller
        if handle is not None and not is_signed(handle):
            session = await self._session(request, selection, handle)
            own, shown = handle == own_client.get(), self._shown_in(session)
            reference = ByHandle(handle, partial(_same, handle), self._discarded(session), opens=own, shown=shown)
            async with session.storing():
                try:
                    yield session, reference
                finally:
                    self._last_active[session] = session.active
            return
        if handle is not None:
            (snapshot, discarded), owner = self._signed_state(request, selection, handle), None
        else:
            snapshot, discarded = selection.start, ()
            owner = await shared_session(self._shared, selection, caller)
        among, new, name = None, None, ""
        if self._short or snapshot.catalog.has_hooks:  # otherwise only those whose handle would be too long are stored
            among, (new, name) = self._stored, _new(request.principal.key)
        async with self._tools.request_session(
            snapshot, selection.profile, owner, caller, among=among, name=name
        ) as session:
            issue = partial(self._issued, session, new, request.principal.key)
            yield session, ByHandle(handle, issue, discarded, shown=self._shown_in(session))

    def _signed_state(self, request: Request, selection: Selection, handle: str) -> Reading:
        """Return the content of a signed handle; a catalog with hooks has no signed handles."""
        if selection.catalog.has_hooks:
            raise HandleInvalid(f"The handle is not one of this server, or was made before its groups changed. {AGAIN}")
        return self._signed.read(handle, selection.catalog, request.principal.key)

    async def _session(self, request: Request, selection: Selection, handle: str, *, reading: bool = False) -> Session:
        """Return the session of a stored handle; if what it inherits has been closed, end it."""
        if handle == own_client.get():  # which its first request opens with the groups that it selects
            start = selection.start.active
            own = await self._shared.get_or_create(handle, selection.profile, start, request.caller)
            self._selections.bind(own, request.principal)
            return own
        session, why = None, "The handle is not one of this server for this caller, or has expired."
        name = _name(handle, request.principal.key)
        try:
            session = await self._stored.get(name, reading=reading)
        except StoreUnavailable:
            raise
        except StoreError as error:
            why = str(error)
        if session is None:
            self._tasks_of(request.ctx).start_soon(self._stored.end_if_over, name)
            raise HandleInvalid(f"{why} {AGAIN}")
        self._selections.bind(session, request.principal)
        return session

    async def _issued(self, session: Session, new: str | None, principal: str) -> str:
        """Return a handle of the present state of a session, which is stored unless the handle is the state itself.

        Without a `new` handle, the session is not to be stored itself: its groups have no hooks, but a signed handle
        would be too long. Raises `QuotaExceeded` (SPEC SAF-4).
        """
        if new is None:
            signed = self._signed.issue(session.snapshot, principal)
            if len(signed) <= MAX_LENGTH:
                return signed
            new, name = _new(principal)
            session = self._stored.draft(name, session.profile, session.caller, snapshot=session.snapshot)
        await self._stored.ensure(session)
        self._last_active[session] = session.active
        await session.flush()
        return new

    def _shown_in(self, session: Session) -> dict[str, Described]:
        """Return the definitions that the callers of a session have read, by name; another process begins with none.

        They are forgotten where there are more than the catalog has tools: some of those no longer exist.
        """
        shown = self._shown.setdefault(session, {})
        if len(shown) > len(session.catalog.tools):
            shown.clear()
        return shown

    def _discarded(self, session: Session) -> tuple[str, ...]:
        """Return the groups that were active at the last answer to the caller and no longer exist."""
        known, before = session.catalog.index, self._last_active.get(session, ())
        return tuple(dict.fromkeys((*session.discarded, *(path for path in before if path not in known))))


def carried_handle(ctx: Any) -> str | None:
    """Return the handle that a request itself carries, in its `_meta` or a header (SPEC DEL-11); `""` is none.

    Raises:
        HandleInvalid: The one in its `_meta` is not a string.
    """
    given: Any = NO_HANDLE
    if ctx.meta and HANDLE_META in ctx.meta:
        given = ctx.meta[HANDLE_META]
    elif ctx.request is not None:
        given = ctx.request.headers.get(HANDLE_HEADER)
    if given is not None and not isinstance(given, str):
        raise HandleInvalid(f"The {HANDLE_META} in _meta is not a string. {AGAIN}")
    return given or None


async def shared_session(sessions: StoredSessions, selection: Selection, caller: Caller) -> Session | None:
    """Return the session that has run the hooks of the selected groups; `None` if they have none.

    All requests with the same selection share it. While it lasts, it counts as one of `caller`, who was the first.
    Raises as `StoredSessions.get_or_create` does.
    """
    start = selection.start
    if not any(start.catalog.group(path).has_hooks for path in start.active):
        return None
    name = json.dumps(["start", selection.profile.name if selection.profile else None, start.active])
    return await sessions.get_or_create(
        name,
        selection.profile,
        start.active,
        caller,
        lambda session: all(map(session.snapshot.is_active, start.active)),
    )


async def _same(handle: str) -> str:
    return handle


def _new(principal: str) -> tuple[str, str]:
    """Return a new handle, and the name of the session that it is to identify."""
    handle = secrets.token_urlsafe(16)
    return handle, _name(handle, principal)


def _name(handle: str, principal: str) -> str:
    return f"{handle} {principal}"
