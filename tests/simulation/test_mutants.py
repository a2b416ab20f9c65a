"""The mutants that the worlds have to find can be made of the source as it is now."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from tests.simulation.mutants import DidNotRun, Mutant, mutants, verdict

pytestmark = pytest.mark.spec("STO-9")


def test_each_mutant_applies() -> None:
    names = {mutant.does for mutant in mutants()}
    assert len(names) == len(mutants())
    assert len(names) >= 55
    for mutant in mutants():
        compile(mutant.applied(), mutant.file, "exec")


@pytest.mark.parametrize(
    ("status", "output", "errors", "found"),
    [
        (1, "seed 4: a call was carried out twice\n", "", "seed 4: a call was carried out twice"),
        (0, "", "", ""),
        (-24, "", "", ""),  # the time of the processor was over
        (1, "", "Traceback:\nImportError: no name\n", "status 1: ImportError: no name"),
        (2, "", "usage: tests.simulation\n", "status 2: usage: tests.simulation"),
        (-11, "", "", "status -11: no output"),
        (5, "seed 4: a call was carried out twice\n", "", "status 5: seed 4: a call was carried out twice"),
    ],
)
def test_only_a_wrong_world_is_a_find_and_what_did_not_run_is_an_error(
    status: int, output: str, errors: str, found: str
) -> None:
    mutant = Mutant("forgets", "core/x.py", "a", "b")
    if found.startswith("status"):
        with pytest.raises(DidNotRun) as raised:
            verdict(mutant, status, output, errors)
        assert str(raised.value) == f"forgets: its worlds did not run, {found}"
    else:
        assert verdict(mutant, status, output, errors) == found


def test_worlds_that_wait_for_ever_are_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(command: list[str], *, timeout: float, **options: Any) -> None:
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", wait)
    assert mutants()[0].found() == "it hangs: no end after 1800 s"
