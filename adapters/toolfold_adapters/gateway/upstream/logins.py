"""Logins at upstreams over HTTP, which hold up no other request (SPEC GWY-8).

A login begins when a server answers with status 401. The tokens that it ends with are stored for the next time,
readable only for their owner. They are of an entry of the configuration: of its name, its URL, the headers that it
sends and the client that it names, for two entries are two accounts.

What an authorization server has given, tokens and registered clients, is sent to that one alone. Whoever answers 401
says where to log in, which may be elsewhere later: the login then stays where it was (see `Issuer`).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyHttpUrl, AnyUrl, TypeAdapter
from typing_extensions import TypedDict

from ..config.settings import UpstreamConfig
from ..stored import Files
from .http import ADDRESS
from .life import LoginFailed
from .redirect import FIRST_PORT, PORTS, Addresses, Reach, Redirect, addresses_of, in_browser
from .wire import OpenUrl

log = logging.getLogger("toolfold.gateway")


class Issuer:
    """The authorization server that a login is at; no other one gets the user, or what this one has given.

    It is the one that the entry names, else the one that gave the tokens. A server that says another one later is not
    followed, whatever kind of client logs in.

    Args:
        config: How the server is reached.
        recorded: Returns the one that gave the tokens, if there are any.
    """

    def __init__(self, config: UpstreamConfig, recorded: Callable[[], str | None]) -> None:
        self._url = config.url
        self._configured = config.oauth.issuer
        self._recorded = recorded

    @property
    def pinned(self) -> str | None:
        """The one that it has to be, if any is known."""
        return self._configured or self._recorded()

    def select(self, advertised: Sequence[str]) -> str:
        """Return which to log in at, of those that a server says: the pinned one, even if it is not among them."""
        if (pinned := self.pinned) is None:
            return advertised[0]
        same = [one for one in advertised if _same(one, pinned)]
        if not same and self._configured is None:
            log.warning(
                "%s wants a login at %s, and its tokens are from %s, where it stays; if the other one is right, add "
                "issuer = %r to oauth of its entry",
                self._url,
                advertised[0],
                pinned,
                advertised[0],
            )
        return next(iter(same), pinned)

    def check(self, issuer: str, client: OAuthClientInformationFull | None) -> None:
        """Raise `LoginFailed` for another one than is pinned, or than the one that registered the client."""
        if (pinned := self.pinned) is None:
            pinned, why = None if client is None else client.issuer, "which registered its client"
        else:
            why = "where its tokens are from" if self._configured is None else "as its entry says: oauth.issuer"
        if pinned is not None and not _same(issuer, pinned):
            raise LoginFailed(
                f"its login is at {pinned} ({why}), which does not answer as an authorization server does; nothing was "
                f"sent to {issuer}. If it logs in elsewhere now, say so by issuer in oauth of its entry"
            )


def _same(issuer: str, other: str) -> bool:
    return issuer.rstrip("/") == other.rstrip("/")


class _Provider(OAuthClientProvider):
    """The SDK's provider, at the authorization server that a login is to be at."""

    issuer: Issuer
    tokens: _Tokens

    def _select_authorization_server(self, advertised: list[str]) -> str:
        chosen, resource = self.issuer.select(advertised), self.context.protected_resource_metadata
        if resource is not None and chosen not in advertised:  # it is stored with the tokens
            others = {"authorization_servers": [AnyHttpUrl(chosen)]}
            self.context.protected_resource_metadata = resource.model_copy(update=others)
        return chosen

    async def _initialize(self) -> None:
        await super()._initialize()
        self.settle()

    @property
    def at(self) -> str:
        """The authorization server that it asks now: without metadata of one, the server itself stands for it."""
        known = self.context.oauth_metadata
        return str(known.issuer) if known is not None else _origin(self.context.server_url)

    def settle(self) -> None:
        """Be at the pinned authorization server, if one is: what is known of another is not used.

        Where nothing is known of the pinned one, what it gave to refresh tokens is sent nowhere.
        """
        context, pinned = self.context, self.issuer.pinned
        if pinned is None:
            return
        if context.oauth_metadata is None or not _same(self.at, pinned):
            context.oauth_metadata = self.tokens.metadata_of(pinned)
        if not _same(context.auth_server_url or _origin(context.server_url), pinned):
            context.auth_server_url = None if _same(pinned, _origin(context.server_url)) else pinned
        if context.current_tokens is not None and not _same(self.at, pinned):
            context.current_tokens = _unrefreshable(context.current_tokens)

    def check(self) -> None:
        """Raise `LoginFailed` if it asks another authorization server than it may."""
        self.issuer.check(self.at, self.context.client_info)


