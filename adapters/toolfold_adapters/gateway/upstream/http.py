"""Upstreams over HTTP: transports that bound what they read, and logins that hold up no other request (SPEC GWY-8).

Only an upstream at a URL needs this module, and with it an HTTP client. A login begins when a server answers with
status 401. The user's browser is sent to the authorization server, which sends it back to a port of this machine; the
tokens are stored for the next time, readable only for their owner. They are of an entry of the configuration: of its
URL, the headers that it sends and the client that it names, for other headers may be those of another account.

Where to log in is said by whoever answers 401, so addresses of this machine and of its networks are asked only for a
server that is there itself (see `Reach`).
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import anyio
import anyio.to_thread
import httpx2
from anyio.abc import SocketAttribute, SocketStream
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.client.sse import sse_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from mcp_types import INTERNAL_ERROR
from pydantic import AnyUrl, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ...transport.http_client import http_transport
from ...transport.http_refusals import refusal_of
from ...transport.lines import Around, Item, MessageTooLarge, misread
from ..config.settings import UpstreamConfig
from ..stored import Files
from .life import LoginFailed, Refused
from .wire import OpenUrl, Transport, start_limit

log = logging.getLogger("toolfold.gateway")

LOGIN_SECONDS = 300.0
"""How long a user may take to log in."""
CALLBACK = "/callback"
FIRST_PORT, PORTS = 20000, 12000
"""Where logins come back to: below the ports that systems give to outgoing connections."""
MOST_BYTES = 16 * 1024
_TEXT = b"You are logged in, and can close this window."
DONE = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
    len(_TEXT),
    _TEXT,
)
OTHER = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
SSE_SECONDS = 24 * 3600.0
"""How long a stream of the older HTTP transport may be silent; the SDK has no way to say for ever."""


def transport_to(url: str, config: UpstreamConfig, auth: httpx2.Auth | None) -> Transport:
    """Return what carries the messages of an upstream at a URL, to be entered once."""
    headers = dict(config.headers)
    make = _bounding(config.max_message_bytes)
    if config.transport == "sse":
        return _older_transport(url, headers, auth, make)
    return http_transport(url, headers, auth, make, config.max_message_bytes)


@asynccontextmanager
async def _older_transport(
    url: str, headers: dict[str, str], auth: httpx2.Auth | None, make: Callable[..., httpx2.AsyncClient]
) -> AsyncGenerator[Any]:
    """Carry messages over the older HTTP transport; raises `Refused` if there is no stream of events."""
    async with AsyncExitStack() as stack:
        client = sse_client(url, headers=headers, auth=auth, sse_read_timeout=SSE_SECONDS, httpx_client_factory=make)
        try:
            streams = await stack.enter_async_context(client)
        except httpx2.HTTPStatusError as error:
            raise Refused(INTERNAL_ERROR, await refusal_of(error.response) or "") from error
        read, write = streams
        yield _Misread(read), write


class _Misread(Around):
    """Messages of the SDK, which has an error in the place of what it can't read, with broken answers as errors."""

    async def __anext__(self) -> Item:
        item = await anext(self._stream)
        return misread(item) if isinstance(item, ValidationError) else item


def _bounding(limit: int) -> Callable[..., httpx2.AsyncClient]:
    """Return what makes HTTP clients that read no answer of more bytes than `limit`, but for streams of events."""

    async def bound(response: httpx2.Response) -> None:
        if not _is_stream(response):
            response.stream = _Bounded(response, limit)
            response.headers.pop("content-encoding", None)  # what it yields is decoded
        if response.is_error and response.request.method == "GET":
            with suppress(httpx2.StreamError, httpx2.HTTPError):
                await response.aread()  # its reason: whoever raises an error closes it

    def make(
        headers: dict[str, str] | None = None, timeout: httpx2.Timeout | None = None, auth: httpx2.Auth | None = None
    ) -> httpx2.AsyncClient:
        return httpx2.AsyncClient(headers=headers, timeout=timeout, auth=auth, event_hooks={"response": [bound]})

    return make


def _is_stream(response: httpx2.Response) -> bool:
    """Return whether the SDK reads a response event by event, with a limit for each, whatever the server calls it."""
    asked, kind = response.request, response.headers.get("content-type", "").lower()
    streamed = asked.method != "DELETE" and "text/event-stream" in asked.headers.get("accept", "")
    return response.is_success and streamed and kind.startswith("text/event-stream")


