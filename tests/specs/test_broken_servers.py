"""The kit finds what is broken behind MCP, by its clause, and does not take silence for a wrong answer."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Literal

import pytest

from tests.specs.support import environment
from toolfold_specs.broken.variants import BY_NAME
from toolfold_specs.broken.wires import WIRE_FAULTS, WIRES_BY_NAME
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.process import Command
from toolfold_specs.kit import check
from toolfold_specs.report import Report, Status

SERVER = ("-m", "toolfold_specs.broken.server")
FEW = 60
"""Operations for each check."""

TALKATIVE = {name: fault for name, fault in WIRES_BY_NAME.items() if fault.clauses}
LAST_WORDS = {
    "crashes": "ended with status 70",
    "hangs": "did not answer tools/call within",
    "chatters": "wrote to its stdout what is no message",
}

Era = Literal["legacy", "modern"]

pytestmark = pytest.mark.spec("CNF-5")


def driver(name: str, era: Era, timeout: float = 10) -> Callable[[], FixtureDriver]:
    command = Command([sys.executable, *SERVER, *([name] if name else [])], environment())
    return lambda: FixtureDriver(Link(command, era, timeout))


def blamed(report: Report) -> set[str]:
    assert [result.reason for result in report.results if result.status is Status.BROKEN] == []
    return {violation.clause for violation in report.violations}


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_nothing_is_found_wrong_with_the_unbroken_engine_behind_mcp(era: Era) -> None:
    report = check(driver("", era), layers=("exhaustive", "wire"), budget=FEW)
    assert blamed(report) == set()
    assert report.exit_status == 0


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize(("name", "era"), [("partner-only", "legacy"), ("no-exclusion", "modern")])
def test_a_broken_engine_is_found_behind_mcp_as_in_process(name: str, era: Era) -> None:
    report = check(driver(name, era), layers=("exhaustive",), budget=700)
    assert blamed(report) == set(BY_NAME[name].clauses)


@pytest.mark.parametrize("name", TALKATIVE)
def test_a_server_that_speaks_wrongly_is_found_by_the_clause_that_it_breaks_and_no_other(name: str) -> None:
    fault = TALKATIVE[name]
    said = blamed(check(driver(name, fault.era), layers=("wire",), budget=FEW))
    assert said & set(fault.clauses)
    assert said <= {*fault.clauses, *fault.also}


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize("name", sorted(LAST_WORDS))
def test_a_server_that_talks_no_more_is_said_to_have_failed_and_blamed_for_nothing(name: str) -> None:
    report = check(driver(name, "legacy", timeout=2), layers=("exhaustive",), budget=FEW)
    assert blamed(report) == set()
    assert report.exit_status == 1
    (reason,) = [result.reason for result in report.results if result.status is Status.DIED]
    assert LAST_WORDS[name] in reason


def test_every_wire_fault_breaks_a_clause_or_ends_all_talk() -> None:
    assert {name for name, fault in WIRES_BY_NAME.items() if not fault.clauses} == set(LAST_WORDS)
    assert len(WIRES_BY_NAME) == len(WIRE_FAULTS)
    assert not set(WIRES_BY_NAME) & set(BY_NAME)


def test_an_unknown_name_is_answered_with_all_names() -> None:
    ran = subprocess.run([sys.executable, *SERVER, "nonsense"], env=environment(), capture_output=True, text=True)
    assert ran.returncode == 1
    assert {"partner-only,", "crashes,"} <= set(ran.stderr.split())
