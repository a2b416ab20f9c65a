"""Large messages over HTTP, which are read in a thread before the SDK has them (SPEC SAF-1).

The SDK reads each message on the event loop, and nothing else runs meanwhile: 0.05 seconds a megabyte. So of one that
is large it gets the same with a key in the place of what makes it so, and who reads the messages puts that back. What
was taken out comes with the context of the message, so of what nobody reads nothing is left.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from secrets import token_hex
from typing import Any, cast

import anyio.to_thread
import httpx2
from mcp.shared.message import SessionMessage
from mcp_types import ErrorData, JSONRPCError
from pydantic_core import from_json, to_json

from toolfold.spi import table

from .lines import HUGE, Around, Item, MessageTooLarge

_KEY = "toolfold_large"
_CUT = 100
"""How much of a text is left that is no message; it is none either."""
_EVENT = re.compile(rb"(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r(?!\n)|\n)")
"""The end of an event, of which each line has an end of its own."""

_taken: ContextVar[tuple[str, Any]] = ContextVar("toolfold_taken", default=("", None))
"""What was taken out of the message that was read last, and its key."""


async def _beside(shorten: Callable[[bytes], tuple[bytes, tuple[str, Any]]], text: bytes) -> bytes:
    """Return a message without what makes it large; the rest of it is in this context from then on."""
    if len(text) <= HUGE:
        return text
    short, taken = await anyio.to_thread.run_sync(shorten, text)
    _taken.set(taken)
    return short


def _shortened(text: bytes) -> tuple[bytes, tuple[str, Any]]:
    key = token_hex(16)
    try:
        data = table(from_json(text))
    except ValueError:
        data = None
    if data is None or "jsonrpc" not in data:
        return text[:_CUT].replace(b"\n", b" "), ("", None)
    short: dict[str, Any] = {name: data[name] for name in ("jsonrpc", "id", "method") if name in data}
    taken = None
    for part in ("result", "params"):
        if table(data.get(part)) is not None:
            taken, short[part] = data[part], {_KEY: key}
    if (error := table(data.get("error"))) is not None:
        words = "" if isinstance(error.get("message"), str) else None
        taken, short["error"] = error, {"code": error.get("code"), "message": words, "data": {_KEY: key}}
    return to_json(short), (key, taken)


def _shortened_event(event: bytes) -> tuple[bytes, tuple[str, Any]]:
    lines = event.splitlines()
    data = [line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:")]
    others = [line for line in lines if line and not line.startswith(b"data")]
    short, taken = _shortened(b"\n".join(data))
    return b"\n".join((*others, b"data: " + short, b"", b"")), taken


class Whole(Around):
    """Messages of the SDK's, with what was taken out of them."""

    async def __anext__(self) -> Item:
        item: Item = await anext(self._stream)
        if isinstance(item, SessionMessage) and self.last_context is not None:
            key, taken = self.last_context.get(_taken, ("", None))
            if key:
                _put_back(item.message, key, taken)
        return item


def _put_back(message: Any, key: str, taken: Any) -> None:
    for part in ("result", "params"):
        if _is_key(getattr(message, part, None), key):
            setattr(message, part, taken)
    if isinstance(message, JSONRPCError) and _is_key(message.error.data, key):
        message.error = ErrorData.model_validate(taken)


def _is_key(value: Any, key: str) -> bool:
    return isinstance(value, dict) and cast("dict[str, Any]", value).get(_KEY) == key


class Bounded(httpx2.AsyncByteStream):
    """The decoded body of a response, in place of its stream; reading it fails once more has come than may."""

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
        """Close the response."""
        await self._body.aclose()


class Message(Bounded):
    """The same of one message, which is shortened."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield await _beside(_shortened, b"".join([part async for part in super().__aiter__()]))


class Events(Bounded):
    """The same of a stream of events, whose messages are shortened; the SDK has the limit, which is of each."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        event = bytearray()
        async for part in self._body.aiter_bytes():
            seen, begun = max(len(event) - 3, 0), 0
            event += part
            for end in _EVENT.finditer(event, seen):
                yield await _beside(_shortened_event, bytes(event[begun : end.end()]))
                begun = end.end()
            del event[:begun]
            if len(event) > self._limit:
                yield bytes(event)
                event.clear()
        if event:
            yield bytes(event)
