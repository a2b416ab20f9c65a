"""The kit catches every mutant by the clause that it breaks, and the engine passes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import verification.mutants
from toolfold_specs.clauses import load_clauses
from toolfold_specs.driver import CAPABILITIES
from toolfold_specs.kit import check
from toolfold_specs.layers import all_checks
from toolfold_specs.report import Status, Verdict
from verification.blindfold import unobserved
from verification.mutants import MUTANTS, Mutant, hooks, names, offers, registration, sessions, transitions
from verification.mutants.driver import EngineDriver
from verification.mutants.wire import MUTANTS as WIRE_MUTANTS
from verification.mutants.wire import WireMutant
from verification.source_mutants import ROOT, source_mutants
from verification.verdicts import INDIRECT

ALL: list[Mutant | WireMutant] = [*MUTANTS.values(), *WIRE_MUTANTS.values()]

pytestmark = pytest.mark.spec("CNF-5", "CNF-9")


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=list(MUTANTS))
def test_a_mutant_is_caught_by_the_clause_that_it_breaks_and_no_other(mutant: Mutant) -> None:
    report = check(mutant.driver, layers=(mutant.layer,), budget=mutant.budget)
    assert [result.reason for result in report.results if result.status is Status.BROKEN] == []
    assert mutant.clause in {violation.clause for violation in report.violations} <= {mutant.clause, *mutant.also}
    unseen = unobserved(mutant, report)
    assert unseen.verdict is not Verdict.HELD, "without the members that betray it"


@pytest.mark.spec("CNF-7")
def test_the_engine_of_the_mutants_passes() -> None:
    report = check(EngineDriver, layers=("exhaustive", "vectors"), budget=3000)
    assert report.violations == ()
    assert report.exit_status == 0
    assert not set(report.left_out) & set(CAPABILITIES)


def test_every_checked_clause_has_a_mutant() -> None:
    checked = {clause for found in all_checks() for clause in found.clauses}
    broken = {mutant.clause for mutant in ALL}
    assert checked - broken == set(INDIRECT)


def test_the_clauses_of_mutants_exist() -> None:
    known = {clause.id for clause in load_clauses()}
    for mutant in ALL:
        assert {mutant.clause, *mutant.also} <= known
        assert mutant.clause not in mutant.also


def test_the_names_of_mutants_are_unique() -> None:
    modules = (hooks, names, offers, registration, sessions, transitions)
    assert len(MUTANTS) == sum(len(module.MUTANTS) for module in modules)


def test_each_mutant_of_the_source_applies_to_it_once_and_breaks_clauses_that_exist() -> None:
    known = {clause.id for clause in load_clauses()}
    for mutant in source_mutants():
        mutant.applied(ROOT)
        assert mutant.clauses
        assert mutant.clauses <= known
    assert sum(mutant.held_out for mutant in source_mutants()) == 40


def test_mutants_import_neither_the_library_nor_the_oracle() -> None:
    folder = Path(next(iter(verification.mutants.__path__)))
    imported: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(str(node.module))
    ours = {name for name in imported if name.startswith(("toolfold", "verification"))}
    assert ours == {"toolfold_specs.driver", "toolfold_specs.drivers.protocol"}
