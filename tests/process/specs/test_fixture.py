"""Driving a server made for the kit: every verb, over both transports, in both eras, judged by the oracle."""

from __future__ import annotations

import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

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
    Tool,
)
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.process import Command
from toolfold_specs.drivers.protocol import wire_capabilities
from toolfold_specs.layers.exhaustive import tour
from toolfold_specs.oracle import as_setup
from toolfold_specs.runs import TestRun
from toolfold_specs.systems import distinct_systems

TARGETS = Path(__file__).with_name("targets")
HOOKS = ("on_activate", "on_deactivate")
FOREST = Setup(
    groups=[Group("a", "First", HOOKS), Group("a.b", hooks=HOOKS), Group("c", hooks=HOOKS), Group("d")],
    exclusions=[("a", "c")],
    tools=[Tool("root"), Tool("tool", "a"), Tool("tool", "a.b"), Tool("tool", "c"), Tool("tool", "d")],
)
SETTINGS = ["stdio, legacy", "stdio, modern", "http, legacy", "http, modern"]


def activate(group: str, session: str = "main") -> Operation:
    return Operation("activate", {"group": group}, session)


def deactivate(group: str, session: str = "main") -> Operation:
    return Operation("deactivate", {"group": group}, session)


def listing(session: str = "main") -> Operation:
    return Operation("list", {}, session)


@pytest.fixture(scope="module", params=SETTINGS)
def driver(request: pytest.FixtureRequest) -> Generator[FixtureDriver]:
    transport, _, era = request.param.partition(", ")
    with served_fixture(transport) as target:
        made = FixtureDriver(Link(target, era))
        assert made.name == request.param
        yield made
        made.close()


def judged(driver: FixtureDriver, setup: Setup, *operations: Operation) -> TestRun:
    """Perform operations and return the test_run; what was answered wrongly fails the test."""
    test_run = TestRun(driver)
    test_run.play(setup, operations)
    assert test_run.violations == ()
    return test_run


def need(driver: FixtureDriver, *capabilities: str) -> None:
    missing = [name for name in capabilities if name not in driver.capabilities]
    if missing:
        pytest.skip(f"{driver.name}: {driver.left_out[missing[0]]}")


@pytest.mark.spec("CNF-1", "CNF-8")
def test_every_capability_is_present_or_omitted_with_a_reason(driver: FixtureDriver) -> None:
    wire = wire_capabilities(driver.link.era, driver.call_tool)
    assert driver.capabilities >= wire
    assert (driver.capabilities | set(driver.left_out)) - wire == {*CAPABILITIES, *OF_HANDLES}
    assert not driver.capabilities & set(driver.left_out)
    assert all(driver.left_out.values())


@pytest.mark.spec("CNF-1", "CNF-7")
def test_all_transitions_of_all_systems_of_two_groups_are_answered_as_the_oracle_says(driver: FixtureDriver) -> None:
    test_run = TestRun(driver)
    for size in (1, 2):
        for system in distinct_systems(size):
            assert tour(test_run, as_setup(system, hooks=HOOKS), [listing()])
    assert test_run.violations == ()
    assert test_run.cases > 40


@pytest.mark.spec("CNF-1")
def test_transitions_lists_and_hooks_are_observed(driver: FixtureDriver) -> None:
    test_run = judged(driver, FOREST, activate("a"), activate("a.b"), listing(), activate("c"), listing())
    expected = {"ACT-4", "HOOK-3", "LST-1", "CTL-1", "INV-2"}
    assert expected <= set(test_run.shown)
    answer = driver.activate("a")
    assert answer.active == ("a",)
    assert answer.changed is True
    assert answer.hooks == (("on_deactivate", "c"), ("on_activate", "a"))
    assert answer.notified == (1 if "notifications" in driver.capabilities else None)


@pytest.mark.spec("CNF-1")
def test_refusals_are_distinguished_from_success(driver: FixtureDriver) -> None:
    judged(driver, FOREST, activate("a.b"), activate("nowhere"), deactivate("nowhere"), deactivate("a"), listing())
    assert driver.activate("nowhere").error == "GroupNotFound"
    assert driver.activate("a.b").error in ("ParentInactive", "error")