class _Bounded(httpx2.AsyncByteStream):
    """The decoded body of a response; reading it fails once more has come than may."""

    def __init__(self, response: httpx2.Response, limit: int) -> None:
        self._body = httpx2.Response(response.status_code, headers=response.headers, stream=response.stream)
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for part in self._body.aiter_bytes():
            size += len(part)
            if size > self._limit:
                raise httpx2.StreamError(str(MessageTooLarge(self._limit)))
            yield part

    async def aclose(self) -> None:
        await self._body.aclose()


# -- logins -----------------------------------------------------------------------------------------------------------


class Issuer:
    """The authorization server that a login is at; another one gets neither the user nor the secret of a client.

    It is the one that the entry names. The secret of a named client is else for the one at which it logged in first:
    whoever answers 401 says where to log in, which may be another one later.

    Args:
        config: How the server is reached.
        recorded: Returns the one at which the client logged in first, if it has.
    """

    def __init__(self, config: UpstreamConfig, recorded: Callable[[], str | None]) -> None:
        self._oauth = config.oauth
        self._recorded = recorded

    @property
    def pinned(self) -> str | None:
        """The one that it has to be, if any is known."""
        if self._oauth.issuer is not None or self._oauth.client_secret is None:
            return self._oauth.issuer
        return self._recorded()

    def select(self, advertised: Sequence[str]) -> str:
        """Return which to log in at, of those that a server says."""
        pinned = self.pinned
        same = [one for one in advertised if pinned is not None and _is_among(one, [pinned])]
        return next(iter(same), self._oauth.issuer or advertised[0])

    def check(self, issuer: str) -> None:
        """Raise `LoginFailed` for another one."""
        pinned = self.pinned
        if pinned is None or _is_among(issuer, [pinned]):
            return
        if self._oauth.issuer is not None:
            raise LoginFailed(
                f"it wants a login at {issuer}, and its entry says oauth.issuer = {pinned!r}; nothing was sent there"
            )
        raise LoginFailed(
            f"it wants a login at {issuer}, and the client {self._oauth.client_id!r} logged in at {pinned} before; its "
            f"secret was not sent. If that is right, add issuer = {issuer!r} to oauth of its entry"
        )


def _is_among(issuer: str, others: Sequence[str]) -> bool:
    return issuer.rstrip("/") in {one.rstrip("/") for one in others}


class _Provider(OAuthClientProvider):
    """The SDK's provider, at the authorization server that a login is to be at."""

    issuer: Issuer

    def _select_authorization_server(self, advertised: list[str]) -> str:
        return self.issuer.select(advertised)

    @property
    def at(self) -> str:
        """The authorization server that it asks now: without metadata of one, the server itself stands for it."""
        known = self.context.oauth_metadata
        return str(known.issuer) if known is not None else _origin(self.context.server_url)

    def check(self) -> None:
        """Raise `LoginFailed` if it asks another authorization server than it may."""
        self.issuer.check(self.at)


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
            if response.status_code not in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
                return
            if response.status_code == HTTPStatus.UNAUTHORIZED and given and given is context.current_tokens:
                context.token_expiry_time = _EXPIRED  # it is refreshed before anybody is asked to log in
        try:
            async with aclosing(self._provider.async_auth_flow(request)) as flow:
                with suppress(StopAsyncIteration):
                    sent = await anext(flow)
                    while True:
                        if sent is not request:
                            await self._reach.check(str(sent.url))
                            if sent.method == "POST":  # it may have a secret, and what is only looked up has none
                                self._provider.check()
                        response = yield sent
                        sent = await flow.asend(response)
        except OAuthFlowError as error:
            raise LoginFailed(f"the login that it wants failed ({error}); try again") from error


