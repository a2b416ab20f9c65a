"""The values of a report: what each check came to, and what follows for each clause (SPEC CNF-3).

A `Result` is what one check came to in one setting: a way to reach the target, like "in process" or "stdio, legacy".
`Report.rows` draws the conclusion clause by clause; `Report.exit_status` the one for the caller.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any

from attrs import evolve, field, frozen

from .clauses import AIMED_AT, Clause, Level
from .driver import Operation, Setup

DETERMINISTIC = frozenset({"exhaustive", "vectors", "schedules", "wire"})
"""The layers that look at the same cases in every run: only these can tell that an expected failure is gone."""


class Verdict(Enum):
    """What is known of a clause after a run."""

    HELD = "held"
    VIOLATED = "violated"
    EXPECTED = "violated, as expected"
    FIXED = "held, though expected to be violated"
    UNDECIDED = "undecided"
    NOT_APPLICABLE = "not applicable"


class Status(Enum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    LEFT_OUT = "left out"
    MASKED = "masked"
    """A case went wrong, and a clause that it takes for granted is broken: that may be why."""
    INTERRUPTED = "interrupted"
    """The run ended before the check did."""
    UNSEEN = "not shown"
    """Cases arose, but no answer showed what the clause speaks of."""
    DIED = "the target failed"
    BROKEN = "the harness failed"


@frozen
class Violation:
    """A clause that an implementation breaks, and the shortest history found that shows it.

    `history` is replayed on a fresh `setup`; the last operation is the one whose answer was wrong. Where a check is not
    a history of operations (a fact about the wire, say), `setup` is None and `check` alone finds it again.
    """

    clause: str
    check: str
    setting: str
    message: str
    setup: Setup | None = None
    history: tuple[Operation, ...] = ()
    expected: Mapping[str, Any] = field(factory=dict[str, Any])
    got: Mapping[str, Any] = field(factory=dict[str, Any])


@frozen
class Expectation:
    """A clause that the adopter expects to be violated, and why (SPEC CNF-4).

    With a `check` or a `setting` it is about that check or setting alone.
    """

    clause: str
    reason: str
    check: str | None = None
    setting: str | None = None

    def is_about(self, check: str, setting: str) -> bool:
        """Return whether it speaks of that check in that setting."""
        return self.check in (None, check) and self.setting in (None, setting)

    def foresaw(self, violation: Violation) -> bool:
        """Return whether it expected that violation."""
        return self.clause == violation.clause and self.is_about(violation.check, violation.setting)

    def __str__(self) -> str:
        said = [self.clause]
        said += [f"check {self.check}"] if self.check else []
        said += [f"setting {self.setting}"] if self.setting else []
        return ", ".join(said)


@frozen
class Result:
    """What one check came to in one setting."""

    check: str
    layer: str
    setting: str
    clauses: tuple[str, ...]
    status: Status
    reason: str = ""
    violations: tuple[Violation, ...] = ()
    cases: int = 0
    """How many answers were judged."""
    seconds: float = 0.0
    hidden: tuple[Violation, ...] = ()
    """Of what is masked: what went wrong there."""


@frozen
class Row:
    """What is known of one clause: the verdict, the reason where it needs one, and the violations."""

    clause: Clause
    verdict: Verdict
    reason: str = ""
    checks: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    hidden: tuple[Violation, ...] = ()
    """What went wrong, but may only follow from another clause that is violated."""
    masked: bool = False
    """Whether nothing but violations of other clauses leaves it undecided."""
    unseen: bool = False
    """Whether it is undecided because no answer shows what it speaks of."""
    aimed_at: bool = True
    """Whether it is of a profile that the verdict is about."""

    @property
    def level(self) -> Level:
        """MUST, SHOULD or MAY."""
        return self.clause.level

    @property
    def fails(self) -> bool:
        """Whether a run fails for it: an expected failure is gone, or what is aimed at is violated.

        That is a MUST, or a MAY: it is checked only where the implementation claims it.
        """
        violated = self.verdict is Verdict.VIOLATED and self.level != "SHOULD" and self.aimed_at
        return violated or self.verdict is Verdict.FIXED


@frozen
class Report:
    """A run of the kit against one target.

    `header` says what was run: target, kit version, spec revision, seed. `left_out` has the capabilities and settings
    that were missing, with the reason. `expected` has what the adopter expects to be violated. `profiles` are the
    levels of conformance that the verdict is about; what is wrong beyond them is told as well.
    """

    header: Mapping[str, str]
    results: tuple[Result, ...]
    clauses: tuple[Clause, ...]
    left_out: Mapping[str, str] = field(factory=dict[str, str])
    expected: tuple[Expectation, ...] = ()
    profiles: tuple[str, ...] = AIMED_AT

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """One row for each clause of the specification, in its order."""
        return self._rows(self.results)

    def rows_in(self, setting: str) -> tuple[Row, ...]:
        """Return one row for each clause, from the results in one setting alone."""
        return self._rows([result for result in self.results if result.setting == setting])

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings, in the order in which they were run."""
        return tuple(dict.fromkeys(result.setting for result in self.results))

    @property
    def violations(self) -> tuple[Violation, ...]:
        """Every violation, in the order in which they were found."""
        return tuple(violation for result in self.results for violation in result.violations)

    @property
    def stale(self) -> tuple[Expectation, ...]:
        """The expectations to remove: what they are about was looked at by a deterministic check, and holds."""
        return tuple(expectation for expectation in self.expected if self._is_stale(expectation, self.results))

    @property
    def ran(self) -> bool:
        """Whether anything was put to the test at all."""
        return any(result.cases or result.status in (Status.PASSED, Status.FAILED) for result in self.results)

    @property
    def exit_status(self) -> int:
        """Return 0 if every MUST of the profiles that applies holds, and every MAY that is claimed; 1 if one of them is
        violated or an expectation is stale; 2 if the kit can't tell: it failed or was interrupted, no check applied,
        the target failed on the way, or no answer showed what a MUST speaks of.
        """
        statuses = {result.status for result in self.results}
        if not statuses.isdisjoint((Status.BROKEN, Status.INTERRUPTED)) or not self.ran:
            return 2
        if any(row.fails for row in self.rows) or self.stale:
            return 1
        unseen = any(row.unseen and row.aimed_at and row.level == "MUST" for row in self.rows)
        return 2 if unseen or Status.DIED in statuses else 0

    def foresaw(self, violation: Violation) -> bool:
        """Return whether a violation was expected."""
        return any(expectation.foresaw(violation) for expectation in self.expected)

    def _rows(self, results: Iterable[Result]) -> tuple[Row, ...]:
        about: dict[str, list[Result]] = {clause.id: [] for clause in self.clauses}
        for result in results:
            for clause in {*result.clauses, *(violation.clause for violation in result.violations)}:
                about.setdefault(clause, []).append(result)
        return tuple(self._row(clause, about[clause.id]) for clause in self.clauses)

    def _row(self, clause: Clause, about: list[Result]) -> Row:
        return evolve(self._known_of(clause, about), aimed_at=clause.profile in ("", *self.profiles))

    def _known_of(self, clause: Clause, about: list[Result]) -> Row:
        violations = tuple(found for result in about for found in result.violations if found.clause == clause.id)
        checks = tuple(dict.fromkeys(result.check for result in about if result.status is not Status.LEFT_OUT))
        expected = [expectation for expectation in self.expected if expectation.clause == clause.id]
        if violations:
            verdict = Verdict.EXPECTED if all(map(self.foresaw, violations)) else Verdict.VIOLATED
            foreseen = [one.reason for one in expected if any(map(one.foresaw, violations))]
            return Row(clause, verdict, _joined(foreseen), checks, violations)
        if stopped := [result for result in about if result.status in UNDECIDING]:
            said = _joined(f"{result.check}: {_why(result)}" for result in stopped)
            hidden = tuple(one for result in stopped for one in result.hidden)
            masked = all(result.status is Status.MASKED for result in stopped)
            return Row(clause, Verdict.UNDECIDED, said, checks, hidden=hidden, masked=masked)
        if stale := [expectation for expectation in expected if self._is_stale(expectation, about)]:
            return Row(clause, Verdict.FIXED, _joined(one.reason for one in stale), checks)
        if any(result.status in DECIDING for result in about):
            return Row(clause, Verdict.HELD, "", checks)
        if unseen := [result for result in about if result.status is Status.UNSEEN]:
            return Row(clause, Verdict.UNDECIDED, _joined(result.reason for result in unseen), checks, unseen=True)
        never = f"it is checked by layers that were not run: {', '.join(clause.layers)}" if clause.layers else NOT_SEEN
        reasons = (reason for result in about for reason in result.reason.split("; "))
        return Row(clause, Verdict.NOT_APPLICABLE, _joined(reasons) or never)

    def _is_stale(self, expectation: Expectation, results: Iterable[Result]) -> bool:
        """Return whether the results show that what is expected does not happen (random layers never do)."""
        if any(map(expectation.foresaw, self.violations)):
            return False
        about = [
            result
            for result in results
            if expectation.clause in result.clauses and expectation.is_about(result.check, result.setting)
        ]
        if any(result.status in UNDECIDING for result in about):
            return False
        return any(result.status is Status.PASSED and result.layer in DETERMINISTIC for result in about)


DECIDING = (Status.PASSED, Status.FAILED)
UNDECIDING = (Status.MASKED, Status.INTERRUPTED, Status.DIED, Status.BROKEN)
NOT_SEEN = "the kit has no check for it: it cannot be seen from outside, or depends on how the server is used"


def _why(result: Result) -> str:
    return result.reason if result.status is Status.MASKED else result.status.value


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))
