"""How an upstream is reached: a command that speaks over its standard streams, or a URL (SPEC GWY-1, GWY-8).

For a command this has a transport of its own: that of the SDK takes time in the square of the length of a line (ten
megabytes: seconds, in which nothing else runs) without any limit, and ends the connection on a byte that is no UTF-8.
What is started, and how it is ended, is the same: the environment is the SDK's default one and what the configuration
adds, and the process is ended with its children.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import IO, Any

import anyio
import anyio.to_thread
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage
from mcp_types import (
    INTERNAL_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic_core import from_json

from toolfold.spi import table

from ... import processes
from ..config.settings import UpstreamConfig
from .life import MessageTooLarge
from .wire import Transport

log = logging.getLogger("toolfold.gateway")

Item = SessionMessage | Exception
FLUSH_SECONDS = 0.5
LARGE = 64 * 1024
"""Lines longer than this, in bytes, are parsed without a validation of what is in their results."""
LINE_BYTES = 8192
"""A line that is longer is passed on in parts of this length."""
LINES = 20
REASON_LENGTH = 200
DRAIN_SECONDS = 0.5
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"[\w.\[\] -]*(error|exception|fatal|panic)[^:]{0,40}: \S", re.IGNORECASE)


def transport_of(config: UpstreamConfig, auth: Any = None) -> Transport:
    """Return what carries the messages of an upstream, to be entered once; `auth` authorizes requests over HTTP."""
    if config.url is None:
        return _process(config)
    from .http import transport_to  # not for those who have no server at a URL

    return transport_to(config.url, config, auth)


def _process(config: UpstreamConfig) -> Transport:
    environment = {**get_default_environment(), **config.env}
    return _running(list(config.command or ("",)), environment, config.cwd, config.max_message_bytes)


@asynccontextmanager
async def _running(
    command: list[str], environment: dict[str, str], folder: str | None, limit: int
) -> AsyncGenerator[tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]]:
    process: Process | None = None
    # Else a process that is cancelled as it starts would be left behind.
    with anyio.CancelScope(shield=True), _stderr() as stderr:
        process = await processes.start(command, environment, folder=folder, stderr=stderr)
    assert process is not None
    # Nothing is awaited from here to the task group, for the same reason.
    incoming, read = anyio.create_memory_object_stream[Item](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    written = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read_lines, process, incoming, limit)
        tasks.start_soon(_write_lines, process, outgoing, incoming, written)
        try:
            yield read, write
        finally:
            with anyio.CancelScope(shield=True):
                read.close()
                write.close()
                with anyio.move_on_after(FLUSH_SECONDS):
                    await written.wait()
                await _end(process)
                if (taken := server_stderr.get()) is not None:
                    await taken.drained()
            tasks.cancel_scope.cancel()


async def _read_lines(process: Process, incoming: MemoryObjectSendStream[Item], limit: int) -> None:
    """Hand over the lines that a process writes, as messages; drain the rest once they are no longer read."""
    assert process.stdout is not None
    with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async with incoming:
            await _hand_over(process.stdout, incoming, limit)
    with anyio.CancelScope(shield=True), suppress(Exception):  # else it could not end, for its pipe is full
        while True:
            await process.stdout.receive()


async def _hand_over(stdout: ByteReceiveStream, incoming: MemoryObjectSendStream[Item], limit: int) -> None:
    """Hand over lines as messages, up to the first that is longer than the limit."""
    line = bytearray()
    while True:
        for number, part in enumerate((await stdout.receive()).split(b"\n")):
            if number:  # the line before has ended
                if line.strip():
                    await incoming.send(parsed(bytes(line)))
                line.clear()
            line += part
            if len(line) > limit:
                await incoming.send(MessageTooLarge(limit))
                return


async def _write_lines(
    process: Process,
    outgoing: MemoryObjectReceiveStream[SessionMessage],
    incoming: MemoryObjectSendStream[Item],
    written: anyio.Event,
) -> None:
    assert process.stdin is not None
    try:
        async with outgoing:
            async for item in outgoing:
                line = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{line}\n".encode())
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await incoming.aclose()  # the process may live on, but it can't be asked anything
    finally:
        written.set()


async def _end(process: Process) -> None:
    """Close the standard input of a process, end it if that does not, and what is left of its children."""
    assert process.stdin is not None
    assert process.stdout is not None
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdin.aclose()
    await processes.has_ended(process)
    await processes.end(process)
    await processes.has_ended(process)
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await process.stdout.aclose()


def parsed(line: bytes) -> Item:
    """Return the message in a line, or why it is none; what no text can hold is replaced.

    A broken answer is an error in answer to the same request, so that no request waits for ever.
    """
    try:
        text = line.decode(errors="replace")
        if len(line) <= LARGE:
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        return SessionMessage(_kind_of(data := from_json(text)).model_validate(data))
    except (ValueError, TypeError) as error:
        log.debug("a line that is no message: %.200r", line)
        return _repaired(line) or error


def _repaired(line: bytes) -> Item | None:
    """Return the message in a line that holds half a character of UTF-16, or an error in place of a broken answer."""
    data: dict[str, Any] = {}
    with suppress(ValueError, TypeError, RecursionError):
        data = table(json.loads(line.decode(errors="replace"))) or {}
        whole = json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
        return SessionMessage(_kind_of(whole).model_validate(whole))
    if not isinstance(data.get("id"), str | int) or "method" in data:
        return None
    broken = ErrorData(code=INTERNAL_ERROR, message="The server's answer is no message of the protocol")
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=data["id"], error=broken))


def _kind_of(data: Any) -> Any:
    if "result" in data:
        return JSONRPCResponse
    if "error" in data:
        return JSONRPCError
    return JSONRPCRequest if "id" in data else JSONRPCNotification


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

    Args:
        name: The server's name.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lines: deque[str] = deque(maxlen=LINES)
        self._thread: threading.Thread | None = None

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
        """The line that says most likely why the server ended, cut; empty if it wrote nothing."""
        lines = list(self._lines)
        found = next((line for line in reversed(lines) if _ERROR.match(line)), lines[-1] if lines else "")
        return found if len(found) <= REASON_LENGTH else f"{found[:REASON_LENGTH]}…"

    def _copy(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as file:
            for line in iter(lambda: file.readline(LINE_BYTES), b""):
                text = _plain(line.decode(errors="replace").rstrip())
                if text:
                    self._lines.append(text)
                with suppress(OSError, ValueError):  # ours may be closed
                    sys.stderr.write(f"{self._name}: {text}\n")
                    sys.stderr.flush()


def _plain(text: str) -> str:
    """Return a line without colours, and with all else escaped that does more than print a character."""
    text = _COLOUR.sub("", text)
    return text if text.isprintable() else "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


server_stderr: ContextVar[ServerStderr | None] = ContextVar("toolfold_gateway_stderr", default=None)
"""Takes what the process writes that is started; without it, that goes where ours goes."""
