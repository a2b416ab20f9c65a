"""The random and the concurrent layers: the core passes them, and each mutant is caught by its clause."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from functools import partial
from importlib import import_module
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from toolfold_specs.checks import Check, Options, run_checks
from toolfold_specs.driver import IN_A_STORE, Answer, Driver, Group, Operation, Setup, Tool
from toolfold_specs.layers import blocking, histories, schedules, stateful
from toolfold_specs.oracle import Oracle
from toolfold_specs.overlap import Overlap
from toolfold_specs.report import Result, Status, Violation
from toolfold_specs.runs import TestRun
from verification.library.driver import CoreDriver
from verification.mutants import MUTANTS
from verification.mutants.driver import EngineDriver
from verification.mutants.engine import Engine, Session, Work
from verification.mutants.registration import LIVE

LAYERS = (stateful, schedules, histories)


def clauses(results: Iterable[Result]) -> set[str]:
    return {clause for result in results if result.status is Status.PASSED for clause in result.clauses}


def found(results: Iterable[Result]) -> dict[str, Violation]:
    return {violation.clause: violation for result in results for violation in result.violations}


def judged(checks: Iterable[Check], engine: type[Engine], **options: Any) -> dict[str, Violation]:
    return found(run_checks(checks, lambda: EngineDriver(engine), Options(**options)))


def named(name: str) -> tuple[Check, ...]:
    return tuple(check for check in schedules.CHECKS if check.name == name)


# Correct implementations


@pytest.mark.spec("CNF-7")
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__.rpartition(".")[2])
@pytest.mark.parametrize(
    "driver", [CoreDriver, partial(EngineDriver, capabilities=LIVE | IN_A_STORE.keys())], ids=["core", "engine"]
)
def test_the_core_and_the_naive_engine_pass_and_a_few_seeds_test_every_clause_of_a_layer(
    layer: Any, driver: Callable[[], Driver]
) -> None:
    with closing(driver()) as one:
        able = one.capabilities
    untested = {clause for check in layer.CHECKS if check.needs <= able for clause in check.clauses}
    for seed in range(10):
        results = run_checks(layer.CHECKS, driver, Options(seed=seed))
        assert {result.status for result in results} <= {Status.PASSED, Status.LEFT_OUT}
        untested -= clauses(results)
        if not untested:
            return
    pytest.fail(f"untested: {untested}")


@pytest.mark.spec("CNF-7")
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__.rpartition(".")[2])
def test_a_driver_with_the_fewest_capabilities_gets_no_other_requests(layer: Any) -> None:
    class Least(CoreDriver):
        capabilities = frozenset({"setups", "errors"})

        def perform(self, operation: Operation) -> Answer:
            assert operation.verb in ("activate", "deactivate", "snapshot")
            assert "force" not in operation.arguments
            assert operation.session == "main"
            return super().perform(operation)

        def configure(self, setup: Setup) -> Answer:
            plain = tuple(evolve(group, hooks=()) for group in setup.groups)
            assert setup == evolve(setup, groups=plain, page_size=None, max_active=None)
            assert not any(tool.when.startswith("fact") for tool in setup.tools)
            return super().configure(setup)

    ran = [result for result in run_checks(layer.CHECKS, Least, Options(budget=600)) if result.cases]
    assert [result.status for result in ran] == ([Status.PASSED] if layer is stateful else [])


@pytest.mark.spec("CNF-7")
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__.rpartition(".")[2])
def test_a_driver_of_one_given_system_gets_only_that_system(layer: Any) -> None:
    hooks = ("on_activate", "on_deactivate")
    system = Setup(
        groups=(Group("a", hooks=hooks), Group("b", hooks=hooks)), exclusions=(("a", "b"),), tools=(Tool("root"),)
    )

    class Given(CoreDriver):
        capabilities = CoreDriver.capabilities - {"setups"}
        given = system

        def configure(self, setup: Setup) -> Answer:
            assert setup == system
            return super().configure(setup)

    results = run_checks(layer.CHECKS, Given, Options(budget=1500))
    assert {result.status for result in results} <= {Status.PASSED, Status.LEFT_OUT}
    assert Status.PASSED in {result.status for result in results}


def drawn(layer: Any, seed: int) -> list[Operation]:
    """Return the operations of a run of a random layer."""
    done: list[Operation] = []

    class Recorder(CoreDriver):
        def perform(self, operation: Operation) -> Answer:
            done.append(operation)
            return super().perform(operation)

    run_checks(layer.CHECKS, Recorder, Options(seed=seed, budget=150))
    return done


@pytest.mark.spec("CNF-3")
@pytest.mark.parametrize("layer", [stateful, histories])
def test_a_run_is_determined_by_its_seed(layer: Any) -> None:
    assert drawn(layer, 1) == drawn(layer, 1) != drawn(layer, 2)


@pytest.mark.spec("CNF-3")
@pytest.mark.parametrize("layer", [stateful, histories])
def test_a_run_does_not_depend_on_the_modules_that_are_loaded(
    layer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = drawn(layer, 1)
    name = f"many_constants_{layer.__name__.rpartition('.')[2]}"
    (tmp_path / f"{name}.py").write_text(f"NUMBERS = {list(range(100, 250, 3))}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    import_module(name)
    assert drawn(layer, 1) == before


@pytest.mark.spec("SES-2")
def test_most_random_histories_overlap() -> None:
    with closing(EngineDriver()) as driver:
        test_run = TestRun(driver)
        histories.CHECKS[0].run(test_run)
    assert test_run.shown["SES-2"] > histories.HISTORIES / 2


@pytest.mark.spec("SES-2")
def test_histories_without_overlap_are_no_evidence() -> None:
    class WithoutBlocking(CoreDriver):
        capabilities = CoreDriver.capabilities - {"blocked hooks"}

    (result, idle) = run_checks(histories.CHECKS, WithoutBlocking)
    assert (result.status, result.clauses) == (Status.PASSED, ())
    assert (idle.status, idle.clauses) == (Status.LEFT_OUT, ("SES-2",))


@pytest.mark.spec("SES-2")
@pytest.mark.parametrize(("setup", "queue"), blocking.QUEUES)
def test_any_order_other_than_that_of_arrival_is_visible(setup: Setup, queue: tuple[Operation, ...]) -> None:
    def outcome(order: Iterable[int]) -> Any:
        oracle = Oracle(setup)
        world, _ = oracle.apply(oracle.initial, queue[0])
        answers: dict[int, Answer] = {}
        for place in order:
            world, answers[place] = oracle.apply(world, queue[place])
        return {place: (answer.error, answer.changed) for place, answer in answers.items()}, world

    places = range(1, len(queue))
    arrived = outcome(places)
    assert all(outcome(order) != arrived for order in permutations(places) if order != tuple(places))


# Mutants: schedules


class NeverLeavesTheQueue(Engine):
    """Runs nothing after a transition that failed."""

    def serialized(self, session: Session, work: Work[Any], within: bool = False) -> Work[Any]:
        place = object()
        session.queue.append(place)
        yield lambda: session.queue[0] is place
        result = yield from work
        session.queue.remove(place)
        return result


SIDE_BY_SIDE = "runs transitions side by side"
COMMITS_FIRST = "commits before the hooks run, and reverts if one fails"


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize(
    ("check", "name", "clause"),
    [
        ("two transitions at once", COMMITS_FIRST, "HOOK-2"),
        ("hooks that ask their own session", "deadlocks on a hook that asks for a transition", "HOOK-7"),
        ("failing while another waits", "reports a failed hook but commits", "HOOK-4"),
        ("failing while another waits", "compensates hooks in the order in which they ran", "HOOK-5"),
    ],
)
def test_a_schedule_catches_a_mutant_by_its_clause(check: str, name: str, clause: str) -> None:
    assert set(judged(named(check), MUTANTS[name].engine)) == {clause}


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize(
    ("check", "clause"),
    [("cancelling while another waits", "HOOK-6"), ("failing while another waits", "HOOK-4")],
)
def test_a_schedule_catches_a_queue_that_a_failure_blocks(check: str, clause: str) -> None:
    assert set(judged(named(check), NeverLeavesTheQueue)) == {clause}


@pytest.mark.spec("CNF-5")
def test_a_schedule_catches_reads_that_queue() -> None:
    class QueuesReads(EngineDriver):
        def _done(self, session: Session, verb: str, arguments: Mapping[str, Any]) -> Work[dict[str, Any]]:
            work = super()._done(session, verb, arguments)
            return self.engine.serialized(session, work) if verb == "snapshot" else work

    results = run_checks(named("reads during a transition"), QueuesReads)
    assert set(found(results)) == {"SES-2"}


@pytest.mark.spec("CNF-3")
def test_a_violation_of_a_schedule_has_the_whole_history() -> None:
    violation = judged(named("two transitions at once"), MUTANTS[SIDE_BY_SIDE].engine)["SES-2"]
    assert violation.setup is not None
    verbs = [operation.verb for operation in violation.history]
    assert verbs[-3:] == ["finish", "finish", "snapshot"]
    assert verbs.count("start") == 2
    assert violation.expected != violation.got


# Mutants: random sequential histories


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize(
    "name",
    [
        "deactivates only three levels of groups",
        "evicts the newest",
        "lists hidden tools",
        "compensates no hooks",
    ],
)
def test_random_histories_of_a_few_seeds_catch_a_mutant_by_its_clause(name: str) -> None:
    clause, engine = MUTANTS[name].clause, MUTANTS[name].engine
    runs = (judged(stateful.CHECKS, engine, seed=seed, budget=1000) for seed in range(10))
    violation = next(violations[clause] for violations in runs if clause in violations)
    assert len(violation.history) <= 8


# Mutants: random concurrent histories


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize("name", [SIDE_BY_SIDE, "runs transitions side by side and merges their changes"])
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_catch_transitions_side_by_side(name: str, seed: int) -> None:
    violation = judged(histories.CHECKS, MUTANTS[name].engine, seed=seed)["SES-2"]
    assert len(violation.history) < 20


@pytest.mark.spec("SES-2")
def test_every_answer_of_an_overlap_is_judged() -> None:
    class Liar(EngineDriver):
        def finish(self, ticket: int) -> Answer:
            return evolve(super().finish(ticket), changed=False)

    for driver, honest in ((EngineDriver(), True), (Liar(), False)):
        with closing(driver):
            case = TestRun(driver).begin(Setup(groups=(Group("a"),)))
            assert case is not None
            run = Overlap(case)
            run.finish(run.start(Operation("activate", {"group": "a"})))
            assert run.linearizable() is honest
