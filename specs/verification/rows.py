"""The rows of the machine as data, from which verifiers and models in other languages are made (SPEC ACT-11, TRC-1).

    python -m verification.rows            # write what is made of the tables of the core
    python -m verification.rows --check    # exit status 1 if anything is stale

`rows.json` is part of the kit, and `toolfold verify` reads it. The models of Quint and SPIN are written from the rows,
too. A row that changes in the core changes all of them, and what has changed is seen in a diff.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolfold.machine import step, table

ROOT = Path(__file__).parents[1]
COMMAND = "python -m verification.rows"


def rows() -> dict[str, Any]:
    """Return the rows of both tables as JSON."""
    regions = [
        {
            "state": state.value,
            "event": event.value,
            "guard": row.guard.value,
            "target": row.target.value,
            "effect": row.effect.value,
            "emits": [[emission.event.value, emission.to.value] for emission in row.emits],
        }
        for (state, event), found in table.TABLE.items()
        for row in found
    ]
    life = [
        {"state": state, "event": event, "guard": row.guard, "target": row.target, "note": row.note}
        for (state, event), found in step.TABLE.items()
        for row in found
    ]
    choices = [
        {"choice": choice, "guard": row.guard, "target": row.target}
        for choice, found in step.CHOICES.items()
        for row in found
    ]
    return {
        "regions": regions,
        "life": {
            "rows": life,
            "choices": choices,
            "effects": dict(step.EFFECTS),
            "in_memory": dict(step.IN_MEMORY),
        },
    }


def as_json() -> str:
    """Return the rows as the text of a file, a row on each line."""
    found = rows()
    life = found["life"]

    def listed(values: Sequence[Mapping[str, Any]], indent: str) -> str:
        return ",\n".join(indent + json.dumps(value) for value in values)

    return (
        f'{{\n  "regions": [\n{listed(found["regions"], "    ")}\n  ],\n'
        f'  "life": {{\n    "rows": [\n{listed(life["rows"], "      ")}\n    ],\n'
        f'    "choices": [\n{listed(life["choices"], "      ")}\n    ],\n'
        f'    "effects": {json.dumps(life["effects"])},\n    "in_memory": {json.dumps(life["in_memory"])}\n  }}\n}}\n'
    )


MADE: Mapping[Path, Callable[[], str]] = {ROOT / "toolfold_specs" / "machine" / "rows.json": as_json}
"""The files, and what makes each."""


def stale() -> list[Path]:
    """Return the files that are not what the tables make of them."""
    return [path for path, made in MADE.items() if not path.is_file() or path.read_text(encoding="utf-8") != made()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files, or check them."""
    parser = argparse.ArgumentParser(prog=COMMAND, description="Write the rows of the machine as data and models.")
    parser.add_argument("--check", action="store_true", help="only check that the files are fresh")
    given = parser.parse_args(arguments)
    old = stale()
    if given.check:
        for path in old:
            print(f"{path.relative_to(ROOT.parent)} is stale: run `{COMMAND}`.")
        return int(bool(old))
    for path in old:
        path.write_text(MADE[path](), encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT.parent)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
