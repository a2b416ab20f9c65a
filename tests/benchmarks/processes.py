"""What the operating system says of processes (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

HERTZ = os.sysconf("SC_CLK_TCK")


def children() -> set[int]:
    """Return the processes that this one started."""
    found: set[int] = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if parent == os.getpid():
                found.add(int(entry.name))
    return found


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has spent."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def tree_seconds(process: int) -> float:
    """Return the processor time of a process and of those that it started, ended ones too."""
    fields: dict[int, list[str]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields[int(entry.name)] = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
    tree = {process}
    while more := {one for one, found in fields.items() if int(found[1]) in tree} - tree:
        tree |= more
    return sum(sum(map(int, fields[one][11:15])) for one in tree) / HERTZ


def resident(process: int) -> int:
    """Return the memory of a process in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) * 1024
