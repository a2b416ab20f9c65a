"""SPEC KIT-8: what an option can't be is an error for a type checker: mypy and pyright find the planted mistakes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("program.py").read_text(encoding="utf-8")
IGNORED = re.compile(r"  # type: ignore\[[\w-]+\]$", re.MULTILINE)


def found_by_mypy(program: Path) -> set[int]:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", str(program)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert not done.stderr
    errors = re.findall(r"^(.+?):(\d+): error:", done.stdout, re.MULTILINE)
    # For a program in its cache, mypy reports the path that the program had then.
    assert {Path(file).name for file, _ in errors} == {program.name}, done.stdout
    return {int(line) for _, line in errors}


def found_by_pyright(program: Path) -> set[int]:
    settings = {"include": [program.name], "extraPaths": [str(ROOT / folder) for folder in ("core", "adapters")]}
    program.with_name("pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(command, cwd=program.parent, capture_output=True, text=True, timeout=300)
    diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    return {one["range"]["start"]["line"] + 1 for one in diagnostics if one["severity"] == "error"}


@pytest.mark.spec("KIT-8")
@pytest.mark.parametrize("found_by", [found_by_mypy, found_by_pyright])
def test_every_planted_mistake_is_found_and_nothing_else(found_by: Callable[[Path], set[int]], tmp_path: Path) -> None:
    planted = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if IGNORED.search(line)}
    program = tmp_path / "program.py"
    program.write_text(IGNORED.sub("", PROGRAM), encoding="utf-8")
    assert found_by(program) == planted
