"""The checks of what only a protocol shows: a server that answers otherwise is understood."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from toolfold_specs.checks import run_checks
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.protocol import HANDLE, Era
from toolfold_specs.layers import schedules
from toolfold_specs.layers.wire import CHECKS
from toolfold_specs.report import Result, Status
from verification.library import server as fixture_server
from verification.library.driver import CoreDriver
from verification.mutants.server import Fixture


class Structured(Fixture):
    """Reports changes in structured content, definitions and handle included."""

    def changed(
        self, change: dict[str, Any], definitions: list[types.Tool], handle: str | None
    ) -> types.CallToolResult:
        tools = [tool.model_dump(mode="json", by_alias=True) for tool in definitions]
        content = {**change, "tools": tools, **({HANDLE: handle} if handle else {})}
        result = super().changed(change, definitions, handle)
        return result.model_copy(update={"structured_content": content, "meta": None})


MODERN = ("groups are disclosed", "handles ", "a modern list", "a request can carry")
LEGACY = ("a list that changes", "a fact whose request", "a legacy connection", "calling through")

TAGS = ("a tag is", "a client's tag", "opening a group makes a tag")
"""Checks of servers that tag their lists, which is off unless asked for."""


def run(target: Any, era: Era) -> tuple[Result, ...]:
    return run_checks(CHECKS, lambda: FixtureDriver(Link(target, era)))


def assert_every_check_passes(results: tuple[Result, ...], era: Era) -> None:
    """Fail unless every check that applies in an era has passed, and shown every one of its clauses."""
    others = (*TAGS, *(MODERN if era == "legacy" else LEGACY))
    status = {result.check: result.status for result in results}
    assert status.keys() == {check.name for check in CHECKS}
    for check, found in status.items():
        assert found is (Status.LEFT_OUT if check.startswith(others) else Status.PASSED), check
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert shown == {clause for check in CHECKS if not check.name.startswith(others) for clause in check.clauses}


@pytest.mark.spec("NTF-4", "CTL-4", "CTL-5", "CTL-6", "CALL-1", "CALL-2", "CALL-3", "LST-3", "DEL-9")
@pytest.mark.spec("DEL-1", "DEL-2", "DEL-3", "DEL-5", "DEL-7", "DEL-8", "DEL-11", "CNF-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_our_server_passes_every_check_of_its_era(era: Era) -> None:
    assert_every_check_passes(run(fixture_server.Fixture(call_tool=True).server, era), era)


@pytest.mark.spec("CNF-1", "CTL-4", "DEL-2")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_that_reports_changes_in_structured_content_is_understood(era: Era) -> None:
    results = run(Structured().server(), era)
    assert [violation for result in results for violation in result.violations] == []
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert {"CTL-4", *(["DEL-2", "DEL-11"] if era == "modern" else [])} <= shown


@pytest.mark.spec("CNF-8", "HOOK-6")
def test_a_rollback_that_is_blocked_after_a_cancellation_is_judged_to_its_end() -> None:
    checks = [check for check in schedules.CHECKS if "HOOK-6" in check.clauses]
    server = fixture_server.Fixture(call_tool=True).server
    results = run_checks(checks, lambda: FixtureDriver(Link(server, "legacy")))
    assert {(result.status, result.clauses) for result in results} == {(Status.PASSED, ("HOOK-6",))}


@pytest.mark.spec("CNF-8")
def test_without_a_wire_they_are_left_out() -> None:
    assert {result.status for result in run_checks(CHECKS, CoreDriver)} == {Status.LEFT_OUT}
