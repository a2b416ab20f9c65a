"""How each caller of a gateway logs in at its servers, and with what (SPEC GWY-19).

Who has no credential is sent to a page of the gateway, by a link that is his alone and works once: there he begins a
login at the server's authorization server, or gives a token of his own. Any replica can take what comes of that, since
all of it is in the store. Without pages, `toolfold login` stores a token for him.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from http import HTTPStatus
from typing import Any, NoReturn
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import anyio
import httpx2
from attrs import define, evolve, field
from mcp.client.auth.oauth2 import PKCEParameters
from mcp.shared.auth import AuthorizationCodeResult
from pydantic import BaseModel, ValidationError

from toolfold import StoreError
from toolfold.spi import frozen

from ...mcp.principal import Principal
from ..config.settings import ExchangeConfig, TokenConfig, UpstreamConfig
from ..upstream.life import CredentialsUnavailable, LoginAsked, LoginFailed, LoginNeeded
from ..upstream.logins import Login, PersonalToken, login_key, made
from ..upstream.redirect import Addresses, Reach, addresses_of
from ..upstream.tokens import OfPrincipal
from .acting import Acting, whose
from .credentials import Credential, Credentials, Form, record_of

log = logging.getLogger("toolfold.gateway")

LINK_SECONDS = 600.0
"""How long a link works that somebody is given to log in."""
PATH = "/login"
CALLBACK = "/login/callback"
HTTP_SECONDS = 20.0
RETRY_SECONDS = 5.0
_LINK, _STATE = "link:", "state:"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
_EARLY = 10.0
"""How many seconds before it expires a token is exchanged anew."""
_OF_ENTRY = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_target"})
"""Errors of an exchange that are of what the configuration says, whoever asks."""


@frozen(kw_only=True)
class Asked:
    """A login that somebody was asked for.

    Attributes:
        name: What its link has, which only that one knows.
        principal: Who was asked, by his identity.
        person: What he is called.
        server: Where, by its name in the configuration.
        key: What the credential is stored under.
        form: What is asked for.
        page: Where to log in.
        known: What is known of the authorization server.
    """

    name: str
    principal: str
    person: str
    server: str
    key: str
    form: Form
    page: str = ""
    known: dict[str, Any] = field(factory=dict[str, Any], repr=False)

    def data(self) -> dict[str, Any]:
        """Return it as it is stored."""
        return {name: getattr(self, name) for name in ("principal", "person", "server", "key", "form", "page", "known")}


@define(eq=False)
class _Open:
    """A link that was given out by this process: until when, and what is set once the login is there."""

    asked: Asked
    until: float
    done: anyio.Event = field(factory=anyio.Event)


class CallerLogins:
    """What each caller of a gateway logs in with at its servers.

    Args:
        credentials: Where that is.
        public_url: The address at which callers reach the gateway's pages; without one there are none.
        addresses: Returns the addresses of a host.
        issued: Whether the tokens of callers are of an issuer, which may exchange them.

    `config_of` returns how a server is reached, by its name, and `on_made` is called with what the link of a login was
    known by that has been made.
    """

    def __init__(
        self,
        credentials: Credentials,
        public_url: str | None = None,
        addresses: Addresses | None = None,
        *,
        issued: bool = True,
    ) -> None:
        self.credentials = credentials
        self._issued = issued
        self.public_url = None if public_url is None else public_url.rstrip("/")
        self.config_of: Callable[[str], UpstreamConfig | None] = lambda _: None
        self.on_made: Callable[[str], None] = lambda _: None
        self._addresses = addresses or addresses_of
        self._open: dict[str, _Open] = {}
        self._sent: set[str] = set()  # the keys of credentials that connections were opened with

    def auth(self, server: str, config: UpstreamConfig, acting: Acting | None) -> httpx2.Auth:
        """Return what authorizes requests to a server for a caller; for nobody, what only finds out what it wants."""
        if acting is None:
            return _Nobody(server)
        principal = acting.principal
        if config.exchange is not None:
            if not self._issued:
                return NotExchanged()
            return Exchanged(self, self._of(server, config, principal, "exchange"), config.exchange, acting)
        if config.token is not None:
            return self._personal(self._of(server, config, principal, "token"), config.token)
        return self._login(self._of(server, config, principal, "oauth"), config)

    def _of(self, server: str, config: UpstreamConfig, principal: Principal, form: Form) -> Asked:
        key = login_key(server, config, whose(config, principal))
        return Asked(name="", principal=principal.identity, person=str(principal), server=server, key=key, form=form)

    def _personal(self, asked: Asked, config: TokenConfig) -> PersonalToken:
        async def read() -> str | None:
            found = await self.credentials.read(asked.key)
            if found is None:
                return None
            self.note_sent(asked.key)
            token: str = found.secret["token"]
            return token

        return PersonalToken(config, read, partial(self.needed, asked))

    def _login(self, asked: Asked, config: UpstreamConfig) -> Login:
        reach = Reach(config.url or "", self._addresses)
        place = OfPrincipal(self.credentials, asked.key, _credential(asked, config))
        uri = f"{self.public_url or 'http://127.0.0.1'}{CALLBACK}"

        async def begin(url: str) -> NoReturn:
            """Have the caller sent to a page of ours, from which he goes on to that of the server."""
            await reach.check(url)
            login.provider.check()
            scopes = {"scope": " ".join(config.oauth.scopes)} if config.oauth.scopes else {}
            parts = urlsplit(url)
            left = {name: one for name, one in parse_qsl(parts.query) if name not in ("state", "code_challenge")}
            page = parts._replace(query=urlencode({**left, **scopes})).geturl()
            raise LoginAsked(await self.needed(asked, page, login.provider.known()))

        async def result() -> AuthorizationCodeResult:
            raise AssertionError("who is sent to a page comes back with another request")

        login = made(config, place, reach, uri, begin, result)
        login.pending = partial(self._given, asked)
        login.on_token = partial(self.note_sent, asked.key)
        return login

    # -- links --------------------------------------------------------------------------------------------------------

    def _given(self, asked: Asked) -> LoginNeeded | None:
        """Return what a caller was told lately of a login that he has not made yet."""
        opened = self._open.get(asked.key)
        if opened is None or opened.until <= time.monotonic() or opened.done.is_set():
            return None
        return self._with_link(opened.asked)

    async def needed(self, asked: Asked, page: str = "", known: dict[str, Any] | None = None) -> LoginNeeded:
        """Return what a caller is told who has no credential, with a link of his own if there are pages."""
        if (given := self._given(asked)) is not None:
            return given
        if self.public_url is None:
            how = "Its operator has to serve the pages to log in at: `toolfold serve` with --public-url."
            if asked.form == "token":
                how = f"Its operator can store one: `toolfold login FILE --server {asked.server} --as {asked.person}`."
            return LoginNeeded("there is no credential of yours", how)
        new = evolve(asked, name=secrets.token_urlsafe(24), page=page, known=known or {})
        await self.credentials.remember(f"{_LINK}{new.name}", new.data(), LINK_SECONDS)
        now = time.monotonic()
        self._open = {key: one for key, one in self._open.items() if one.until > now}
        self._open[asked.key] = _Open(new, now + LINK_SECONDS)
        return self._with_link(new)

    def _with_link(self, asked: Asked) -> LoginNeeded:
        url = f"{self.public_url}{PATH}/{asked.name}"
        how = f"Open {url} in your browser within ten minutes, log in there, and make the call again."
        return LoginNeeded("there is no credential of yours", how, url, asked.name)

    async def asked(self, name: str) -> Asked | None:
        """Return what a link is for, or `None`; raises `CredentialsUnavailable`."""
        found = await self.credentials.recalled(f"{_LINK}{name}")
        return None if found is None else Asked(name=name, **found)

    async def made_within(self, asked: str, seconds: float) -> bool:
        """Return whether a login that somebody was asked for is made within some seconds."""
        opened = next((one for one in self._open.values() if one.asked.name == asked), None)
        if opened is None:
            return True  # another replica has asked, or it is too late: the call says what is so now
        with anyio.move_on_after(seconds):
            await opened.done.wait()
        return opened.done.is_set()

    # -- what comes back ----------------------------------------------------------------------------------------------

    async def sent_to(self, asked: Asked, browser: str) -> str:
        """Return the page of an authorization server for one browser, which alone can come back from it."""
        pkce, state = PKCEParameters.generate(), secrets.token_urlsafe(32)
        data = {"link": asked.name, "browser": browser, "verifier": pkce.code_verifier}
        await self.credentials.remember(f"{_STATE}{state}", data, LINK_SECONDS)
        parts = urlsplit(asked.page)
        query = {**dict(parse_qsl(parts.query)), "state": state, "code_challenge": pkce.code_challenge}
        return parts._replace(query=urlencode(query)).geturl()

    async def begun(self, state: str, browser: str) -> Asked | None:
        """Return the login that a browser was sent away for, if it was that one; raises `CredentialsUnavailable`."""
        begun = await self.credentials.recalled(f"{_STATE}{state}")
        if begun is None or not secrets.compare_digest(begun["browser"].encode(), browser.encode()):
            return None
        return await self.asked(begun["link"])

    async def came_back(self, state: str, browser: str, code: str, iss: str | None) -> Asked | None:
        """Take what a browser brings from an authorization server; `None` if it is not one that was sent there.

        Raises:
            LoginFailed: There are no tokens for that.
            CredentialsUnavailable: They can't be stored.
        """
        asked = await self.begun(state, browser)
        config = None if asked is None else self._config(asked)
        begun = None if config is None else await self.credentials.taken(f"{_STATE}{state}")
        if asked is None or config is None or begun is None:
            return None
        login = self._login(asked, config)
        await login.finish(code, begun["verifier"], iss, asked.known)
        await self.credentials.taken(f"{_LINK}{asked.name}")  # not before: a login that fails can be made again
        self._made(asked.key)
        return asked

    async def given(self, asked: Asked, token: str) -> bool:
        """Store a token that a person gave for a link; return whether that still works."""
        config = self._config(asked)
        if config is None or await self.credentials.taken(f"{_LINK}{asked.name}") is None:
            return False
        await self.credentials.write(asked.key, _credential(asked, config).renewed({"token": token}))
        self._made(asked.key)
        return True

    def _config(self, asked: Asked) -> UpstreamConfig | None:
        """Return how the server is reached, if it still is as when the login was asked for."""
        config = self.config_of(asked.server)
        same = config is not None and login_key(asked.server, config, asked.principal) == asked.key
        return config if same else None

    def _made(self, key: str) -> None:
        if (opened := self._open.get(key)) is not None and not opened.done.is_set():
            opened.done.set()
            self.on_made(opened.asked.name)

    async def has_ended(self, server: str, config: UpstreamConfig, principal: Principal, record: str | None) -> bool:
        """Return whether a principal had a credential at a server, and has none any more.

        Args:
            server: What the server is called.
            config: How it is reached.
            principal: Whose credential.
            record: The record that has changed; `None` for any.

        Raises:
            CredentialsUnavailable: That can't be read.
        """
        key = login_key(server, config, whose(config, principal))
        if key not in self._sent or record not in (None, record_of(key)):
            return False
        found = await self.credentials.read(key)
        if found is not None and found.usable:
            return False
        self._sent.discard(key)
        return True

    def note_sent(self, key: str) -> None:
        """Take note that a connection is opened with a credential."""
        self._sent.add(key)

    async def watch(self, on_change: Callable[[str | None], Awaitable[None]]) -> None:
        """Take note of what other processes do: logins that are made there, and those that are ended.

        `on_change` is awaited with the record of each credential that has changed, or `None` for any.
        """
        while True:
            try:
                await self.credentials.check()
                async for changed in self.credentials.changed():
                    for key, opened in list(self._open.items()):
                        mine = changed in (None, record_of(key)) and not opened.done.is_set()
                        if mine and (found := await self.credentials.read(key)) is not None and found.usable:
                            self._made(key)
                    await on_change(changed)
            except (StoreError, CredentialsUnavailable) as error:
                log.warning("what others do with credentials is not known now: %s", error)
            await anyio.sleep(RETRY_SECONDS)


def _credential(asked: Asked, config: UpstreamConfig) -> Credential:
    return Credential(principal=asked.principal, server=asked.server, url=config.url or "", form=asked.form)


class _Nobody(httpx2.Auth):
    """Sends requests as they are, and says so where a server wants to know who asks."""

    def __init__(self, server: str) -> None:
        self._server = server

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request."""
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            raise LoginNeeded("it answers nobody who has not logged in", "Log in there first.")


