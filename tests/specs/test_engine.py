"""The naive engine and its driver, where the kit's own checks do not reach; `test_mutants` runs those on it."""

from __future__ import annotations

import pytest

from toolfold_specs.driver import CAPABILITIES, Group, Operation, Setup, TargetFailed
from verification.mutants.driver import EngineDriver

BOTH = ("on_activate", "on_deactivate")
ABC = Setup(groups=(Group("a", hooks=BOTH), Group("a.b", hooks=BOTH), Group("c", hooks=BOTH)), exclusions=(("a", "c"),))


@pytest.fixture
def driver() -> EngineDriver:
    made = EngineDriver()
    made.configure(ABC)
    return made


def ask(verb: str, **arguments: object) -> Operation:
    return Operation(verb, arguments)


def block(group: str, phase: str) -> Operation:
    return ask("script", group=group, phase=phase, outcome="block")


def test_the_driver_has_every_capability(driver: EngineDriver) -> None:
    assert driver.capabilities == frozenset(CAPABILITIES)


@pytest.mark.spec("SES-2")
def test_a_second_request_is_planned_on_the_state_that_the_first_left(driver: EngineDriver) -> None:
    driver.perform(block("a", "on_activate"))
    first = driver.start(ask("activate", group="a"))
    second = driver.start(ask("activate", group="c"))
    assert driver.blocked() == (("on_activate", "a"),)
    assert driver.perform(ask("snapshot")).active == ()
    driver.release("a", "on_activate")
    assert driver.blocked() == ()
    one, two = driver.finish(first), driver.finish(second)
    assert (one.changed, one.active, two.changed, two.active) == (True, ("a",), True, ("c",))
    assert two.hooks == (("on_deactivate", "a"), ("on_activate", "c"))


@pytest.mark.spec("HOOK-6", "HOOK-8")
def test_a_forced_deactivation_completes_although_it_is_cancelled(driver: EngineDriver) -> None:
    driver.perform(ask("activate", group="a"))
    driver.perform(ask("activate", group="a.b"))
    driver.perform(block("a.b", "on_deactivate"))
    ticket = driver.start(ask("deactivate", group="a", force=True))
    driver.cancel(ticket)
    answer = driver.finish(ticket)
    assert (answer.error, answer.active) == ("Cancelled", ())
    assert answer.hooks == (("on_deactivate", "a.b"), ("on_deactivate", "a"))


@pytest.mark.spec("SES-3")
def test_a_request_that_is_queued_while_its_session_ends_is_refused(driver: EngineDriver) -> None:
    driver.perform(ask("activate", group="a"))
    driver.perform(block("a", "on_deactivate"))
    ending = driver.start(ask("end"))
    queued = driver.start(ask("activate", group="a.b"))
    driver.release("a", "on_deactivate")
    assert (driver.finish(ending).active, driver.finish(queued).error) == ((), "SessionClosed")
    assert driver.perform(ask("snapshot")).active == ()


def test_an_operation_that_nothing_can_unblock_fails_at_once_and_ends_with_its_system(driver: EngineDriver) -> None:
    driver.perform(block("a", "on_activate"))
    with pytest.raises(TargetFailed, match="never ends"):
        driver.perform(ask("activate", group="a"))
    driver.configure(ABC)
    assert driver.blocked() == ()
    assert driver.perform(ask("activate", group="a")).active == ("a",)


def test_a_hook_that_is_not_blocked_can_not_be_released(driver: EngineDriver) -> None:
    with pytest.raises(LookupError, match="blocked"):
        driver.release("a", "on_activate")
