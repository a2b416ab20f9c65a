"""The kill table: the test files that kill each mutant, which `python -m tests.mutation --kills FILE` writes.

A test file that kills no mutant alone is one whose tests others repeat, as far as mutants tell. The folder `tables` has
those of samples.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

COUNTED = "TOOLFOLD_COUNT_KILLS"
"""Set if pytest is to go on after a failure, in spite of mutmut; `plugin.py` then passes over the rest of the file."""
KILLED = Path("kills.txt")
UNCOLLECTED = Path("uncollected.txt")
"""Has the files that a mutant kept pytest from importing, as `KILLED` has those that a test failed in."""


def is_under_test() -> bool:
    """Return whether a mutant is under test, and not the code as it is."""
    return os.environ.get("MUTANT_UNDER_TEST", "").startswith("toolfold.")


def is_counted() -> bool:
    """Return whether a mutant is under test whose kills are written."""
    return COUNTED in os.environ and is_under_test()


def write_kill(file: str, notes: Path = KILLED) -> None:
    """Note that a test of a file failed, in a line of its own: processes append at once."""
    line = f"{os.environ['MUTANT_UNDER_TEST']} {file}\n"
    with notes.open("a", encoding="utf-8") as kills:
        kills.write(line)


def read_kills(file: Path) -> dict[str, list[str]]:
    """Return the files that killed each mutant, by mutmut's name of it."""
    found: dict[str, set[str]] = {}
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        name, _, killer = line.partition(" ")
        found.setdefault(name, set()).add(killer)
    return {name: sorted(killers) for name, killers in found.items()}


def kill_table(command: str, killed: Mapping[str, tuple[str, list[str]]]) -> str:
    """Return the table as JSON: what each file kills, alone too, and what kills each mutant."""
    kills = Counter(file for _, files in killed.values() for file in files)
    alone = Counter(files[0] for _, files in killed.values() if len(files) == 1)
    numbers = [len(files) for verdict, files in killed.values() if verdict == "killed"]
    table: dict[str, Any] = {
        "command": command,
        "mutants": len(killed),
        "verdicts": dict(Counter(verdict for verdict, _ in killed.values()).most_common()),
        "median_files_that_kill": median(numbers) if numbers else 0,
        "files": {file: {"kills": count, "alone": alone[file]} for file, count in sorted(kills.items())},
        "killed_by": {
            name: files if verdict == "killed" else [verdict, *files]
            for name, (verdict, files) in sorted(killed.items())
        },
    }
    return "{\n" + ",\n".join(f"{json.dumps(key)}: {_lines(value)}" for key, value in table.items()) + "\n}\n"


def _lines(value: Any) -> str:
    """Return a value as JSON, with an entry on each line."""
    if not isinstance(value, dict):
        return json.dumps(value)
    return "{\n" + ",\n".join(f" {json.dumps(key)}: {json.dumps(each)}" for key, each in value.items()) + "\n}"
