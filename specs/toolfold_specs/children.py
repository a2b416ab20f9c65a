"""The process groups that were started and are not gone: whoever ends this process by force ends them first."""

from __future__ import annotations

import os
import signal
from contextlib import suppress

_groups: set[int] = set()


def started(group: int) -> None:
    """Take note of a process group, by the id of the process that began it."""
    _groups.add(group)


def gone(group: int) -> None:
    """Take note that a process group was ended."""
    _groups.discard(group)


def kill_all() -> None:
    """End every process group that is left."""
    for group in tuple(_groups):
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
