"""A mutant is killed by a test that fails; how its worker ended otherwise is said, and is no kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.mutation.kills import KILLED, UNCOLLECTED, read_kills, write_kill
from tests.mutation.run import FOUND_OUT, Room, verdicts

ONE = "toolfold.machine.step.x_one__mutmut_1"


def verdict(folder: Path, status: int, *, killed: str = "", uncollected: str = "") -> str:
    """The verdict on a mutant whose worker ended with a status, with what was noted of it."""
    place = folder / "mutants" / "toolfold" / "machine"
    place.mkdir(parents=True)
    (place / "step.py.meta").write_text(json.dumps({"exit_code_by_key": {ONE: status}}), encoding="utf-8")
    for notes, file in ((KILLED, killed), (UNCOLLECTED, uncollected)):
        (folder / "mutants" / notes).write_text(f"{ONE} {file}\n" if file else "", encoding="utf-8")
    return verdicts(folder, Room(("machine.step",), ()))[ONE]


@pytest.mark.parametrize(
    ("status", "expected"), [(0, "survived"), (1, "killed"), (33, "no tests"), (-24, "out of time")]
)
def test_a_failed_test_is_a_kill(tmp_path: Path, status: int, expected: str) -> None:
    assert verdict(tmp_path, status) == expected


@pytest.mark.parametrize("status", [2, 3, 4, 5, 255, -11])
def test_no_other_exit_status_is(tmp_path: Path, status: int) -> None:
    assert verdict(tmp_path, status) == f"error, status {status}"
    assert verdict(tmp_path / "more", status) not in FOUND_OUT


@pytest.mark.parametrize("status", [2, 255])
def test_unless_the_mutant_keeps_a_test_file_from_being_imported(tmp_path: Path, status: int) -> None:
    assert verdict(tmp_path, status, uncollected="tests/core/test_step.py") == "not imported"


@pytest.mark.parametrize("status", [-24, 255])
def test_or_a_test_has_failed_before(tmp_path: Path, status: int) -> None:
    assert verdict(tmp_path, status, killed="tests/core/test_step.py") == "killed"


def test_what_could_not_be_imported_is_noted_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MUTANT_UNDER_TEST", ONE)
    write_kill("tests/core/test_step.py", UNCOLLECTED)
    assert (read_kills(KILLED), read_kills(UNCOLLECTED)) == ({}, {ONE: ["tests/core/test_step.py"]})
