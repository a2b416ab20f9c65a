"""How an upstream is reached: a command that speaks over its standard streams, or a URL (SPEC GWY-1, GWY-8).

What is started sees what it would see if its host started it: the environment that the host gives its servers, which
the gateway has from it, and what the configuration adds (see `environment_of`). It is ended with its children, as the
SDK does it.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Container, Generator, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process
from mcp.client.stdio import get_default_environment

from ...hosts import Environment
from ...names import ONE_SERVER
from ...transport import processes
from ...transport.lines import Lines, answered
from ..callers.acting import acting, by_each
from ..config.settings import UpstreamConfig
from .stderr import last_line, of_the_probe, reason_in
from .wire import OpenUrl, Transport

if TYPE_CHECKING:
    from ..callers.logins import CallerLogins

log = logging.getLogger("toolfold.gateway")

OWN_PREFIX = "TOOLFOLD_"
"""What the names of the gateway's own variables begin with: options, keys, the URL of its store."""
LINE_BYTES = 8192
"""A line that is longer is passed on in parts of this length."""
LINES = 100
LINE_LENGTH = 500
"""How many of the last lines are remembered, and how much of each: a stack may follow the line that says why."""
DRAIN_SECONDS = 0.5
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Transports:
    """Makes what carries the messages of an upstream, to be entered once.

    Args:
        tokens: Where the tokens of logins are stored; without a folder, nobody is asked to log in.
        open_url: Shows a page to the user.
        environment: What servers get of the gateway's environment whose configuration does not say.
        own: Variables that only the gateway may know, beside those that begin with `TOOLFOLD_`.
        environ: The gateway's environment; that of this process unless given.
        folder: Where commands are started that have no folder of their own; where this process is unless given.
        callers: What each of several callers logs in with; unless given, all are the user of this machine.
    """

    def __init__(
        self,
        tokens: Path | None = None,
        open_url: OpenUrl | None = None,
        *,
        environment: Environment = "inherited",
        own: Container[str] = (),
        environ: Mapping[str, str] | None = None,
        folder: str | None = None,
        callers: CallerLogins | None = None,
    ) -> None:
        self._callers = callers
        self._tokens = tokens
        self._open_url = open_url
        self._environment: Environment = environment
        self._own = own
        self._environ = os.environ if environ is None else environ
        self._folder = folder
        self._logins: dict[object, Any] = {}

    def __call__(self, config: UpstreamConfig, name: str = ONE_SERVER) -> Transport:
        """Return the transport to an upstream; a header of its own for authorization is left alone.

        Args:
            config: How it is reached.
            name: What it is called in the configuration.
        """
        if config.url is None:
            environment = environment_of(config, self._environ, self._environment, self._own)
            folder = folder_of_command(config, self._folder)
            return _running(list(config.command or ("",)), environment, folder, config.max_message_bytes)
        from .http import transport_to  # not for those who have no server at a URL
        from .logins import login_at, login_key, own_token_at

        if by_each(config, several=self._callers is not None):
            assert self._callers is not None
            return transport_to(config.url, config, self._callers.auth(name, config, acting.get()))
        if config.exchange is not None:
            from ..callers.logins import NotExchanged

            return transport_to(config.url, config, NotExchanged())
        if self._tokens is None or not config.has_login:
            return transport_to(config.url, config, None)
        if config.token is not None:
            return transport_to(config.url, config, own_token_at(name, config, self._tokens))
        key = login_key(name, config), config.oauth
        if key not in self._logins:
            self._logins[key] = login_at(name, config, self._tokens, self._open_url)
        return transport_to(config.url, config, self._logins[key])


def folder_of_command(config: UpstreamConfig, folder: str | None) -> str | None:
    """Return where a command is started whose gateway is in some folder, or in that of this process."""
    return str(Path(folder, config.cwd)) if folder and config.cwd else config.cwd or folder


def environment_of(
    config: UpstreamConfig,
    environ: Mapping[str, str],
    default: Environment = "inherited",
    own: Container[str] = (),
) -> dict[str, str]:
    """Return the environment of a server (SPEC GWY-8).

    Args:
        config: How the server is reached: what it says of the environment, and what it adds.
        environ: The environment of the gateway.
        default: What the server gets of that, if its configuration does not say: all (`"inherited"`), what programs
            need to run (`"minimal"`), or that and the variables of these names.
        own: Variables that only the gateway may know, beside those that begin with `TOOLFOLD_`.
    """
    wanted = default if config.environment is None else config.environment
    given = {name: value for name, value in environ.items() if not name.startswith(OWN_PREFIX) and name not in own}
    if wanted != "inherited":
        names = {*get_default_environment(), *(() if wanted == "minimal" else wanted)}
        given = {name: value for name, value in given.items() if name in names}
    return {**given, **config.env}


