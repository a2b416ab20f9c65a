"""The checks of what only a protocol shows: our own server passes them, and each finds a server that breaks it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.specs.support import environment, served_fixture
from toolfold_specs.checks import Check, run_checks
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Era, Link
from toolfold_specs.drivers.process import Command
from toolfold_specs.drivers.toolfold import CoreDriver
from toolfold_specs.layers.wire import CHECKS
from toolfold_specs.report import Result, Status

BROKEN = Path(__file__).with_name("targets") / "broken_wire.py"
STRUCTURED = BROKEN.with_name("structured.py")
MODERN = ("groups are disclosed", "handles stand", "handles can't", "a modern list", "a request can carry")
LEGACY = ("a list that changes", "a legacy connection", "calling through")


def run(target: Command | str, era: Era, checks: tuple[Check, ...] = CHECKS) -> tuple[Result, ...]:
    return run_checks(checks, lambda: FixtureDriver(Link(target, era)))


@pytest.mark.spec("NTF-4", "CTL-4", "CTL-5", "CTL-6", "CALL-1", "CALL-2", "CALL-3", "LST-3", "DEL-9")
@pytest.mark.spec("DEL-1", "DEL-2", "DEL-3", "DEL-5", "DEL-7", "DEL-8", "DEL-11", "CNF-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_our_server_passes_every_check_of_its_era(transport: str, era: Era) -> None:
    with served_fixture(transport) as target:
        results = run(target, era)
    others = MODERN if era == "legacy" else LEGACY
    status = {result.check: result.status for result in results}
    assert status.keys() == {check.name for check in CHECKS}
    for check, found in status.items():
        assert found is (Status.LEFT_OUT if check.startswith(others) else Status.PASSED), check
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert shown == {clause for check in CHECKS if not check.name.startswith(others) for clause in check.clauses}


@pytest.mark.spec("CNF-1", "CTL-4", "DEL-2")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_server_that_tells_programs_in_structured_content_is_understood(era: Era) -> None:
    results = run(Command([sys.executable, str(STRUCTURED)], environment()), era)
    assert [violation for result in results for violation in result.violations] == []
    shown = {clause for result in results if result.status is Status.PASSED for clause in result.clauses}
    assert {"CTL-4", *(["DEL-2", "DEL-11"] if era == "modern" else [])} <= shown


@pytest.mark.spec("CNF-8")
def test_without_a_wire_they_are_left_out() -> None:
    assert {result.status for result in run_checks(CHECKS, CoreDriver)} == {Status.LEFT_OUT}


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize(
    ("fault", "era"),
    [
        ("NTF-4", "legacy"),
        ("CTL-4", "legacy"),
        ("CTL-4 text", "modern"),
        ("CTL-4 schemas", "legacy"),
        ("CTL-4 schemas", "modern"),
        ("CTL-5", "legacy"),
        ("CTL-6", "modern"),
        ("CALL-1", "legacy"),
        ("CALL-2", "modern"),
        ("CALL-3", "legacy"),
        ("LST-3", "modern"),
        ("DEL-1", "legacy"),
        ("DEL-2", "modern"),
        ("DEL-3", "modern"),
        ("DEL-5", "modern"),
        ("DEL-7", "modern"),
        ("DEL-8", "legacy"),
        ("DEL-9", "legacy"),
        ("DEL-11", "modern"),
    ],
)
def test_a_fault_on_the_wire_is_found_by_its_clause_alone(fault: str, era: Era) -> None:
    clause = fault.split()[0]
    checks = tuple(check for check in CHECKS if clause in check.clauses)
    results = run(Command([sys.executable, str(BROKEN), fault], environment()), era, checks)
    assert {violation.clause for result in results for violation in result.violations} == {clause}
    assert {result.status for result in results} <= {Status.FAILED, Status.LEFT_OUT, Status.PASSED}
