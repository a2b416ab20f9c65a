"""The running process groups that the kit has started, which must end before this process is killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

_groups: set[int] = set()


def started(group: int) -> None:
    """Register a process group by the id of its leader."""
    _groups.add(group)


def gone(group: int) -> None:
    """Unregister a process group that has ended."""
    _groups.discard(group)


def kill_all() -> None:
    """Kill every registered process group."""
    for group in tuple(_groups):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
