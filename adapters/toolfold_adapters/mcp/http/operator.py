"""The operator's page beside the endpoint: on loopback, or for those callers whom the authentication names.

A browser has no bearer token, so it is asked for a name and a password: any name, and the token as the password.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser, BearerAuthBackend
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from toolfold import ConfigError

from .auth import Authentication
from .guards import LOOPBACK

PATH = "/live"

_CHALLENGE = {"WWW-Authenticate": 'Basic realm="the operator\'s page", charset="UTF-8"'}


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
    if _is_below(path):
        raise ConfigError(f"The live page is at {PATH}, so the path of the endpoint can't be {path}; choose another.")


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
        if scope["type"] != "http" or not _is_below(scope["path"].removeprefix(root)):
            await self._app(scope, receive, send)
            return
        inner: dict[str, Any] = {**scope, "root_path": root + PATH}
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
