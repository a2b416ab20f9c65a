"""The checks of what only a protocol shows: a server that answers otherwise is understood."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from toolfold_specs.checks import run_checks
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Era, Link
from toolfold_specs.drivers.protocol import HANDLE
from toolfold_specs.drivers.toolfold import CoreDriver
from toolfold_specs.layers.wire import CHECKS
from toolfold_specs.report import Result, Status
from verification.mutants.server import Fixture


class Structured(Fixture):
    """Tells programs in structured content what changed, definitions and handle included."""

    def told(self, change: dict[str, Any], definitions: list[types.Tool], handle: str | None) -> types.CallToolResult:
        tools = [tool.model_dump(mode="json", by_alias=True) for tool in definitions]
        told = {**change, "tools": tools, **({HANDLE: handle} if handle else {})}
        return super().told(change, definitions, handle).model_copy(update={"structured_content": told, "meta": None})


def run(target: Any, era: Era) -> tuple[Result, ...]:
    return run_checks(CHECKS, lambda: FixtureDriver(Link(target, era)))


@pytest.mark.spec("CNF-1", "CTL-4", "DEL-2")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_that_tells_programs_in_structured_content_is_understood(era: Era) -> None:
    results = run(Structured().server(), era)
    assert [violation for result in results for violation in result.violations] == []
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert {"CTL-4", *(["DEL-2", "DEL-11"] if era == "modern" else [])} <= shown


@pytest.mark.spec("CNF-8")
def test_without_a_wire_they_are_left_out() -> None:
    assert {result.status for result in run_checks(CHECKS, CoreDriver)} == {Status.LEFT_OUT}
