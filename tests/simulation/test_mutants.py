"""The mutants that the worlds have to find can be made of the source as it is now."""

from __future__ import annotations

import pytest

from tests.simulation.mutants import mutants, survivors

pytestmark = pytest.mark.spec("STO-9")


def test_each_mutant_applies() -> None:
    names = {mutant.does for mutant in mutants()}
    assert len(names) == len(mutants())
    assert len(names.difference(survivors())) >= 55
    assert names.issuperset(survivors())
    for mutant in mutants():
        compile(mutant.applied(), mutant.file, "exec")
