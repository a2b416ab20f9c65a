"""For each clause that is checked one implementation breaks it alone, one holds it, and one leaves it open."""

from __future__ import annotations

import pytest

from toolfold_specs.kit import check
from toolfold_specs.report import Verdict
from verification import verdicts
from verification.mutants import Mutant
from verification.mutants.wire import WireMutant
from verification.verdicts import TABLE, EmptyDriver, prove, render, violated

pytestmark = pytest.mark.spec("CNF-5", "CNF-8")


def declared_or_violated(mutant: Mutant | WireMutant) -> frozenset[str]:
    """The clauses that a mutant violates; it is run only if it may violate others than its own.

    That each violates its clause is shown where every mutant is run: in `test_mutants` and `test_wire_mutants`.
    """
    return violated(mutant) if mutant.also else frozenset({mutant.clause})


def test_the_table_of_three_implementations_for_each_clause_is_right_and_fresh() -> None:
    proofs = prove(declared_or_violated)
    assert [problem for proof in proofs for problem in proof.problems] == []
    assert TABLE.read_text(encoding="utf-8") == render(proofs), f"run {verdicts.COMMAND}"


def test_of_answers_that_say_nothing_no_history_says_anything() -> None:
    report = check(EmptyDriver, layers=["histories"])
    assert {row.verdict for row in report.rows} == {Verdict.UNDECIDED, Verdict.NOT_APPLICABLE}
