"""Which notices of a changed list a driver over MCP awaits: those that are due, and late ones that are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mcp.server import Server

from toolfold_specs.checks import Check, run_checks
from toolfold_specs.driver import Group, Operation, Setup, Tool
from toolfold_specs.drivers import sessions
from toolfold_specs.drivers.connection import CHANGED, Connection
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.sessions import MISSES
from toolfold_specs.kit import check
from toolfold_specs.runs import TestRun
from verification.library.server import Fixture
from verification.mutants import MUTANTS
from verification.mutants import server as mutants
from verification.mutants.engine import Engine

BARE = Setup(groups=(Group("a"), Group("b")))
BOTH = Setup(BARE.groups, tools=(Tool("run", "a"), Tool("run", "b"), Tool("told", when="fact ready")))
FULL = Setup(groups=(Group("a", hooks=("on_activate",)),), tools=(Tool("run", "a"),))


@pytest.fixture
def awaited(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many notices had come each time one was waited for that was not there."""
    found: list[int] = []

    def wait(connection: Connection, seen: int, _: float) -> None:
        if connection.changes <= seen:
            found.append(connection.changes)

    monkeypatch.setattr(Connection, "wait_for_change", wait)
    return found


@pytest.fixture
def late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every notice arrives after the answer, as soon as it is awaited."""
    held: list[object] = []

    async def receive(connection: Connection, message: object) -> None:
        held.append(message)

    def wait(connection: Connection, seen: int, _: float) -> None:
        connection.changes += len(held)
        held.clear()

    monkeypatch.setattr(Connection, "_received", receive)
    monkeypatch.setattr(Connection, "wait_for_change", wait)


def driven(setup: Setup, server: Server[Any] | None = None) -> FixtureDriver:
    driver = FixtureDriver(Link(server or Fixture(call_tool=False).server))
    assert driver.configure(setup).error is None
    return driver


@pytest.mark.spec("NTF-1")
def test_no_notice_is_awaited_after_a_change_that_leaves_the_list_as_it_was(awaited: list[int]) -> None:
    driver = driven(BARE)
    awaited.clear()  # but what is of the new system
    assert [driver.activate(group).notified for group in ("a", "b")] == [0, 0]
    assert awaited == []
    driver.close()


@pytest.mark.spec("NTF-1")
def test_a_notice_that_one_of_several_overlapping_operations_took_is_not_awaited_again(awaited: list[int]) -> None:
    driver = driven(FULL)
    awaited.clear()
    driver.script("a", "on_activate", "block")
    tickets = [driver.start(Operation(verb, {"group": "a"})) for verb in ("activate", "deactivate")]
    driver.release("a", "on_activate")
    assert [driver.finish(ticket).notified for ticket in tickets] == [2, 0]
    assert awaited == []
    driver.close()


@pytest.mark.spec("NTF-1")
def test_a_notice_that_is_due_is_awaited_until_it_is_known_that_none_comes(
    awaited: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def deaf(connection: Connection, message: object) -> None:
        pass

    monkeypatch.setattr(Connection, "_received", deaf)
    driver = driven(FULL)
    awaited.clear()
    assert driver.activate("a").notified == 0
    assert awaited == [0]
    for verb in ("deactivate", "activate") * MISSES:
        assert driver.perform(Operation(verb, {"group": "a"})).notified == 0
    assert awaited == [0] * MISSES  # that none comes is known by then
    driver.close()


@pytest.mark.usefixtures("late")
@pytest.mark.spec("NTF-1")
@pytest.mark.parametrize(
    ("engine", "surplus"), [(Engine, 0), (MUTANTS["notifies of requests that changed nothing"].engine, 1)]
)
def test_a_late_notice_that_is_not_due_is_counted_with_the_operation_that_it_follows(
    engine: type[Engine], surplus: int
) -> None:
    driver = driven(FULL, mutants.Fixture(engine).server())
    assert [driver.activate("a").notified for _ in range(3)] == [1, surplus, surplus]
    assert driver.deactivate("a").notified == 1
    driver.close()


LATE, REQUEST = 0.6, 0.05
"""Seconds that a notice comes after its answer, and that a request takes."""


class Clock:
    """Time that passes with requests and while notices are awaited, and not otherwise."""

    def __init__(self) -> None:
        self.now = 0.0
        self.under_way: list[tuple[float, Connection]] = []

    def monotonic(self) -> float:
        return self.now

    def advance(self, until: float) -> None:
        self.now = until
        arrived = [notice for notice in self.under_way if notice[0] <= until]
        for notice in arrived:
            self.under_way.remove(notice)
            notice[1].changes += 1

    async def receive(self, connection: Connection, message: object) -> None:
        if getattr(message, "method", None) == CHANGED:
            self.under_way.append((self.now + LATE, connection))

    def wait(self, connection: Connection, seen: int, seconds: float) -> None:
        end = self.now + seconds
        while connection.changes <= seen and self.now < end:
            self.advance(min([end, *(due for due, _ in self.under_way)]))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock by which every notice is late."""
    clock, ask = Clock(), Connection._ask

    def asked(connection: Connection, *request: Any) -> Any:
        clock.advance(clock.now + REQUEST)
        return ask(connection, *request)

    monkeypatch.setattr(Connection, "_ask", asked)
    monkeypatch.setattr(Connection, "_received", lambda *given: clock.receive(*given))
    monkeypatch.setattr(Connection, "wait_for_change", lambda *given: clock.wait(*given))
    monkeypatch.setattr(sessions, "time", SimpleNamespace(monotonic=clock.monotonic))
    return clock


def found_late(grace: float, *operations: Operation) -> set[str]:
    """Return the clauses that a history of late notices is found to violate; what reads a state judges SES-1."""

    def run(test_run: TestRun) -> None:
        for _ in ("found", "known, so that the case goes on"):
            case = test_run.begin(BOTH)
            assert case is not None
            for operation in operations:
                case.do(operation, "SES-1" if operation.verb == "snapshot" else None)

    def served() -> FixtureDriver:
        return FixtureDriver(Link(mutants.Fixture(Engine).server()), grace)

    results = run_checks([Check("late notices", "stateful", ("NTF-1", "NTF-3", "SES-1"), run)], served)
    return {violation.clause for result in results for violation in result.violations}


@pytest.mark.usefixtures("clock")
@pytest.mark.spec("CNF-10")
@pytest.mark.parametrize(("grace", "missed"), [(LATE - 0.1, {"NTF-1"}), (LATE + 0.1, set[str]())])
def test_a_notice_that_comes_too_late_is_missed_and_no_fault_of_another_session(grace: float, missed: set[str]) -> None:
    opens = [Operation("activate", {"group": "a"}, session) for session in ("main", "other")]
    assert found_late(grace, *opens, Operation("snapshot")) == missed


@pytest.mark.usefixtures("clock")
@pytest.mark.spec("NTF-3")
def test_a_notice_of_a_fact_is_awaited_as_long_as_any_other() -> None:
    facts = [Operation("set_fact", {"fact": "ready", "value": value}) for value in (True, True, False)]
    assert found_late(LATE + 0.1, *facts) == set()


@pytest.mark.usefixtures("clock")
@pytest.mark.spec("CNF-10")
def test_an_honest_server_whose_notices_are_late_violates_nothing() -> None:
    """Neither those of a system that was replaced count, nor is a pinned group closed that clients can't close."""

    def served() -> FixtureDriver:
        return FixtureDriver(Link(Fixture(call_tool=False).server), LATE + 0.1)

    report = check(served, layers=("exhaustive", "stateful", "schedules"), budget=600)
    assert [violation.message for violation in report.violations] == []
