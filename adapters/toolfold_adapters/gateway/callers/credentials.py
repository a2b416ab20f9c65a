"""What principals log in with at the servers behind a gateway, encrypted in a store (SPEC GWY-19, ISO-3).

A credential is of one principal, one entry of the configuration and one client there: that is its key. Its record has
an encrypted text, which says itself whose it is, so that what is moved from one record to another is of no use there.
The records are where the sessions are, or in a file of this machine; a user's own logins are in files (SPEC GWY-8).

Where the store or its key can't be read, there is no credential and none is asked for: what needs one is withheld.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
from attrs import evolve, field

from toolfold import ConfigError, Place, Record, Store, StoreError
from toolfold.spi import frozen

from ..upstream.life import CredentialsUnavailable
from .keys import Keys

log = logging.getLogger("toolfold.gateway")

KIND, INDEX, REMEMBERED = "credential", "credential-index", "credential-pending"
FORMAT = 1
LIFETIME = 180 * 24 * 3600.0
"""Seconds for which a credential is kept that nobody uses."""
SHARDS = 16
"""In how many records the list of all credentials is, each of which has those of some principals."""
HELD_SECONDS = 60.0
"""How long a refresh may take, which nobody else may make meanwhile."""
LOOK_SECONDS = 0.05
_DUE = 10

Form = Literal["oauth", "token", "exchange"]
"""How a credential was obtained: by a login, from its principal, or for a token of our issuer."""


@frozen(kw_only=True)
class Credential:
    """What a principal has at a server.

    Attributes:
        principal: Whose it is.
        server: What the server is called in the configuration.
        url: Its URL.
        form: How it was obtained.
        since: When, as a time of the clock.
        expires_at: When it has to be renewed; `None` if that is not known.
        secret: What is sent.
    """

    principal: str
    server: str
    url: str
    form: Form
    since: float = field(factory=time.time)
    expires_at: float | None = None
    secret: Mapping[str, Any] = field(repr=False, factory=dict[str, Any])

    def renewed(self, secret: Mapping[str, Any], expires_at: float | None = None) -> Credential:
        """Return it with another secret."""
        return evolve(self, secret=secret, expires_at=expires_at)

    @property
    def usable(self) -> bool:
        """Whether there is anything to send: a client may be registered for a login that has not ended."""
        return bool(self.secret.keys() - {"client", "issuer", "server", "resource", "expires_at"})


class Credentials:
    """The credentials of all principals.

    Args:
        store: Where they are.
        keys: Returns the keys that they are encrypted with, or raises `ConfigError`; it is called once they are needed.

    `problem` says why they could not be used when they were last needed; it is empty if they could.
    """

    def __init__(self, store: Store, keys: Callable[[], Keys]) -> None:
        self._store = store
        self._keys = keys
        self._loaded: Keys | None = None
        self.problem = ""

    async def read(self, key: str) -> Credential | None:
        """Return a credential, or `None`; raises `CredentialsUnavailable`."""
        with self._noted():
            record = await self._store.read(_record_key(key))
            return None if record is None else await self._known(key, record)

    async def write(self, key: str, credential: Credential) -> None:
        """Store a credential in the place of the one that there is; raises `CredentialsUnavailable`."""
        with self._noted():
            text = self._encrypted(key, credential)
            while True:
                if await self._is_written(_record_key(key), text, LIFETIME, KIND):
                    break
                await anyio.sleep(LOOK_SECONDS)  # somebody refreshes it, and what comes of that is replaced
            await self._enter(key, credential)
            await self._forget()

    async def remove(self, key: str) -> bool:
        """Remove a credential, and return whether there was one; raises `CredentialsUnavailable`."""
        with self._noted():
            while (lease := await self._store.acquire(_record_key(key), HELD_SECONDS)) is not None:
                if lease.token is not None and await self._store.delete(_record_key(key), lease.token):
                    return True
                await anyio.sleep(LOOK_SECONDS)
            return False

    @asynccontextmanager
    async def held(self, key: str) -> AsyncGenerator[Held]:
        """Hold a credential, as it is by then, so that nobody else changes it; raises `CredentialsUnavailable`."""
        record_key = _record_key(key)
        with self._noted():
            while True:
                lease = await self._store.acquire(record_key, HELD_SECONDS)
                if lease is None or lease.token is not None:
                    break
                await anyio.sleep(LOOK_SECONDS)
            held = Held(self, key, None if lease is None else lease.token)
            if lease is not None:
                held.credential = await self._known(key, lease.record)
        try:
            yield held
        finally:
            if held.token is not None:
                with anyio.CancelScope(shield=True), self._noted():
                    await self._store.release(record_key, held.token)

    async def listed(self) -> list[tuple[str, Credential]]:
        """Return all credentials with their keys, without their secrets; one that is damaged is left out.

        Raises:
            CredentialsUnavailable: None of them can be read.
        """
        found: list[tuple[str, Credential]] = []
        damaged: _Unreadable | None = None
        with self._noted():
            for shard in range(SHARDS):
                for key in await self._index(shard):
                    record = await self._store.read(_record_key(key))
                    try:
                        known = None if record is None else await self._known(key, record)
                    except _Unreadable as error:
                        damaged = error
                        continue
                    if known is not None and known.usable:
                        found.append((key, evolve(known, secret={})))
            if damaged is not None and not found:
                raise damaged
        if damaged is not None:
            log.warning("a credential is left out, for it can't be read: %s", damaged)
        return sorted(found, key=lambda one: (one[1].principal, one[1].server))

    async def has_any(self) -> bool:
        """Return whether there is any credential, or has been; no key is needed for that. Raises `StoreError`."""
        found = [await self._store.read(_index_key(shard)) for shard in range(SHARDS)]
        return any(one is not None for one in found)

    async def check(self) -> None:
        """Find out whether credentials can be used; raises `CredentialsUnavailable`."""
        with self._noted():
            _ = self._crypt
            await self._store.due(KIND, 1)

    async def changed(self) -> AsyncGenerator[str | None]:
        """Yield the name of the record of each credential that changes (see `record_of`); `None` for any of them."""
        async for key in self._store.changes():
            if key is None or key.startswith(f"{KIND}/"):
                yield key

    async def replaced(self, key: str, credential: Credential, token: int, before: Credential | None) -> bool:
        """Replace a credential that is held, which is then held no more; return whether it was still there.

        One that was removed or replaced since it was held, which took too long, stays as it is by now: a login that
        was revoked does not come back.
        """
        with self._noted():
            record_key, text = _record_key(key), self._encrypted(key, credential)
            record = await self._store.read(record_key)
            if record is None:
                return False
            if await self._store.swap(record_key, record.version, text, token) is not None:
                return True
            if await self._known(key, record) != before:
                return False
            return await self._store.swap(record_key, record.version, text) is not None

    # -- what is remembered for a while --------------------------------------------------------------------------------

    async def remember(self, name: str, data: Mapping[str, Any], seconds: float) -> None:
        """Store data under a new name, encrypted, for some seconds; raises `CredentialsUnavailable`."""
        with self._noted():
            text = self._crypt.encrypted(json.dumps({**data, "name": name, "until": time.time() + seconds}))
            await self._store.create(_name_key(name), text, Place(REMEMBERED), seconds)
            for record_key in await self._store.due(REMEMBERED, _DUE):
                await self._delete(record_key)

    async def recalled(self, name: str) -> dict[str, Any] | None:
        """Return what is stored under a name, while it is; raises `CredentialsUnavailable`."""
        with self._noted():
            record = await self._store.read(_name_key(name))
            return None if record is None else await self._remembered(name, record)

    async def taken(self, name: str) -> dict[str, Any] | None:
        """Remove what is stored under a name, and return it to one of those who ask."""
        with self._noted():
            lease = await self._store.acquire(_name_key(name), HELD_SECONDS)
            if lease is None or lease.token is None or not await self._store.delete(_name_key(name), lease.token):
                return None
            return await self._remembered(name, lease.record)

    async def _remembered(self, name: str, record: Record) -> dict[str, Any] | None:
        said = await self._decrypted(_name_key(name), record)
        if said.pop("name") != name:
            raise _Unreadable("something stands where something else belongs")
        return said if said.pop("until") > time.time() else None

    # -- records ------------------------------------------------------------------------------------------------------

    def _noted(self) -> _Noted:
        return _Noted(self)

    @property
    def _crypt(self) -> Keys:
        if self._loaded is None:
            self._loaded = self._keys()
        return self._loaded

    def _encrypted(self, key: str, credential: Credential) -> str:
        return self._crypt.encrypted(json.dumps({**_plain(credential), "key": key, "format": FORMAT}))

    async def _known(self, key: str, record: Record) -> Credential:
        said = await self._decrypted(_record_key(key), record)
        if said.pop("format", FORMAT) > FORMAT:
            raise _Unreadable("a later version of Toolfold wrote a credential: upgrade")
        if said.pop("key", None) != key:
            raise _Unreadable("a credential stands where another one belongs")
        return Credential(**said)

    async def _decrypted(self, record_key: str, record: Record) -> dict[str, Any]:
        """Return what a record has; what an older key has encrypted is encrypted with the newest, so that it can go."""
        text = str(record.data)
        plain = self._crypt.decrypted(text)
        if plain is None:
            raise _Unreadable("none of the keys is the one that a credential was encrypted with")
        if not self._crypt.is_newest(text):
            await self._store.swap(record_key, record.version, self._crypt.encrypted(plain))
        found: dict[str, Any] = json.loads(plain)
        return found

    async def _is_written(self, record_key: str, text: str, lifetime: float, kind: str) -> bool:
        record = await self._store.read(record_key)
        if record is not None:
            return await self._store.swap(record_key, record.version, text) is not None
        if isinstance(await self._store.create(record_key, text, Place(kind), lifetime), int):
            return True
        await self._delete(record_key)  # it has expired
        return False

    # -- the list of all of them --------------------------------------------------------------------------------------

    async def _index(self, shard: int) -> list[str]:
        record = await self._store.read(_index_key(shard))
        return [] if record is None else list((await self._decrypted(_index_key(shard), record))["keys"])

    async def _enter(self, key: str, credential: Credential) -> None:
        """Enter a credential in the list; those that are no more are removed from it."""
        shard = int(hashlib.sha256(credential.principal.encode()).hexdigest(), 16) % SHARDS
        while key not in (keys := await self._index(shard)):
            alive = [one for one in keys if await self._store.read(_record_key(one)) is not None]
            text = self._crypt.encrypted(json.dumps({"keys": [*alive, key]}))
            await self._is_written(_index_key(shard), text, 2 * LIFETIME, INDEX)

    async def _forget(self) -> None:
        for record_key in await self._store.due(KIND, _DUE):
            await self._delete(record_key)

    async def _delete(self, record_key: str) -> None:
        lease = await self._store.acquire(record_key, HELD_SECONDS)
        if lease is not None and lease.token is not None:
            await self._store.delete(record_key, lease.token)


class Held:
    """A credential that nobody else changes meanwhile: `credential`, if there is one."""

    def __init__(self, credentials: Credentials, key: str, token: int | None) -> None:
        self._credentials = credentials
        self._key = key
        self.token = token
        self.credential: Credential | None = None

    async def write(self, credential: Credential) -> None:
        """Replace it, unless somebody has removed or replaced it meanwhile; raises `CredentialsUnavailable`."""
        token, self.token = self.token, None
        if token is None:  # there was none
            await self._credentials.write(self._key, credential)
        elif not await self._credentials.replaced(self._key, credential, token, self.credential):
            log.info("a credential that was being renewed is another one by now, or none, and stays so")


class _Unreadable(Exception):
    """What a store has can't be read as a credential."""


