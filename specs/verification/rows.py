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
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from toolfold.machine import step, table
from toolfold_specs.reference import System
from toolfold_specs.systems import distinct_systems
from verification.spin import writing

ROOT = Path(__file__).parents[1]
COMMAND = "python -m verification.rows"


def rows() -> dict[str, Any]:
    """Return the rows of both tables as JSON."""
    of_regions = [
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
        "regions": of_regions,
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


def quint_of_regions() -> str:
    """Return the regions of groups as modules of Quint, with the rows, and all small systems."""
    systems = [_system(system) for number in range(1, QUINT_GROUPS + 1) for system in distinct_systems(number)]
    return _module(
        "regions", _listed("ROWS", "Row", rows()["regions"]) + "\n" + _values("SYSTEMS", "Set", "System", systems)
    )


def quint_of_life() -> str:
    """Return the life of transitions as a module of Quint, with the rows of its table."""
    life = rows()["life"]
    effects = [f"    {_text(state)} -> {_text(effect)}" for state, effect in life["effects"].items()]
    return _module(
        "life",
        f"{_listed('LIFE', 'LifeRow', life['rows'])}\n{_listed('CHOICES', 'Choice', life['choices'])}\n"
        f"  // What is done in each state; in the others, a transition has ended.\n"
        f"  pure val EFFECTS: str -> str = Map(\n{_joined(effects)}\n  )\n",
    )


def _module(name: str, made: str) -> str:
    """Return a file of Quint with what is made of the tables in the place that its source has for that."""
    begin, end = (QUINT / f"{name}.qnt").read_text(encoding="utf-8").split("// <rows>\n")
    return f"{QUINT_NOTES[name]}{begin}{made}{end}"


def _listed(name: str, kind: str, found: Iterable[Mapping[str, Any]]) -> str:
    return _values(name, "List", kind, [f"    {{ {_fields(row)} }}" for row in found])


def _fields(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_text(said) if isinstance(said, str) else _pairs(said)}" for name, said in row.items())


def _values(name: str, of: str, kind: str, written: Sequence[str]) -> str:
    return f"  pure val {name}: {of}[{kind}] = {of}(\n{_joined(written)}\n  )\n"


def _joined(lines: Sequence[str]) -> str:
    return ",\n".join(lines)


def _text(value: str) -> str:
    return json.dumps(value)


def _pairs(values: Sequence[Sequence[str]]) -> str:
    return f"List({', '.join(f'({_text(one)}, {_text(other)})' for one, other in values)})"


def _system(system: System) -> str:
    paths = system.paths()

    def named(groups: Iterable[int]) -> str:
        return f"Set({', '.join(_text(paths[group]) for group in system.canonical(groups))})"

    def mapped(related: Callable[[int], Iterable[int]]) -> str:
        return f"Map({', '.join(f'{_text(paths[group])} -> {named(related(group))}' for group in system.groups)})"

    groups = ", ".join(_text(paths[group]) for group in system.canonical(system.groups))
    exclusions = ", ".join(map(named, system.exclusions))
    below = mapped(lambda group: system.subtree(group) - {group})
    return (
        f"    {{ groups: List({groups}), exclusions: Set({exclusions}), above: {mapped(system.ancestors)}, "
        f"below: {below}, partners: {mapped(system.excluded)} }}"
    )


QUINT = Path(__file__).with_name("quint")
"""The modules of Quint without the rows and systems."""
QUINT_GROUPS = 3
"""How many groups their systems have at most."""
QUINT_NOTES = {
    "regions": """// Generated by `python -m verification.rows` from the rows of `toolfold.machine.table`: do not edit.
//
// Groups that open and close, in each small system. A request becomes events, which go to regions until there are none
// left; a row says where a region goes, and what it emits.
//
//     quint typecheck specs/quint/regions.qnt
//     quint run --backend typescript --invariant legal specs/quint/regions.qnt
//     quint run --backend typescript --mbt --n-traces 5 --max-steps 12 --out-itf 'trace_{seq}.itf.json' \\
//         specs/quint/regions.qnt
//
// `toolfold conform --itf FILE` replays such traces on an implementation.
""",
    "life": """// Generated by `python -m verification.rows` from the rows of `toolfold.machine.step`: do not edit.
//
// The life of a transition, from its plan to its commit, or to where its hooks are undone: of one session in memory
// (`--init alone`), or of one whose record processes share, of which one may crash, be paused, or get no answer.
//
//     quint run --backend typescript --invariant safe --max-steps 60 specs/quint/life.qnt
//     quint run --backend typescript --init noIntent --invariant balanced --max-steps 60 specs/quint/life.qnt
//
// The second one leaves something out, and finds what goes wrong. `toolfold conform --itf` does not read its traces.
""",
}


SPIN = Path(__file__).with_name("spin")


def _of_spin(name: str, made: Callable[[str, Mapping[str, Any]], str]) -> tuple[Path, Callable[[], str]]:
    path = SPIN / name
    return path, lambda: made(path.read_text(encoding="utf-8"), rows())


MADE: Mapping[Path, Callable[[], str]] = {
    ROOT / "toolfold_specs" / "machine" / "rows.json": as_json,
    ROOT / "quint" / "regions.qnt": quint_of_regions,
    ROOT / "quint" / "life.qnt": quint_of_life,
    **dict([_of_spin("activation.pml", writing.activation), _of_spin("life.pml", writing.life)]),
}
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
