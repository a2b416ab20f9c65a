"""Driving a server made for the kit, over both transports in both eras, and servers that have less of it or nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.process.specs.support import fixture_command, served_fixture
from toolfold_specs.driver import (
    CAPABILITIES,
    OF_HANDLES,
    Answer,
    DriverFault,
    Group,
    Operation,
    Setup,
    TargetFailed,
)
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.process import Command
from toolfold_specs.drivers.protocol import Era, wire_capabilities
from toolfold_specs.kit import check
from toolfold_specs.layers.exhaustive import tour
from toolfold_specs.oracle import as_setup
from toolfold_specs.report import Verdict
from toolfold_specs.runs import TestRun
from toolfold_specs.systems import distinct_systems

TARGETS = Path(__file__).with_name("targets")
HOOKS = ("on_activate", "on_deactivate")


@pytest.mark.spec("CNF-1", "CNF-7", "CNF-8", "DEL-10", "LST-2", "LST-3")
@pytest.mark.parametrize(
    ("transport", "era", "options"),
    [
        ("stdio", "legacy", ()),
        ("stdio", "modern", ()),
        ("http", "legacy", ()),
        ("http", "modern", ()),
        ("stdio", "legacy", ("--no-call-tool",)),
    ],
)
def test_the_kit_finds_nothing_wrong_with_our_server_and_says_what_it_leaves_out(
    transport: str, era: Era, options: tuple[str, ...]
) -> None:
    with served_fixture(transport, *options) as target:
        driver = FixtureDriver(Link(target, era))
        assert driver.name == f"{transport}, {era}"
        wire = wire_capabilities(era, driver.call_tool)
        assert driver.capabilities >= wire
        assert (driver.capabilities | set(driver.left_out)) - wire == {*CAPABILITIES, *OF_HANDLES}
        assert not driver.capabilities & set(driver.left_out)
        assert all(driver.left_out.values())
        assert ("paging" in driver.capabilities) is bool(options)
        driver.close()
        layers = ("vectors", "wire") if transport == "http" else ("exhaustive", "vectors", "schedules", "wire")
        report = check(lambda: FixtureDriver(Link(target, era)), layers=layers, budget=30)
    assert report.violations == ()
    assert report.exit_status == 0
    held = {row.clause.id for row in report.rows if row.verdict is Verdict.HELD}
    assert {"ACT-2", "ACT-4", "CALL-2", "CALL-3", "CTL-1", "HOOK-3", "INV-2", "LST-1", "SES-1"} <= held


@pytest.mark.spec("CNF-7")
def test_a_cancelled_operation_is_undone_before_the_kit_goes_on() -> None:
    driver = FixtureDriver(Link(fixture_command()))
    try:
        driver.configure(Setup([Group("a", hooks=HOOKS), Group("c", hooks=HOOKS)], [("a", "c")]))
        driver.activate("c")
        driver.script("a", "on_activate", "block")
        ticket = driver.start(Operation("activate", {"group": "a"}))
        assert driver.blocked() == (("on_activate", "a"),)
        driver.cancel(ticket)
        assert driver.blocked() == ()
        answer = driver.finish(ticket)
        assert (answer.error, answer.active) == ("Cancelled", ("c",))
        assert answer.hooks == (("on_deactivate", "c"), ("on_activate", "a"), ("on_activate", "c"))
    finally:
        driver.close()


@pytest.mark.spec("CNF-1", "CNF-8")
def test_a_server_with_only_the_required_tool_can_be_driven() -> None:
    driver = FixtureDriver(Link(Command([sys.executable, str(TARGETS / "minimal.py")])))
    try:
        assert driver.capabilities == {"setups", "listing", "sessions", "ending", *wire_capabilities("legacy", None)}
        assert driver.left_out["notifications"] == "the server does not advertise tools.listChanged"
        test_run = TestRun(driver)
        for system in distinct_systems(3):
            assert tour(test_run, as_setup(system), [Operation("list")])
        assert test_run.violations == ()
    finally:
        driver.close()


@pytest.mark.spec("CNF-1", "ACT-2")
def test_the_name_of_an_error_is_read_from_the_meta_of_a_refusal() -> None:
    driver = FixtureDriver(Link(Command([sys.executable, str(TARGETS / "minimal.py"), "errors"])))
    try:
        assert "errors" in driver.capabilities
        driver.configure(Setup(groups=[Group("a"), Group("a.b"), Group("a.b.c")]))
        assert driver.activate("a.b.c") == Answer(error="ParentInactive", detail={"missing": "a"})
    finally:
        driver.close()


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(("fault", "error"), [("none", DriverFault), ("crash", TargetFailed)])
def test_a_server_that_was_not_made_for_the_kit_is_reported(fault: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        FixtureDriver(Link(Command([sys.executable, str(TARGETS / "raw.py"), fault])))