def login_at(
    url: str, config: UpstreamConfig, folder: Path, open_url: OpenUrl | None, addresses: Addresses | None = None
) -> Login:
    """Return what authorizes requests to a server.

    Args:
        url: The URL of the server.
        config: How it is reached, and which client logs in; one is registered unless it names one.
        folder: Where tokens are stored.
        open_url: Shows a page to the user.
        addresses: Returns the addresses of a host; by default as this machine finds them.
    """
    key = login_key(url, config)
    digest = hashlib.sha256(key.encode()).hexdigest()
    reach = Reach(url, addresses or _addresses)
    port = config.oauth.callback_port
    host = "127.0.0.1" if port is None else "localhost"  # as hosts with a chosen port have people register it
    port = FIRST_PORT + int(digest[:8], 16) % PORTS if port is None else port

    def check() -> None:
        provider.check()

    redirect = _Redirect(host, port, open_url or _in_browser, reach, check, config.oauth.scopes)
    metadata = OAuthClientMetadata(
        client_name="Toolfold",
        redirect_uris=[AnyUrl(redirect.uri)],
        grant_types=["authorization_code", "refresh_token"],
        token_endpoint_auth_method="none",
    )
    tokens = _Tokens(Files(folder, "stored tokens", _STORED), key, _named(config, metadata), lambda: provider.at)
    if key != url and tokens.of(url):
        log.warning(
            "a login at %s is stored that may be of another entry with this URL; it is not used for the one with "
            "headers or a client of its own, which asks to log in once more",
            url,
        )
    provider = _Provider(url, metadata, tokens, redirect.begin, redirect.result)
    provider.issuer = Issuer(config, lambda: tokens.of(key).get("issuer"))
    tokens.context = provider.context
    return Login(provider, reach)


def login_key(url: str, config: UpstreamConfig, principal: str = "") -> str:
    """Return what the login of an entry is stored under: all that decides on whose it is (SPEC GWY-8).

    An entry that sends no headers and names no client has the URL itself, as all had before.
    """
    headers = sorted((name.lower(), value) for name, value in config.headers.items())
    if not headers and config.oauth.client_id is None and not principal:
        return url
    return json.dumps([principal, url, headers, config.oauth.client_id])


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


