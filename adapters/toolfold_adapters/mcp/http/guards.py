"""The guards in front of the SDK's HTTP application (SPEC DEL-10).

A request passes only if its host and its origin are allowed, and it is complete and of a limited size.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial

import mcp_types as types
from mcp.server.transport_security import RequestBodyLimitMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toolfold import ConfigError
from toolfold.spi import Full, frozen, quoted

from ..request import record_refusal

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADER_TIMEOUT = 10.0
BODY_TIMEOUT = 60.0
MAX_REQUEST_BYTES = 4 * 1024 * 1024

log = logging.getLogger("toolfold.mcp")

_LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_NAME = r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]"
_PORT = r"0|[1-9][0-9]{0,4}"
_SCHEME = r"[a-z][a-z0-9+.-]*"
_HOST = re.compile(rf"(?P<base>{_NAME})(?::(?P<port>{_PORT}))?")
_ORIGIN = re.compile(rf"(?P<base>{_SCHEME}://(?:{_NAME}))(?::(?P<port>{_PORT}))?")
_LAST_PORT = 65_535


def guarded(
    app: ASGIApp, addresses: Addresses, max_request_bytes: int, beside: Callable[[ASGIApp], ASGIApp] | None = None
) -> ASGIApp:
    """Return an application that refuses requests for other servers, and those of pages from elsewhere.

    Args:
        app: The application of the SDK.
        addresses: The `Host` and `Origin` headers to accept.
        max_request_bytes: The size of a body above which a request is refused with status 413.
        beside: Adds what answers requests for allowed hosts, and checks their origins itself.
    """
    bounded = RequestBodyLimitMiddleware(_CompleteRequests(app), max_request_bytes)
    of_origins = _Refusing(_CrossOrigin(bounded, addresses), partial(_wrong_origin, addresses))
    inner = of_origins if beside is None else beside(of_origins)
    return _Refusing(inner, partial(_wrong_host, addresses))


@frozen
class Addresses:
    """The `Host` and `Origin` headers that are accepted, each compared as a whole (SPEC DEL-10).

    A port `*` matches any number. Case does not matter.
    """

    hosts: frozenset[str]
    origins: frozenset[str]

    @classmethod
    def of(cls, host: str, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()) -> Addresses:
        """Return those of loopback, if a server is bound to it, and those that are explicitly allowed.

        Raises:
            ConfigError: One of them is malformed, or `host` is not loopback and no host names are given.
        """
        hosts = [_checked(_HOST, "--allow-host", "tools.example.org:*", given) for given in allowed_hosts]
        origins = [_checked(_ORIGIN, "--allow-origin", "https://example.org", given) for given in allowed_origins]
        if host in LOOPBACK:
            names = [form for name in _LOOPBACK_NAMES for form in (name, f"{name}:*")]
            hosts += names
            origins += [f"http://{name}" for name in names]
        elif not hosts:
            raise ConfigError(
                f"{host} can be reached from other machines: name the allowed hosts with allowed_hosts "
                '(--allow-host), such as "tools.example.org:*", or bind to 127.0.0.1.'
            )
        return cls(frozenset(hosts), frozenset(origins))

    def accept_host(self, host: str) -> bool:
        """Return whether requests for a `Host` are accepted."""
        return _is_among(self.hosts, _HOST, host)

    def accept_origin(self, origin: str) -> bool:
        """Return whether requests from an `Origin` are accepted."""
        return _is_among(self.origins, _ORIGIN, origin)


def _checked(form: re.Pattern[str], option: str, example: str, given: str) -> str:
    allowed = given.lower()
    if form.fullmatch(allowed.removesuffix(":*")) is None:
        raise ConfigError(f"{option} can't be {quoted(given)!r}; it has the form of {example}, with nothing after it.")
    return allowed


def _is_among(allowed: frozenset[str], form: re.Pattern[str], given: str) -> bool:
    found = form.fullmatch(given.lower())
    if found is None or int(found["port"] or 0) > _LAST_PORT:
        return False
    return found[0] in allowed or (found["port"] is not None and f"{found['base']}:*" in allowed)


def error_response(
    status: int, message: str, code: int = types.INVALID_REQUEST, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Return a response that refuses a request with an error of the protocol."""
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, status, headers)


def limit_response(full: Full) -> JSONResponse:
    """Return a response that refuses a request because a limit was reached, which it records (SPEC SAF-7)."""
    record_refusal(full)
    headers = {"retry-after": str(full.retry_after)}
    return error_response(429 if full.own else 503, str(full), types.INTERNAL_ERROR, headers)


class _Refusing:
    """Passes on requests whose host, or origin, is allowed: a defence against DNS rebinding."""

    def __init__(self, app: ASGIApp, refusal: Callable[[Scope], JSONResponse | None]) -> None:
        self._app = app
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (refusal := self._refusal(scope)) is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _wrong_host(addresses: Addresses, scope: Scope) -> JSONResponse | None:
    hosts = _values(scope, b"host")
    if len(hosts) == 1 and addresses.accept_host(hosts[0]):
        return None
    log.warning("refused a request for the host %r, which --allow-host does not name", _quoted(hosts))
    return error_response(421, "This server does not accept the host name of the request.")


def _wrong_origin(addresses: Addresses, scope: Scope) -> JSONResponse | None:
    origins = _values(scope, b"origin")
    if len(origins) <= 1 and all(map(addresses.accept_origin, origins)):
        return None
    log.warning("refused a request from the origin %r, which allowed_origins (--allow-origin) lacks", _quoted(origins))
    return error_response(403, "This server does not accept the origin of the request.")


class _CrossOrigin(CORSMiddleware):
    """Lets pages of the accepted origins read what is answered, and answers their browsers' preflight requests."""

    def __init__(self, app: ASGIApp, addresses: Addresses) -> None:
        super().__init__(
            app,
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=["Mcp-Session-Id", "Mcp-Protocol-Version", "WWW-Authenticate", "Retry-After"],
        )
        self._addresses = addresses

    def is_allowed_origin(self, origin: str) -> bool:
        """Return whether pages of an origin may read answers."""
        return self._addresses.accept_origin(origin)


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for header, value in scope["headers"] if header == name]


def _quoted(values: list[str]) -> str:
    return quoted(", ".join(values))


class _CompleteRequests:
    """Passes on requests whose body is complete; if the client disconnects before that, nothing happens."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        whole = await receive()
        if whole["type"] != "http.request" or whole.get("more_body", False):
            return
        taken = False

        async def again() -> Message:
            nonlocal taken
            first, taken = not taken, True
            return whole if first else await receive()

        await self._app(scope, again, send)
