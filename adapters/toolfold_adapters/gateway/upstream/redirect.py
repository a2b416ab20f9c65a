"""Where a login sends the user's browser, and what it has asked (SPEC GWY-8, SAF-6).

The browser is sent to the authorization server, which sends it back to a port of this machine. Where to log in is said
by whoever answers 401, so addresses of this machine and of its networks are asked only for a server that is there
itself (see `Reach`). Names are looked up once: what was checked is what is asked.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit
from urllib.request import getproxies

import anyio
import anyio.to_thread
from anyio.abc import SocketAttribute, SocketStream
from mcp.shared.auth import AuthorizationCodeResult

from .life import LoginFailed
from .wire import OpenUrl, start_limit

if TYPE_CHECKING:
    import httpx2

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
_TRANSLATED = IPv6Network("64:ff9b::/96")
"""Addresses that translators between the versions have, for those of version 4."""


Addresses = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the addresses of a host by its name; none if there are none."""


async def addresses_of(host: str) -> Sequence[str]:
    """Return the addresses of a host, as this machine finds them."""
    try:
        return [str(found[4][0]) for found in await anyio.getaddrinfo(host, None)]
    except OSError:  # a proxy may know it
        return []


def proxied(url: str) -> bool:
    """Return whether a proxy asks for what has such a URL, or may do so: it finds addresses by itself."""
    return any(getproxies().get(kind) for kind in (urlsplit(url).scheme, "all"))


class Reach:
    """Which addresses may be asked on behalf of a server.

    A server elsewhere must not have this machine or its networks asked, which it could not ask itself.

    Args:
        url: The URL of the server.
        addresses: Returns the addresses of a host.
        proxied: Returns whether a proxy asks for what has a URL.
    """

    def __init__(self, url: str, addresses: Addresses, proxied: Callable[[str], bool] = proxied) -> None:
        self._host = urlsplit(url).hostname or ""
        self._addresses = addresses
        self._proxied = proxied
        self._own: frozenset[str] | None = None

    def note(self, response: httpx2.Response) -> None:
        """Take note of where the server has answered from: what its name stands for later counts no more."""
        stream = response.extensions.get("network_stream")
        peer = None if stream is None else stream.get_extra_info("server_addr")
        if peer and not self._proxied(str(response.request.url)):
            with suppress(ValueError):
                self._own = frozenset({_place(ip_address(str(peer[0]).partition("%")[0]))})

    async def check(self, url: str) -> str | None:
        """Return the address to ask for a URL that the server has chosen; `None` for the one that it names.

        Whoever has a name may have it stand for another address at any moment, so what is asked is what was checked.

        Raises:
            LoginFailed: It may not be asked, or its host has no address.
        """
        target = urlsplit(url)
        if target.scheme not in ("http", "https") or not target.hostname:
            raise LoginFailed(f"it wants a login at {url!r}, which is no address of a web server")
        if target.hostname == self._host and self._own is None:
            return None
        found = await self._found(target.hostname)
        places = {place for place, _ in found} - {"public"}
        own = await self._places() if places else frozenset[str]()
        if places - own and "loopback" not in own:
            raise LoginFailed(
                f"it wants a login at {target.hostname}, an address of this machine or of a network of its own "
                f"({', '.join(sorted(places))}), which is asked only for servers that are there themselves"
            )
        if self._proxied(url):
            return None
        if not found:
            raise LoginFailed(f"it wants a login at {target.hostname}, which has no address; try again")
        return found[0][1]

    async def _places(self) -> frozenset[str]:
        """Return where the server is."""
        return frozenset(place for place, _ in await self._found(self._host)) if self._own is None else self._own

    async def _found(self, host: str) -> list[tuple[str, str | None]]:
        """Return the addresses of a host, and where they are; `None` for one that the host names itself."""
        host = host.rstrip(".").lower()
        if host.rpartition(".")[2] == "localhost":  # a proxy may know it otherwise
            return [("loopback", None)]
        try:
            return [(_place(ip_address(host.partition("%")[0])), None)]
        except ValueError:
            return [(_place(ip_address(one.partition("%")[0])), one) for one in await self._addresses(host)]


def _place(address: IPv4Address | IPv6Address) -> str:
    """Return where an address is: on this machine, in a network of its own, or public."""
    address = _within(address) or address if isinstance(address, IPv6Address) else address
    if address.is_loopback or address.is_unspecified:
        return "loopback"
    if address.is_link_local:
        return "link-local"
    return "public" if address.is_global else "private"


def _within(address: IPv6Address) -> IPv4Address | None:
    """Return the address of version 4 that one of version 6 stands for, as routers and translators read it."""
    if address in _TRANSLATED:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]


class Redirect:
    """One login: the user's browser goes to the authorization server, and comes back to a port of this machine.

    The port is always the same for a server, since some want the very address that was registered. `again` says how
    to log in where that has not happened.
    """

    def __init__(
        self,
        host: str,
        port: int,
        open_url: OpenUrl,
        reach: Reach,
        check: Callable[[], None],
        again: str,
        scopes: Sequence[str] = (),
    ) -> None:
        self.uri = f"http://{host}:{port}{CALLBACK}"
        self._open_url = open_url
        self._reach = reach
        self._check = check
        self._again = again
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
            raise LoginFailed(
                f"it requires a login, and there was none within {LOGIN_SECONDS:g} seconds; {self._again}"
            ) from error
        finally:
            if limit is not None:
                limit.deadline = anyio.current_time() + deadline

    async def _listen(self) -> AuthorizationCodeResult:
        found: list[AuthorizationCodeResult] = []
        asked = parse_qs(urlsplit(self._page).query)
        state = asked.get("state", [None])[0]
        port = urlsplit(asked["redirect_uri"][0]).port or 0  # a client that was registered earlier may have its own

        async def serve(stream: SocketStream) -> None:
            async with stream:
                if (result := await _answered(stream, state)) is not None:
                    found.append(result)
                    tasks.cancel_scope.cancel()

        try:
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
        except OSError as error:
            raise LoginFailed(
                f"it wants a login, which comes back to port {port} of this machine, but that port can't be "
                f"opened ({error.strerror}); end the program that uses it, and {self._again}"
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


async def in_browser(url: str) -> None:
    """Show a page in the browser of the user."""
    import webbrowser

    log.warning("a server asks you to log in: %s", url)
    await anyio.to_thread.run_sync(webbrowser.open, url, abandon_on_cancel=True)
