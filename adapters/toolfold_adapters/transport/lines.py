"""Messages as lines: over the standard streams of this process, or those of a process that it has started.

Only the parsing of very long lines is handed to a thread: who waits for a message reads, and who sends one writes. The
streams of this process may be open in others too, so they are not made non-blocking: no more is read than is there, and
no more is written than there is room for. On Windows the event loop can't wait for them, and the SDK's transport has
threads.

The SDK's transports take time in the square of the length of a line (ten megabytes: seconds, in which nothing else
runs) without any limit, and end the connection on a byte that is no UTF-8.
"""

from __future__ import annotations

import json
import logging
import os
import re
import select
import sys
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import Context
from types import TracebackType
from typing import Any, Self

import anyio
import anyio.lowlevel
import anyio.to_thread
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
from pydantic import ValidationError
from pydantic_core import from_json

from toolfold import ToolfoldError
from toolfold.spi import array, table

from .broken import BrokenLine, read
from .signals import CHUNK, diverted, ended_by_signals, stderr, stdin_closed_by_signals

log = logging.getLogger("toolfold.messages")

Item = SessionMessage | Exception
FLUSH_SECONDS = 0.5
HUGE = 256 * 1024
"""Lines longer than this, in bytes, are parsed in a thread."""
LARGE = 64 * 1024
"""Lines longer than this, in bytes, are parsed without a validation of what is in their results."""
BROKEN = "The server's answer is no message of the protocol; its operator should look at the server."
_KINDS = {
    frozenset({"jsonrpc", "id", "result"}): JSONRPCResponse,
    frozenset({"jsonrpc", "id", "method"}): JSONRPCRequest,
    frozenset({"jsonrpc", "id", "method", "params"}): JSONRPCRequest,
}
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"\s*")
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
ROOM = 4096
"""How many bytes there is room for in a pipe that has any, a page; so a write of these does not wait."""


TOO_LARGE = "it sent a message of more than"


class MessageTooLarge(ToolfoldError):
    """A message of more than `limit` bytes came, so that the connection has ended (SPEC GWY-12)."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"{TOO_LARGE} {limit} bytes")
        self.limit = limit


class Messages:
    """A stream of messages as the SDK has it, with none; another kind says what comes next, or how it is closed."""

    async def __anext__(self) -> Item:
        raise StopAsyncIteration

    async def receive(self) -> Item:
        """Return the same; raises `EndOfStream`."""
        try:
            return await self.__anext__()
        except StopAsyncIteration:
            raise anyio.EndOfStream from None

    def __aiter__(self) -> Self:
        return self

    async def aclose(self) -> None:
        """Do nothing: it ends with the block in which it was made."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> None:
        await self.aclose()


