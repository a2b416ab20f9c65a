"""A mismatch is attributed to the right clause, and equivalent answers are equal."""

from __future__ import annotations

import json

import pytest
from attrs import evolve

from toolfold_specs.checks import Check, Options, run_checks
from toolfold_specs.clauses import find_clause
from toolfold_specs.driver import CAPABILITIES, Answer, Operation, Setup, Tool
from toolfold_specs.drivers.description import parse
from toolfold_specs.drivers.sessions import canonical
from toolfold_specs.layers import vectors
from toolfold_specs.layers.vectors import CHECKS, load_vectors
from toolfold_specs.report import Status
from toolfold_specs.runs import TestRun
from verification.mutants import MUTANTS
from verification.mutants.driver import EngineDriver

pytestmark = pytest.mark.spec("CNF-3", "CNF-8")

CALL = Operation("call", {"tool": "root", "arguments": {}})
ROOT = Setup(tools=[Tool("root")])


@pytest.mark.parametrize(("text", "right"), [('{"arguments":{},\n"tool":"root"}', True), ('{"tool": "leaf"}', False)])
def test_json_is_compared_as_json(text: str, right: bool) -> None:
    class Writes(EngineDriver):
        def finish(self, ticket: int) -> Answer:
            return evolve(super().finish(ticket), text=text)

    assert json.loads(text)
    assert TestRun(Writes()).play(ROOT, [CALL]) is right


def test_concurrent_transitions_rest_on_single_ones() -> None:
    make = MUTANTS["displaces nothing"].driver
    results = run_checks((*vectors.CHECKS, *_schedules()), make, Options(budget=300))
    found = {violation.clause for result in results for violation in result.violations}
    assert "INV-2" in found
    assert "SES-2" not in found
    assert {"ACT-4", "ACT-5", "INV-2"} <= find_clause("SES-2").rests_on


def _schedules() -> tuple[Check, ...]:
    from toolfold_specs.layers import schedules

    return tuple(check for check in schedules.CHECKS if "SES-2" in check.clauses)


@pytest.mark.parametrize(
    "capability", ["facts", "failing rules", "hidden tools", "relevant controls", "limits", "recency", "paging"]
)
def test_a_vector_needs_what_its_system_uses(capability: str) -> None:
    class Without(EngineDriver):
        capabilities = frozenset(CAPABILITIES) - {capability}

        def configure(self, setup: Setup) -> Answer:
            used = {
                "facts": any(tool.when.startswith("fact") for tool in setup.tools),
                "failing rules": any(tool.when == "raises" for tool in setup.tools),
                "hidden tools": any(tool.hidden for tool in setup.tools),
                "relevant controls": setup.relevant_controls,
                "limits": setup.max_active is not None and not setup.evict_idlest,
                "recency": setup.evict_idlest,
                "paging": setup.page_size is not None,
            }
            assert not used[capability]
            return super().configure(setup)

    results = run_checks(CHECKS, Without)
    assert {result.status for result in results} == {Status.PASSED, Status.LEFT_OUT}
    assert len([result for result in results if result.status is Status.PASSED]) < len(load_vectors())


def test_names_in_data_are_normalised_like_those_in_messages() -> None:
    assert canonical(["files__edit", "files"], ["files", "files.edit"]) == ("files", "files.edit")
    assert canonical(["a__b"], ["a__b"]) == ("a__b",)


def test_a_report_has_the_names_of_the_description() -> None:
    group = {"path": "files", "tools": ["read_file", "files__write"], "activate": {"tool": "open"}}
    described = parse({"group": [group]})
    assert [tool.full_name for tool in described.setup.tools] == ["read_file", "files.write"]
    assert described.labels == {"read_file": "read_file", "files__write": "files.write"}