@asynccontextmanager
async def _running(
    command: list[str], environment: dict[str, str], folder: str | None, limit: int
) -> AsyncGenerator[tuple[Lines, Lines]]:
    process: Process | None = None
    # Else a process that is cancelled as it starts would be left behind.
    with anyio.CancelScope(shield=True), _stderr() as stderr:
        process = await processes.start(command, environment, folder=folder, stderr=stderr)
    assert process is not None
    if (taken := server_stderr.get()) is not None:
        taken.process = process.pid
    assert process.stdin is not None
    assert process.stdout is not None
    stdin, stdout = process.stdin, process.stdout

    async def receive() -> bytes:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            return await stdout.receive()
        return b""

    async def write(line: bytes) -> None:
        try:
            await stdin.send(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
            await stdout.aclose()  # the process may live on, but it can't be asked anything
            raise anyio.BrokenResourceError from error

    try:
        yield (lines := Lines(receive, write, limit, answered)), lines
    finally:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_drain, stdout)
                await _end(process)
                tasks.cancel_scope.cancel()
            if taken is not None:
                await taken.drained()


async def _drain(stdout: ByteReceiveStream) -> None:
    """Read what nobody wants: a process whose pipe is full could not end."""
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        while True:
            await stdout.receive()


async def _end(process: Process) -> None:
    """Close the standard input of a process, end it if that does not, and what is left of its children."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    await processes.wait(process)
    await processes.end(process)
    await processes.wait(process)
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdout.aclose()


def _stderr() -> AbstractContextManager[Any]:
    """Return where the server's stderr goes: to ours, or where ours is not a file, to the process's own."""
    if (taken := server_stderr.get()) is not None:
        return taken.opened()
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return nullcontext(sys.__stderr__)  # None makes the child inherit it
    return nullcontext(sys.stderr)


# -- what a server writes to its stderr -------------------------------------------------------------------------------


class ServerStderr:
    """Passes on what one process of a server writes, and remembers the last lines.

    A server of an older era may complain that it does not know the first request (SPEC GWY-18). That is no fault: it is
    put aside, with what follows, until the server has started, and passed on only if it does not start.

    `process` is its number, once it runs.

    Args:
        name: The server's name.
    """

    def __init__(self, name: str) -> None:
        self.process: int | None = None
        self._name = name
        self._lines: deque[str] = deque(maxlen=LINES)
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._starting = True
        self._aside: list[str] = []

    def started(self) -> None:
        """Take note that it has started: what was put aside says nothing."""
        with self._lock:
            self._starting, aside = False, self._aside
        for line in aside:
            log.debug("%s: %s", self._name, line)

    def failed(self) -> None:
        """Take note that it did not start: what was put aside may say why."""
        with self._lock:
            self._starting = False
        for line in self._aside:
            self._pass(line)

    @contextmanager
    def opened(self) -> Generator[IO[bytes]]:
        """Yield a file for the process to write to; a thread reads until no process has it open any more."""
        reading, writing = os.pipe()
        self._thread = threading.Thread(target=self._copy, args=(reading,), daemon=True, name="toolfold stderr")
        self._thread.start()
        with os.fdopen(writing, "wb", buffering=0) as file:
            yield file

    async def drained(self) -> None:
        """Wait until all has been read, but not for long: a process of the server's own may live on."""
        if self._thread is not None:
            await anyio.to_thread.run_sync(self._thread.join, DRAIN_SECONDS)

    @property
    def reason(self) -> str:
        """The line that says most likely why the server did not start; empty if it wrote nothing."""
        return self.error or last_line(list(self._lines))

    @property
    def error(self) -> str:
        """The line that says why it ended; empty if none looks as if it did."""
        return reason_in(list(self._lines))

    def _copy(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as file:
            for line in iter(lambda: file.readline(LINE_BYTES), b""):
                text = _plain(line.decode(errors="replace").rstrip())
                with self._lock:
                    if aside := self._starting and bool(self._aside or of_the_probe(text)):
                        self._aside = [*self._aside[-LINES:], text]
                if not aside:
                    self._pass(text)

    def _pass(self, text: str) -> None:
        if text:
            self._lines.append(text[:LINE_LENGTH])
        with suppress(OSError, ValueError):  # ours may be closed
            sys.stderr.write(f"{self._name}: {text}\n")
            sys.stderr.flush()


def _plain(text: str) -> str:
    """Return a line without colours, and with all else escaped that does more than print a character."""
    text = _COLOUR.sub("", text)
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


server_stderr: ContextVar[ServerStderr | None] = ContextVar("toolfold_gateway_stderr", default=None)
"""Takes what the process writes that is started; without it, that goes where ours goes."""
