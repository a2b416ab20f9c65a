"""Helpers of the kit's tests: tiny implementations, correct and broken, and reports."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolfold_specs import reference
from toolfold_specs.checks import Check
from toolfold_specs.clauses import Clause
from toolfold_specs.driver import MAIN, Answer, Driver, Group, Operation, Setup, TargetFailed
from toolfold_specs.report import Expectation, Report, Result, Status, Violation
from toolfold_specs.runs import TestRun

PAIR = Setup(groups=(Group("a"), Group("b"), Group("b.c")), exclusions=(("a", "b"),))


def step(verb: str, group: str) -> Operation:
    return Operation(verb, {"group": group})


BOTH = (step("activate", "a"), step("activate", "b"))


class TinyDriver(Driver):
    """The reference model as an implementation; one session, nothing but activations and deactivations."""

    capabilities = frozenset({"setups", "errors"})
    excludes = True

    def __init__(self) -> None:
        self.closed = False
        self._paths: tuple[str, ...] = ()
        self._system = reference.System(())
        self._state: frozenset[int] = frozenset()

    def configure(self, setup: Setup) -> Answer:
        self._paths = setup.paths
        parents = tuple(self._number(path.rpartition(".")[0]) for path in self._paths)
        exclusions = setup.exclusions if self.excludes else ()
        sets = tuple(frozenset(self._paths.index(path) for path in paths) for paths in exclusions)
        self._system = reference.System(parents, sets)
        self._state = frozenset()
        return Answer()

    def activate(self, group: str, session: str = MAIN) -> Answer:
        return self._stepped(group, reference.activate)

    def deactivate(self, group: str, force: bool = False, session: str = MAIN) -> Answer:
        return self._stepped(group, reference.deactivate)

    def snapshot(self, session: str = MAIN) -> Answer:
        return Answer(active=tuple(self._paths[number] for number in sorted(self._state)))

    def close(self) -> None:
        self.closed = True

    def _stepped(self, group: str, do: Any) -> Answer:
        number = self._number(group)
        if number is None:
            return Answer(error="GroupNotFound", active=self.snapshot().active)
        came: reference.Answer[frozenset[int]] = do(self._system, self._state, number)
        self._state = came.state
        active = self.snapshot().active
        if came.kind == "refused":
            assert came.detail is not None
            return Answer(error=came.error, detail={"missing": self._paths[came.detail]}, active=active)
        return Answer(changed=came.kind == "changed", active=active)

    def _number(self, path: str) -> int | None:
        return self._paths.index(path) if path in self._paths else None


class BrokenDriver(TinyDriver):
    """Exclusion sets are ignored."""

    excludes = False


class DyingDriver(TinyDriver):
    """Fails on the second activation."""

    count = 0

    def activate(self, group: str, session: str = MAIN) -> Answer:
        self.count += 1
        if self.count > 1:
            raise TargetFailed("It ended with status 3.")
        return super().activate(group, session)


def no_driver() -> Driver:
    raise TargetFailed("It can't be started: no such file.")


def _both(test_run: TestRun) -> None:
    test_run.play(PAIR, BOTH)


def _unknown(test_run: TestRun) -> None:
    test_run.play(PAIR, [step("activate", "nowhere")])


def _fact(test_run: TestRun) -> None:
    test_run.holds("INV-3")
    if test_run.driver.name == "bad":
        test_run.violated("INV-3", "there is a group root")


PAIRS = Check("two groups that exclude each other", "exhaustive", ("ACT-4", "ACT-7", "INV-2"), _both)
UNKNOWN = Check("a group that does not exist", "vectors", ("ACT-1",), _unknown)
FACT = Check("root is no group", "wire", ("INV-3",), _fact)
LISTS = Check("lists", "vectors", ("LST-1",), _both, needs={"listing"})
NO_LIMIT = Check("a limit", "wire", ("ACT-10",), lambda test_run: test_run.violated("ACT-10", "there is no limit"))
CHECKS = (PAIRS, UNKNOWN, FACT, LISTS)


CLAUSES = (
    Clause(id="ACT-1", section="4 Transitions", level="MUST", text="Unknown groups are refused."),
    Clause(id="ACT-4", section="4 Transitions", level="MUST", text="Partners | are displaced. In any order."),
    Clause(id="ACT-10", section="4 Transitions", level="SHOULD", text="There may be a limit."),
    Clause(id="PER-1", section="12 Persistence", level="MUST", text="State is restored."),
    Clause(id="NAM-3", section="2 Names", level="MAY", text="Names are made."),
)

WRONG = Violation(
    clause="ACT-4",
    check="pairs",
    setting="stdio, legacy",
    message="b's partner is still active",
    setup=PAIR,
    history=BOTH,
    expected={"changed": True, "active": ["b"], "notified": 1},
    got={"changed": True, "active": ["a", "b"]},
)
LONGER = Violation(
    "ACT-4", "pairs at random", "http, modern", "a is active", PAIR, (step("activate", "b.c"), *BOTH), {}, {}
)
WEAK = Violation("ACT-10", "limit", "stdio, legacy", "there is no limit")


def result(
    check: str,
    clauses: Iterable[str],
    status: Status = Status.PASSED,
    *,
    layer: str = "vectors",
    setting: str = "stdio, legacy",
    reason: str = "",
    violations: tuple[Violation, ...] = (),
    cases: int = 1,
) -> Result:
    return Result(check, layer, setting, tuple(clauses), status, reason, violations, cases, 0.25)


def report(*results: Result, expected: Iterable[Expectation] = (), **known: Any) -> Report:
    header = {"target": "shop:tools", "kit": "1.0", "spec": "1", "seed": "7"}
    return Report(header, results, CLAUSES, expected=tuple(expected), seconds=0.5, **known)


def failing(**known: Any) -> Report:
    """Return a report with every kind of content."""
    return report(
        result("pairs at random", ["ACT-4"], Status.FAILED, setting="http, modern", violations=(LONGER,)),
        result("pairs", ["ACT-1", "ACT-4"], Status.FAILED, layer="exhaustive", violations=(WRONG,), cases=1200),
        result("limit", ["ACT-10"], Status.FAILED, violations=(WEAK,)),
        result("dump", ["PER-1"], Status.LEFT_OUT, reason="no persistence", cases=0),
        left_out={"persistence": "it stores nothing"},
        **known,
    )
