"""Handles: how a protocol without sessions refers to a state (SPEC DEL-2, DEL-3).

Without hooks a handle is the signed snapshot itself: the server stores nothing, every replica that has the key can read
it, and from one handle several can be made. With hooks it names a stored session, which holds what the hooks opened.
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

from toolfold import Catalog, ConfigError, HandleExpired, HandleInvalid, Session, Snapshot
from toolfold.spi import Caller, SessionPool, StatePacker

Stale = Literal["normalise", "refuse"]
Handles = Literal["auto", "stored"]

AGAIN = "Activate the groups that you need again, without a handle."
MAX_LENGTH = 4096
REMEMBERED = 256
"""How many handles that were found valid are remembered with their snapshots; their time is checked all the same."""
KEY_VARIABLE = "TOOLFOLD_HANDLE_KEY"

log = logging.getLogger("toolfold.mcp")


@frozen
class Reading:
    """What a handle stands for in the newest catalog, and which of its groups that discards (SPEC PER-2)."""

    snapshot: Snapshot
    discarded: tuple[str, ...] = ()


class SignedHandles:
    """Makes and reads handles that are signed snapshots.

    Args:
        keys: Secrets; the last one signs, and all of them are accepted, so that keys can be changed under way.
        lifetime: Seconds for which a handle is accepted.
        stale: What to do with a handle of an older catalog: `"normalise"` it as a stored state is (SPEC PER-2), where
            it has the names of its groups, or `"refuse"` it.
        clock: Tells the time in seconds since 1970.
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
        """Return a handle of `snapshot` for a caller; `principal` is `""` where callers are not known.

        One of more than `MAX_LENGTH` characters would not be accepted.
        """
        signed = self._signer(snapshot.catalog, principal).sign(base64_encode(self._packer.pack(snapshot)))
        return signed.decode("ascii")

    def read(self, handle: str, catalog: Catalog, principal: str) -> Reading:
        """Return the snapshot that a handle stands for, in `catalog`, and what of it that discards.

        Raises:
            HandleInvalid: It is forged, damaged, or was made for another caller or catalog.
            HandleExpired: Its time is over.
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
        """Return what a handle stands for, and when it was issued; raises as `read` does."""
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
        """Return what signs for one tool set and one caller: for others the signature is wrong."""
        bound = json.dumps(["toolfold.handle", catalog.name, principal])
        salt = hashlib.sha256(bound.encode()).digest()
        return _Signer(self._clock, self._keys, salt=salt, sep=".", digest_method=hashlib.sha256)


class _Signer(TimestampSigner):
    def __init__(self, clock: Callable[[], float], keys: list[str | bytes], **options: object) -> None:
        super().__init__(keys, **options)  # type: ignore[arg-type]
        self._clock = clock

    def get_timestamp(self) -> int:
        """Return the time in whole seconds."""
        return int(self._clock())


def _is_canonical(handle: str) -> bool:
    """Return whether each part is the only writing of its bytes, so that no other text is the same handle."""
    try:
        return all(base64_encode(base64_decode(part)).decode() == part for part in handle.split("."))
    except Exception:
        return False


class StoredHandles:
    """Makes and reads handles of stored sessions: short ones without a dot, which signed ones have."""

    def __init__(self, pool: SessionPool[Session]) -> None:
        self._pool = pool
        self._last_active: WeakKeyDictionary[Session, tuple[str, ...]] = WeakKeyDictionary()

    async def issue(self, session: Session, principal: str) -> str:
        """Return a handle of a session, which is stored from now on; raises `QuotaExceeded` (SPEC SAF-4)."""
        handle = secrets.token_urlsafe(16)
        await self._pool.admit(session, _key(handle, principal))
        self.note_answer(session)
        return handle

    def check(self, caller: Caller) -> None:
        """Raise `QuotaExceeded` if there would be no place for a session of a caller."""
        self._pool.check(caller)

    async def end_if_over(self, handle: str, principal: str) -> None:
        """End the session of a handle that is refused."""
        await self._pool.end_if_over(_key(handle, principal))

    def note_answer(self, session: Session) -> None:
        """Note that the caller knows by now which groups of a session are active."""
        self._last_active[session] = session.active

    def discarded(self, session: Session) -> tuple[str, ...]:
        """Return the groups that were active when the caller was answered last and that do not exist any more."""
        known = session.catalog.index
        return tuple(path for path in self._last_active.get(session, ()) if path not in known)

    def get(self, handle: str, principal: str) -> Session:
        """Return the session of a handle.

        Raises:
            HandleInvalid: There is none, it is another caller's, it has expired, or groups that its session inherits
                from another one have been closed there.
        """
        session = self._pool.find(_key(handle, principal))
        if session is None:
            raise HandleInvalid(f"The handle is not one of this server for this caller, or has expired. {AGAIN}")
        return session


def is_signed(handle: str) -> bool:
    """Return whether a text has the form of a signed handle; else it can only be that of a stored session."""
    return "." in handle


def _key(handle: str, principal: str) -> str:
    return f"{handle} {principal}"


def signing_keys(
    given: str | bytes | Sequence[str | bytes] | None, environment: Mapping[str, str]
) -> list[str | bytes]:
    """Return the keys for handles: those given, else those in `TOOLFOLD_HANDLE_KEY`, else one of this process alone.

    The variable may hold several keys, separated by spaces, the newest last.
    """
    if given is not None:
        return [given] if isinstance(given, str | bytes) else list(given)
    if named := environment.get(KEY_VARIABLE, "").split():
        return list(named)
    if environment.get("WEB_CONCURRENCY", "1") not in ("", "0", "1"):
        log.warning(
            "handles are signed with a random key of this process, so other workers can't read them: set %s",
            KEY_VARIABLE,
        )
    return [secrets.token_bytes(32)]
