"""A server over HTTP in a process of its own, which is started when its address is asked for."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

from . import children
from .driver import TargetFailed

READY = re.compile(r"serving (https?://\S+)")
PATIENCE = 60.0
"""Seconds for it to say its address; gateways start other servers first."""
END = 5.0


class Served:
    """The process behind a URL; one that has ended is started again when it is asked for next.

    Args:
        command: Starts the server, which says ``serving URL`` on its stderr once it is ready.
        patience: Seconds for that.
    """

    def __init__(self, command: tuple[str, ...], patience: float = PATIENCE) -> None:
        self._command = command
        self._patience = patience
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        self._lock = threading.Lock()

    def url(self) -> str:
        """Return the address of the running server.

        Raises:
            TargetFailed: It ended, or did not say its address in time.
        """
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self.close()
                self._url = self._start()
            return self._url

    def close(self) -> None:
        """End the process, and everything in its group."""
        process, self._process = self._process, None
        if process is None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, how)  # its id is the group's, as it began a session of its own
            with suppress(subprocess.TimeoutExpired):
                process.wait(END)
        children.gone(process.pid)

    def _start(self) -> str:
        process = subprocess.Popen(
            self._command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
        )
        self._process = process
        children.started(process.pid)
        assert process.stderr is not None
        said: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(process.stderr, said), daemon=True, name="served").start()
        words: list[str] = []
        try:
            while (line := said.get(timeout=self._patience)) is not None:
                if ready := READY.search(line):
                    return ready[1]
                words.append(line.strip())
        except queue.Empty:
            self.close()
            raise TargetFailed(f"It did not say its address within {self._patience:g} seconds.") from None
        self.close()
        raise TargetFailed(f"It ended before it served: {' '.join(filter(None, words[-3:])) or 'it said nothing'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(stderr: IO[str], said: queue.Queue[str | None]) -> None:
    """Pass on what the process says, to its end, so that it never waits for a reader."""
    with stderr:
        for line in stderr:
            said.put(line)
    said.put(None)
