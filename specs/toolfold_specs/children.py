"""The running processes that the kit has started, each with its children, which must end before this one is killed.

On POSIX each leads a process group of its own. On Windows the system knows the children of a process while it runs;
those of one that has ended are left.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

if sys.platform == "win32":
    _apart, _force = {"creationflags": subprocess.CREATE_NO_WINDOW}, signal.SIGTERM
else:
    _apart, _force = {"start_new_session": True}, signal.SIGKILL
APART: dict[str, Any] = _apart
"""How a process is started so that it can be ended with its children."""
FORCE = _force
_groups: set[int] = set()


def started(group: int) -> None:
    """Register a process by its id, which on POSIX is that of its group."""
    _groups.add(group)


def gone(group: int) -> None:
    """Unregister a process that has ended with its children."""
    _groups.discard(group)


def start(command: Sequence[str], **pipes: Any) -> subprocess.Popen[Any]:
    """Return a process that was started apart; raises `OSError` if it can't be."""
    process = subprocess.Popen(command, **APART, **pipes)
    started(process.pid)
    return process


def end(process: subprocess.Popen[Any], patience: float) -> None:
    """End a process and its children, by force if it takes longer than `patience`, in seconds."""
    for how in (signal.SIGTERM, FORCE):
        stop(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    gone(process.pid)


def stop(group: int, how: signal.Signals) -> bool:
    """Send a process and its children a signal; return whether there was one. On Windows every signal is force."""
    if sys.platform == "win32":
        command = ["taskkill", "/T", "/F", "/PID", str(group)]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, how)
        return True
    return False


def kill_all() -> None:
    """Kill every registered process with its children."""
    for group in tuple(_groups):
        stop(group, FORCE)
