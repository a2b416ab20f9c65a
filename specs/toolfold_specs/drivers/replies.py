"""The outcome of a request to a server: a result, an error of the protocol, or the end of the server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from typing import IO, Any, cast

from attrs import field, frozen

from toolfold_specs.driver import TargetFailed

from .protocol import CHANGE_META, HANDLE, HANDLE_META

TIMEOUT, START_TIMEOUT = 10.0, 30.0
"""Seconds for a request, and for the first of a server or driver that is started."""

LAST_LINES, LINE_LENGTH, LAST_BYTES = 3, 200, 1 << 16
"""How many lines that a program wrote to its stderr are quoted, how many characters of each, and how much is read."""


def last_words(stderr: IO[bytes]) -> str:
    """Return a sentence to append: the last lines that a program wrote to its stderr, without those of a stack trace.

    Args:
        stderr: The file that it writes to. The program shares its position, which this leaves alone but on Windows.
    """
    file = stderr.fileno()
    start = max(0, os.fstat(file).st_size - LAST_BYTES)
    if sys.platform == "win32":
        os.lseek(file, start, os.SEEK_SET)
        text = os.read(file, LAST_BYTES).decode(errors="replace")
    else:
        text = os.pread(file, LAST_BYTES, start).decode(errors="replace")
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.startswith("Traceback (most")]
    messages = [line for line in lines if not line[0].isspace()] or [line.strip() for line in lines]
    said = " / ".join(line[:LINE_LENGTH] for line in messages[-LAST_LINES:])
    return f" Its stderr ends with: {said}" if said else ""


class TargetNotStarted(TargetFailed):
    """The server can't be started or reached, so that nothing can be said about it."""


class WireError(Exception):
    """An error of the protocol, as the server answered it."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{message} ({code})")


@frozen
class Reply:
    """The outcome of a call: a result, or an error of the protocol."""

    result: Mapping[str, Any] = field(factory=dict[str, Any])
    refused: WireError | None = None

    @property
    def structured(self) -> Mapping[str, Any]:
        """The structured content."""
        return _mapping(self.result.get("structuredContent"))

    @property
    def meta(self) -> Mapping[str, Any]:
        """The result's `_meta`."""
        return _mapping(self.result.get("_meta"))

    @property
    def change(self) -> Mapping[str, Any]:
        """What a control tool says that it changed, in `_meta`, or in the structured content of other servers."""
        return _mapping(self.meta.get(CHANGE_META)) or self.structured

    @property
    def handle(self) -> str | None:
        """The handle that the result gives."""
        found = self.meta.get(HANDLE_META) or self.change.get(HANDLE)
        return found if isinstance(found, str) else None

    @property
    def text(self) -> str:
        """The text of the content."""
        blocks = cast("list[Mapping[str, Any]]", self.result.get("content") or [])
        return "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")

    @property
    def succeeded(self) -> bool:
        """Whether the tool was called and did not fail."""
        return self.refused is None and not self.is_error

    @property
    def is_error(self) -> bool:
        """Whether the tool failed."""
        return bool(self.result.get("isError"))


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


class Pending:
    """A request under way."""

    def __init__(self, future: Future[dict[str, Any]], judged: AbstractContextManager[None]) -> None:
        self._judged = judged
        self._future = future

    @property
    def done(self) -> bool:
        """Whether its answer has come, or it was cancelled."""
        return self._future.done()

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self._future.cancelled()

    def cancel(self) -> None:
        """Cancel it at the server, and wait for no answer."""
        self._future.cancel()

    def reply(self) -> Reply | None:
        """Return the outcome of the call, or None if it was cancelled; raises as `Connection.reply` does."""
        try:
            with self._judged:
                return Reply(self._future.result())
        except WireError as error:
            return Reply(refused=error)
        except CancelledError:
            return None
