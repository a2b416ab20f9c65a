"""Signed handles, which are the state of a session themselves, packed into a few bytes (SPEC DEL-2, DEL-3)."""

from __future__ import annotations

import hashlib
import json
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple
from weakref import WeakSet

from itsdangerous import BadSignature, HMACAlgorithm, SignatureExpired, TimestampSigner
from itsdangerous.encoding import base64_decode, base64_encode

from toolfold import Catalog, ConfigError, HandleExpired, HandleInvalid, Snapshot
from toolfold.machine import bits
from toolfold.spi import Saved, read_facts

Stale = Literal["normalise", "refuse"]

AGAIN = "Open the groups that you need again, without a handle."
MAX_LENGTH = 4096
SIGNATURE = 16
"""How many bytes a signature has."""
REMEMBERED = 256
"""How many verified handles are cached with their snapshots; their expiry is checked nevertheless."""
KEY_VARIABLE = "TOOLFOLD_HANDLE_KEY"

log = logging.getLogger("toolfold.mcp")
REMEMBERED_NAMES = 10_000
"""How many paths of groups a packer remembers, to name those that do not exist any more."""
NAMELESS = "?"
"""Stands for a group in packed bytes whose name is not known."""
_MASK, _NAMED, _ORDERED = range(3)
_FINGERPRINT = 6
_DIGEST = 6
_NAMED_LIMIT = 12

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
        return _Signer(self._clock, self._keys, salt=salt, sep=".", algorithm=_ShortSignature(hashlib.sha256))


class StatePacker:
    """Packs states into as few bytes as distinguish the groups, and unpacks them.

    A few groups have digests of their paths, which a newer catalog can read; many are bits of a mask, or numbers where
    the quota needs their order, which the very same catalog alone can read.
    """

    def __init__(self) -> None:
        self._names: dict[bytes, str] = {}
        self._learnt: WeakSet[Catalog] = WeakSet()

    def pack(self, snapshot: Snapshot) -> bytes:
        """Return a state, transient groups included, as bytes that `unpack` reads."""
        catalog = snapshot.catalog
        self._learn(catalog)
        mask, order = snapshot.configuration.active, snapshot.configuration.order
        if order:
            kind, state = _ORDERED, b"".join(number.to_bytes(2, "big") for number in order)
        elif mask.bit_count() <= _NAMED_LIMIT:
            kind, state = _NAMED, b"".join(_digest(path) for path in snapshot.active)
        else:
            kind, state = _MASK, mask.to_bytes((mask.bit_length() + 7) // 8, "big")
        facts = json.dumps(dict(snapshot.facts), separators=(",", ":")).encode() if snapshot.facts else b""
        return bytes([kind]) + _fingerprint(catalog) + len(state).to_bytes(2, "big") + state + facts

    def unpack(self, packed: bytes, catalog: Catalog, *, same: bool = False) -> Saved | None:
        """Return the state that `pack` wrote; `None` if `catalog` can't read it.

        Args:
            packed: The bytes, whose integrity the caller has checked.
            catalog: The present catalog. Groups that it does not have are named if this packer has ever known them,
                and are `NAMELESS` otherwise.
            same: Whether it must be the catalog of the state itself.
        """
        kind, start = packed[0], 1 + _FINGERPRINT + 2
        end = start + int.from_bytes(packed[start - 2 : start], "big")
        if packed[1 : 1 + _FINGERPRINT] != _fingerprint(catalog) and (same or kind != _NAMED):
            return None
        active = self._active(kind, packed[start:end], catalog)
        facts = read_facts(json.loads(packed[end:])) if packed[end:] else {}
        return Saved(tuple(active), facts, with_transient=True)

    def _active(self, kind: int, state: bytes, catalog: Catalog) -> Iterable[str]:
        if kind == _NAMED:
            self._learn(catalog)
            digests = (state[at : at + _DIGEST] for at in range(0, len(state), _DIGEST))
            return (self._names.get(digest, NAMELESS) for digest in digests)
        if kind == _ORDERED:
            numbers = [int.from_bytes(state[at : at + 2], "big") for at in range(0, len(state), 2)]
        else:
            numbers = list(bits(int.from_bytes(state, "big")))
        return (catalog.forest.paths[number] for number in numbers)

    def _learn(self, catalog: Catalog) -> None:
        """Remember the paths of a catalog by their digests."""
        if catalog not in self._learnt:
            if len(self._names) > REMEMBERED_NAMES:
                self._names.clear()
                self._learnt.clear()
            self._learnt.add(catalog)
            self._names |= {_digest(group.path): group.path for group in catalog.groups}


def _fingerprint(catalog: Catalog) -> bytes:
    return bytes.fromhex(catalog.fingerprint)[:_FINGERPRINT]


def _digest(path: str) -> bytes:
    return hashlib.sha256(path.encode()).digest()[:_DIGEST]


class _ShortSignature(HMACAlgorithm):
    """HMAC-SHA256 cut to 128 bits, as RFC 4868 does: beyond guessing, and half as much for a model to copy."""

    def get_signature(self, key: bytes, value: bytes) -> bytes:
        """Return the signature of a value."""
        return super().get_signature(key, value)[:SIGNATURE]


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
