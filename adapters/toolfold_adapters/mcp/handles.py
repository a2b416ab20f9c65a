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
from collections.abc import Callable, Mapping, Sequence
from typing import Literal
from weakref import WeakKeyDictionary

from attrs import frozen
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
)
from toolfold.spi import Caller, StatePacker

from .request import Selection

Stale = Literal["normalise", "refuse"]
Handles = Literal["auto", "stored"]

AGAIN = "Activate the groups that you need again, without a handle."
MAX_LENGTH = 4096
REMEMBERED = 256
"""How many verified handles are cached with their snapshots; their expiry is checked nevertheless."""
KEY_VARIABLE = "TOOLFOLD_HANDLE_KEY"

log = logging.getLogger("toolfold.mcp")


@frozen
class Reading:
    """The snapshot of a handle in the newest catalog, and its groups that this catalog discards (SPEC PER-2).

    `store_away` says that the store did not answer, so that the snapshot is the one that was known last (SPEC STO-5).
    """

    snapshot: Snapshot
    discarded: tuple[str, ...] = ()
    store_away: bool = False


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


class StoredHandles:
    """Makes and reads handles of stored sessions, which are short and, unlike signed ones, without a dot.

    Args:
        sessions: Where they are.
    """

    def __init__(self, sessions: StoredSessions) -> None:
        self.sessions = sessions
        self._last_active: WeakKeyDictionary[Session, tuple[str, ...]] = WeakKeyDictionary()

    def new(self, principal: str) -> tuple[str, str]:
        """Return a new handle, and the name of the session that it is to identify."""
        handle = secrets.token_urlsafe(16)
        return handle, _name(handle, principal)

    async def issue(self, session: Session, handle: str | None, principal: str) -> str:
        """Store the session of a request and return its handle; raises `QuotaExceeded` (SPEC SAF-4).

        Without a `handle`, it is not to be stored itself: its groups have no hooks, but a signed handle would be too
        long.
        """
        if handle is None:
            handle, name = self.new(principal)
            session = self.sessions.draft(name, session.profile, session.caller, snapshot=session.snapshot)
        await self.sessions.ensure(session)
        await self.give_back(session)
        return handle

    async def get(self, handle: str, principal: str, *, reading: bool = False) -> Session:
        """Return the session of a handle, for a request that it is to be given back after.

        With `reading`, one whose state was known will do while the store does not answer (SPEC STO-5).

        Raises:
            HandleInvalid: There is none, it belongs to another caller, it has expired, or groups that its session
                inherits from another one have been closed there.
            StoreError: It is in a store, which can't be used.
        """
        try:
            session = await self.sessions.get(_name(handle, principal), reading=reading)
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
        await self.sessions.end_if_over(_name(handle, principal))


class SharedSessions:
    """The sessions that have run the hooks of the groups that requests select.

    Args:
        sessions: Where they are.
    """

    def __init__(self, sessions: StoredSessions) -> None:
        self._sessions = sessions

    async def session(self, selection: Selection, caller: Caller) -> Session | None:
        """Return the session that has run the hooks of the selected groups; `None` if they have none.

        All requests with the same selection share it. While it lasts, it counts as one of `caller`, who was the first.
        Raises as `StoredSessions.get_or_create` does.
        """
        start = selection.start
        if not any(start.catalog.group(path).has_hooks for path in start.active):
            return None
        name = json.dumps(["start", selection.profile.name if selection.profile else None, start.active])
        return await self._sessions.get_or_create(
            name,
            selection.profile,
            start.active,
            caller,
            lambda session: all(map(session.snapshot.is_active, start.active)),
        )

    async def opened(self, name: str, selection: Selection, caller: Caller) -> Session:
        """Return the session of a name, which the first request opens with the groups that it selects."""
        return await self._sessions.get_or_create(name, selection.profile, selection.start.active, caller)


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


def _unknown() -> HandleInvalid:
    return HandleInvalid(f"The handle is not one of this server for this caller, or has expired. {AGAIN}")


def _name(handle: str, principal: str) -> str:
    return f"{handle} {principal}"
