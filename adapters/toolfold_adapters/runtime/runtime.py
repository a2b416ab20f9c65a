"""The runtime: one process of a user that has the gateways, and serves each relay as a client of its own (SPEC GWY-14).

A relay says first who it is: what its host wants served, in which folder and with which environment. Relays that say
the same share a gateway, and so its upstreams as far as these can be shared; whatever a relay opens is a session of its
own, in a store beside the socket, under a name that only this relay knows. A runtime that is started in the place of
one that was killed finds it there (SPEC GWY-15).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from socket import socket
from typing import Any, Protocol

import anyio
from anyio.abc import TaskGroup, TaskStatus
from attrs import define, field, frozen

from toolfold import ConfigError, ToolfoldError
from toolfold.spi import table

from ..clock import elapsed
from ..gateway.config.settings import UpstreamConfig
from ..gateway.upstream.transports import environment_of, folder_of_command
from ..gateway.upstream.upstream import Upstream
from ..mcp.request import own_client
from ..mcp.serve import serve_client
from ..mcp.server import ToolSetServer
from ..transport.lines import Lines
from .connection import Connection, open_connection
from .relay import CONTROL, MESSAGE_BYTES
from .servers import called, described

log = logging.getLogger("toolfold.runtime")

HELLO_BYTES = 8 * 1024 * 1024
HELLO_SECONDS = 10.0
UNUSED_SECONDS = 300.0
"""How long a gateway, or the runtime, is kept that no relay uses."""
TICK_SECONDS = 1.0
LEAVE_SECONDS, LEAVE_TICK_SECONDS = 600.0, 0.05
"""How long calls in progress may take that a newer version waits for, and how often it is looked whether they do."""

NOT_OF_SERVERS = frozenset(
    {
        "_",
        "COLORTERM",
        "COLUMNS",
        "DBUS_SESSION_BUS_ADDRESS",
        "INVOCATION_ID",
        "ITERM_SESSION_ID",
        "JOURNAL_STREAM",
        "LINES",
        "OLDPWD",
        "PWD",
        "SHLVL",
        "SSH_CLIENT",
        "SSH_CONNECTION",
        "SSH_TTY",
        "TERM",
        "TERM_PROGRAM",
        "TERM_PROGRAM_VERSION",
        "TERM_SESSION_ID",
        "TMUX",
        "TMUX_PANE",
        "WINDOWID",
        "WT_SESSION",
    }
)
"""Variables that name a terminal or a login: environments that differ in these alone are the same for servers."""


class Refused(ToolfoldError):
    """A relay can't be served; the message says why."""


@frozen(kw_only=True)
class Hello:
    """What a relay says of itself.

    Attributes:
        version: That of its program.
        relay: Its name, which nobody else knows.
        target: The file that its host wants served, by its whole path.
        profile: The profile to serve.
        groups: The groups to open first.
        agent: Whose relay it is, for people.
        usage: Where use is recorded: nowhere if empty, and for `None` in the user's own record.
        folder: Where its host started it.
        environment: That of its host.
    """

    version: str
    relay: str
    target: str
    profile: str | None
    groups: tuple[str, ...]
    agent: str | None
    usage: str | None = None
    folder: str
    environment: Mapping[str, str]

    def place_of(self, config: UpstreamConfig) -> str:
        """Return what relays have to have in common to share a command, in brief: all that it gets from them."""
        environment = environment_of(config, self.environment)
        return _brief(folder_of_command(config, self.folder), _of_servers(environment))

    @property
    def shares(self) -> str:
        """What relays have to have in common to share a gateway, in brief."""
        return _brief(self.target, self.usage, self.folder, _of_servers(self.environment))


