"""How a relay starts the runtime where there is none: one relay at a time, and no runtime after the other."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import Any

from . import place

START_SECONDS = 2.0
"""How long a relay whose runtime ended by itself waits before it starts another one."""


class Starting:
    """Starts a runtime where there is none, unless another relay does: hosts have many, and each runtime takes long.

    Args:
        folder: The folder of the runtime.
        start: Starts it, and returns its process; raises `OSError`.
    """

    def __init__(self, folder: str, start: Any) -> None:
        self._folder, self._start = folder, start
        self._turn: int | None = None
        self._process: Any = None
        self._begun = -math.inf

    def __enter__(self) -> Starting:
        return self

    def __exit__(self, *_: object) -> None:
        if self._turn is not None:
            os.close(self._turn)

    def attempt(self) -> str:
        """Start a runtime if it is this relay's turn and there is none; return why that failed, or nothing."""
        try:
            if self._turn is None:
                self._turn = place.locked(self._folder, place.TURN)
            if self._turn is None or self._waits or place.is_taken(self._folder):
                return ""
            self._begun = time.monotonic()
            self._process = self._start()
        except OSError as error:
            return f"{error.filename or self._folder}: {error.strerror or error}"
        return ""

    @property
    def _waits(self) -> bool:
        """Whether a runtime is starting, or has ended by itself a moment ago, so that the next one would as well."""
        ended = 0 if self._process is None else self._process.poll()
        return ended is None or (ended >= 0 and time.monotonic() - self._begun < START_SECONDS)


def started(folder: str) -> Any:
    """Start a runtime that outlives this process, and return its process; raises `OSError`.

    If there is one meanwhile, the new one finds the lock taken, and ends.
    """
    command = [sys.executable, "-m", "toolfold_cli", "up", "--for-relay"]
    path = os.path.join(folder, place.LOG)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        import subprocess  # not for those who find one

        apart: dict[str, Any] = (
            {"creationflags": 0x00000208}  # DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        environment = {**os.environ, place.FOLDER: folder}
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=folder, **apart
        )
    finally:
        os.close(log)