@pytest.mark.spec("CNF-1")
def test_a_system_that_breaks_a_rule_is_refused_by_name_and_the_previous_one_stays(driver: FixtureDriver) -> None:
    driver.configure(FOREST)
    driver.activate("d")
    nested = Setup(groups=[Group("a"), Group("a.b")], exclusions=[("a", "a.b")])
    assert driver.configure(nested) == Answer(error="ExclusionConflict")
    assert driver.configure(Setup(groups=[Group("a.b")])) == Answer(error="GroupNotFound")
    assert driver.configure(Setup(groups=[Group("a b")])) == Answer(error="InvalidName")
    assert driver.configure(Setup(groups=[Group("a"), Group("a")])) == Answer(error="DuplicateName")
    assert driver.snapshot().active == ("d",)


@pytest.mark.spec("CNF-1")
def test_calls_are_answered(driver: FixtureDriver) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = [
        Tool("echo", "a", input_schema=schema),
        Tool("refuse", does="refuse"),
        Tool("crash", does="crash"),
        Tool("hidden", hidden=True),
        Tool("known", when="fact known"),
    ]
    asked = [("a.echo", {"n": 1}), ("refuse", {}), ("crash", {}), ("hidden", {}), ("known", {}), ("none", {})]
    calls = [Operation("call", {"tool": tool, "arguments": arguments}) for tool, arguments in asked]
    invalid = Operation("call", {"tool": "a.echo", "arguments": {"n": "one"}})
    fact = Operation("set_fact", {"fact": "known", "value": True})
    judged(driver, Setup(groups=[Group("a")], tools=tools), *calls, activate("a"), fact, *calls, invalid)
    assert driver.call("known", {"x": [1]}).text == '{"tool": "known", "arguments": {"x": [1]}}'


def limited(**options: Any) -> Setup:
    return Setup(groups=FOREST.groups, tools=FOREST.tools, **options)


def fact(value: bool) -> Operation:
    return Operation("set_fact", {"fact": "known", "value": value})


def script(group: str, outcome: str) -> Operation:
    return Operation("script", {"group": group, "phase": "on_activate", "outcome": outcome})


FACTS = Setup(tools=[Tool("known", when="fact known"), Tool("always", when="always")])
NO_DEACTIVATOR = Setup(groups=[Group("a", deactivator=False)], tools=[Tool("tool", "a")])
RUNS: dict[str, tuple[Setup, list[Operation]]] = {
    "sessions": (
        FOREST,
        [
            *(activate("a"), listing("two"), activate("c", "two"), listing()),
            *(activate("a.b"), listing("two")),
        ],
    ),
    "facts": (FACTS, [listing(), fact(True), listing(), fact(True), fact(False), listing()]),
    "failing rule": (Setup(tools=[Tool("broken", when="raises"), Tool("whole")]), [listing()]),
    "eviction": (
        limited(max_active=2, evict_oldest=True, pinned=["d"]),
        [activate("d"), activate("a"), activate("c"), listing(), activate("a.b")],
    ),
    "limit": (limited(max_active=1), [activate("d"), activate("a")]),
    "relevant controls": (limited(relevant_controls=True), [listing(), activate("a"), listing()]),
    "no deactivator": (NO_DEACTIVATOR, [activate("a"), listing()]),
    "failing hook": (
        FOREST,
        [script("c", "fail"), activate("a"), activate("c"), listing(), script("c", "succeed"), activate("c")],
    ),
    "reentrant hook": (FOREST, [script("a", "ask"), activate("a"), listing()]),
}


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize(("setup", "operations"), RUNS.values(), ids=RUNS)
def test_a_run_is_answered_as_the_oracle_says_and_the_same_again(
    driver: FixtureDriver, setup: Setup, operations: list[Operation]
) -> None:
    for _ in range(2):  # each setup begins with new sessions
        assert judged(driver, setup, *operations).cases >= len(operations)


