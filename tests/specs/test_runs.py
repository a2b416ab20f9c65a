"""How checks run: faults of the driver, the kit and the target, and the shortening of histories."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from attrs import evolve

from toolfold_specs.checks import Check, Options, run_checks
from toolfold_specs.clauses import load_clauses
from toolfold_specs.driver import Answer, Driver, Group, Operation, Setup, TargetFailed, Tool
from toolfold_specs.layers import exhaustive, stateful
from toolfold_specs.oracle import Oracle, World
from toolfold_specs.report import Report, Result, Status, Verdict
from toolfold_specs.runs import TestRun
from toolfold_specs.shrinking import Budget, reduced, shortened

PAIR = Setup(groups=(Group("a"), Group("b")), exclusions=(("a", "b"),), tools=(Tool("tool", "a"), Tool("tool", "b")))


class Rightly(Driver):
    """Answers whatever the oracle does, but for what a test changes."""

    capabilities = frozenset({"setups", "listing", "errors"})

    def __init__(self) -> None:
        self.configured = 0
        self.performed = 0

    def configure(self, setup: Setup) -> Answer:
        self.oracle = Oracle(setup)
        self.world: World = self.oracle.initial
        self.history: list[Operation] = []
        self.configured += 1
        return Answer()

    def perform(self, operation: Operation) -> Answer:
        self.performed += 1
        self.history.append(operation)
        self.world, answer = self.oracle.apply(self.world, operation)
        return answer


class Forgetful(Rightly):
    """Refuses an activation if it is the fifth operation."""

    def perform(self, operation: Operation) -> Answer:
        before = self.world
        if operation.verb == "activate" and len(self.history) == 4:
            self.history.append(operation)
            return Answer(error="QuotaExceeded", active=self.oracle.active(before.state_of("main")))
        return super().perform(operation)


class Sulking(Rightly):
    """Never activates a group again that was displaced."""

    def perform(self, operation: Operation) -> Answer:
        group = operation.arguments.get("group")
        had = [earlier.arguments.get("group") for earlier in self.history if earlier.verb == "activate"]
        session_state = self.world.state_of("main")
        if operation.verb == "activate" and group in had and group not in self.oracle.active(session_state):
            self.history.append(operation)
            return Answer(error="GroupNotFound", active=self.oracle.active(session_state))
        return super().perform(operation)


class LeavesNoneOut(Rightly):
    """Refuses the activation of b if every other group is active."""

    def perform(self, operation: Operation) -> Answer:
        active = self.oracle.active(self.world.state_of("main"))
        if operation == activate("b") and {*active} == {*self.oracle.paths} - {"b"}:
            return Answer(error="QuotaExceeded", active=active)
        return super().perform(operation)


def activate(group: str) -> Operation:
    return Operation("activate", {"group": group})


def check(run: Callable[[TestRun], Any], **options: Any) -> Check:
    def ran(test_run: TestRun) -> None:
        run(test_run)

    return Check("it", "vectors", ("ACT-4",), ran, **options)


def only(results: Sequence[Result]) -> Result:
    (result,) = results
    return result


def raising(error: Exception) -> Callable[[TestRun], None]:
    def run(test_run: TestRun) -> None:
        raise error

    return run


@pytest.mark.spec("CNF-8")
def test_a_fault_of_the_kit_is_not_a_violation() -> None:
    result = only(run_checks([check(raising(KeyError("oops")))], Rightly))
    assert (result.status, result.reason, result.violations) == (Status.BROKEN, "KeyError: 'oops'", ())


@pytest.mark.spec("CNF-8")
def test_a_target_that_fails_is_reported_as_such_and_the_next_check_has_a_new_driver() -> None:
    drivers: list[Rightly] = []

    def make() -> Driver:
        drivers.append(Rightly())
        return drivers[-1]

    failing = check(raising(TargetFailed("it closed the connection")))
    died, passed = run_checks([failing, check(lambda test_run: test_run.play(PAIR, [activate("a")]))], make)
    assert (died.status, died.reason, died.clauses) == (Status.DIED, "it closed the connection", ("ACT-4",))
    assert passed.status is Status.PASSED
    assert len(drivers) == 2


@pytest.mark.spec("CNF-8")
def test_a_check_without_its_capabilities_is_left_out_with_the_reason() -> None:
    class Without(Rightly):
        left_out: Mapping[str, str] = {"hooks": "this server has no hooks"}

    plain = only(run_checks([check(raising(AssertionError()), needs={"hooks", "limits"})], Without))
    assert (plain.status, plain.reason) == (Status.LEFT_OUT, "this server has no hooks; no limits")


def test_a_clause_is_held_only_if_a_case_tested_it() -> None:
    shown, idle = run_checks([check(lambda test_run: test_run.play(PAIR, [activate("nowhere")]))], Rightly)
    assert shown.clauses == ()
    assert (idle.clauses, idle.status) == (("ACT-4",), Status.LEFT_OUT)


def test_the_budget_ends_a_check_with_a_reason() -> None:
    result = run_checks(exhaustive.CHECKS, Rightly, Options(budget=50))[0]
    assert (result.status, result.reason) == (Status.PASSED, "ended after 50 operations")
    assert result.cases == 51


@pytest.mark.spec("CNF-7")
def test_layers_run_in_their_order_and_can_be_chosen() -> None:
    ran: list[str] = []
    checks = [
        Check(layer, layer, (), lambda test_run, layer=layer: ran.append(layer))  # type: ignore[misc]
        for layer in ("histories", "exhaustive", "vectors")
    ]
    run_checks(checks, Rightly)
    run_checks(checks, Rightly, Options(layers=["vectors"]))
    assert ran == ["exhaustive", "vectors", "histories", "vectors"]


@pytest.mark.spec("CNF-3")
def test_a_violation_has_the_shortest_history() -> None:
    class Always(Rightly):
        def perform(self, operation: Operation) -> Answer:
            answer = super().perform(operation)
            return Answer(changed=False, active=answer.active) if operation == activate("b") else answer

    test_run = TestRun(Always(), "it")
    way = ["a", "a", "nowhere", "a"]
    assert not test_run.play(PAIR, [*map(activate, way), Operation("list"), activate("b"), activate("a")])
    (violation,) = test_run.violations
    assert violation.clause == "ACT-4"
    assert violation.history == (activate("b"),)
    assert violation.expected["changed"] is True
    assert violation.got == {"changed": False, "active": ("b",)}


@pytest.mark.spec("CNF-5", "INV-5")
def test_an_answer_that_depends_on_the_history_violates_inv_5() -> None:
    test_run = TestRun(Forgetful(), "it")
    test_run.play(PAIR, [activate("a"), Operation("deactivate", {"group": "a"})] * 3)
    assert [violation.clause for violation in test_run.violations] == ["INV-5"]
    assert len(test_run.violations[0].history) == 5


@pytest.mark.spec("CNF-5", "INV-4")
def test_a_group_that_can_never_be_activated_again_violates_inv_4() -> None:
    test_run = TestRun(Sulking(), "it")
    test_run.play(PAIR, [activate("a"), activate("b"), activate("a")])
    assert [violation.clause for violation in test_run.violations] == ["INV-4"]


def test_a_clause_that_rests_on_a_violated_one_is_undecided() -> None:
    class NoSuchGroup(Rightly):
        def perform(self, operation: Operation) -> Answer:
            answer = super().perform(operation)
            return Answer(changed=True, active=answer.active) if answer.error == "GroupNotFound" else answer

    def run(test_run: TestRun) -> None:
        test_run.play(PAIR, [activate("nowhere")])
        test_run.violated("INV-3", "root is taken for a group")

    checks = [Check("it", "vectors", ("ACT-1", "INV-3"), run)]
    report = Report({}, run_checks(checks, NoSuchGroup), load_clauses())
    rows = {row.clause.id: row for row in report.rows}
    assert [violation.clause for violation in report.violations] == ["ACT-1"]
    assert rows["INV-3"].verdict is Verdict.UNDECIDED
    assert rows["INV-3"].reason == "it: ACT-1, which is violated, may be why a case of it went wrong"


def test_a_history_is_shortened_to_what_is_needed() -> None:
    history = [activate(str(number)) for number in range(20)]
    needed = {"3", "11", "19"}

    def shows(tried: Sequence[Operation]) -> bool:
        return needed <= {operation.arguments["group"] for operation in tried}

    assert [operation.arguments["group"] for operation in shortened(history, None, shows, Budget())] == [
        "3",
        "11",
        "19",
    ]
    ends = [history[0], history[-1]]
    assert shortened(history, ends, lambda tried: len(tried) == 2, Budget()) == ends


def test_a_system_is_reduced_to_what_is_needed_within_its_budget() -> None:
    hooks = ("on_activate",)
    setup = Setup(
        groups=[Group(path, hooks=hooks) for path in ("a", "a.b", "c", "d", "d.e")],
        exclusions=[("a", "c"), ("a.b", "d")],
        tools=[Tool("tool", "a"), Tool("tool", "c")],
        page_size=2,
    )

    def shows(tried: Setup) -> bool:
        return {"a", "c"} <= set(tried.paths) and ("a", "c") in tried.exclusions

    needed = Setup(groups=[Group("a"), Group("c")], exclusions=[("a", "c")])
    assert reduced(setup, [activate("a.b")], shows, Budget()) == needed
    assert reduced(setup, [activate("a.b")], shows, Budget(1)) == setup


@pytest.mark.spec("CNF-3")
def test_a_history_is_shortened_again_on_the_system_that_was_reduced_for_it() -> None:
    test_run = TestRun(LeavesNoneOut())
    test_run.play(Setup(groups=[Group("a"), Group("b")]), [activate("a"), activate("b")])
    (violation,) = test_run.violations
    assert (violation.setup, violation.history) == (Setup(groups=[Group("b")]), (activate("b"),))


@pytest.mark.spec("CNF-3", "CNF-7")
@pytest.mark.parametrize("seed", [0, 2])
def test_a_failure_in_random_histories_shrinks_to_a_minimal_one(seed: int) -> None:
    class Remembers(Rightly):
        """Opens what was ever open below a group when that group opens."""

        capabilities = frozenset({"setups", "errors", "listing", "facts", "hooks", "failing hooks", "paging"})

        def configure(self, setup: Setup) -> Answer:
            self.had = set[str]()
            return super().configure(setup)

        def perform(self, operation: Operation) -> Answer:
            answer = super().perform(operation)
            self.had |= set(answer.active or ())
            if operation.verb != "activate" or not answer.changed:
                return answer
            back = [path for path in self.had if path.startswith(f"{operation.arguments['group']}.")]
            return evolve(answer, active=Setup([Group(path) for path in {*(answer.active or ()), *back}]).paths)

    (result, *_) = run_checks(stateful.CHECKS, Remembers, Options(seed=seed, budget=500))
    violation = next(one for one in result.violations if one.clause == "ACT-8")
    assert violation.setup is not None
    line = violation.setup.paths
    assert violation.setup == Setup(groups=violation.setup.groups)
    assert all(group == Group(group.path) for group in violation.setup.groups)
    closed = Operation("deactivate", {"group": line[-2]})
    assert violation.history == (*map(activate, line), closed, activate(line[-2]))


def test_shortening_stays_within_its_budget() -> None:
    spent: list[int] = []

    def shows(tried: Sequence[Operation]) -> bool:
        spent.append(len(tried))
        return False

    history = [activate("a")] * 50
    assert shortened(history, None, shows, Budget(100)) == history
    assert sum(spent) <= 100


@pytest.mark.spec("CNF-6")
def test_the_tour_takes_every_edge_of_a_system() -> None:
    driver = Rightly()
    test_run = TestRun(driver)
    assert exhaustive.tour(test_run, PAIR)
    taken = set[tuple[World, str]]()
    world = driver.oracle.initial
    for operation in driver.history:
        taken.add((world, str(operation)))
        world, _ = driver.oracle.apply(world, operation)
    assert len(taken) == 3 * 6  # states, and transitions of two groups and an unknown one
    assert driver.configured == 1


def test_the_progress_of_a_given_system_has_the_number_of_the_tour_and_of_groups() -> None:
    reported: list[str] = []
    driver = Rightly()
    driver.given = PAIR
    (check,) = [check for check in exhaustive.CHECKS if "ACT-1" in check.clauses]
    check.run(TestRun(driver, progress=reported.append))
    assert reported == ["tour 1, 2 groups"]
