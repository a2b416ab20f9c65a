"""The kit finds every broken engine, by the clause that it breaks, and finds nothing wrong with the unbroken one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import toolfold_specs.broken
from toolfold_specs.broken.driver import EngineDriver
from toolfold_specs.broken.variants import VARIANTS, Variant
from toolfold_specs.checks import LAYERS
from toolfold_specs.clauses import load_clauses
from toolfold_specs.driver import CAPABILITIES
from toolfold_specs.kit import check
from toolfold_specs.layers import all_checks
from toolfold_specs.report import Result, Status

SEQUENTIAL = ("exhaustive", "vectors")
"""The layers that have to be silent where a later one is to find a fault."""

BRIEFLY = 200
"""Operations for each check of a layer that is to be silent."""

IN_PROCESS = tuple(layer for layer in LAYERS if layer != "wire")


FOUND_AS = {"VIS-1": "VIS-2"}
"""Clauses that a check is evidence for, though what breaks them is always found as another: the rule that holds."""

pytestmark = pytest.mark.spec("CNF-5")


def earlier(variant: Variant) -> tuple[str, ...]:
    return tuple(layer for layer in SEQUENTIAL if LAYERS.index(layer) < LAYERS.index(variant.layer))


def results(variant: Variant, layers: tuple[str, ...], budget: int | None) -> tuple[Result, ...]:
    found = check(variant.driver, layers=layers, budget=budget).results
    assert [result for result in found if result.status is Status.BROKEN] == []
    return found


def blamed(found: tuple[Result, ...]) -> set[str]:
    return {violation.clause for result in found for violation in result.violations}


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
def test_a_broken_engine_is_found_by_the_clause_that_it_breaks_and_no_other(variant: Variant) -> None:
    if layers := earlier(variant):
        assert blamed(results(variant, layers, BRIEFLY)) == set()
    said = blamed(results(variant, (variant.layer,), variant.budget))
    assert said & set(variant.clauses)
    assert said <= {*variant.clauses, *variant.also}


@pytest.mark.spec("CNF-7")
def test_nothing_is_found_wrong_with_the_unbroken_engine() -> None:
    report = check(EngineDriver, layers=IN_PROCESS, budget=3000)
    assert report.violations == ()
    assert report.exit_status == 0
    assert not set(report.left_out) & set(CAPABILITIES)


def test_for_each_clause_that_the_kit_looks_at_in_process_there_is_an_engine_that_breaks_it() -> None:
    looked_at = {clause for found in all_checks(IN_PROCESS) for clause in found.clauses}
    broken = {clause for variant in VARIANTS for clause in variant.clauses}
    assert looked_at - broken == set(FOUND_AS)
    assert broken >= set(FOUND_AS.values())


def test_broken_engines_have_names_and_sentences_of_their_own_and_break_clauses_that_exist() -> None:
    known = {clause.id for clause in load_clauses()}
    assert len({variant.name for variant in VARIANTS}) == len({variant.wrong for variant in VARIANTS}) == len(VARIANTS)
    for variant in VARIANTS:
        assert variant.clauses
        assert {*variant.clauses, *variant.also} <= known
        assert not set(variant.clauses) & set(variant.also)
        assert variant.layer in LAYERS


def test_the_engines_know_neither_the_library_nor_what_the_kit_judges_by() -> None:
    folder = Path(next(iter(toolfold_specs.broken.__path__)))
    imported: set[str] = set()
    for file in folder.rglob("*.py"):
        above = len(file.relative_to(folder).parts)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level in (0, above + 1):
                imported.add(f"{'kit.' if node.level else ''}{node.module}")
    assert {name for name in imported if name.startswith("kit.")} == {"kit.driver"}
    assert not {name for name in imported if name.partition(".")[0] in ("toolfold", "toolfold_adapters")}