class _Noted:
    """Takes note of whether credentials could be used, and has others see one kind of failure."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if error is None:
            self._credentials.problem = ""
        if isinstance(error, StoreError | ConfigError | _Unreadable):
            self._credentials.problem = problem = str(error).rstrip(".")
            log.warning("credentials can't be used: %s", problem)
            raise CredentialsUnavailable("the credentials of its callers can't be used now") from error


def record_of(key: str) -> str:
    """Return the name of the record of a credential."""
    return _record_key(key)


def _record_key(key: str) -> str:
    return f"{KIND}/{hashlib.sha256(key.encode()).hexdigest()}"


def _name_key(name: str) -> str:
    return f"{REMEMBERED}/{hashlib.sha256(name.encode()).hexdigest()}"


def _index_key(shard: int) -> str:
    return f"{INDEX}/{shard:02d}"


def _plain(credential: Credential) -> dict[str, Any]:
    return {
        "principal": credential.principal,
        "server": credential.server,
        "url": credential.url,
        "form": credential.form,
        "since": credential.since,
        "expires_at": credential.expires_at,
        "secret": dict(credential.secret),
    }


def described(credentials: Sequence[tuple[str, Credential]]) -> list[dict[str, Any]]:
    """Return who is logged in where, since when and until when, as data without secrets."""
    return [
        {name: value for name, value in _plain(one).items() if name not in ("secret", "url")} for _, one in credentials
    ]
