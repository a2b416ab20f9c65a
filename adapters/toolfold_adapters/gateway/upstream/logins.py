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
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.utils import validate_authorization_response_iss
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyHttpUrl, AnyUrl

from ...names import ONE_SERVER
from ..config.settings import TokenConfig, UpstreamConfig
from ..stored import Files
from .http import ADDRESS, to_address
from .life import LoginAsked, LoginFailed, LoginNeeded
from .redirect import FIRST_PORT, PORTS, Addresses, Reach, Redirect, addresses_of, in_browser
from .tokens import STORED, InFile, OfPrincipal, Stored, Tokens, same_issuer, unrefreshable
from .wire import OpenUrl

log = logging.getLogger("toolfold.gateway")

CODE_SECONDS = 20.0
"""How long an authorization server may take to give tokens for a code."""


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
        same = [one for one in advertised if same_issuer(one, pinned)]
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
        if pinned is not None and not same_issuer(issuer, pinned):
            raise LoginFailed(
                f"its login is at {pinned} ({why}), which does not answer as an authorization server does; nothing was "
                f"sent to {issuer}. If it logs in elsewhere now, say so by issuer in oauth of its entry"
            )


class Provider(OAuthClientProvider):
    """The SDK's provider, at the authorization server that a login is to be at."""

    issuer: Issuer
    tokens: Tokens

    def _select_authorization_server(self, advertised: list[str]) -> str:
        chosen, resource = self.issuer.select(advertised), self.context.protected_resource_metadata
        if resource is not None and chosen not in advertised:  # it is stored with the tokens
            others = {"authorization_servers": [AnyHttpUrl(chosen)]}
            self.context.protected_resource_metadata = resource.model_copy(update=others)
        return chosen

    async def _initialize(self) -> None:
        await super()._initialize()
        self.settle()

    async def begin(self) -> None:
        """Read what is stored, once."""
        if not self._initialized:
            await self._initialize()

    async def follow(self) -> None:
        """Take on what another process of the user has done to the login: a new one, or a logout, which is one here."""
        if not self._initialized or (change := self.tokens.changed()) is None:
            return
        if change == "ended":
            self.context.clear_tokens()
        await self.reload()
        self.context.client_info = await self.tokens.get_client_info()

    async def reload(self) -> None:
        """Take on what is stored now: others may have refreshed the tokens, or ended the login."""
        if not self._initialized:
            await self._initialize()
            return
        context, tokens = self.context, await self.tokens.get_tokens()
        if tokens is not None:
            context.current_tokens = tokens
        elif self.tokens.of_principal:
            context.clear_tokens()
        self.settle()

    def is_stale(self, refused: OAuthToken | None) -> bool:
        """Return whether the tokens that there are have to be refreshed: they have expired, or are those refused."""
        current = self.context.current_tokens
        if current is not None and refused is not None and current.access_token == refused.access_token:
            self.context.token_expiry_time = _EXPIRED
        return current is not None and not self.context.is_token_valid()

    async def refresh_request(self) -> httpx2.Request:
        """Return the request that refreshes the tokens."""
        return await self._refresh_token()

    async def refreshed(self, response: httpx2.Response) -> None:
        """Take the answer to that: new tokens, or none where the grant has ended.

        Raises:
            LoginFailed: The authorization server can't answer now; the tokens stay.
        """
        if response.status_code >= HTTPStatus.INTERNAL_SERVER_ERROR or response.status_code in _LATER:
            raise LoginFailed(f"its tokens can't be refreshed now ({response.status_code} of {self.at}); try again")
        if not await self._handle_refresh_response(response):
            await self.tokens.revoked()

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
        if context.oauth_metadata is None or not same_issuer(self.at, pinned):
            context.oauth_metadata = self.tokens.metadata_of(pinned)
        if not same_issuer(context.auth_server_url or _origin(context.server_url), pinned):
            context.auth_server_url = None if same_issuer(pinned, _origin(context.server_url)) else pinned
        if context.current_tokens is not None and not same_issuer(self.at, pinned):
            context.current_tokens = unrefreshable(context.current_tokens)

    def known(self) -> dict[str, Any]:
        """Return what is known of the authorization server, as data."""
        context = self.context
        given = {"server": context.oauth_metadata, "resource": context.protected_resource_metadata}
        known = {name: one.model_dump(mode="json", exclude_none=True) for name, one in given.items() if one is not None}
        return {**known, "at": context.auth_server_url}

    async def code_request(self, code: str, verifier: str, iss: str | None, known: Mapping[str, Any]) -> httpx2.Request:
        """Return the request for the tokens of a code, given what is known of the authorization server."""
        context = self.context
        await self.begin()
        context.auth_server_url = known.get("at")
        context.oauth_metadata = OAuthMetadata.model_validate(known["server"]) if "server" in known else None
        if "resource" in known:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(known["resource"])
        validate_authorization_response_iss(iss, context.oauth_metadata)
        return await self._exchange_token_authorization_code(code, verifier)

    async def code_taken(self, response: httpx2.Response) -> None:
        """Take the answer to that: the tokens."""
        await self._handle_token_response(response)

    def check(self) -> None:
        """Raise `LoginFailed` if it asks another authorization server than it may."""
        self.issuer.check(self.at, self.context.client_info)


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


