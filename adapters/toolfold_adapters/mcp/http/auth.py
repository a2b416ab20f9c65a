"""Who may call a server over HTTP: callers with tokens that it knows, or with those of an OAuth server (SPEC DEL-6).

The checks of requests are the SDK's; this gives it verifiers of tokens, and oauth.py those for an OAuth server. The
operator's page beside the endpoint is on loopback, or for those callers whom the authentication names. A browser has no
bearer token, so it is asked for a name and a password: any name, and the token as the password.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from mcp.server.auth.provider import AccessToken, TokenVerifier
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from toolfold import ConfigError
from toolfold.spi import frozen

from ..principal import Principal
from .guards import LOOPBACK

PATH, METRICS = "/live", "/metrics"
LOGIN = "/login"

_CHALLENGE = {"WWW-Authenticate": 'Basic realm="your token for this server, as the password", charset="UTF-8"'}
_DIGEST = re.compile(r"[0-9a-fA-F]{64}")


@frozen
class PeopleLogin:
    """How people log in at an OAuth server with a browser, to open pages of this server (SPEC GWY-19).

    Attributes:
        authorization_endpoint: The page on which they do.
        token_endpoint: Where this server gets a token for the code that they bring back.
        client_id: The client that this server is there.
        client_secret: Its secret.
        scopes: The scopes that it asks for.
    """

    authorization_endpoint: str
    token_endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scopes: tuple[str, ...] = ()


@frozen
class Authentication:
    """How callers of an HTTP server are authenticated, by the settings of the SDK's servers, and who its operators are.

    Attributes:
        verifier: Finds out whose token a request has.
        settings: The metadata of the server, and the scopes that a token needs.
        operators: Those callers, by the subjects of their tokens, who may see the live page.
        login: How people log in who open a page; without it they are asked for their token.
    """

    verifier: TokenVerifier
    settings: AuthSettings
    operators: frozenset[str] = frozenset()
    login: PeopleLogin | None = None

    @classmethod
    def by_tokens(cls, tokens: Mapping[str, str], *, operators: Iterable[str] = ()) -> Authentication:
        """Return one that knows each caller's token.

        Args:
            tokens: The SHA-256 digests of tokens in hexadecimal, by the names of callers.
            operators: The names of those who may see the live page.

        Raises:
            ConfigError: One is no such digest, or two callers have the same token.
        """
        callers: dict[str, str] = {}
        for name, digest in tokens.items():
            if _DIGEST.fullmatch(digest) is None:
                raise ConfigError(f"The token of {name!r} has no SHA-256 digest: it has 64 hexadecimal digits.")
            if (other := callers.setdefault(digest.lower(), name)) != name:
                raise ConfigError(f"{other!r} and {name!r} have the same token: give each caller one of its own.")
        settings = AuthSettings(issuer_url=AnyHttpUrl("http://localhost"), resource_server_url=None)
        return cls(KnownTokens(callers), settings, frozenset(operators))

    @classmethod
    def by_oauth(
        cls,
        verifier: TokenVerifier,
        *,
        issuer: str,
        resource: str,
        scopes: Sequence[str] = (),
        operators: Iterable[str] = (),
        login: PeopleLogin | None = None,
    ) -> Authentication:
        """Return one for a resource server of OAuth (RFC 9728), which names the authorization server to clients.

        Args:
            verifier: One of `toolfold_adapters.mcp.http.oauth`, or your own.
            issuer: The URL of the authorization server.
            resource: The URL of this server, for which tokens have to be issued.
            scopes: The scopes that a token has to have.
            operators: The subjects of the tokens of those who may see the live page.
            login: How people log in there who open a page of this server.
        """
        settings = AuthSettings(
            issuer_url=AnyHttpUrl(issuer),
            resource_server_url=AnyHttpUrl(resource),
            required_scopes=list(scopes) or None,
            validate_token_resource=True,
        )
        return cls(verifier, settings, frozenset(operators), login)


def digest_of(token: str) -> str:
    """Return the SHA-256 digest of a token, in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


@frozen
class KnownTokens(TokenVerifier):
    """Tokens that the server knows, by digest, so that the time of a comparison says nothing about them."""

    callers: Mapping[str, str] = field(repr=False)

    async def verify_token(self, token: str) -> AccessToken | None:
        """Return the caller whose token it is, or `None`."""
        name = self.callers.get(digest_of(token))
        return None if name is None else AccessToken(token=token, client_id=name, subject=name, scopes=[])


