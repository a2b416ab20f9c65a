"""The tokens and the client of a login, and where they are stored (SPEC GWY-8, GWY-19).

A user's own logins are in files, readable for the user alone; those of the principals of a gateway are encrypted.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import TypeAdapter
from typing_extensions import TypedDict

from toolfold.spi import frozen

from ..callers.credentials import Credential, Credentials, Held
from ..stored import Files


class Stored(TypedDict, total=False):
    """The tokens for one server, what its authorization server knows this program as, and which one that is.

    With them is what it takes to refresh them after a restart: when they expire, as a time of the clock, and where.
    `token` is one that the user has made himself; `entry` says whose login it is, and `since` since when it is there.
    """

    tokens: OAuthToken
    client: OAuthClientInformationFull
    issuer: str
    expires_at: float | None
    server: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None
    token: str
    entry: str
    since: float


STORED = TypeAdapter(Stored)


@frozen
class InFile:
    """Where a login of the user of this machine is: under the first of two keys.

    What is stored under the second, an older one that other entries had, too, is of the first entry that asks for it.
    """

    files: Files[Stored]
    key: str
    older: str
    entry: str

    async def read(self) -> Stored:
        """Return what is stored."""
        self.files.take_over(self.older, self.key)
        return self.files.read(self.key) or {}

    def stamp(self) -> tuple[int, int] | None:
        """Return what is another after each change; `None` if nothing is stored."""
        return self.files.stamp(self.key)

    async def write(self, stored: Stored) -> None:
        """Store something else."""
        self.files.write(self.key, self._named(stored))

    def give(self, token: str) -> str:
        """Store a token that the user has made himself; return why it can't be, if it can't."""
        return self.files.write(self.key, self._named({"token": token}))

    def _named(self, stored: Stored) -> Stored:
        return {"since": time.time(), **stored, "entry": self.entry}

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Hold it; other processes of the user may refresh it at the same time."""
        yield


class OfPrincipal:
    """Where a login of a principal of a gateway is.

    Args:
        credentials: Those of all principals.
        key: That of this one.
        credential: What is known of it, without its secret.
    """

    def __init__(self, credentials: Credentials, key: str, credential: Credential) -> None:
        self._credentials = credentials
        self._key = key
        self._credential = credential
        self._held: Held | None = None

    async def read(self) -> Stored:
        """Return what is stored; raises `CredentialsUnavailable`."""
        found = await self._credentials.read(self._key) if self._held is None else self._held.credential
        return {} if found is None else STORED.validate_python(found.secret)

    def stamp(self) -> None:
        """Return `None`: who keeps connections watches the store (see `CallerLogins.watch`)."""

    async def write(self, stored: Stored) -> None:
        """Store something else; raises `CredentialsUnavailable`."""
        secret: Any = STORED.dump_python(stored, mode="json", exclude_none=True)
        credential = self._credential.renewed(secret, stored.get("expires_at"))
        if self._held is None:
            await self._credentials.write(self._key, credential)
        else:
            await self._held.write(credential)

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[None]:
        """Hold it, so that one replica refreshes it; raises `CredentialsUnavailable`."""
        async with self._credentials.held(self._key) as self._held:
            try:
                yield
            finally:
                self._held = None


class Tokens:
    """The tokens and the client of one login, as the SDK asks for them; a client that is `named` is not stored.

    `context` is the SDK's state of the login: it would forget at a restart when tokens expire and where they are
    refreshed, and ask the user to log in again. `at` returns which authorization server gives what is stored, and
    `pinned` the only one whose tokens and client count, if it is known.
    """

    context: OAuthContext
    pinned: Callable[[], str | None]

    def __init__(
        self, place: InFile | OfPrincipal, named: OAuthClientInformationFull | None, at: Callable[[], str]
    ) -> None:
        self._at = at
        self._place = place
        self._named = named
        self._given: str | None = None
        self._stored: Stored = {}
        self._stamp: tuple[int, int] | None = None
        self.held = place.held
        self.of_principal = isinstance(place, OfPrincipal)

    async def load(self) -> None:
        """Read what is stored now."""
        self._stored = await self._place.read()
        self._stamp = self._place.stamp()

    def changed(self) -> Literal["changed", "ended"] | None:
        """Return what another process of the user has done to what is stored since it was read, if anything."""
        before, self._stamp = self._stamp, self._place.stamp()
        if self._stamp == before:
            return None
        self._given, self._stored = None, {}  # who logs in again may do so elsewhere
        return "ended" if self._stamp is None else "changed"

    def issuer(self) -> str | None:
        """Return which authorization server gave the tokens that there are, also where they could not be stored."""
        return self._given or _issuer_of(self._stored)

    def metadata_of(self, issuer: str) -> OAuthMetadata | None:
        """Return what is stored of an authorization server."""
        server = self._stored.get("server")
        return server if server is not None and same_issuer(str(server.issuer), issuer) else None

    async def get_tokens(self) -> OAuthToken | None:
        """Return the tokens that count."""
        await self.load()
        stored, context, pinned = self._stored, self.context, self.pinned()
        if (tokens := stored.get("tokens")) is None:
            return None
        self._given = _issuer_of(stored)
        if self._given is not None and pinned is not None and not same_issuer(self._given, pinned):
            return None
        context.token_expiry_time = stored.get("expires_at")
        context.protected_resource_metadata = context.protected_resource_metadata or stored.get("resource")
        return tokens if self._given is not None else unrefreshable(tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store new tokens."""
        context = self.context
        self._given = self._at()
        await self._write(
            {
                "tokens": tokens,
                "issuer": self._given,
                "expires_at": context.token_expiry_time,
                "server": context.oauth_metadata,
                "resource": context.protected_resource_metadata,
            }
        )

    async def revoked(self) -> None:
        """Take note that the tokens count no more; what is known of their issuer stays."""
        await self.load()
        left: Any = {name: value for name, value in self._stored.items() if name not in ("tokens", "expires_at")}
        await self._store(left)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return the client that counts."""
        if self._named is not None:
            return self._named
        await self.load()
        stored = self._stored
        if (client := stored.get("client")) is None:
            return None
        issuer, pinned = client.issuer or _issuer_of(stored), self.pinned()
        if issuer is None or (pinned is not None and not same_issuer(issuer, pinned)):
            return None  # one is registered where the login is
        if client.redirect_uris:  # else what asks for a login would name a port that is not registered
            self.context.client_metadata.redirect_uris = client.redirect_uris
        return client.model_copy(update={"issuer": issuer})

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store a client that was registered."""
        client_info.issuer = self._at()
        await self._write({"client": client_info})

    async def _write(self, now: Stored) -> None:
        await self.load()
        await self._store({**self._stored, **now})

    async def _store(self, stored: Stored) -> None:
        self._stored = stored
        await self._place.write(stored)
        self._stamp = self._place.stamp()


def same_issuer(issuer: str, other: str) -> bool:
    """Return whether two texts name one authorization server."""
    return issuer.rstrip("/") == other.rstrip("/")


def unrefreshable(tokens: OAuthToken) -> OAuthToken:
    """Return tokens without the one that refreshes them."""
    return tokens.model_copy(update={"refresh_token": None})


def _issuer_of(stored: Stored) -> str | None:
    """Return which authorization server gave the tokens that are stored, if they say so."""
    server = stored.get("server")
    return stored.get("issuer") or (None if server is None or "tokens" not in stored else str(server.issuer))
