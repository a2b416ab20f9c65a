"""The running process groups that the kit has started, which must end before this process is killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

_groups: set[int] = set()


def started(group: int) -> None:
    """Register a process group by the id of its leader."""
    _groups.add(group)


def gone(group: int) -> None:
    """Unregister a process group that has ended."""
    _groups.discard(group)


def start(command: Sequence[str], **pipes: Any) -> subprocess.Popen[Any]:
    """Return a process that was started as the leader of a group; raises `OSError` if it can't be."""
    process = subprocess.Popen(command, start_new_session=True, **pipes)
    started(process.pid)
    return process


def end(process: subprocess.Popen[Any], patience: float) -> None:
    """End a process and everything in its group, by force if it takes longer than `patience`, in seconds."""
    for how in (signal.SIGTERM, signal.SIGKILL):
        signalled(process.pid, how)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    gone(process.pid)


def signalled(group: int, how: signal.Signals) -> None:
    """Send a signal to a process group, if there is one."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, how)


def kill_all() -> None:
    """Kill every registered process group."""
    for group in tuple(_groups):
        signalled(group, signal.SIGKILL)
