"""The servers of a runtime that was killed: the next one ends those that do not end by themselves (SPEC GWY-15).

Most servers end with their standard input; one that does not read it would run for ever. Each is noted in a file when
it is started. On Windows the system ends them, and on macOS it does not say what tells a process from a later one.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

import anyio

from ..transport.processes import end_group

log = logging.getLogger("toolfold.runtime")

GRACE_SECONDS = 2.0
"""How long servers have to end by themselves, and then when they are asked to."""


class Servers:
    """The servers of the runtime of a folder, each of which leads a group of processes.

    Args:
        path: The file that they are noted in.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._over = path, False

    def note(self, process: int) -> None:
        """Note a process that was started."""
        if not self._over and (start := start_of(process)) is not None:
            with suppress(OSError), self._path.open("a", encoding="utf-8") as file:
                file.write(f"{process} {start}\n")

    def forget(self) -> None:
        """Forget all, since this process ends them itself, and note no more: the file is another's from now on."""
        self._over = True
        with suppress(OSError):
            self._path.unlink()

    def left(self) -> list[tuple[int, str]]:
        """Return the processes of an earlier runtime that are still there, with their starts, and forget them all."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
            self._path.unlink()
        except OSError:
            return []
        noted = [(int(one), start) for one, _, start in (line.partition(" ") for line in lines) if one.isdecimal()]
        return [(process, start) for process, start in noted if start_of(process) == start]

    async def end(self, left: list[tuple[int, str]]) -> None:
        """End processes with what they have started, if they do not by themselves."""
        for force in (False, True):
            if not (left := [(process, start) for process, start in left if start_of(process) == start]):
                return
            await anyio.sleep(GRACE_SECONDS)
            for process, start in left:
                if start_of(process) == start:
                    log.info("ending process %d, a server of the runtime that was killed", process)
                    end_group(process, force=force)


def start_of(process: int) -> str | None:
    """Return what tells a process from a later one of its number; `None` without one, or where no system says it."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return None if state == b"Z" else rest[18].decode()
    except (OSError, IndexError, ValueError):
        return None
