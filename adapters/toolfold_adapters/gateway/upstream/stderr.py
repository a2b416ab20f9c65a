"""What a server writes to its stderr: passed on to ours line by line, with the server's name (SPEC GWY-3)."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import IO

import anyio.to_thread

LINE_BYTES = 8192
"""A line that is longer is passed on in parts of this length."""
LINES = 20
REASON_LENGTH = 200
DRAIN_SECONDS = 0.5
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_ERROR = re.compile(r"[\w.\[\] -]*(error|exception|fatal|panic)[^:]{0,40}: \S", re.IGNORECASE)


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
        """Yield a file for the process to write to; a thread reads until nobody has it open any more."""
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
