"""The random and the concurrent layers: the core passes them, and what is broken in one way is caught by its clause."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, closing
from itertools import permutations
from typing import Any

import pytest
from attrs import evolve

from toolfold_specs.broken.driver import EngineDriver
from toolfold_specs.broken.engine import Engine
from toolfold_specs.broken.rules import Session
from toolfold_specs.checks import Check, run_checks
from toolfold_specs.driver import Answer, Driver, Group, Operation, Setup, Tool
from toolfold_specs.drivers.toolfold import CoreDriver
from toolfold_specs.layers import histories, schedules, stateful
from toolfold_specs.oracle import Oracle
from toolfold_specs.overlap import Overlap
from toolfold_specs.report import Result, Status, Violation
from toolfold_specs.trial import Trial

LAYERS = (stateful, schedules, histories)


def clauses(results: Iterable[Result]) -> set[str]:
    return {clause for result in results if result.status is Status.PASSED for clause in result.clauses}


def found(results: Iterable[Result]) -> dict[str, Violation]:
    return {violation.clause: violation for result in results for violation in result.violations}


def judged(checks: Iterable[Check], engine: type[Engine], **options: Any) -> dict[str, Violation]:
    return found(run_checks(checks, lambda: EngineDriver(engine), **options))


def named(name: str) -> tuple[Check, ...]:
    return tuple(check for check in schedules.CHECKS if check.name == name)


# What is right


@pytest.mark.spec("CNF-7")
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__.rpartition(".")[2])
@pytest.mark.parametrize(("driver", "seed"), [(CoreDriver, 3), (EngineDriver, 1)])
def test_the_core_and_the_naive_engine_pass_and_every_clause_of_a_layer_is_put_to_the_test(
    layer: Any, driver: Callable[[], Driver], seed: int
) -> None:
    results = run_checks(layer.CHECKS, driver, seed=seed)
    assert {result.status for result in results} == {Status.PASSED}
    assert clauses(results) == {clause for check in layer.CHECKS for clause in check.clauses}


@pytest.mark.spec("CNF-7")
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__.rpartition(".")[2])
def test_a_driver_that_can_do_the_least_is_asked_for_no_more(layer: Any) -> None:
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

    ran = [result for result in run_checks(layer.CHECKS, Least, budget=600) if result.cases]
    assert [result.status for result in ran] == ([Status.PASSED] if layer is stateful else [])


@pytest.mark.spec("CNF-7")
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__.rpartition(".")[2])
def test_a_driver_of_one_given_system_is_asked_for_that_system_only(layer: Any) -> None:
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

    results = run_checks(layer.CHECKS, Given, budget=1500)
    assert {result.status for result in results} <= {Status.PASSED, Status.LEFT_OUT}
    assert Status.PASSED in {result.status for result in results}


@pytest.mark.spec("CNF-3")
@pytest.mark.parametrize("layer", [stateful, histories])
def test_the_same_seed_gives_the_same_run_and_another_seed_another(layer: Any) -> None:
    def run(seed: int) -> list[Operation]:
        done: list[Operation] = []

        class Recorder(CoreDriver):
            def perform(self, operation: Operation) -> Answer:
                done.append(operation)
                return super().perform(operation)

        run_checks(layer.CHECKS, Recorder, seed=seed, budget=400)
        return done

    assert run(1) == run(1) != run(2)


@pytest.mark.spec("SES-2")
def test_most_random_histories_overlap() -> None:
    with closing(EngineDriver()) as driver:
        trial = Trial(driver)
        histories.CHECKS[0].run(trial)
    assert trial.shown["SES-2"] > histories.HISTORIES / 2


@pytest.mark.spec("SES-2")
def test_histories_in_which_nothing_overlaps_are_evidence_for_nothing() -> None:
    class WithoutParking(CoreDriver):
        capabilities = CoreDriver.capabilities - {"parked hooks"}

    (result, idle) = run_checks(histories.CHECKS, WithoutParking)
    assert (result.status, result.clauses) == (Status.PASSED, ())
    assert (idle.status, idle.clauses) == (Status.LEFT_OUT, ("SES-2",))


@pytest.mark.spec("SES-2")
@pytest.mark.parametrize(("setup", "queue"), schedules.QUEUES)
def test_what_queues_shows_any_other_order_than_that_of_arrival(setup: Setup, queue: tuple[Operation, ...]) -> None:
    def outcome(order: Iterable[int]) -> Any:
        oracle = Oracle(setup)
        world, _ = oracle.apply(oracle.initial, queue[0])
        told: dict[int, Answer] = {}
        for place in order:
            world, told[place] = oracle.apply(world, queue[place])
        return {place: (answer.error, answer.changed) for place, answer in told.items()}, world

    places = range(1, len(queue))
    arrived = outcome(places)
    assert all(outcome(order) != arrived for order in permutations(places) if order != tuple(places))


# What is broken: schedules


class TakesNoTurns(Engine):
    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        self.refuse_reentry(session)
        yield


class CommitsFirst(Engine):
    async def run_hooks(self, session: Session, hooks: Any, force: bool) -> None:
        before = list(session.active)
        session.active = [path for path in before if ("on_deactivate", path) not in hooks]
        session.active += [path for phase, path in hooks if phase == "on_activate"]
        try:
            await super().run_hooks(session, hooks, force)
        finally:
            session.active = before


class LastComeFirstServed(Engine):
    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        self.refuse_reentry(session)
        await session.lock.acquire()
        try:
            yield
        finally:
            waiters: Any = session.lock._waiters
            if waiters:
                waiters.rotate(1)
            session.lock.release()


class WaitsForItself(Engine):
    def refuse_reentry(self, session: Session) -> None:
        pass


class TellsFirst(Engine):
    async def run_hooks(self, session: Session, hooks: Any, force: bool) -> None:
        session.notices += 1
        await super().run_hooks(session, hooks, force)
        session.notices -= 1


class OneForAll(Engine):
    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        session.lock = self.__dict__.setdefault("lock", session.lock)
        async with super().turn(session):
            yield


class GoesOnCancelled(Engine):
    async def undo(self, session: Session, succeeded: Any) -> None:
        session.active = []


class UndoesInOrder(Engine):
    async def undo(self, session: Session, succeeded: Any) -> None:
        await super().undo(session, succeeded[::-1])


class KeepsTheTurn(Engine):
    @asynccontextmanager
    async def turn(self, session: Session) -> AsyncGenerator[None]:
        self.refuse_reentry(session)
        await session.lock.acquire()
        yield
        session.lock.release()


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize(
    ("check", "engine", "clause"),
    [
        ("two steps at once", TakesNoTurns, "SES-2"),
        ("reads during a step", CommitsFirst, "HOOK-2"),
        ("two steps at once", CommitsFirst, "HOOK-2"),
        ("order of arrival", LastComeFirstServed, "SES-2"),
        ("no notice before the commit", TellsFirst, "NTF-2"),
        ("hooks that ask their own session", WaitsForItself, "HOOK-7"),
        ("two sessions at once", OneForAll, "SES-1"),
        ("a step is cancelled while another waits", GoesOnCancelled, "HOOK-6"),
        ("a step is cancelled while another waits", KeepsTheTurn, "HOOK-6"),
        ("a step fails while another waits", GoesOnCancelled, "HOOK-4"),
        ("a step fails while another waits", KeepsTheTurn, "HOOK-4"),
        ("a step fails while another waits", UndoesInOrder, "HOOK-5"),
    ],
)
def test_a_schedule_catches_an_engine_by_the_clause_that_it_breaks(
    check: str, engine: type[Engine], clause: str
) -> None:
    assert set(judged(named(check), engine)) == {clause}


@pytest.mark.spec("CNF-5")
def test_a_schedule_catches_reads_that_wait() -> None:
    class ReadsInTurn(EngineDriver):
        async def _snapshot(self, session: Session) -> dict[str, Any]:
            async with self._engine.turn(session):
                return {}

    results = run_checks(named("reads during a step"), ReadsInTurn)
    assert set(found(results)) == {"SES-2"}


@pytest.mark.spec("CNF-3")
def test_a_violated_schedule_tells_everything_that_was_asked() -> None:
    violation = judged(named("two steps at once"), TakesNoTurns)["SES-2"]
    assert violation.setup is not None
    verbs = [operation.verb for operation in violation.history]
    assert verbs[-3:] == ["finish", "finish", "snapshot"]
    assert verbs.count("start") == 2
    assert violation.expected != violation.got


# What is broken: random histories of larger systems


class ForgetsTheDeepest(Engine):
    def deactivated(self, now: set[str], path: str) -> set[str]:
        near = {other for other in self.subtree(path) if other.count(".") < path.count(".") + 3}
        return now - near


class ExcludesAcross(Engine):
    def partners(self, path: str) -> set[str]:
        near = super().partners(path)
        far = {other for partner in near for members in self.exclusions if partner in members for other in members}
        return {other for other in near | far if other != path and not path.startswith(f"{other}.")}


class EvictsTheNewest(Engine):
    def evictable(self, after: list[str], before: list[str], wanted: set[str]) -> list[str]:
        return super().evictable(after, before, wanted)[::-1]


class OneStateForAll(Engine):
    def session(self, name: str) -> Session:
        session = super().session(name)
        if name != "main":
            session.active = super().session("main").active
        return session


class TellsTooOften(Engine):
    def notices(self, session: Session, listed: list[str], before: list[str], after: list[str]) -> int:
        return 1


class ListsHidden(Engine):
    def listed(self, tool: Tool, session: Session) -> bool:
        return self.available(tool, session)


class MiscountsTools(Engine):
    def count(self, path: str) -> int:
        return len([tool for tool in self.tools.values() if tool.group == path and not tool.hidden])


class ForcesNothing(Engine):
    def passes_over(self, phase: Any, force: bool) -> bool:
        return False


class DefiesOrder(Engine):
    def hook_order(self, leaving: set[str], entering: set[str]) -> Any:
        return super().hook_order(leaving, entering)[::-1]


class UndoesNothing(Engine):
    async def undo(self, session: Session, succeeded: Any) -> None:
        pass


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize(
    ("engine", "clause"),
    [
        (ForgetsTheDeepest, "INV-1"),
        (ExcludesAcross, "ACT-7"),
        (EvictsTheNewest, "ACT-10"),
        (OneStateForAll, "SES-1"),
        (TellsTooOften, "NTF-1"),
        (ListsHidden, "VIS-6"),
        (MiscountsTools, "LST-4"),
        (ForcesNothing, "HOOK-8"),
        (DefiesOrder, "HOOK-3"),
        (UndoesNothing, "HOOK-5"),
    ],
)
def test_random_histories_of_a_few_seeds_catch_an_engine_by_the_clause_that_it_breaks(
    engine: type[Engine], clause: str
) -> None:
    runs = (judged(stateful.CHECKS, engine, seed=seed, budget=1000) for seed in range(10))
    violation = next(violations[clause] for violations in runs if clause in violations)
    assert len(violation.history) <= 8


# What is broken: random concurrent histories


class AddsWhatItPlanned(Engine):
    """Commits the difference that it had planned, to whatever is active by then."""

    turn = TakesNoTurns.turn

    def commit(self, session: Session, before: list[str], after: list[str]) -> None:
        kept = [path for path in session.active if path in after or path not in before]
        super().commit(session, before, kept + [path for path in after if path not in kept and path not in before])


@pytest.mark.spec("CNF-5")
@pytest.mark.parametrize("engine", [TakesNoTurns, AddsWhatItPlanned])
@pytest.mark.parametrize("seed", range(3))
def test_random_histories_catch_an_engine_that_takes_no_turns(engine: type[Engine], seed: int) -> None:
    violation = judged(histories.CHECKS, engine, seed=seed)["SES-2"]
    assert len(violation.history) < 20


@pytest.mark.spec("SES-2")
def test_an_overlap_is_judged_by_every_answer() -> None:
    class Liar(EngineDriver):
        def finish(self, ticket: int) -> Answer:
            return evolve(super().finish(ticket), changed=False)

    for driver, honest in ((EngineDriver(), True), (Liar(), False)):
        with closing(driver):
            case = Trial(driver).begin(Setup(groups=(Group("a"),)))
            assert case is not None
            run = Overlap(case)
            run.finish(run.start(Operation("activate", {"group": "a"})))
            assert run.linearizable() is honest
