"""Levels of conformance: the scope of the verdict, and how violations beyond it are reported."""

from __future__ import annotations

import pytest
from attrs import evolve

from tests.specs.made import report, result
from tests.specs.test_evidence import silent_about
from toolfold_specs.clauses import PROFILES, Clause, aimed_at, load_clauses
from toolfold_specs.kit import check
from toolfold_specs.layers import all_checks
from toolfold_specs.render import jsonl
from toolfold_specs.render.text import text
from toolfold_specs.report import Report, Status, Verdict, Violation
from verification.mutants import MUTANTS

pytestmark = pytest.mark.spec("CNF-3")


def run(mutant: str, *profiles: str) -> Report:
    return check(MUTANTS[mutant].driver, layers=["exhaustive", "vectors"], budget=700, profiles=profiles)


def test_exactly_the_checked_clauses_have_a_level() -> None:
    checked = {clause for found in all_checks() for clause in found.clauses}
    assert {clause.id for clause in load_clauses() if clause.profile} == checked
    assert {clause.profile for clause in load_clauses()} == {"", *PROFILES} - {"mcp"}
    assert {clause.id for clause in load_clauses() if clause.mcp} <= checked


@pytest.mark.parametrize(
    ("mutant", "clause", "profile"),
    [
        ("names the nearest inactive ancestor", "ACT-2", "state"),
        ("compensates no hooks", "HOOK-5", "hooks"),
        ("lists in a session that has ended", "SES-3", "sessions"),
        ("never notifies of transitions", "NTF-1", "delivery"),
        ("lists in the order of registration", "LST-1", "style"),
    ],
)
def test_the_verdict_is_about_the_levels_that_are_aimed_at(mutant: str, clause: str, profile: str) -> None:
    found = run(mutant, profile)
    assert {violation.clause for violation in found.violations} == {clause}
    assert [aim for aim in PROFILES if evolve(found, profiles=(aim,)).exit_status] == [profile]


def test_the_default_verdict_is_about_the_state() -> None:
    assert check(MUTANTS["compensates no hooks"].driver, layers=["vectors"]).exit_status == 0
    assert check(MUTANTS["never evicts"].driver, layers=["vectors"]).exit_status == 1


def test_a_may_that_is_claimed_counts() -> None:
    found = run("ignores the limit", "state")
    assert [(row.clause.id, row.level) for row in found.rows if row.fails] == [("ACT-10", "MAY")]
    assert found.exit_status == 1


def test_all_levels_are_those_other_than_advice() -> None:
    assert aimed_at(["all"]) == ("state", "hooks", "sessions", "delivery", "mcp")
    assert aimed_at(["style", "state"]) == ("state", "style")
    with pytest.raises(ValueError, match="no profile 'stat'; there are state, hooks"):
        aimed_at(["stat"])


@pytest.mark.spec("CNF-8")
def test_a_driver_whose_answers_lack_members_does_not_conform() -> None:
    found = check(silent_about("active", "changed"), layers=["exhaustive"], budget=700)
    assert found.violations == ()
    assert found.exit_status == 2
    assert "It could not be checked to the end" in text(found)
    assert check(silent_about("hooks"), layers=["vectors"]).exit_status == 0
    assert check(silent_about("hooks"), layers=["vectors"], profiles=["hooks"]).exit_status == 2


def test_a_violation_of_style_is_reported_as_advice() -> None:
    output = text(run("lists in the order of registration", "state"))
    assert "ADVICE  LST-1 (MUST)" in output
    assert "style (advice): " in output
    assert "It conforms (state): " in output
    assert "VIOLATED  LST-1 (MUST)" in text(run("lists in the order of registration", "style"))


def test_delivery_has_a_verdict_for_each_era() -> None:
    clause = Clause(id="DEL-9", section="18", level="MUST", text="Unknown tools are refused.", profile="delivery")
    wrong = Violation("DEL-9", "x", "http, modern", "another code")
    settings = (
        result("x", ["DEL-9"], setting="stdio, legacy"),
        result("x", ["DEL-9"], Status.FAILED, setting="http, modern", violations=(wrong,)),
    )
    output = text(Report(report().header, settings, (clause,)))
    assert "delivery, legacy (not aimed at): 1 held" in output
    assert "delivery, modern (not aimed at): 1 violated" in output


def test_a_masked_failure_is_reported() -> None:
    found = run("deactivates a group but not its children", "state")
    rows = {row.clause.id: row for row in found.rows}
    assert rows["INV-1"].verdict is Verdict.VIOLATED
    assert rows["ACT-5"].verdict is Verdict.UNDECIDED
    assert "UNDECIDED  ACT-5 (MUST)" in text(found)
    assert '"hidden": [{"clause": "ACT-5"' in jsonl(found)


def test_inapplicable_clauses_are_summarised_in_one_line() -> None:
    output = text(run("displaces nothing", "state"))
    assert len([line for line in output.splitlines() if line.startswith("Not applicable")]) == 1
