"""A copy of the runtime that waits to take its place when it is killed (SPEC GWY-15); on Linux alone.

A runtime needs three quarters of a second of processor time before it serves, which is many seconds on a busy machine.
Once everything is imported and nothing has begun, it copies itself: the copy shares its memory, and sleeps until the
end of a pipe says that the process before it has ended. Then it copies itself in turn, and serves. Elsewhere, where a
process can't be copied safely, a relay starts the next runtime.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from attrs import frozen

from .place import STANDBY, locked

log = logging.getLogger("toolfold.runtime")

ATTEMPTS, PAUSE = 200, 0.01
"""How often a lock that a relay looks at is tried for, and the seconds between."""
RUNTIME, COPY = "toolfold", "toolfold-copy"
"""What processes are called by which `ps -o comm` and others list them."""


@frozen
class Standby:
    """The copy of this process, if there is one, and the pipe whose end it waits for."""

    process: int | None
    pipe: int | None

    def end(self) -> None:
        """Have it end, before this process does by itself."""
        if sys.platform != "win32" and self.process is not None and self.pipe is not None:
            with suppress(OSError):
                os.kill(self.process, signal.SIGKILL)
                os.waitpid(self.process, 0)
            os.close(self.pipe)


def with_standby(folder: str, lock: int) -> tuple[int, Standby]:
    """Return in the process that serves, with the lock of its folder; a copy of it waits, and returns here later.

    Args:
        folder: The folder of the runtime.
        lock: The lock of it, which this process holds.
    """
    if sys.platform != "linux":
        return lock, Standby(None, None)
    while True:
        if (place := _taken(folder, STANDBY)) is None:
            return lock, Standby(None, None)
        ends, pipe = os.pipe()
        gc.freeze()  # what is there is never looked at again, so that its memory stays shared
        if process := os.fork():
            os.close(ends)
            os.close(place)
            _call(RUNTIME)
            return lock, Standby(process, pipe)
        os.close(pipe)
        os.close(lock)
        lock = _next(folder, ends)
        os.close(place)


def _next(folder: str, ends: int) -> int:
    """Return the lock of a folder once the process that held it has ended; does not return if another one has it."""
    _call(COPY)
    try:
        os.read(ends, 1)
        os.close(ends)
        lock = _taken(folder)
    except BaseException:  # such as Ctrl-C
        os._exit(1)
    if lock is None:
        os._exit(0)
    log.warning("the runtime was killed; its copy takes its place")
    return lock


def _taken(folder: str, *names: str) -> int | None:
    """Return what `locked` does, or try again: a relay that looks whether there is a runtime has it for a moment."""
    for _ in range(ATTEMPTS):
        if (file := locked(folder, *names)) is not None:
            return file
        time.sleep(PAUSE)
    return None


def _call(name: str) -> None:
    """Give this process a name by which `ps -o comm` and others tell the two apart."""
    with suppress(OSError):
        Path("/proc/self/comm").write_text(name, encoding="ascii")
