"""Handles: how a protocol without sessions refers to a state (SPEC DEL-2, DEL-3).

Without hooks a handle is the signed snapshot itself: the server stores nothing, every replica with the key can read it,
and a client can branch from it. With hooks it identifies a stored session, which has what the hooks opened; and what
the hooks of a selection open is in a session that all requests with that selection share.
"""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from anyio.abc import TaskGroup
from attrs import evolve, field, frozen
from itsdangerous import BadSignature, SignatureExpired, TimestampSigner
from itsdangerous.encoding import base64_decode, base64_encode

from toolfold import (
    Catalog,
    ConfigError,
    HandleExpired,
    HandleInvalid,
    Session,
    Snapshot,
    StoredSessions,
    StoreError,
    StoreUnavailable,
    ToolSet,
)
from toolfold.spi import Caller, Kind, StatePacker

from ..names import HANDLE_HEADER, HANDLE_META, NO_HANDLE
from .delivery.proxy import ToolCall
from .request import RequestState, Selection, Selections, caller_of, one_client, principal_of

Stale = Literal["normalise", "refuse"]
Handles = Literal["auto", "stored"]

AGAIN = "Activate the groups that you need again, without a handle."
MAX_LENGTH = 4096
REMEMBERED = 256
"""How many verified handles are cached with their snapshots; their expiry is checked nevertheless."""
KEY_VARIABLE = "TOOLFOLD_HANDLE_KEY"

log = logging.getLogger("toolfold.mcp")


class Reading(NamedTuple):
    """The snapshot of a handle in the newest catalog, and its groups that this catalog discards (SPEC PER-2)."""

    snapshot: Snapshot
    discarded: tuple[str, ...]


class SignedHandles:
    """Makes and reads handles that are signed snapshots.

    Args:
        keys: Secrets; the last one signs, and all of them are accepted, so that keys can be rotated.
        lifetime: Seconds for which a handle is accepted.
        stale: What to do with a handle of an older catalog: `"normalise"` it like a stored state (SPEC PER-2), if it
            has the names of its groups, or `"refuse"` it.
        clock: Returns the time in seconds since 1970.
    """

    def __init__(self, keys: Sequence[str | bytes], lifetime: float, stale: Stale, clock: Callable[[], float]) -> None:
        if not keys or any(len(key) < 16 for key in keys):
            raise ConfigError(
                "A key for handles needs at least 16 characters; make one with secrets.token_urlsafe(32)."
            )
        self._keys = list(keys)
        self._lifetime = lifetime
        self._stale: Stale = stale
        self._clock = clock
        self._verified: OrderedDict[tuple[str, str], tuple[Reading, float]] = OrderedDict()
        self._packer = StatePacker()

    def issue(self, snapshot: Snapshot, principal: str) -> str:
        """Return a handle of `snapshot` for a caller; `principal` is `""` if callers are not authenticated.

        A handle of more than `MAX_LENGTH` characters would not be accepted.
        """
        signed = self._signer(snapshot.catalog, principal).sign(base64_encode(self._packer.pack(snapshot)))
        return signed.decode("ascii")

    def read(self, handle: str, catalog: Catalog, principal: str) -> Reading:
        """Return the snapshot of a handle in `catalog`, and its groups that `catalog` discards.

        Raises:
            HandleInvalid: It is forged or damaged, or was made for another caller or catalog.
            HandleExpired: It has expired.
        """
        found, issued = self._verified.get((handle, principal), (None, 0.0))
        fresh = int(self._clock()) - issued <= int(self._lifetime)
        if found is not None and found.snapshot.catalog is catalog and fresh:
            return found
        found, issued = self._verify(handle, catalog, principal)
        self._verified[handle, principal] = (found, issued)
        if len(self._verified) > REMEMBERED:
            self._verified.popitem(last=False)
        return found

    def _verify(self, handle: str, catalog: Catalog, principal: str) -> tuple[Reading, float]:
        """Return the content of a handle, and when it was issued; raises as `read` does."""
        if len(handle) > MAX_LENGTH or not handle.isascii() or not _is_canonical(handle):
            raise HandleInvalid(f"The handle is damaged. {AGAIN}")
        try:
            packed, issued = self._signer(catalog, principal).unsign(
                handle, max_age=int(self._lifetime), return_timestamp=True
            )
        except SignatureExpired as error:
            raise HandleExpired(f"The handle has expired. {AGAIN}") from error
        except BadSignature as error:
            raise HandleInvalid(f"The handle was not made by this server for this caller. {AGAIN}") from error
        saved = self._packer.unpack(base64_decode(packed), catalog, same=self._stale == "refuse")
        if saved is None:
            raise HandleInvalid(f"The handle was made before this server's groups changed. {AGAIN}")
        return Reading(*saved.restored(catalog)), issued.timestamp()

    def _signer(self, catalog: Catalog, principal: str) -> TimestampSigner:
        """Return the signer for one tool set and one caller; for any others the signature is invalid."""
        bound = json.dumps(["toolfold.handle", catalog.name, principal])
        salt = hashlib.sha256(bound.encode()).digest()
        return _Signer(self._clock, self._keys, salt=salt, sep=".", digest_method=hashlib.sha256)