def check_operator_page(host: str, path: str, auth: Authentication | None) -> None:
    """Raise `ConfigError` unless the page, which shows every session, would be the operator's alone."""
    if auth is None and host not in LOOPBACK:
        raise ConfigError(
            f"The live page shows every session, and {host} can be reached from other machines: say with auth (--auth) "
            "who its operators are, or bind to 127.0.0.1."
        )
    if auth is not None and not auth.operators:
        raise ConfigError(
            "The live page shows every session, and auth (--auth) names no operators: add them, as in "
            'operators = ["alice"].'
        )
    if _is_below(path) or path == METRICS:
        raise ConfigError(
            f"The live page is at {PATH} and {METRICS}, so the path of the endpoint can't be {path}; choose another."
        )


class OperatorPage:
    """Passes on requests for the page to it, if they are the operator's, and all others to the server."""

    def __init__(self, app: ASGIApp, page: ASGIApp, auth: Authentication | None) -> None:
        self._app = app
        self._page = page
        self._auth = auth
        self._backend = None if auth is None else _backend(auth)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        root = scope.get("root_path", "")
        path = scope["path"].removeprefix(root) if scope["type"] == "http" else ""
        if path != METRICS and not _is_below(path):
            await self._app(scope, receive, send)
            return
        inner: dict[str, Any] = {**scope, "root_path": root + PATH}
        if path == METRICS:  # where Prometheus looks for them
            inner["path"] = root + PATH + METRICS
        if self._auth is not None:
            inner["user"] = await self._operator(scope, self._auth)
            if inner["user"] is None:
                refusal = PlainTextResponse("This page needs the token of an operator.", 401, _CHALLENGE)
                await refusal(scope, receive, send)
                return
        await self._page(inner, receive, send)

    async def _operator(self, scope: Scope, auth: Authentication) -> AuthenticatedUser | None:
        """Return the operator whose token a request has, or `None`."""
        assert self._backend is not None
        found = await self._backend.authenticate(HTTPConnection({**scope, "headers": _with_bearer(scope["headers"])}))
        if found is None:
            return None
        credentials, user = found
        has_scopes = set(auth.settings.required_scopes or ()) <= set(credentials.scopes)
        return user if has_scopes and user.access_token.subject in auth.operators else None


class CallerPages:
    """Passes on requests for pages of callers to them, with who asks, and all others to the server (SPEC GWY-19).

    Args:
        app: The server.
        pages: Answers requests below `LOGIN`, with the principal in the scope: `None` where people can log in, and
            none is known.
        auth: Who callers are.
    """

    def __init__(self, app: ASGIApp, pages: ASGIApp, auth: Authentication) -> None:
        self._app = app
        self._pages = pages
        self._auth = auth

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"].removeprefix(scope.get("root_path", "")) if scope["type"] == "http" else ""
        if not path.startswith(f"{LOGIN}/"):
            await self._app(scope, receive, send)
            return
        principal = await _caller(self._auth, _with_bearer(scope["headers"]))
        if principal is None and self._auth.login is None:
            refusal = PlainTextResponse("This page needs your token for this server.", 401, _CHALLENGE)
            await refusal(scope, receive, send)
            return
        await self._pages({**scope, "principal": principal}, receive, send)


async def caller_of(auth: Authentication, token: str) -> Principal | None:
    """Return whose token one is, if it is accepted here."""
    return await _caller(auth, [(b"authorization", f"Bearer {token}".encode())])


async def _caller(auth: Authentication, headers: Sequence[tuple[bytes, bytes]]) -> Principal | None:
    found = await _backend(auth).authenticate(HTTPConnection({"type": "http", "headers": headers}))
    if found is None or not set(auth.settings.required_scopes or ()) <= set(found[0].scopes):
        return None
    return Principal.of(found[1].access_token)


def _is_below(path: str) -> bool:
    return path == PATH or path.startswith(f"{PATH}/")


def _backend(auth: Authentication) -> BearerAuthBackend:
    resource = auth.settings.resource_server_url if auth.settings.validate_token_resource else None
    return BearerAuthBackend(auth.verifier, resource_server_url=resource)


def _with_bearer(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return headers in which the password of a browser is a bearer token."""
    return [(name, _bearer(value) if name == b"authorization" else value) for name, value in headers]


def _bearer(value: bytes) -> bytes:
    scheme, _, encoded = value.partition(b" ")
    if scheme.lower() != b"basic":
        return value
    try:
        return b"Bearer " + base64.b64decode(encoded, validate=True).partition(b":")[2]
    except binascii.Error:
        return b""
