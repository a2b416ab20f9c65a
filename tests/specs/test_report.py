"""From results to verdicts on clauses and the exit status."""

from __future__ import annotations

import pytest

from tests.specs.made import LONGER, WEAK, WRONG, failing, report, result
from toolfold_specs.report import NOT_SEEN, Expectation, Report, Status, Verdict

pytestmark = pytest.mark.spec("CNF-3")


def verdicts(made: Report) -> dict[str, Verdict]:
    return {row.clause.id: row.verdict for row in made.rows}


def test_a_violation_in_one_setting_violates_the_clause() -> None:
    made = report(
        result("pairs", ["ACT-4"], setting="in process"),
        result("pairs", ["ACT-4"], Status.FAILED, violations=(WRONG,)),
    )
    assert verdicts(made)["ACT-4"] is Verdict.VIOLATED
    assert [row.verdict for row in made.rows_in("in process") if row.clause.id == "ACT-4"] == [Verdict.HELD]
    assert made.settings == ("in process", "stdio, legacy")
    assert made.exit_status == 1


def test_a_clause_that_a_check_tested_holds_although_another_is_violated() -> None:
    made = failing()
    assert verdicts(made)["ACT-1"] is Verdict.HELD
    assert made.rows[0].checks == ("pairs",)


def test_a_violation_counts_although_its_check_does_not_name_the_clause() -> None:
    made = report(result("limit", ["ACT-10"], Status.FAILED, violations=(WRONG,)))
    assert verdicts(made)["ACT-4"] is Verdict.VIOLATED


def test_inapplicable_clauses_have_the_reason() -> None:
    reasons = {row.clause.id: row.reason for row in failing().rows if row.verdict is Verdict.NOT_APPLICABLE}
    assert reasons == {"PER-1": "no persistence", "NAM-3": NOT_SEEN}


def test_a_violated_should_does_not_fail_the_run() -> None:
    made = report(result("limit", ["ACT-10"], Status.FAILED, violations=(WEAK,)))
    assert verdicts(made)["ACT-10"] is Verdict.VIOLATED
    assert made.exit_status == 0


def test_a_must_that_holds_or_does_not_apply_does_not_fail_the_run() -> None:
    assert report(result("x", ["ACT-1"])).exit_status == 0


@pytest.mark.spec("CNF-8")
def test_a_target_that_fails_leaves_its_clauses_undecided() -> None:
    made = report(result("x", ["ACT-1"]), result("y", ["ACT-1", "PER-1"], Status.DIED, reason="It hung."))
    assert verdicts(made)["ACT-1"] is Verdict.UNDECIDED
    assert verdicts(made)["PER-1"] is Verdict.UNDECIDED
    assert made.exit_status == 2


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    "results",
    [
        (result("x", ["ACT-4"], Status.FAILED, violations=(WRONG,)), result("y", [], Status.BROKEN)),
        (result("x", ["ACT-4"], Status.LEFT_OUT, cases=0),),
        (result("x", ["ACT-4"], Status.DIED, cases=0),),
        (),
    ],
    ids=["the kit failed", "all left out", "never started", "no checks"],
)
def test_a_run_without_a_verdict_has_status_2(results: tuple[object, ...]) -> None:
    assert report(*results).exit_status == 2  # type: ignore[arg-type]


@pytest.mark.spec("CNF-4")
def test_an_expected_violation_does_not_fail_the_run_and_says_why() -> None:
    made = failing(expected=[Expectation("ACT-4", "issue 12")])
    assert verdicts(made)["ACT-4"] is Verdict.EXPECTED
    assert made.rows[1].reason == "issue 12"
    assert (made.exit_status, made.stale) == (0, ())


@pytest.mark.spec("CNF-4")
@pytest.mark.parametrize("narrow", [{"check": "pairs"}, {"setting": "stdio, legacy"}], ids=str)
def test_an_expectation_of_one_check_or_setting_does_not_apply_to_others(narrow: dict[str, str]) -> None:
    made = failing(expected=[Expectation("ACT-4", "issue 12", **narrow)])
    assert verdicts(made)["ACT-4"] is Verdict.VIOLATED
    assert made.expects(WRONG)
    assert not made.expects(LONGER)
    both = [Expectation("ACT-4", "issue 12", **narrow), Expectation("ACT-4", "issue 13", "pairs at random")]
    assert failing(expected=both).rows[1].reason == "issue 12; issue 13"
    assert failing(expected=both).exit_status == 0


@pytest.mark.spec("CNF-4")
def test_an_expected_clause_that_a_deterministic_check_finds_to_hold_fails_the_run() -> None:
    stale = Expectation("ACT-1", "issue 3")
    made = report(result("x", ["ACT-1"]), expected=[stale])
    assert verdicts(made)["ACT-1"] is Verdict.FIXED
    assert (made.exit_status, made.stale) == (1, (stale,))


@pytest.mark.spec("CNF-4")
@pytest.mark.parametrize(
    "made",
    [
        report(result("x", ["ACT-1"], layer="stateful"), expected=[Expectation("ACT-1", "r")]),
        report(result("x", ["ACT-1"], layer="histories"), expected=[Expectation("ACT-1", "r")]),
        report(result("x", ["ACT-1"]), expected=[Expectation("ACT-1", "r", check="y")]),
        report(result("x", ["ACT-1"]), expected=[Expectation("ACT-1", "r", setting="http, modern")]),
        report(result("x", ["ACT-1"]), expected=[Expectation("PER-1", "r")]),
    ],
    ids=["random", "random and concurrent", "another check", "another setting", "another clause"],
)
def test_an_expectation_is_not_stale_without_a_deterministic_result(made: Report) -> None:
    assert made.stale == ()
    assert verdicts(made)["ACT-1"] is Verdict.HELD
    assert made.exit_status == 0


@pytest.mark.spec("CNF-4")
def test_an_expectation_is_not_stale_if_a_check_of_it_did_not_complete() -> None:
    made = report(
        result("x", ["ACT-1"]), result("y", ["ACT-1"], Status.DIED), expected=[Expectation("ACT-1", "issue 3")]
    )
    assert made.stale == ()
