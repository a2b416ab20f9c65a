"""The kit catches what is wrong behind MCP by its clause, and does not take silence for a wrong answer."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp.shared.exceptions import MCPError

from toolfold_specs.drivers.connection import Connection
from toolfold_specs.drivers.protocol import TOOL, Era
from toolfold_specs.kit import check
from toolfold_specs.layers import all_checks
from toolfold_specs.report import Report, Status, Verdict
from verification.mutants import MUTANTS
from verification.mutants.server import CALL_TOOL, Fixture
from verification.mutants.wire import MUTANTS as WIRE_MUTANTS
from verification.mutants.wire import Silent, WireMutant
from verification.verdicts import over_mcp

FEW = 60
"""Operations for each check."""

ENOUGH = 200
"""Operations for each check that only a protocol shows."""

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


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Notices are not waited for: in process none comes after its answer, and mutants send some never."""
    for name in ("wait_for_change", "wait_for_groups"):
        monkeypatch.setattr(Connection, name, lambda *_: None)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("mutant", WIRE_MUTANTS.values(), ids=list(WIRE_MUTANTS))
def test_a_mutant_is_caught_by_the_clause_that_it_breaks_and_no_other(mutant: WireMutant) -> None:
    said = violated(check(partial(over_mcp, mutant.fixture, mutant.era), layers=("wire",), budget=ENOUGH))
    assert mutant.clause in said <= {mutant.clause, *mutant.also}


ANSWERS: Mapping[str, Mapping[str, Any]] = {"text": {"content": []}, "_meta": {"meta": None}}
HINTS: Mapping[str, Any] = {"description": None, "annotations": None}
MEMBERS = (*ANSWERS, "hints", "lists", "calls", "groups")
"""What a server can leave out of what it shows."""


def leaving_out(member: str, fixture: type[Fixture]) -> type[Fixture]:
    """Return a server that shows all that another does but one member, and that only to the kit's own tool."""

    class Blindfolded(fixture):  # type: ignore[misc, valid-type]
        async def call(self, ctx: Any, name: str, arguments: Mapping[str, Any]) -> types.CallToolResult:
            try:
                answer: types.CallToolResult = await super().call(ctx, name, arguments)
            except MCPError as error:
                raise MCPError(error.code, "" if member == "text" else error.message) from None
            if member == "calls":
                raise MCPError(types.INVALID_PARAMS, "")
            return answer.model_copy(update=ANSWERS.get(member))

        async def list_tools(self, ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
            page: types.ListToolsResult = await super().list_tools(ctx, params)
            shown = [tool for tool in page.tools if member != "lists" or tool.name in (CALL_TOOL, TOOL)]
            tools = [tool.model_copy(update=HINTS if member == "hints" else None) for tool in shown]
            return page.model_copy(update={"tools": tools})

        async def list_groups(self, ctx: Any, params: types.PaginatedRequestParams) -> dict[str, Any]:
            return {} if member == "groups" else await super().list_groups(ctx, params)

    return Blindfolded


@pytest.mark.spec("CNF-9")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("mutant", WIRE_MUTANTS.values(), ids=list(WIRE_MUTANTS))
def test_no_clause_of_a_mutant_is_held_whatever_member_is_left_out(mutant: WireMutant) -> None:
    about = [one for one in all_checks(("wire",)) if mutant.clause in one.clauses]
    held = []
    for member in MEMBERS:
        served = leaving_out(member, mutant.fixture)
        report = check(partial(over_mcp, served, mutant.era), checks=about, budget=ENOUGH)
        assert [result.reason for result in report.results if result.status is Status.BROKEN] == []
        held += [member for row in report.rows if row.clause.id == mutant.clause and row.verdict is Verdict.HELD]
    assert held == []


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
    report = check(partial(over_mcp, Silent, era), layers=("wire",), budget=ENOUGH)
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
