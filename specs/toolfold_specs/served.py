"""An HTTP server in a separate process, started when its URL is first needed."""

from __future__ import annotations

import queue
import re
import subprocess
import threading
from types import TracebackType
from typing import IO, Self

from . import children
from .driver import TargetFailed

READY = re.compile(r"serving (https?://\S+)")
PATIENCE = 60.0
"""Seconds until the server must have printed its URL; gateways start other servers first."""
END = 5.0
"""Seconds until a terminated process must have ended."""


class Served:
    """The process that serves a URL; if it has ended, the next use restarts it.

    Args:
        command: Starts the server, which prints ``serving URL`` on stderr once it is ready.
        patience: Seconds to wait for that.
    """

    def __init__(self, command: tuple[str, ...], patience: float = PATIENCE) -> None:
        self._command = command
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        self._lock = threading.Lock()

    def url(self) -> str:
        """Return the URL of the running server.

        Raises:
            TargetFailed: It ended, or did not print its URL in time.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self.close()
                self._url = self._start()
            return self._url

    def close(self) -> None:
        """End the process and its process group."""
        process, self._process = self._process, None
        if process is None:
            return
        children.end(process, END)

    def _start(self) -> str:
        process = self._process = children.start(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stderr is not None
        output: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(process.stderr, output), daemon=True, name="served").start()
        lines: list[str] = []
        try:
            while (line := output.get(timeout=self._patience)) is not None:
                if ready := READY.search(line):
                    return ready[1]
                lines.append(line.strip())
        except queue.Empty:
            self.close()
            raise TargetFailed(f"It did not print its URL within {self._patience:g} seconds.") from None
        self.close()
        raise TargetFailed(f"It ended before it served: {' '.join(filter(None, lines[-3:])) or 'it printed nothing'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(stderr: IO[str], output: queue.Queue[str | None]) -> None:
    """Read everything that the process prints, so that it never blocks on a full pipe."""
    with stderr:
        for line in stderr:
            output.put(line)
    output.put(None)