def _unrefreshable(tokens: OAuthToken) -> OAuthToken:
    return tokens.model_copy(update={"refresh_token": None})


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


class Login(httpx2.Auth):
    """Has the SDK's provider log in where a server wants that, and lets all other requests go side by side.

    The provider has one request answered before the next is sent, so that a slow call would hold up all others.
    """

    def __init__(self, provider: _Provider, reach: Reach) -> None:
        self._provider = provider
        self._reach = reach

    async def tokens(self) -> OAuthToken | None:
        """Return the tokens that are stored of it, if there are any."""
        return await self._provider.context.storage.get_tokens()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token that there is, and log in if it was refused, or the token has expired."""
        context = self._provider.context
        if context.current_tokens is None or context.is_token_valid():
            if context.current_tokens is not None:
                request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            given = context.current_tokens
            response = yield request
            self._reach.note(response)
            if response.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                return
            if response.status_code == HTTPStatus.UNAUTHORIZED and given and given is context.current_tokens:
                context.token_expiry_time = _EXPIRED  # it is refreshed before anybody is asked to log in
        self._provider.settle()
        try:
            async with aclosing(self._provider.async_auth_flow(request)) as flow:
                with suppress(StopAsyncIteration):
                    sent = await anext(flow)
                    while True:
                        if sent is not request:
                            sent.extensions = {**sent.extensions, ADDRESS: await self._reach.check(str(sent.url))}
                            if sent.method == "POST":  # it has what was given, and what is only looked up has none
                                self._provider.check()
                        response = yield sent
                        if sent is request:
                            self._reach.note(response)
                        sent = await flow.asend(response)
        except OAuthFlowError as error:
            raise LoginFailed(f"the login that it wants failed ({error}); try again") from error


def login_at(
    name: str, config: UpstreamConfig, folder: Path, open_url: OpenUrl | None, addresses: Addresses | None = None
) -> Login:
    """Return what authorizes requests to a server at a URL.

    Args:
        name: What the server is called in the configuration.
        config: How it is reached, and which client logs in; one is registered unless it names one.
        folder: Where tokens are stored.
        open_url: Shows a page to the user.
        addresses: Returns the addresses of a host; by default as this machine finds them.
    """
    url = config.url or ""
    key, older = login_key(name, config), older_key(config)
    digest = hashlib.sha256(key.encode()).hexdigest()
    reach = Reach(url, addresses or addresses_of)
    port = config.oauth.callback_port
    host = "127.0.0.1" if port is None else "localhost"  # as hosts with a chosen port have people register it
    port = FIRST_PORT + int(digest[:8], 16) % PORTS if port is None else port

    def check() -> None:
        provider.check()

    redirect = Redirect(host, port, open_url or in_browser, reach, check, config.oauth.scopes)
    metadata = OAuthClientMetadata(
        client_name="Toolfold",
        redirect_uris=[AnyUrl(redirect.uri)],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    files = Files(folder, "stored tokens", _STORED)
    tokens = _Tokens(files, (key, older), _named(config, metadata), lambda: provider.at)
    if older != url and files.read(url):
        log.warning(
            "a login at %s is stored that may be of another entry with this URL; it is not used for the one with "
            "headers or a client of its own, which asks to log in once more",
            url,
        )
    provider = _Provider(url, metadata, tokens, redirect.begin, redirect.result)
    provider.issuer, provider.tokens = Issuer(config, tokens.issuer), tokens
    tokens.context, tokens.pinned = provider.context, lambda: provider.issuer.pinned
    return Login(provider, reach)


def login_key(name: str, config: UpstreamConfig, principal: str = "") -> str:
    """Return what the login of an entry is stored under: all that decides on whose it is (SPEC GWY-8)."""
    return json.dumps([principal, config.url, _headers(config), config.oauth.client_id, name])


def older_key(config: UpstreamConfig) -> str:
    """Return what it was stored under before entries of one URL were told apart by their names."""
    headers = _headers(config)
    if not headers and config.oauth.client_id is None:
        return config.url or ""
    return json.dumps(["", config.url, headers, config.oauth.client_id])


def _headers(config: UpstreamConfig) -> list[tuple[str, str]]:
    return sorted((name.lower(), value) for name, value in config.headers.items())


def _named(config: UpstreamConfig, metadata: OAuthClientMetadata) -> OAuthClientInformationFull | None:
    """Return the client that an entry names, as if it had been registered; `None` if it names none."""
    if config.oauth.client_id is None:
        return None
    secret = config.oauth.client_secret
    return OAuthClientInformationFull(
        client_id=config.oauth.client_id,
        client_secret=secret,
        redirect_uris=metadata.redirect_uris,
        grant_types=metadata.grant_types,
        token_endpoint_auth_method="none" if secret is None else "client_secret_post",
    )


class _Stored(TypedDict, total=False):
    """The tokens for one server, what its authorization server knows this program as, and which one that is.

    With them is what it takes to refresh them after a restart: when they expire, as a time of the clock, and where.
    """

    tokens: OAuthToken
    client: OAuthClientInformationFull
    issuer: str
    expires_at: float | None
    server: OAuthMetadata | None
    resource: ProtectedResourceMetadata | None


_STORED = TypeAdapter(_Stored)
_EXPIRED = 1.0
"""When tokens expired that are to be refreshed before they are used: a time long ago, as zero means never."""


class _Tokens:
    """The tokens and the client of one login, as the SDK asks for them; a client that is `named` is not stored.

    They are stored under the first of two keys. What is stored under the second, an older one that other entries had,
    too, is of the first entry that asks for it.

    `context` is the SDK's state of the login: it would forget at a restart when tokens expire and where they are
    refreshed, and ask the user to log in again. `at` returns which authorization server gives what is stored, and
    `pinned` the only one whose tokens and client count, if it is known.
    """

    context: OAuthContext
    pinned: Callable[[], str | None]

    def __init__(
        self,
        files: Files[_Stored],
        keys: tuple[str, str],
        named: OAuthClientInformationFull | None,
        at: Callable[[], str],
    ) -> None:
        self._at = at
        self._files = files
        self._key, self._older = keys
        self._named = named
        self._given: str | None = None

    def issuer(self) -> str | None:
        """Return which authorization server gave the tokens that there are, also where they could not be stored."""
        return self._given or _issuer_of(self._stored)

    def metadata_of(self, issuer: str) -> OAuthMetadata | None:
        """Return what is stored of an authorization server."""
        server = self._stored.get("server")
        return server if server is not None and _same(str(server.issuer), issuer) else None

    async def get_tokens(self) -> OAuthToken | None:
        stored, context, pinned = self._stored, self.context, self.pinned()
        if (tokens := stored.get("tokens")) is None:
            return None
        self._given = _issuer_of(stored)
        if self._given is not None and pinned is not None and not _same(self._given, pinned):
            return None
        context.token_expiry_time = stored.get("expires_at")
        context.protected_resource_metadata = context.protected_resource_metadata or stored.get("resource")
        return tokens if self._given is not None else _unrefreshable(tokens)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        self._given = self._at()
        now: _Stored = {
            "tokens": tokens,
            "issuer": self._given,
            "expires_at": context.token_expiry_time,
            "server": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
        }
        self._files.write(self._key, {**self._stored, **now})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        if self._named is not None:
            return self._named
        stored = self._stored
        if (client := stored.get("client")) is None:
            return None
        issuer, pinned = client.issuer or _issuer_of(stored), self.pinned()
        if issuer is None or (pinned is not None and not _same(issuer, pinned)):
            return None  # one is registered where the login is
        if client.redirect_uris:  # else what asks for a login would name a port that is not registered
            self.context.client_metadata.redirect_uris = client.redirect_uris
        return client.model_copy(update={"issuer": issuer})

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        client_info.issuer = self._at()
        self._files.write(self._key, {**self._stored, "client": client_info})

    @property
    def _stored(self) -> _Stored:
        self._files.take_over(self._older, self._key)
        return self._files.read(self._key) or {}


def _issuer_of(stored: _Stored) -> str | None:
    """Return which authorization server gave the tokens that are stored, if they say so."""
    server = stored.get("server")
    return stored.get("issuer") or (None if server is None or "tokens" not in stored else str(server.issuer))