class NotExchanged(httpx2.Auth):
    """Asks nothing of a server that trusts an issuer, where the tokens of callers are of none."""

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Raise `LoginFailed`."""
        raise LoginFailed(
            "it takes what an issuer gives for the token of a caller, and callers here have none: serve it over HTTP "
            "with [oauth] in the file of --auth"
        )
        yield request


class _Answer(BaseModel):
    """What a token is exchanged for (RFC 8693)."""

    access_token: str
    expires_in: float | None = None


class Exchanged(httpx2.Auth):
    """Sends what the token of a principal is exchanged for, where a server trusts our issuer (RFC 8693)."""

    def __init__(self, logins: CallerLogins, asked: Asked, config: ExchangeConfig, acting: Acting) -> None:
        self._logins = logins
        self._asked = asked
        self._config = config
        self._acting = acting

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request; a token that is refused is exchanged once more."""
        token = await self._token()
        request.headers["Authorization"] = f"Bearer {token}"
        response = yield request
        if response.status_code == HTTPStatus.UNAUTHORIZED:
            request.headers["Authorization"] = f"Bearer {await self._token(refused=token)}"
            yield request

    async def _token(self, refused: str | None = None) -> str:
        """Return a token that counts; one replica renews it, and the others find it."""
        credentials = self._logins.credentials
        if (token := _unexpired(await credentials.read(self._asked.key), refused)) is not None:
            return token
        async with credentials.held(self._asked.key) as held:
            if (token := _unexpired(held.credential, refused)) is not None:
                return token
            answer = await self._exchanged()
            expires = None if answer.expires_in is None else time.time() + answer.expires_in
            new = Credential(
                principal=self._asked.principal,
                server=self._asked.server,
                url=self._config.token_endpoint,
                form="exchange",
                expires_at=expires,
                secret={"token": answer.access_token},
            )
            await held.write(new)
            return answer.access_token

    async def _exchanged(self) -> _Answer:
        config = self._config
        data = {
            "grant_type": EXCHANGE,
            "subject_token": self._acting.subject,
            "subject_token_type": ACCESS_TOKEN,
            "requested_token_type": ACCESS_TOKEN,
            "audience": config.audience,
            **({"scope": " ".join(config.scopes)} if config.scopes else {}),
        }
        client = httpx2.BasicAuth(quote(config.client_id, safe=""), quote(config.client_secret, safe=""))  # RFC 6749
        try:
            async with httpx2.AsyncClient(timeout=HTTP_SECONDS, auth=client) as http:
                answer = await http.post(config.token_endpoint, data=data)
            if answer.is_client_error:
                raise self._refused(_said(answer))
            if not answer.is_success:
                raise LoginFailed(f"its issuer can't exchange tokens now ({_said(answer)}); try again")
            return _Answer.model_validate_json(answer.content)
        except ValidationError as error:
            raise LoginFailed("its issuer gave no token for that of its caller; check exchange") from error
        except httpx2.HTTPError as error:
            raise LoginFailed(f"its issuer can't be reached ({type(error).__name__})") from error

    def _refused(self, said: str) -> LoginFailed:
        """Return the error for an exchange that the issuer refuses: of the configuration, or of this caller alone."""
        if said in _OF_ENTRY:
            return LoginFailed(f"its issuer exchanges no tokens for this gateway ({said}); check exchange")
        how = "Log in at this gateway anew; if that does not help, ask who runs that server for access."
        return LoginNeeded(f"the issuer gives nothing for the token of {self._asked.person} ({said})", how)


def _unexpired(credential: Credential | None, refused: str | None) -> str | None:
    """Return the token of a credential, unless it has expired or is the one that was refused."""
    if credential is None or (credential.expires_at is not None and credential.expires_at - _EARLY <= time.time()):
        return None
    token: str = credential.secret["token"]
    return None if token == refused else token


def _said(answer: httpx2.Response) -> str:
    """Return the error that an authorization server names, which has no secret."""
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = None
    return error if isinstance(error, str) and error.isidentifier() else f"status {answer.status_code}"
