"""For which notices of a changed list a driver over MCP waits: only for those that are due and have not come."""

from __future__ import annotations

import pytest

from toolfold_specs.driver import Group, Operation, Setup, Tool
from toolfold_specs.drivers.fixture import FixtureDriver
from toolfold_specs.drivers.link import Connection, Link
from toolfold_specs.drivers.sessions import MISSES
from toolfold_specs.fixture_server import Fixture

BARE = Setup(groups=(Group("a"), Group("b")))
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


def driven(setup: Setup) -> FixtureDriver:
    driver = FixtureDriver(Link(Fixture(call_tool=False).server))
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

    monkeypatch.setattr(Connection, "_hear", deaf)
    driver = driven(FULL)
    assert driver.activate("a").notified == 0
    assert awaited == [0]
    for verb in ("deactivate", "activate") * MISSES:
        assert driver.perform(Operation(verb, {"group": "a"})).notified == 0
    assert awaited == [0] * MISSES  # that none comes is known by then
    driver.close()