class Login(httpx2.Auth):
    """Has the SDK's provider log in where a server wants that, and lets all other requests go side by side.

    `again` says how to log in where that has failed.

    The provider has one request answered before the next is sent, so that a slow call would hold up all others.
    """

    def __init__(self, provider: Provider, reach: Reach) -> None:
        self.provider = provider
        self.reach = reach
        self.pending: Callable[[], LoginNeeded | None] = lambda: None  # what somebody was asked lately
        self.on_token: Callable[[], None] = lambda: None
        self.again = "try again"

    async def tokens(self) -> OAuthToken | None:
        """Return the tokens that are stored of it, if there are any."""
        return await self.provider.context.storage.get_tokens()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token that there is, and log in if it was refused, or the token has expired."""
        provider, refused = self.provider, None
        context = provider.context
        if provider.tokens.of_principal:  # who has a token sends it at once; it may have been another replica's to get
            await provider.begin()
        await provider.follow()
        if context.current_tokens is None or context.is_token_valid():
            if context.current_tokens is not None:
                self.on_token()
                request.headers["Authorization"] = f"Bearer {context.current_tokens.access_token}"
            given = context.current_tokens
            response = yield request
            self.reach.note(response)
            if response.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                return
            if response.status_code == HTTPStatus.UNAUTHORIZED:
                refused = given
        try:
            async with aclosing(self._steps(request, refused)) as flow:
                with suppress(StopAsyncIteration):
                    sent = await anext(flow)
                    while True:
                        if sent is not request:
                            sent.extensions = {**sent.extensions, ADDRESS: await self.reach.check(str(sent.url))}
                            if sent.method == "POST":  # it has what was given, and what is only looked up has none
                                provider.check()
                        response = yield sent
                        if sent is request:
                            self.reach.note(response)
                        sent = await flow.asend(response)
        except OAuthFlowError as error:
            raise LoginFailed(f"the login that it wants failed ({error}); {self.again}") from error
        except LoginAsked as asked:
            raise asked.needed from None

    async def finish(self, code: str, verifier: str, iss: str | None, known: Mapping[str, Any]) -> None:
        """Get the tokens for what somebody came back with, who was sent away by a login of another process.

        Args:
            code: The code.
            verifier: That of its challenge.
            iss: The authorization server that says it has sent him back.
            known: What that login knew of the authorization server (see `Provider.known`).

        Raises:
            LoginFailed: There are no tokens for it.
        """
        provider = self.provider
        try:
            request = await provider.code_request(code, verifier, iss, known)
            address = await self.reach.check(str(request.url))
            request.extensions = {**request.extensions, ADDRESS: address}
            provider.check()
            async with httpx2.AsyncClient(timeout=CODE_SECONDS, event_hooks={"request": [to_address]}) as http:
                await provider.code_taken(await http.send(request))
        except OAuthFlowError as error:
            raise LoginFailed("its authorization server gave no tokens; try again") from error
        except httpx2.HTTPError as error:
            raise LoginFailed(f"its authorization server can't be reached ({type(error).__name__})") from error

    async def _steps(
        self, request: httpx2.Request, refused: OAuthToken | None
    ) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send what it takes to have a request answered: tokens are refreshed before anybody is asked to log in.

        Whoever refreshes them holds them, and finds those that another process or replica has got meanwhile.
        """
        provider = self.provider
        async with provider.tokens.held(), provider.context.lock:
            await provider.reload()
            if provider.is_stale(refused) and provider.context.can_refresh_token():
                await provider.refreshed((yield await provider.refresh_request()))
        if provider.context.current_tokens is None and (needed := self.pending()) is not None:
            raise needed
        async with aclosing(provider.async_auth_flow(request)) as flow:
            with suppress(StopAsyncIteration):
                sent = await anext(flow)
                while True:
                    sent = await flow.asend((yield sent))


_EXPIRED = 1.0
"""When tokens expired that are to be refreshed before they are used: a time long ago, as zero means never."""
_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS)


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

    again = f"log in by {command_for(name)}"
    shown, scopes = open_url or in_browser, config.oauth.scopes
    redirect = Redirect(host, port, shown, reach, lambda: login.provider.check(), again, scopes)
    place = own_tokens(name, config, folder)
    files = place.files
    if older != url and files.read(url):
        log.warning(
            "a login at %s is stored that may be of another entry with this URL; it is not used for the one with "
            "headers or a client of its own, which asks to log in once more",
            url,
        )
    login = made(config, place, reach, redirect.uri, redirect.begin, redirect.result)
    login.again = again
    return login


