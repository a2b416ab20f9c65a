"""The mutants that the worlds have to find can be made of the source as it is now."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import mutants

pytestmark = pytest.mark.spec("STO-9")


def test_each_mutant_applies() -> None:
    assert len({mutant.does for mutant in mutants()}) == len(mutants()) >= 60
    for mutant in mutants():
        compile(mutant.applied(), mutant.file, "exec")
