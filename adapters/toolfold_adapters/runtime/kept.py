"""What is in the folder of a runtime stays small: its log, the stored sessions, and answers to handshakes."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread

from .place import ANSWERS, LOG, STATE

LOG_BYTES = 1024 * 1024
"""How long the log may be; a longer one becomes the one before it."""
LOOK_SECONDS = 60.0
OLD_SECONDS = 30 * 24 * 3600.0
"""How long sessions and answers are kept that nobody uses."""


def reopen_log(folder: str) -> None:
    """Have all that this process writes go to the log of a folder, which begins anew if it is long."""
    log = Path(folder, LOG)
    with suppress(OSError):
        if _is_long(log):
            log.replace(log.with_suffix(".log.1"))
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(file, stream)
        os.close(file)


def remove_old(folder: str, now: float) -> None:
    """Remove sessions and answers that were last written long ago; called before any is in use."""
    for path in (*Path(folder, STATE).glob("*"), *Path(folder, ANSWERS).glob("*")):
        with suppress(OSError):
            if now - path.stat().st_mtime > OLD_SECONDS:
                path.unlink()


async def kept_short(folder: str) -> None:
    """Keep the log short while the runtime serves."""
    log = Path(folder, LOG)
    await to_thread.run_sync(remove_old, folder, time.time())
    while True:
        await anyio.sleep(LOOK_SECONDS)
        if _is_long(log):
            reopen_log(folder)


def _is_long(log: Path) -> bool:
    try:
        return log.stat().st_size > LOG_BYTES
    except OSError:
        return False
