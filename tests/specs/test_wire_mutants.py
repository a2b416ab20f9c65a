"""The kit catches what is wrong behind MCP by its clause, and does not take silence for a wrong answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import pytest

from toolfold_specs.drivers.protocol import Era
from toolfold_specs.kit import check
from toolfold_specs.report import Report, Status, Verdict
from verification.mutants import MUTANTS
from verification.mutants.server import Fixture
from verification.mutants.wire import MUTANTS as WIRE_MUTANTS
from verification.mutants.wire import Silent, WireMutant
from verification.verdicts import over_mcp

FEW = 60
"""Operations for each check."""

ERAS: tuple[Era, ...] = ("legacy", "modern")

pytestmark = pytest.mark.spec("CNF-5")


def violated(report: Report) -> set[str]:
    assert [result.reason for result in report.results if result.status is Status.BROKEN] == []
    return {violation.clause for violation in report.violations}


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize("era", ERAS)
def test_nothing_is_found_wrong_with_the_server_that_mutants_are_made_of(era: Era) -> None:
    layers = ("exhaustive", "vectors", "schedules", "wire")
    report = check(partial(over_mcp, Fixture, era), layers=layers, budget=FEW)
    assert violated(report) == set()
    assert report.exit_status == 0


@pytest.mark.parametrize("mutant", WIRE_MUTANTS.values(), ids=list(WIRE_MUTANTS))
def test_a_mutant_is_caught_by_the_clause_that_it_breaks_and_no_other(mutant: WireMutant) -> None:
    said = violated(check(partial(over_mcp, mutant.fixture, mutant.era), layers=("wire",), budget=FEW))
    assert mutant.clause in said <= {mutant.clause, *mutant.also}


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize(
    ("name", "era", "layer"),
    [
        ("deactivates a group but not its children", "legacy", "exhaustive"),
        ("displaces nothing", "modern", "exhaustive"),
        ("refuses unavailable tools in other words than unknown ones", "modern", "wire"),
        ("does not validate arguments", "modern", "wire"),
        ("shows the model the text of an exception", "legacy", "wire"),
    ],
)
def test_a_mutant_of_the_engine_is_caught_behind_mcp_as_in_process(name: str, era: Era, layer: str) -> None:
    mutant = MUTANTS[name]
    assert violated(check(lambda: over_mcp(lambda: Fixture(mutant.engine), era), layers=(layer,), budget=100)) == {
        mutant.clause
    }


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize("era", ERAS)
def test_nothing_is_said_of_a_server_that_shows_nothing(era: Era) -> None:
    report = check(partial(over_mcp, Silent, era), layers=("wire",), budget=FEW)
    assert {row.clause.id for row in report.rows if row.verdict is Verdict.HELD} == {"LST-3"}  # it refuses cursors
    assert violated(report) == set()


@pytest.mark.spec("CNF-8")
def test_a_server_that_stops_answering_has_failed_and_violates_nothing() -> None:
    class Hangs(Fixture):
        calls = 0

        async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> Any:
            self.calls += 1
            await anyio.sleep(0 if self.calls < 5 else 60)
            return await super().call(ctx, name, arguments)

    report = check(partial(over_mcp, Hangs, "legacy", 0.5), layers=("exhaustive",), budget=FEW)
    assert violated(report) == set()
    assert report.exit_status == 2
    (reason,) = [result.reason for result in report.results if result.status is Status.DIED]
    assert "did not answer tools/call within" in reason
