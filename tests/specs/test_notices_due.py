"""Which notices of a changed list a driver over MCP awaits: those that are due, and late ones that are not."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.server import Server

from toolfold_specs.driver import Group, Operation, Setup, Tool
from toolfold_specs.drivers.connection import Connection
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.sessions import MISSES
from toolfold_specs.fixture_server import Fixture
from verification.mutants import MUTANTS
from verification.mutants import server as mutants
from verification.mutants.engine import Engine

BARE = Setup(groups=(Group("a"), Group("b")))
NOTIFIES_ALWAYS = MUTANTS["notifies of requests that changed nothing"].engine
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
    assert [driver.activate(group).notified for group in ("a", "b")] == [0, 0]
    assert awaited == []
    driver.close()


@pytest.mark.spec("NTF-1")
def test_a_notice_that_one_of_several_overlapping_operations_took_is_not_awaited_again(awaited: list[int]) -> None:
    driver = driven(FULL)
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