class Around(Messages):
    """Messages of another stream; another kind says what is done with them."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    @property
    def last_context(self) -> Context | None:
        """The context in which the last message was received, if the stream has one for each; the SDK looks for it."""
        return getattr(self._stream, "last_context", None)

    async def aclose(self) -> None:
        """Close the other stream."""
        await self._stream.aclose()


class Lines(Messages):
    """Both sides of a transport, as the SDK has them: iterated, it has the messages that come, and it sends others.

    Args:
        receive: Returns the next bytes, or none at the end.
        write: Writes bytes.
        limit: The most bytes of a message that comes, if there is a limit.
        parse: Returns the message in a line; `answered` where a server writes them.
    """

    def __init__(
        self,
        receive: Callable[[], Awaitable[bytes]],
        write: Callable[[bytes], Awaitable[None]],
        limit: int | None = None,
        parse: Callable[[bytes], Item] | None = None,
    ) -> None:
        self._parse = parse or parsed
        self._receive = receive
        self._write = write
        self._limit = limit
        self._items = deque[bytes | Item]()
        self._line = bytearray()
        self._ended = False

    def clone(self) -> Self:
        """Return the same, which no closing ends."""
        return self

    async def __anext__(self) -> Item:
        while not self._items:
            if self._ended:
                raise StopAsyncIteration
            self._take(await self._receive())
        item = self._items.popleft()
        if not isinstance(item, bytes):
            return item
        if len(item) <= HUGE:
            first, *others = self._parse_all(item)
        else:
            first, *others = await anyio.to_thread.run_sync(self._parse_all, item)  # which would hold the loop up
        self._items.extendleft(reversed(others))
        return first

    def _parse_all(self, line: bytes) -> list[Item]:
        """Return the message in a line, or those in a line of a server that has several."""
        item = self._parse(line)
        parts = messages_in(line) if self._parse is answered and is_broken(item) else []
        return [self._parse(part) for part in parts] or [item]

    def _take(self, data: bytes) -> None:
        """Take what has come; at the end, the last line need not end."""
        self._ended = not data
        for number, part in enumerate((data or b"\n").split(b"\n")):
            if number:  # the line before has ended
                if self._line.strip():
                    self._items.append(bytes(self._line))
                self._line.clear()
            self._line += part
            if self._limit is not None and len(self._line) > self._limit:
                self._items.append(MessageTooLarge(self._limit))
                self._ended = True
                return

    async def send(self, item: SessionMessage, /) -> None:
        """Send a message; raises `BrokenResourceError` if nobody takes it, and `ValueError` if it is no text."""
        await self._write(f"{item.message.model_dump_json(by_alias=True, exclude_unset=True)}\n".encode())


def parsed(line: bytes) -> Item:
    """Return the message in a line, or why it is none; what no text can hold is replaced.

    A broken answer is an error in answer to the same request, so that no request waits for ever.
    """
    text = line.decode(errors="replace")
    try:
        kind = _plain_kind(data := from_json(text)) or (_kind_of(data) if len(line) > LARGE else None)
        if kind is None:
            return SessionMessage(jsonrpc_message_adapter.validate_json(text, by_name=False))
        return SessionMessage(kind.model_validate(data))
    except (ValueError, TypeError) as error:
        log.debug("a line that is no message: %.200r", line)
        return _repaired(text) or _broken(text, error)


def answered(line: bytes) -> Item:
    """Return the same of a line that a server wrote: what asks and answers at once is a broken answer.

    As a request it would be asked of a client, while the request that it answers waits. A result or error that is null
    is none: some programs write all keys of a message.
    """
    item = parsed(line)
    if isinstance(item, SessionMessage) and b'"method"' in line and (b'"result"' in line or b'"error"' in line):
        with suppress(ValueError):
            data = table(from_json(line)) or {}
            if data.get("method") is not None and (data.get("result") is not None or data.get("error") is not None):
                return _broken(line.decode(), ValueError("it asks and answers at once"))
    return item


def messages_in(line: bytes) -> list[bytes]:
    """Return the messages in a line that has several, or a list of them, and what comes after them; else none."""
    text = line.decode(errors="replace")
    found, rest, at = list[Any](), list[bytes](), 0
    try:
        while at < len(text):
            value, at = _DECODER.raw_decode(text, at)
            found += [value] if (listed := array(value)) is None else listed
            at = _SPACE.match(text, at).end()  # type: ignore[union-attr]
    except (ValueError, RecursionError):
        rest = [text[at:].encode()]
    several = len(found) + len(rest) > 1 or line.startswith(b"[")
    if not several or not all("jsonrpc" in (table(one) or {}) for one in found):
        return []
    return [*(json.dumps(one).encode() for one in found), *rest] if found else []


def is_broken(item: Item) -> bool:
    """Return whether something stands in the place of what is no message."""
    if isinstance(item, SessionMessage):
        return isinstance(item.message, JSONRPCError) and item.message.error.message == BROKEN
    return isinstance(item, BrokenLine)


def misread(error: ValidationError) -> Item:
    """Return what `parsed` does of a message that the SDK could not read, by its error."""
    inputs: list[Any] = [one["input"] for one in error.errors(include_url=False)]
    text = next((one for one in inputs if isinstance(one, str)), None)
    return _broken(json.dumps(next(filter(table, inputs), "")) if text is None else text, error)


def _repaired(text: str) -> Item | None:
    """Return the message in a line that holds half a character of UTF-16, or else `None`."""
    if _HALF.search(text) is None:
        return None
    with suppress(ValueError, TypeError, RecursionError):
        data = json.loads(text)
        whole = json.loads(json.dumps(data, ensure_ascii=False).encode(errors="replace"))
        return SessionMessage(_kind_of(whole).model_validate(whole))
    return None


def _broken(text: str, error: Exception) -> Item:
    """Return an error in place of a broken answer, or what could be found out of the line."""
    found = read(text)
    if found.answers is None:
        raised = BrokenLine(found)
        raised.__cause__ = error
        return raised
    broken = ErrorData(code=INTERNAL_ERROR, message=BROKEN)
    return SessionMessage(JSONRPCError(jsonrpc="2.0", id=found.answers, error=broken))


def _plain_kind(data: Any) -> Any:
    """Return the kind of a message that has the keys of a request or of a result, and no others; else `None`.

    The SDK tries all kinds, which takes three times as long.
    """
    if not isinstance(data, dict) or type(data.get("id")) not in (int, str):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        return None
    return _KINDS.get(frozenset(data))  # pyright: ignore[reportUnknownArgumentType]


def _kind_of(data: Any) -> Any:
    if "result" in data:
        return JSONRPCResponse
    if "error" in data:
        return JSONRPCError
    return JSONRPCRequest if "id" in data else JSONRPCNotification


# -- the standard streams of this process -----------------------------------------------------------------------------


@asynccontextmanager
async def standard_streams() -> AsyncGenerator[tuple[Any, Any]]:
    """Yield the messages that come over standard input, and what sends others over standard output.

    Meanwhile these streams are of no other use: what reads the one finds nothing, and what is printed goes to standard
    error. A signal that asks the process to end is the end of the input, and a second one ends it at once.
    """
    if sys.platform == "win32":
        from mcp.server.stdio import stdio_server

        with stdin_closed_by_signals() as close_stdin:
            async with stdio_server() as streams:
                try:
                    yield streams
                finally:
                    close_stdin()
    else:
        loop: Any = anyio.lowlevel.current_token().native_token
        soon = loop.call_soon_threadsafe if hasattr(loop, "call_soon_threadsafe") else loop.run_sync_soon  # of trio
        with diverted(0, os.open(os.devnull, os.O_RDONLY)) as source, diverted(1, stderr()) as sink:
            incoming, outgoing = _Input(source), _Output(sink)

            async def write(line: bytes) -> None:
                try:
                    await outgoing.write(line)
                except OSError as error:
                    incoming.end()  # nobody takes answers any more
                    raise anyio.BrokenResourceError from error

            with ended_by_signals(lambda: soon(incoming.end)):
                try:
                    lines = Lines(incoming.read, write)
                    yield lines, lines
                finally:
                    with anyio.move_on_after(FLUSH_SECONDS, shield=True), suppress(anyio.BrokenResourceError):
                        await write(b"")


class _Input:
    """Reads what there is in a file, until that ends or `end` is called."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._ended = False
        self._waiting = anyio.CancelScope()

    async def read(self) -> bytes:
        with suppress(OSError), anyio.CancelScope() as self._waiting:  # errors as of a terminal that is gone
            while not self._ended:
                try:
                    await anyio.wait_readable(self._file)
                except PermissionError:  # a file of a disk has something at any time, or its end
                    await anyio.lowlevel.checkpoint()
                with suppress(BlockingIOError):  # another process has it non-blocking, and has read what there was
                    return os.read(self._file, CHUNK)
        return b""

    def end(self) -> None:
        self._ended = True
        self._waiting.cancel()


if sys.platform != "win32":

    class _Output:
        """Writes to a file what there is room for, and the rest later; lines stay whole, whoever is cancelled."""

        def __init__(self, file: int) -> None:
            self._file = file
            self._left = bytearray()
            self._waiting = anyio.Lock()
            self._room = select.poll()
            self._room.register(file, select.POLLOUT)

        async def write(self, line: bytes) -> None:
            self._left += line
            self._write_some()
            while self._left:
                async with self._waiting:
                    await anyio.wait_writable(self._file)
                    self._write_some()

        def _write_some(self) -> None:
            with suppress(BlockingIOError):  # another process has it non-blocking, and has filled it
                while self._left and self._room.poll(0):
                    del self._left[: os.write(self._file, self._left[:ROOM])]