@pytest.mark.spec("CNF-1")
def test_an_ended_session_is_followed_by_a_new_one(driver: FixtureDriver) -> None:
    need(driver, "ending")
    end = Operation("end")
    judged(driver, FOREST, activate("a"), end, listing(), activate("c"), activate("d", "two"), end, listing("two"))


@pytest.mark.spec("CNF-7")
def test_an_operation_waits_in_a_blocked_hook_and_the_next_one_behind_it(driver: FixtureDriver) -> None:
    need(driver, "blocked hooks", "concurrency")
    driver.configure(FOREST)
    driver.script("a", "on_activate", "block")
    first = driver.start(activate("a"))
    assert driver.blocked() == (("on_activate", "a"),)
    second = driver.start(activate("c"))
    seen = driver.start(listing())
    assert "c.tool" not in (driver.finish(seen).tools or ())
    driver.release("a", "on_activate")
    assert driver.blocked() == ()
    one, two = driver.finish(first), driver.finish(second)
    assert (one.changed, one.active) == (True, ("a",))
    assert (two.changed, two.active) == (True, ("c",))
    ran = (("on_activate", "a"), ("on_deactivate", "a"), ("on_activate", "c"))
    assert (*(one.hooks or ()), *(two.hooks or ())) == ran
    third = driver.start(activate("a"))
    driver.release("a", "on_activate", fail=True)
    answer = driver.finish(third)
    assert answer.error in ("HookFailed", "error")
    assert answer.active == ("c",)
    assert answer.hooks == (("on_deactivate", "c"), ("on_activate", "a"), ("on_activate", "c"))


@pytest.mark.spec("CNF-7")
def test_a_cancelled_operation_is_undone_before_the_kit_goes_on(driver: FixtureDriver) -> None:
    need(driver, "blocked hooks", "cancellation")
    driver.configure(FOREST)
    driver.activate("c")
    driver.script("a", "on_activate", "block")
    ticket = driver.start(activate("a"))
    assert driver.blocked() == (("on_activate", "a"),)
    driver.cancel(ticket)
    assert driver.blocked() == ()
    answer = driver.finish(ticket)
    assert (answer.error, answer.active) == ("Cancelled", ("c",))
    assert answer.hooks == (("on_deactivate", "c"), ("on_activate", "a"), ("on_activate", "c"))


@pytest.mark.spec("CNF-7")
def test_blocked_operations_of_two_sessions_do_not_wait_for_each_other(driver: FixtureDriver) -> None:
    need(driver, "blocked hooks", "concurrency")
    driver.configure(FOREST)
    driver.script("a", "on_activate", "block")
    waiting = driver.start(activate("a", "two"))
    assert driver.blocked() == (("on_activate", "a"),)
    assert driver.activate("c").active == ("c",)
    driver.release("a", "on_activate")
    assert driver.finish(waiting).active == ("a",)


def test_configuring_anew_abandons_operations_in_progress(driver: FixtureDriver) -> None:
    need(driver, "blocked hooks", "concurrency")
    driver.configure(FOREST)
    driver.script("a", "on_activate", "block")
    driver.start(activate("a"))
    judged(driver, FOREST, listing(), activate("a"), listing())
    assert driver.blocked() == ()


@pytest.mark.spec("LST-2", "LST-3")
def test_pages_are_as_the_oracle_says_where_the_call_through_tool_is_off() -> None:
    driver = FixtureDriver(Link(fixture_command("--no-call-tool")))
    try:
        assert "paging" in driver.capabilities
        setup = Setup(groups=FOREST.groups, tools=FOREST.tools, page_size=3)
        pages = [Operation("list", {"cursor": "next"})] * 3
        judged(driver, setup, listing(), *pages, Operation("list", {"cursor": "made up"}), activate("a"), listing())
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
            assert tour(test_run, as_setup(system), [listing()])
        assert test_run.violations == ()
        judged(driver, FOREST, activate("a"), listing("two"), Operation("end"), listing())
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