def command_for(name: str) -> str:
    """Return the command by which the user of this machine logs in at a server of a configuration."""
    return f"`toolfold login FILE{'' if name == ONE_SERVER else f' --server {name}'}`"


def own_tokens(name: str, config: UpstreamConfig, folder: Path) -> InFile:
    """Return where a login of the user of this machine is; see `login_at`."""
    return InFile(Files(folder, "stored tokens", STORED), login_key(name, config), older_key(config), name)


def own_logins(folder: Path) -> list[dict[str, Any]]:
    """Return the logins of the user of this machine, as data without secrets."""
    found = [
        {
            "principal": None,
            "server": one.get("entry") or "?",
            "form": "token" if "token" in one else "oauth",
            "since": one.get("since"),
            "expires_at": one.get("expires_at"),
        }
        for _, one in Files(folder, "stored tokens", STORED).all()
        if "token" in one or "tokens" in one
    ]
    return sorted(found, key=lambda one: str(one["server"]))


def forget_own(folder: Path, name: str) -> list[Stored]:
    """End the logins of the user of this machine at a server, and return what these were."""
    files = Files(folder, "stored tokens", STORED)
    mine = [(path, one) for path, one in files.all() if one.get("entry") == name]
    for path, _ in mine:
        path.unlink(missing_ok=True)
    return [one for _, one in mine if "token" in one or "tokens" in one]


async def revoke(stored: Stored) -> str:
    """Have the authorization server that gave tokens end the grant (RFC 7009), where it says how.

    Returns:
        Why it is not ended there; empty if it is.
    """
    tokens, server = stored.get("tokens"), stored.get("server")
    if tokens is None or server is None or server.revocation_endpoint is None:
        return "it says no way to have that ended"
    endpoint, client = str(server.revocation_endpoint), stored.get("client")
    if client is None:
        return "the client that its entry names would have to ask for that"
    hint = "access_token" if tokens.refresh_token is None else "refresh_token"
    given = {"token": tokens.refresh_token or tokens.access_token, "token_type_hint": hint}
    own = {"client_id": client.client_id, "client_secret": client.client_secret}
    data = {**given, **{name: value for name, value in own.items() if value is not None}}
    try:
        address = await Reach(str(server.issuer), addresses_of).check(endpoint)
        async with httpx2.AsyncClient(timeout=CODE_SECONDS, event_hooks={"request": [to_address]}) as http:
            answer = await http.post(endpoint, data=data, extensions={ADDRESS: address})
    except LoginFailed as error:
        return str(error)
    except httpx2.HTTPError as error:
        return f"it can't be reached ({type(error).__name__})"
    return "" if answer.is_success else f"it answered with status {answer.status_code}"


class PersonalToken(httpx2.Auth):
    """Sends a token that somebody has made for himself at a server.

    Args:
        config: How it is sent.
        read: Returns the token, if there is one.
        needed: Returns what he has to do who has none, or whose is refused.
    """

    def __init__(
        self,
        config: TokenConfig,
        read: Callable[[], Awaitable[str | None]],
        needed: Callable[[], Awaitable[LoginNeeded]],
    ) -> None:
        self._config = config
        self._read = read
        self._needed = needed

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token, or raise `LoginNeeded`."""
        token = await self._read()
        if token is None:
            raise await self._needed()
        request.headers[self._config.header] = f"{self._config.scheme} {token}".strip()
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            raise await self._needed()


def own_token_at(name: str, config: UpstreamConfig, folder: Path) -> PersonalToken:
    """Return what sends the token that the user of this machine has made for himself at a server."""
    assert config.token is not None
    place = own_tokens(name, config, folder)

    async def read() -> str | None:
        return (await place.read()).get("token")

    async def needed() -> LoginNeeded:
        return LoginNeeded(f"it wants a token of yours: {command_for(name)}", "")

    return PersonalToken(config.token, read, needed)


def made(
    config: UpstreamConfig,
    place: InFile | OfPrincipal,
    reach: Reach,
    uri: str,
    begin: Callable[[str], Awaitable[None]],
    result: Callable[[], Awaitable[AuthorizationCodeResult]],
) -> Login:
    """Return a login whose tokens are in some place.

    Args:
        config: How the server is reached.
        place: Where the tokens are.
        reach: Which addresses may be asked.
        uri: Where people come back to.
        begin: Is awaited with the page to log in at.
        result: Returns what somebody comes back with.
    """
    metadata = OAuthClientMetadata(
        client_name="Toolfold",
        redirect_uris=[AnyUrl(uri)],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    tokens = Tokens(place, _named(config, metadata), lambda: provider.at)
    provider = Provider(config.url or "", metadata, tokens, begin, result)
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
