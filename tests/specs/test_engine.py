"""The naive implementation is right, and its driver does what the kit asks of a driver."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from toolfold_specs.driver import CAPABILITIES, Answer, Group, Operation, Setup, TargetFailed, Tool
from toolfold_specs.drivers.toolfold import CoreDriver
from toolfold_specs.reference import State, System, activate, deactivate
from toolfold_specs.systems import distinct_systems, legal_states, reachable, wide_systems
from verification.mutants.driver import EngineDriver

BOTH = ("on_activate", "on_deactivate")
ABC = Setup(
    groups=(Group("a", hooks=BOTH), Group("a.b", hooks=BOTH), Group("c", hooks=BOTH)),
    exclusions=(("a", "c"),),
    tools=(Tool("root"), Tool("tool", "a"), Tool("tool", "a.b"), Tool("tool", "c")),
)


@pytest.fixture
def driver() -> Iterator[EngineDriver]:
    made = EngineDriver()
    yield made
    made.close()


def setup_of(system: System) -> Setup:
    paths = system.paths()
    return Setup(
        groups=tuple(Group(path) for path in paths),
        exclusions=tuple(tuple(paths[member] for member in members) for members in system.exclusions),
    )


def ask(verb: str, session: str = "main", **arguments: object) -> Operation:
    return Operation(verb, arguments, session)


def script(group: str, phase: str, outcome: str) -> Operation:
    return ask("script", group=group, phase=phase, outcome=outcome)


def summary(answer: Answer) -> tuple[object, ...]:
    return answer.error, answer.changed, answer.detail.get("missing"), answer.active


def reached(driver: EngineDriver, system: System, state: State) -> None:
    driver.configure(setup_of(system))
    for group in sorted(state):
        driver.perform(ask("activate", group=system.paths()[group]))


@pytest.mark.spec("ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-5")
def test_it_agrees_with_the_reference_on_every_step_of_every_system_of_three_groups(driver: EngineDriver) -> None:
    for system in [system for n in (1, 2, 3) for system in (*distinct_systems(n), *wide_systems(n))]:
        paths = system.paths()
        for state in reachable(system):
            for group in system.groups:
                for move in (activate, deactivate):
                    right = move(system, state, group)
                    reached(driver, system, state)
                    got = driver.perform(ask(move.__name__, group=paths[group]))
                    missing = None if right.detail is None else paths[right.detail]
                    changed = None if right.error else right.kind == "changed"
                    active = tuple(paths[number] for number in system.canonical(right.state))
                    assert summary(got) == (right.error, changed, missing, active)


@pytest.mark.spec("INV-1", "INV-2", "INV-4")
def test_what_it_reaches_is_every_legal_state_and_no_other(driver: EngineDriver) -> None:
    for system in distinct_systems(3):
        found: set[tuple[str, ...] | None] = set()
        for state in legal_states(system):
            reached(driver, system, state)
            found.add(driver.perform(ask("snapshot")).active)
        paths = system.paths()
        assert found == {tuple(paths[number] for number in system.canonical(state)) for state in legal_states(system)}


def test_the_driver_can_do_everything_that_the_kit_knows_of(driver: EngineDriver) -> None:
    assert driver.capabilities == frozenset(CAPABILITIES)


# -- the same as Toolfold itself, from outside ------------------------------------------------------------------------


def random_setup(chance: random.Random) -> Setup:
    paths: list[str] = []
    for number in range(chance.randint(3, 7)):
        above = chance.choice(["", *paths])
        paths.append(f"{above}.g{number}".lstrip("."))
    pairs = [(one, two) for one in paths for two in paths if one < two and not f"{two}.".startswith(f"{one}.")]
    limit = chance.choice([None, None, 2, 3])
    return Setup(
        groups=tuple(Group(path, hooks=BOTH, deactivator=chance.random() < 0.8) for path in paths),
        exclusions=tuple(chance.sample(pairs, min(len(pairs), chance.randint(0, 3)))),
        tools=(
            Tool("root"),
            Tool("gate", when="fact open"),
            Tool("secret", hidden=True),
            *(Tool("tool", path) for path in paths if chance.random() < 0.8),
            Tool("needs", paths[0], input_schema={"type": "object", "required": ["x"]}),
        ),
        page_size=chance.choice([None, 3]),
        max_active=limit,
        evict_oldest=chance.random() < 0.5,
        relevant_controls=chance.random() < 0.5,
    )


def random_operation(chance: random.Random, setup: Setup) -> Operation:
    paths = [*setup.paths, "unknown"]

    def some() -> tuple[str, ...]:
        return tuple(sorted({chance.choice(setup.paths) for _ in range(chance.randint(0, 2))}))

    made: dict[str, tuple[int, dict[str, Any]]] = {
        "activate": (8, {"group": chance.choice(paths)}),
        "deactivate": (4, {"group": chance.choice(paths), "force": chance.random() < 0.3}),
        "transition": (4, {"activate": some(), "deactivate": some()}),
        "list": (2, {}),
        "list_groups": (1, {}),
        "call": (3, {"tool": chance.choice([*(tool.full_name for tool in setup.tools), "nothing"]), "arguments": {}}),
        "set_fact": (1, {"fact": "open", "value": chance.random() < 0.5}),
        "script": (2, {"group": chance.choice(setup.paths), "phase": chance.choice(BOTH)}),
        "end": (1, {}),
    }
    made["call"][1]["arguments"] = chance.choice([{}, {"x": 1}])
    made["script"][1]["outcome"] = chance.choice(["succeed", "succeed", "fail", "ask"])
    verb = chance.choices(list(made), [weight for weight, _ in made.values()])[0]
    return Operation(verb, made[verb][1], chance.choice(["main", "main", "other"]))


def visible(answer: Answer, operation: Operation) -> dict[str, object]:
    said = answer.to_json()
    for name in ("detail", "next_cursor", *(("text",) if answer.is_error or answer.error else ())):
        said.pop(name, None)
    if operation.verb not in ("activate", "deactivate", "transition"):
        for name in ("active", "hooks", "notified", "changed"):
            said.pop(name, None)
    return said


@pytest.mark.parametrize("seed", range(12))
def test_it_answers_random_walks_as_toolfold_does(seed: int, driver: EngineDriver) -> None:
    chance = random.Random(seed)
    core = CoreDriver()
    try:
        for _ in range(5):
            setup = random_setup(chance)
            assert core.configure(setup).error is driver.configure(setup).error is None
            for _ in range(60):
                operation = random_operation(chance, setup)
                ours, theirs = driver.perform(operation), core.perform(operation)
                assert visible(ours, operation) == visible(theirs, operation), (setup, operation)
                if operation.verb == "list" and ours.next_cursor is not None:
                    more = driver.perform(ask("list", operation.session, cursor=ours.next_cursor))
                    assert visible(more, operation) == visible(
                        core.perform(ask("list", operation.session, cursor=theirs.next_cursor)), operation
                    )
    finally:
        core.close()


# -- hooks that wait, operations at the same time ---------------------------------------------------------------------


@pytest.mark.spec("SES-2")
def test_a_second_step_waits_for_the_first_and_is_judged_by_what_it_left(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(script("a", "on_activate", "block"))
    first = driver.start(ask("activate", group="a"))
    second = driver.start(ask("activate", group="c"))
    assert driver.blocked() == (("on_activate", "a"),)
    assert driver.perform(ask("snapshot")).active == ()
    driver.release("a", "on_activate")
    assert driver.blocked() == ()
    one, two = driver.finish(first), driver.finish(second)
    assert summary(one) == (None, True, None, ("a",))
    assert summary(two) == (None, True, None, ("c",))
    assert two.hooks == (("on_deactivate", "a"), ("on_activate", "c"))


@pytest.mark.spec("SES-1")
def test_steps_of_another_session_do_not_wait(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(script("a", "on_activate", "block"))
    waiting = driver.start(ask("activate", group="a"))
    assert driver.perform(ask("activate", "other", group="c")).active == ("c",)
    driver.release("a", "on_activate")
    assert driver.finish(waiting).active == ("a",)
    assert driver.perform(ask("snapshot", "other")).active == ("c",)


@pytest.mark.spec("HOOK-4")
def test_a_hook_that_is_released_to_fail_leaves_nothing_changed(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(script("a", "on_activate", "block"))
    ticket = driver.start(ask("activate", group="a"))
    driver.release("a", "on_activate", fail=True)
    answer = driver.finish(ticket)
    assert (answer.error, answer.detail) == ("HookFailed", {"group": "a", "phase": "on_activate", "cause": "HookError"})
    assert (answer.active, answer.notified) == ((), 0)


@pytest.mark.spec("HOOK-6")
def test_a_cancelled_step_is_undone_even_where_undoing_waits(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(ask("activate", group="a"))
    driver.perform(script("c", "on_activate", "block"))
    driver.perform(script("a", "on_activate", "block"))
    ticket = driver.start(ask("activate", group="c"))
    assert driver.blocked() == (("on_activate", "c"),)
    driver.cancel(ticket)
    assert driver.blocked() == (("on_activate", "a"),)
    driver.cancel(ticket)
    assert driver.blocked() == (("on_activate", "a"),)
    driver.release("a", "on_activate")
    answer = driver.finish(ticket)
    assert (answer.error, answer.active) == ("Cancelled", ("a",))
    assert answer.hooks == (("on_deactivate", "a"), ("on_activate", "c"), ("on_activate", "a"))


@pytest.mark.spec("HOOK-6", "HOOK-8")
def test_a_forced_step_is_done_although_it_is_cancelled(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(ask("activate", group="a"))
    driver.perform(ask("activate", group="a.b"))
    driver.perform(script("a.b", "on_deactivate", "block"))
    ticket = driver.start(ask("deactivate", group="a", force=True))
    driver.cancel(ticket)
    answer = driver.finish(ticket)
    assert (answer.error, answer.active) == ("Cancelled", ())
    assert answer.hooks == (("on_deactivate", "a.b"), ("on_deactivate", "a"))


@pytest.mark.spec("SES-2")
def test_a_step_that_is_cancelled_while_it_waits_leaves_no_trace(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(script("a", "on_activate", "block"))
    tickets = [driver.start(ask("activate", group=group)) for group in ("a", "c", "a.b")]
    driver.cancel(tickets[1])
    driver.release("a", "on_activate")
    answers = [driver.finish(ticket) for ticket in tickets]
    assert [answer.error for answer in answers] == [None, "Cancelled", None]
    assert driver.perform(ask("snapshot")).active == ("a", "a.b")


@pytest.mark.spec("SES-3")
def test_a_step_that_waits_while_its_session_ends_is_refused(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(ask("activate", group="a"))
    driver.perform(script("a", "on_deactivate", "block"))
    ending = driver.start(ask("end"))
    waiting = driver.start(ask("activate", group="a.b"))
    driver.release("a", "on_deactivate")
    assert (driver.finish(ending).active, driver.finish(waiting).error) == ((), "SessionClosed")
    assert driver.perform(ask("snapshot")).active == ()


@pytest.mark.spec("HOOK-7")
def test_a_hook_that_asks_its_own_session_is_refused_at_once(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(script("a", "on_activate", "ask"))
    answer = driver.perform(ask("activate", group="a"))
    assert (answer.error, answer.active) == ("HookFailed", ())
    assert driver.perform(ask("activate", group="c")).active == ("c",)


def test_an_operation_that_nothing_can_end_fails_at_once_and_is_gone_with_its_system(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(script("a", "on_activate", "block"))
    with pytest.raises(TargetFailed, match="never ends"):
        driver.perform(ask("activate", group="a"))
    driver.configure(ABC)
    assert driver.blocked() == ()
    assert driver.perform(ask("activate", group="a")).active == ("a",)


def test_a_hook_that_is_not_blocked_can_not_be_released(driver: EngineDriver) -> None:
    driver.configure(ABC)
    with pytest.raises(LookupError, match="blocked"):
        driver.release("a", "on_activate")


# -- the rest that Toolfold's own driver does not show ----------------------------------------------------------------


@pytest.mark.spec("PER-1", "PER-2")
def test_a_restored_session_is_equal_in_the_same_system_and_normalised_in_another(driver: EngineDriver) -> None:
    driver.configure(ABC)
    driver.perform(ask("activate", group="a"))
    driver.perform(ask("activate", group="a.b"))
    assert driver.restore().active == ("a", "a.b")
    without_parent = Setup(groups=(Group("b"), Group("c")))
    assert driver.restore(without_parent).active == ()


@pytest.mark.spec("PER-2")
def test_of_an_exclusion_set_the_first_group_is_restored_with_what_is_below_it(driver: EngineDriver) -> None:
    paths = ("x", "y", "y.z")
    free = Setup(groups=tuple(Group(path) for path in paths))
    driver.configure(free)
    for path in paths:
        driver.perform(ask("activate", group=path))
    assert driver.restore(Setup(groups=free.groups, exclusions=(("y", "x"),))).active == ("x",)


@pytest.mark.spec("REG-2", "REG-3", "REG-4", "NAM-1")
@pytest.mark.parametrize(
    ("setup", "error"),
    [
        (Setup(groups=(Group("a.b"),)), "GroupNotFound"),
        (Setup(groups=(Group("a"), Group("a"))), "DuplicateName"),
        (Setup(groups=(Group("a"), Group("b")), exclusions=(("a",),)), "ExclusionConflict"),
        (Setup(groups=(Group("a"), Group("a.b")), exclusions=(("a", "a.b"),)), "ExclusionConflict"),
        (Setup(groups=(Group("a"),), exclusions=(("a", "b"),)), "GroupNotFound"),
        (Setup(groups=(Group("a b"),)), "InvalidName"),
        (Setup(tools=(Tool("x" * 65),)), "InvalidName"),
        (Setup(tools=(Tool("x"), Tool("x"))), "DuplicateName"),
        (Setup(tools=(Tool("x", "a"),)), "GroupNotFound"),
    ],
)
def test_a_setup_that_breaks_a_rule_is_refused_by_the_name_of_its_error(
    setup: Setup, error: str, driver: EngineDriver
) -> None:
    assert driver.configure(setup).error == error


@pytest.mark.spec("NAM-4")
def test_a_tool_named_as_a_control_takes_its_place_and_is_always_there(driver: EngineDriver) -> None:
    driver.configure(Setup(groups=(Group("a"),), tools=(Tool("activate", "a"),)))
    answer = driver.perform(ask("list"))
    assert (answer.tools, answer.controls) == (("a.activate",), ("a.deactivate",))
    assert driver.perform(ask("call", tool="a.activate", arguments={})).is_error is False
    assert driver.perform(ask("snapshot")).active == ()


@pytest.mark.spec("HOOK-5")
def test_a_group_s_own_rollback_takes_the_place_of_its_opposite_hook(driver: EngineDriver) -> None:
    driver.configure(Setup(groups=(Group("a", hooks=(*BOTH, "on_rollback")), Group("b", hooks=BOTH))))
    driver.perform(script("b", "on_activate", "fail"))
    answer = driver.perform(ask("transition", activate=("a", "b"), deactivate=()))
    assert answer.hooks == (("on_activate", "a"), ("on_activate", "b"), ("on_rollback", "a"))