Addresses = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a host by its name; none if there are none."""


async def _addresses(host: str) -> Sequence[str]:
    try:
        return [str(found[4][0]) for found in await anyio.getaddrinfo(host, None)]
    except OSError:  # a proxy may know it
        return []


class Reach:
    """Which addresses may be asked on behalf of a server.

    A server elsewhere must not have this machine or its networks asked, which it could not ask itself.

    Args:
        url: The URL of the server.
        addresses: Returns the addresses of a host.
    """

    def __init__(self, url: str, addresses: Addresses) -> None:
        self._host = urlsplit(url).hostname or ""
        self._addresses = addresses

    async def check(self, url: str) -> None:
        """Raise `LoginFailed` if a URL that the server has chosen may not be asked."""
        target = urlsplit(url)
        if target.scheme not in ("http", "https") or not target.hostname:
            raise LoginFailed(f"it wants a login at {url!r}, which is no address of a web server")
        if target.hostname == self._host:
            return
        places = await self._places(target.hostname) - {"public"}
        own = await self._places(self._host) if places else frozenset[str]()
        if places - own and "loopback" not in own:
            raise LoginFailed(
                f"it wants a login at {target.hostname}, an address of this machine or of a network of its own "
                f"({', '.join(sorted(places))}), which is asked only for servers that are there themselves"
            )

    async def _places(self, host: str) -> frozenset[str]:
        try:
            return frozenset({_place(ip_address(host.partition("%")[0]))})
        except ValueError:
            found = await self._addresses(host)
            return frozenset(_place(ip_address(one.partition("%")[0])) for one in found)


def _place(address: IPv4Address | IPv6Address) -> str:
    """Return where an address is: on this machine, in a network of its own, or public."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    address = mapped or address
    if address.is_loopback or address.is_unspecified:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    return "public" if address.is_global else "private"


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

    `context` is the SDK's state of the login: it would forget at a restart when tokens expire and where they are
    refreshed, and ask the user to log in again. `at` returns which authorization server has given them.
    """

    context: OAuthContext

    def __init__(
        self, files: Files[_Stored], key: str, named: OAuthClientInformationFull | None, at: Callable[[], str]
    ) -> None:
        self._at = at
        self._files = files
        self._key = key
        self._named = named

    async def get_tokens(self) -> OAuthToken | None:
        stored, context = self.of(self._key), self.context
        if (tokens := stored.get("tokens")) is None:
            return None
        context.token_expiry_time = stored.get("expires_at")
        context.oauth_metadata = context.oauth_metadata or stored.get("server")
        context.protected_resource_metadata = context.protected_resource_metadata or stored.get("resource")
        return tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        context = self.context
        now: _Stored = {
            "tokens": tokens,
            "issuer": self._at(),
            "expires_at": context.token_expiry_time,
            "server": context.oauth_metadata,
            "resource": context.protected_resource_metadata,
        }
        self._files.write(self._key, {**self.of(self._key), **now})

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._named or self.of(self._key).get("client")

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._files.write(self._key, {**self.of(self._key), "client": client_info})

    def of(self, key: str) -> _Stored:
        """Return what is stored of a login."""
        return self._files.read(key) or {}


class _Redirect:
    """One login: the user's browser goes to the authorization server, and comes back to a port of this machine.

    The port is always the same for a server, since some want the very address that was registered.
    """

    def __init__(
        self,
        host: str,
        port: int,
        open_url: OpenUrl,
        reach: Reach,
        check: Callable[[], None],
        scopes: Sequence[str] = (),
    ) -> None:
        self.uri = f"http://{host}:{port}{CALLBACK}"
        self._port = port
        self._open_url = open_url
        self._reach = reach
        self._check = check
        self._scopes = scopes
        self._page = ""

    async def begin(self, url: str) -> None:
        """Take note of the page to log in at, which asks for the scopes that are configured, if any are."""
        await self._reach.check(url)
        self._check()
        if self._scopes:
            parts = urlsplit(url)
            query = {**dict(parse_qsl(parts.query)), "scope": " ".join(self._scopes)}
            url = parts._replace(query=urlencode(query)).geturl()
        self._page = url

    async def result(self) -> AuthorizationCodeResult:
        """Show the page, and return what the browser comes back with."""
        limit, deadline = start_limit.get(), 0.0
        if limit is not None:
            deadline, limit.deadline = limit.deadline - anyio.current_time(), math.inf
        try:
            with anyio.fail_after(LOGIN_SECONDS):
                return await self._listen()
        except TimeoutError as error:
            raise LoginFailed(f"it requires a login, and there was none within {LOGIN_SECONDS:g} seconds") from error
        finally:
            if limit is not None:
                limit.deadline = anyio.current_time() + deadline

    async def _listen(self) -> AuthorizationCodeResult:
        found: list[AuthorizationCodeResult] = []
        state = parse_qs(urlsplit(self._page).query).get("state", [None])[0]

        async def serve(stream: SocketStream) -> None:
            async with stream:
                if (result := await _answered(stream, state)) is not None:
                    found.append(result)
                    tasks.cancel_scope.cancel()

        try:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self._port)
        except OSError as error:
            raise LoginFailed(
                f"it wants a login, which comes back to port {self._port} of this machine, but that port can't be "
                f"opened ({error.strerror}); end the program that uses it"
            ) from error
        async with listener, anyio.create_task_group() as tasks:
            log.debug("waiting for a login at port %s", listener.extra(SocketAttribute.local_port))
            tasks.start_soon(self._open_url, self._page)
            await listener.serve(serve)
        return found[0]


async def _answered(stream: SocketStream, state: str | None) -> AuthorizationCodeResult | None:
    """Answer a request, and return what a browser brings from the page; `None` for all else, however it ends.

    Any program and any web page can reach the port, but the page's `state` is known to the page and its browser alone.
    """
    result = None
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, OSError):
        head = b""
        while b"\r\n" not in head and len(head) < MOST_BYTES:
            head += await stream.receive()
        result = _brought(head.split(b"\r\n")[0].decode("latin-1"), state)
        await stream.send(OTHER if result is None else DONE)
    return result


def _brought(line: str, state: str | None) -> AuthorizationCodeResult | None:
    """Return what a request brings by its first line, if it comes from the page with that `state`."""
    try:
        target = urlsplit(line.split(" ")[1])
        given = {name: values[0] for name, values in parse_qs(target.query).items()}
    except (IndexError, ValueError):
        return None
    if target.path != CALLBACK or given.get("state") != state:
        return None
    return AuthorizationCodeResult(code=given.get("code", ""), state=state, iss=given.get("iss"))


async def _in_browser(url: str) -> None:
    import webbrowser

    log.warning("a server asks you to log in: %s", url)
    await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)
