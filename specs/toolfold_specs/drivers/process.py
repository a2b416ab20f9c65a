"""A server in a process group of its own, as a transport for `mcp.Client`.

The SDK has such a transport, but it exposes neither the process's id nor what the server wrote besides messages, and it
leaves processes behind that the server started. Here the whole process group is gone at the end.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import anyio
from anyio.abc import ByteSendStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from attrs import field, frozen

from toolfold_specs import children

from .protocol import Era
from .replies import last_words

if TYPE_CHECKING:
    from mcp.server import Server

AT_EASE = 2.0 if sys.platform == "win32" else 0.1
"""Seconds for a server to end once its stdin is closed; then it gets a signal, which on Windows is force."""
PATIENCE = 2.0
"""Seconds for a server to end once it gets a signal."""
MOMENT = 0.3  # seconds
POLL = 0.01
LONGEST_LINE = 64 * 1024 * 1024
GONE = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)

Streams = tuple[Any, Any]


def _strings(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(values)


@frozen
class Command:
    """How to start a server that speaks over stdio; `env` is added to the environment of this process."""

    command: tuple[str, ...] = field(converter=_strings)
    env: Mapping[str, str] = field(factory=dict[str, str])
    cwd: str | Path | None = None


@frozen
class Address:
    """Where a server is, the era to speak, and the seconds that a request and the start may take."""

    target: Command | str | Server[Any]
    era: Era
    timeout: float
    start_timeout: float


class Child:
    """A server's process, and what it wrote besides messages."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._errors: IO[bytes] | None = None
        self._last_words = ""
        self._status: int | None = None
        self._ending = False
        self._process: Process | None = None
        self.garbage = ""
        """The first line on its stdout that is not a message."""

    @property
    def last_words(self) -> str:
        """The last lines that it wrote to stderr, as a sentence to append; empty if there are none."""
        if self._errors is not None and not self._errors.closed:
            self._last_words = last_words(self._errors)
        return self._last_words

    @property
    def pid(self) -> int | None:
        """The id of its process and of its group."""
        return None if self._process is None else self._process.pid

    @property
    def status(self) -> int | None:
        """Its exit status, if it ended before it was asked to."""
        return self._process.returncode if self._process is not None and not self._ending else self._status

    async def start(self) -> None:
        """Start it; raises `OSError` if it can't be."""
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (is closed by `end`)
        try:
            with anyio.CancelScope(shield=True):  # else a process that is cancelled as it starts would be left behind
                self._process = await anyio.open_process(
                    self._command.command,
                    env={**os.environ, **self._command.env},
                    cwd=self._command.cwd,
                    stderr=self._errors,
                    **children.APART,
                )
                children.started(self._process.pid)
        except BaseException:
            self._errors.close()
            raise

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[Streams]:
        """Start it unless it runs, and yield the streams of its messages; at the end its process group is gone.

        Raises:
            OSError: It can't be started.
        """
        if self._process is None:
            await self.start()
        assert self._process is not None
        try:
            async with self._messages(self._process) as streams:
                yield streams
        finally:
            await self.end()

    async def end(self, patience: float = AT_EASE) -> None:
        """End it, and everything in its group, in bounded time and by force if need be."""
        assert self._process is not None
        assert self._errors is not None
        self._status, self._ending = self._process.returncode, True
        with anyio.CancelScope(shield=True):
            await _end(self._process, patience)
        children.gone(self._process.pid)
        _ = self.last_words  # is read while it is there
        self._errors.close()

    @asynccontextmanager
    async def _messages(self, process: Process) -> AsyncGenerator[Streams]:
        from mcp.shared.message import SessionMessage

        assert process.stdin is not None
        received, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, said = anyio.create_memory_object_stream[SessionMessage](0)
        async with received, incoming, outgoing, said, anyio.create_task_group() as tasks:
            tasks.start_soon(self._read, process, received)
            tasks.start_soon(_write, process.stdin, said, received.close)
            yield incoming, outgoing
            tasks.cancel_scope.cancel()

    async def _read(self, process: Process, received: Any) -> None:
        """Pass messages on until the server's stdout ends or has anything else in it."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        assert process.stdout is not None
        lines = BufferedByteReceiveStream(process.stdout)
        async with received:
            with suppress(*GONE, anyio.IncompleteRead, anyio.DelimiterNotFound):
                while True:
                    line = await lines.receive_until(b"\n", LONGEST_LINE)
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError:
                        self.garbage = line.decode(errors="replace").strip() or "(an empty line)"
                        return
                    await received.send(SessionMessage(message))
            await _wait(process, MOMENT)  # so that its status is known


async def _write(stdin: ByteSendStream, said: Any, hang_up: Callable[[], None]) -> None:
    """Send messages on until the server accepts no more."""
    try:
        async for one in said:
            text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(f"{text}\n".encode())
    except GONE:
        hang_up()


async def _end(process: Process, patience: float) -> None:
    """Have a process end, in bounded time and by force if need be, and everything in its group with it."""
    with suppress(*GONE):
        if process.stdin is not None:
            await process.stdin.aclose()
    await _wait(process, patience)
    for how in (signal.SIGTERM, children.FORCE):
        if children.stop(process.pid, how):
            await _wait(process)
    with anyio.move_on_after(PATIENCE):  # a process that left the group may hold the pipes open
        await process.aclose()


async def _wait(process: Process, seconds: float = PATIENCE) -> None:
    """Wait for its end by polling, since `wait` also waits for other processes that have the pipes."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110
            await anyio.sleep(POLL)