def _of_servers(environment: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(item for item in environment.items() if item[0] not in NOT_OF_SERVERS)


def _brief(*said: object) -> str:
    return hashlib.sha256(json.dumps(said).encode(errors="surrogatepass")).hexdigest()[:32]


def hello_in(line: bytes, secret: str) -> Hello:
    """Return what a relay says in its first line; raises `Refused`."""
    try:
        said = json.loads(line)
        if secret and said["secret"] != secret:
            raise Refused("The secret is not that of this runtime.")
        texts = {name: said.get(name) for name in ("profile", "groups", "agent", "usage")}
        if not all(one is None or isinstance(one, str) for one in texts.values()):
            raise TypeError
        environment = {str(name): str(value) for name, value in said["environment"].items()}
        return Hello(
            version=str(said["toolfold"]),
            relay=str(said["relay"]),
            target=str(said["target"]),
            profile=texts["profile"],
            groups=tuple(filter(None, (texts["groups"] or "").split(","))),
            agent=texts["agent"],
            usage=texts["usage"],
            folder=str(said["folder"]),
            environment=environment,
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Refused("What it said first is not what a relay says; it may be of another version.") from error


def _question_in(line: bytes, secret: str) -> str | None:
    """Return what a user asks in the first line of a connection; `None` if it is that of a relay, or nobody's."""
    with suppress(ValueError, RecursionError):
        said = table(json.loads(line)) or {}
        if said.get("ask") in ("status", "end") and said.get("secret") == secret:
            return str(said["ask"])
    return None


def _order(version: str) -> tuple[int, ...]:
    """Return what sorts versions by their numbers."""
    return tuple(int(number) for number in re.findall(r"\d{1,9}", version))


class Served(Protocol):
    """A gateway that is open."""

    def server(self, profile: str | None, groups: tuple[str, ...]) -> ToolSetServer:
        """Return a server for the relays with a profile and groups to begin with; raises `ConfigError`."""
        ...

    def left(self, client: str) -> None:
        """Take note that a client has gone, by the name of its relay."""
        ...

    def upstreams(self) -> Iterable[Upstream]:
        """Return the servers behind it, which other gateways may share."""
        ...


Opening = Callable[[Hello], AbstractAsyncContextManager[Served]]


@define(eq=False)
class _Gateway:
    """A gateway, which is held open by a task, with the lifespans of its servers.

    Attributes:
        ready: Is set when it is open, or could not be opened.
        over: Is set when it is to be closed.
        relays: The connections of those that it serves.
        unused_since: When the last of them left.
    """

    ready: anyio.Event = field(factory=anyio.Event)
    over: anyio.Event = field(factory=anyio.Event)
    relays: set[Connection] = field(factory=set[Connection])
    unused_since: float = 0.0
    failure: Exception | None = None
    _served: Served | None = None
    _tasks: TaskGroup | None = None
    _servers: dict[object, tuple[ToolSetServer, Any]] = field(factory=dict[object, tuple[ToolSetServer, Any]])
    _starting: anyio.Lock = field(factory=anyio.Lock)

    async def hold(self, opening: AbstractAsyncContextManager[Served]) -> None:
        """Have the gateway open until it is over."""
        try:
            async with opening as self._served, anyio.create_task_group() as self._tasks:
                self.ready.set()
                await self.over.wait()
                self._tasks.cancel_scope.cancel()
        except Exception as error:
            log.warning("a gateway ended: %s", error, exc_info=not isinstance(error, ToolfoldError))
            self.failure = error
        finally:
            self._served = None
            self.ready.set()
            self.over.set()

    async def server(self, hello: Hello) -> tuple[ToolSetServer, Any]:
        """Return the server for a relay, with what its lifespan yields; raises `ConfigError`."""
        assert self._served is not None
        assert self._tasks is not None
        key = hello.profile, hello.groups
        async with self._starting:
            if key not in self._servers:
                server = self._served.server(hello.profile, hello.groups)
                self._servers[key] = server, await self._tasks.start(_alive, server)
            return self._servers[key]

    @property
    def upstreams(self) -> Iterable[Upstream]:
        """The servers behind it, while it is open."""
        return () if self._served is None else self._served.upstreams()

    async def left(self, hello: Hello) -> None:
        """End what a relay had, which has gone."""
        served, found = self._served, self._servers.get((hello.profile, hello.groups))
        if served is None or found is None:
            return
        await found[0].end_client(hello.relay)
        served.left(hello.relay)


async def _alive(server: ToolSetServer, *, task_status: TaskStatus[Any]) -> None:
    async with server.lifespan(server) as state:
        task_status.started(state)
        await anyio.sleep_forever()


class Runtime:
    """Serves relays.

    Args:
        version: That of this program.
        opening: Opens the gateway that a relay asks for.
        clock: Returns the time in seconds.
        hand_over: Gives the folder up to a newer version, and returns once that takes connections, or does not come.
        kept: Whether it goes on while nobody uses it.
    """

    def __init__(
        self,
        version: str,
        opening: Opening,
        clock: Callable[[], float] = elapsed,
        hand_over: Callable[[], Awaitable[None]] | None = None,
        *,
        kept: bool = False,
    ) -> None:
        self._version, self._opening, self._clock, self._hand_over = version, opening, clock, hand_over
        self._accepting, self._accepted = anyio.CancelScope(), anyio.Event()
        self._successor: str | None = None
        self._kept = kept
        self._gateways: dict[str, _Gateway] = {}
        self._relays: dict[Connection, Hello] = {}
        self._ended = anyio.Event()
        self._used = clock()

    def end(self) -> None:
        """Have it end; a relay that needs one starts another."""
        self._ended.set()

    async def serve(self, listener: socket, secret: str = "") -> None:
        """Serve relays that connect, until there has been none for a while, or `end` is called."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._accept, listener, secret, tasks)
            tasks.start_soon(self._keep_time)
            await self._ended.wait()
            tasks.cancel_scope.cancel()

    async def _accept(self, listener: socket, secret: str, tasks: TaskGroup) -> None:
        listener.setblocking(False)
        try:
            with self._accepting:
                await self._accept_all(listener, secret, tasks)
        finally:
            self._accepted.set()

    async def _accept_all(self, listener: socket, secret: str, tasks: TaskGroup) -> None:
        while True:
            await anyio.wait_readable(listener)
            try:
                accepted, _ = listener.accept()
            except BlockingIOError:
                continue
            except OSError as error:  # such as that this process has as many files open as it may
                log.warning("a connection could not be taken: %s", error)
                await anyio.sleep(TICK_SECONDS)
                continue
            accepted.setblocking(False)
            tasks.start_soon(self._take, accepted, secret, tasks)

    async def _keep_time(self) -> None:
        while True:
            await anyio.sleep(TICK_SECONDS)
            now = self._clock()
            for key, gateway in list(self._gateways.items()):
                idle = not gateway.relays and now - gateway.unused_since >= UNUSED_SECONDS
                if gateway.ready.is_set() and (idle or gateway.over.is_set()):
                    del self._gateways[key]
                    gateway.over.set()
            if not self._kept and not self._relays and now - self._used >= UNUSED_SECONDS:
                log.info("no relay has been connected for %g seconds", UNUSED_SECONDS)
                self.end()

    # -- a relay ------------------------------------------------------------------------------------------------------

    async def _take(self, accepted: socket, secret: str, tasks: TaskGroup) -> None:
        async with open_connection(accepted) as connection:
            try:
                with anyio.fail_after(HELLO_SECONDS):
                    line, rest = await _first_line(connection)
                if (question := _question_in(line, secret)) is not None:
                    await _control(connection, self._status())
                    if question == "end":
                        self.end()
                        await anyio.sleep_forever()  # who asked waits for the end of the connection
                    return
                hello = hello_in(line, secret)
            except (Refused, TimeoutError, OSError) as error:
                log.warning("a connection was refused: %s", error)
                await _control(connection, {"refused": str(error)})
                return
            if _order(hello.version) > _order(self._version):
                if self._successor is None:
                    log.warning("version %s takes the place of %s", hello.version, self._version)
                    self._successor = hello.version
                    tasks.start_soon(self._leave)
                return
            self._relays[connection] = hello
            try:
                await self._serve(hello, connection, rest, tasks)
            except ConfigError as error:
                await _control(connection, {"refused": str(error)})
            except OSError as error:
                log.info("a relay has gone: %s", error)
            except Exception:
                log.exception("a relay could not be served")
                await _control(connection, {"refused": "The runtime has a fault; its log says where."})
            finally:
                del self._relays[connection]
                self._used = self._clock()

    async def _leave(self) -> None:
        """Give way to a newer version: relays go there once what they are waiting for has been answered."""
        self._accepting.cancel()
        await self._accepted.wait()
        if self._hand_over is not None:
            await self._hand_over()
        with anyio.move_on_after(LEAVE_SECONDS):
            for connection in list(self._relays):
                await _control(connection, {"leave": self._successor})
            while self._relays:  # noqa: ASYNC110
                await anyio.sleep(LEAVE_TICK_SECONDS)
        self.end()

    def _status(self) -> Mapping[str, Any]:
        """Return what the user wants to know."""
        relays = [
            {
                "target": one.target,
                "agent": one.agent,
                "profile": one.profile,
                "folder": one.folder,
                "shares": one.shares,
            }
            for one in self._relays.values()
        ]
        having: dict[Upstream, list[str]] = {}
        for gateway in self._gateways.values():
            hellos = [self._relays[one] for one in gateway.relays]
            for upstream in gateway.upstreams:
                having.setdefault(upstream, []).extend(called(one.agent, one.folder) for one in hellos)
        return {"version": self._version, "process": os.getpid(), "relays": relays, **described(having)}

    async def _serve(self, hello: Hello, connection: Connection, rest: bytes, tasks: TaskGroup) -> None:
        gateway = self._gateways.get(hello.shares)
        if gateway is None or gateway.over.is_set():
            gateway = self._gateways[hello.shares] = _Gateway()
            tasks.start_soon(gateway.hold, self._opening(hello))
        gateway.relays.add(connection)
        try:
            await gateway.ready.wait()
            if gateway.failure is not None:
                raise gateway.failure
            server, state = await gateway.server(hello)
            await _control(connection, {"serving": self._version})
            lines = _lines(connection, rest)
            own_client.set(hello.relay)
            await serve_client(server, state, "auto", lines, lines, session=hello.relay)
            again = any(one.relay == hello.relay for key, one in self._relays.items() if key is not connection)
            if not again and self._successor is None:  # not if this process ends: then it comes again
                await gateway.left(hello)
        finally:
            gateway.relays.discard(connection)
            gateway.unused_since = self._clock()


async def _first_line(connection: Connection) -> tuple[bytes, bytes]:
    """Return the first line that comes, and what has come behind it; raises `Refused`."""
    received, found = bytearray(), -1
    while found < 0:
        data = await connection.receive()
        received += data
        found = received.find(b"\n")
        if not data or len(received) > HELLO_BYTES > found:
            raise Refused("It did not say who it is.")
    return bytes(received[:found]), bytes(received[found + 1 :])


def _lines(connection: Connection, rest: bytes) -> Lines:
    """Return the messages of a relay, of which some bytes were read already."""
    ahead = [rest] if rest else []

    async def receive() -> bytes:
        return ahead.pop() if ahead else await connection.receive()

    async def write(line: bytes) -> None:
        try:
            await connection.send(line)
        except OSError as error:
            raise anyio.BrokenResourceError from error

    return Lines(receive, write, MESSAGE_BYTES)


async def _control(connection: Connection, said: Mapping[str, Any]) -> None:
    """Send a relay a message that is not for its host."""
    with suppress(OSError):
        await connection.send(CONTROL + json.dumps(said).encode() + b"\n")