@frozen(eq=False)
class HandleStates:
    """The states of modern requests, which handles name or the requests select.

    A stored session has a short handle, without a dot, unlike a signed one. A process that has one client has one
    session for all requests of it, whether they give a handle or not (SPEC DEL-12); its lists are as constant.

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
    _own: str = field(init=False, factory=partial(secrets.token_urlsafe, 16))
    """The handle of the session of a process that has one client."""

    def of_process(self, carried: str | None) -> str | None:
        """Return the handle that a request carries, else that of the process if it has one client."""
        return carried or (self._own if one_client.get() else None)

    def addressed(self, call: ToolCall, carried: str | None) -> ToolCall:
        """Return a call under the handle that names its state: its own, or that of its request or of the process."""
        return evolve(call, handle=self.of_process(carried if one_client.get() else call.handle or carried))

    @asynccontextmanager
    async def reading(self, ctx: Any) -> AsyncGenerator[RequestState]:
        """Yield what a list is made from.

        While the store of a session does not answer, the state that was known last will do (SPEC STO-5).
        """
        handle, selection = carried_handle(ctx), self._selections.of(ctx.request)
        private = handle is not None or self._selections.by_headers(ctx.request)
        if handle is None:
            yield RequestState(selection.start, private=private)
        elif is_signed(handle):
            snapshot, discarded = self._signed_state(ctx, selection, handle)
            yield RequestState(snapshot, discarded=discarded, private=private)
        else:
            session = await self._session(ctx, selection, handle, reading=True)
            yield RequestState(session.snapshot, session, discarded=self._discarded(session), private=private)

    @asynccontextmanager
    async def state(self, ctx: Any, kind: Kind, name: str, handle: str | None) -> AsyncGenerator[RequestState]:
        """Yield the state that a handle names, or that a request selects; a session that is not stored ends with it.

        Raises:
            HandleInvalid: There is none, it belongs to another caller, or groups that its session inherits from another
                one have been closed there.
            HandleExpired: It has expired.
            StoreError: The session is in a store, which can't be used.
        """
        selection, caller = self._selections.of(ctx.request), caller_of(ctx)
        if handle is not None and not is_signed(handle):
            session = await self._session(ctx, selection, handle)
            state = RequestState(session.snapshot, session, opens=handle == self._own, handle=handle)
            state.discarded, state.issue = self._discarded(session), partial(_same, handle)
            async with session.executor.request():
                try:
                    yield state
                finally:
                    self._last_active[session] = session.active
            return
        if handle is not None:
            (snapshot, discarded), owner = self._signed_state(ctx, selection, handle), None
        else:
            snapshot, discarded = selection.start, ()
            owner = await shared_session(self._shared, selection, caller) if selection.catalog.has_hooks else None
        among, new, name = None, None, ""
        if self._stores_sessions(snapshot.catalog):
            among, (new, name) = self._stored, _new(principal_of(ctx))
        async with self._tools.request_session(
            snapshot, selection.profile, owner, caller, among=among, name=name
        ) as session:
            issue = partial(self._issued, session, new, principal_of(ctx))
            yield RequestState(snapshot, session, handle=handle, issue=issue, discarded=discarded)

    def _signed_state(self, ctx: Any, selection: Selection, handle: str) -> Reading:
        """Return the content of a signed handle; a catalog with hooks has no signed handles."""
        if selection.catalog.has_hooks:
            raise HandleInvalid(f"The handle is not one of this server, or was made before its groups changed. {AGAIN}")
        return self._signed.read(handle, selection.catalog, principal_of(ctx))

    async def _session(self, ctx: Any, selection: Selection, handle: str, *, reading: bool = False) -> Session:
        """Return the session of a stored handle; if what it inherits has been closed, end it."""
        if handle == self._own:  # which its first request opens with the groups that it selects
            start = selection.start.active
            return await self._shared.get_or_create(self._own, selection.profile, start, caller_of(ctx))
        session, why = None, "The handle is not one of this server for this caller, or has expired."
        name = _name(handle, principal_of(ctx))
        try:
            session = await self._stored.get(name, reading=reading)
        except StoreUnavailable:
            raise
        except StoreError as error:
            why = str(error)
        if session is None:
            self._tasks_of(ctx).start_soon(self._stored.end_if_over, name)
            raise HandleInvalid(f"{why} {AGAIN}")
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
        await session.executor.flush()
        return new

    def _discarded(self, session: Session) -> tuple[str, ...]:
        """Return the groups that were active at the last answer to the caller and no longer exist."""
        known, before = session.catalog.index, self._last_active.get(session, ())
        return tuple(dict.fromkeys((*session.discarded, *(path for path in before if path not in known))))

    def _stores_sessions(self, catalog: Catalog) -> bool:
        """Return whether all handles of a catalog name stored sessions, and not only those too long to be signed."""
        return self._short or catalog.has_hooks


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


class _Signer(TimestampSigner):
    def __init__(self, clock: Callable[[], float], keys: list[str | bytes], **options: object) -> None:
        super().__init__(keys, **options)  # type: ignore[arg-type]
        self._clock = clock

    def get_timestamp(self) -> int:
        """Return the time in whole seconds."""
        return int(self._clock())


def _is_canonical(handle: str) -> bool:
    """Return whether each part is the canonical encoding of its bytes, so that no other text is the same handle."""
    try:
        return all(base64_encode(base64_decode(part)).decode() == part for part in handle.split("."))
    except Exception:
        return False


def is_signed(handle: str) -> bool:
    """Return whether a text has the form of a signed handle; otherwise it can only be that of a stored session."""
    return "." in handle


def signing_keys(
    given: str | bytes | Sequence[str | bytes] | None, environment: Mapping[str, str], *, outliving: bool = False
) -> list[str | bytes]:
    """Return the keys for handles: those given, else those in `TOOLFOLD_HANDLE_KEY`, else a random one.

    The variable may hold several keys, separated by spaces, the newest last. A random key is warned of where other
    processes are to read the handles: if they are `outliving` this one, or there are several workers.
    """
    if given is not None:
        return [given] if isinstance(given, str | bytes) else list(given)
    if named := environment.get(KEY_VARIABLE, "").split():
        return list(named)
    if outliving or environment.get("WEB_CONCURRENCY", "1") not in ("", "0", "1"):
        log.warning(
            "handles are signed with a random key of this process, so no other one can read them, also after a "
            "restart: set %s",
            KEY_VARIABLE,
        )
    return [secrets.token_bytes(32)]


def _new(principal: str) -> tuple[str, str]:
    """Return a new handle, and the name of the session that it is to identify."""
    handle = secrets.token_urlsafe(16)
    return handle, _name(handle, principal)


def _name(handle: str, principal: str) -> str:
    return f"{handle} {principal}"
