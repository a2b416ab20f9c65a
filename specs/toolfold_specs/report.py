"""The values of a report: the results of checks, and the verdicts on clauses (SPEC CNF-3).

A `Result` is that of one check in one setting, a way to reach the target such as "in process" or "stdio, legacy".
`Report.rows` has the verdict on each clause, `Report.exit_status` the overall one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import cached_property
from typing import Any

from attrs import evolve, field, frozen

from .clauses import AIMED_AT, Clause, Level
from .driver import Operation, Setup
from .exchange import Exchange

DETERMINISTIC = frozenset({"exhaustive", "vectors", "schedules", "wire"})
"""The layers with the same cases in every run: only these can show that an expected failure no longer occurs."""


class Verdict(Enum):
    """The verdict on a clause after a run."""

    HELD = "held"
    PARTLY = "held in part"
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
    """A case failed, and a violated clause that it rests on may explain that."""
    INTERRUPTED = "interrupted"
    """The run ended before the check did."""
    UNSEEN = "not shown"
    """There were cases, but no answer had the member in which the clause is visible."""
    DIED = "the target failed"
    BROKEN = "the harness failed"


@frozen
class Violation:
    """A clause that an implementation violates, and the shortest history found that shows it.

    `history` is replayed on a fresh `setup`; the answer to its last operation was wrong. If a check has no history (it
    is about the wire, say), `setup` is None and only `check` can reproduce the violation.
    """

    clause: str
    check: str
    setting: str
    message: str
    setup: Setup | None = None
    history: tuple[Operation, ...] = ()
    expected: Mapping[str, Any] = field(factory=dict[str, Any])
    got: Mapping[str, Any] = field(factory=dict[str, Any])
    exchange: Exchange | None = None
    """The messages that show it, over MCP."""
    root: str = ""
    """The violated clause that it may follow from, if it is masked."""


@frozen
class Expectation:
    """A clause that the adopter expects to be violated, and why.

    With a `check` or a `setting` it is only about that check or setting.

    SPEC CNF-4.
    """

    clause: str
    reason: str
    check: str | None = None
    setting: str | None = None

    def is_about(self, check: str, setting: str) -> bool:
        """Return whether it is about that check in that setting."""
        return self.check in (None, check) and self.setting in (None, setting)

    def matches(self, violation: Violation) -> bool:
        """Return whether it is about that violation."""
        return self.clause == violation.clause and self.is_about(violation.check, violation.setting)

    def __str__(self) -> str:
        parts = [self.clause]
        parts += [f"check {self.check}"] if self.check else []
        parts += [f"setting {self.setting}"] if self.setting else []
        return ", ".join(parts)


@frozen
class Result:
    """The result of one check in one setting."""

    check: str
    layer: str
    setting: str
    clauses: tuple[str, ...]
    status: Status
    reason: str = ""
    violations: tuple[Violation, ...] = ()
    cases: int = 0
    """The number of answers judged."""
    seconds: float = 0.0
    hidden: tuple[Violation, ...] = ()
    """The failures that are masked."""
    parts: Mapping[str, Mapping[str, bool]] = field(factory=dict[str, Mapping[str, bool]])
    """The parts of the clauses, by what shows them, and whether the answers did."""


@frozen
class ClauseVerdict:
    """The verdict on one clause, with the reason where it needs one, and the violations."""

    clause: Clause
    verdict: Verdict
    reason: str = ""
    checks: tuple[str, ...] = ()
    violations: tuple[Violation, ...] = ()
    hidden: tuple[Violation, ...] = ()
    """The failures that another violated clause may explain."""
    masked: bool = False
    """Whether it is undecided only because of violations of other clauses."""
    unseen: bool = False
    """Whether it is undecided because no answer has the member in which it is visible."""
    aimed_at: bool = True
    """Whether the report's verdict is about its profile."""

    @property
    def level(self) -> Level:
        """MUST, SHOULD or MAY."""
        return self.clause.level

    @property
    def fails(self) -> bool:
        """Whether it fails the run: an expected failure no longer occurs, or it is a violated MUST or MAY aimed at.

        A MAY counts because it is only checked if the implementation claims it.
        """
        violated = self.verdict is Verdict.VIOLATED and self.level != "SHOULD" and self.aimed_at
        return violated or self.verdict is Verdict.FIXED


@frozen
class Report:
    """A run of the kit against one target.

    `header` describes the run: target, kit version, spec revision, seed. `left_out` has the missing capabilities and
    settings, with the reason. `expected` has the violations that the adopter expects. `profiles` are the levels of
    conformance that the exit status is about; violations beyond them are reported too.
    """

    header: Mapping[str, str]
    results: tuple[Result, ...]
    clauses: tuple[Clause, ...]
    left_out: Mapping[str, str] = field(factory=dict[str, str])
    expected: tuple[Expectation, ...] = ()
    profiles: tuple[str, ...] = AIMED_AT
    seconds: float = 0.0
    """How long the run took: less than its checks together where settings were checked concurrently."""

    @cached_property
    def rows(self) -> tuple[ClauseVerdict, ...]:
        """One row for each clause of the specification, in order."""
        return self._rows(self.results)

    def rows_in(self, setting: str) -> tuple[ClauseVerdict, ...]:
        """Return one row for each clause, from the results in one setting."""
        return self._rows([result for result in self.results if result.setting == setting])

    @property
    def settings(self) -> tuple[str, ...]:
        """The settings, in order of their results."""
        return tuple(dict.fromkeys(result.setting for result in self.results))

    @property
    def violations(self) -> tuple[Violation, ...]:
        """All violations, in the order in which they were found."""
        return tuple(violation for result in self.results for violation in result.violations)

    @property
    def stale(self) -> tuple[Expectation, ...]:
        """The expectations to remove: a deterministic check found that their clause holds."""
        return tuple(expectation for expectation in self.expected if self._is_stale(expectation, self.results))

    @property
    def ran(self) -> bool:
        """Whether anything was tested at all."""
        return any(result.cases or result.status in (Status.PASSED, Status.FAILED) for result in self.results)

    @property
    def exit_status(self) -> int:
        """Return 0 if every applicable MUST of the profiles holds, and every MAY that is claimed; 1 if one of them is
        violated or an expectation is stale; 2 if there is no verdict: the kit failed or was interrupted, no check
        applied, the target failed, or no answer had the member in which a MUST is visible.
        """
        statuses = {result.status for result in self.results}
        if not statuses.isdisjoint((Status.BROKEN, Status.INTERRUPTED)) or not self.ran:
            return 2
        if any(row.fails for row in self.rows) or self.stale:
            return 1
        unseen = any(row.unseen and row.aimed_at and row.level == "MUST" for row in self.rows)
        return 2 if unseen or Status.DIED in statuses else 0

    def expects(self, violation: Violation) -> bool:
        """Return whether a violation is expected."""
        return any(expectation.matches(violation) for expectation in self.expected)

    def _rows(self, results: Iterable[Result]) -> tuple[ClauseVerdict, ...]:
        about: dict[str, list[Result]] = {clause.id: [] for clause in self.clauses}
        for result in results:
            for clause in {*result.clauses, *(violation.clause for violation in result.violations)}:
                about.setdefault(clause, []).append(result)
        return tuple(self._row(clause, about[clause.id]) for clause in self.clauses)

    def _row(self, clause: Clause, about: list[Result]) -> ClauseVerdict:
        return evolve(self._judged(clause, about), aimed_at=clause.is_aimed_at(self.profiles))

    def _judged(self, clause: Clause, about: list[Result]) -> ClauseVerdict:
        violations = tuple(found for result in about for found in result.violations if found.clause == clause.id)
        checks = tuple(dict.fromkeys(result.check for result in about if result.status is not Status.LEFT_OUT))
        expected = [expectation for expectation in self.expected if expectation.clause == clause.id]
        if violations:
            verdict = Verdict.EXPECTED if all(map(self.expects, violations)) else Verdict.VIOLATED
            reasons = (one.reason for one in expected if any(map(one.matches, violations)))
            return ClauseVerdict(clause, verdict, _joined(reasons), checks, violations)
        if stopped := [result for result in about if result.status in UNDECIDING]:
            reason = _joined(f"{result.check}: {_why(result)}" for result in stopped)
            hidden = tuple(one for result in stopped for one in result.hidden)
            masked = all(result.status is Status.MASKED for result in stopped)
            return ClauseVerdict(clause, Verdict.UNDECIDED, reason, checks, hidden=hidden, masked=masked)
        if stale := [expectation for expectation in expected if self._is_stale(expectation, about)]:
            return ClauseVerdict(clause, Verdict.FIXED, _joined(one.reason for one in stale), checks)
        if any(result.status in DECIDING for result in about):
            missing = _never_shown(clause.id, about)
            return ClauseVerdict(clause, Verdict.PARTLY if missing else Verdict.HELD, missing, checks)
        if unseen := [result for result in about if result.status is Status.UNSEEN]:
            return ClauseVerdict(
                clause, Verdict.UNDECIDED, _joined(result.reason for result in unseen), checks, unseen=True
            )
        never = f"it is checked by layers that were not run: {', '.join(clause.layers)}" if clause.layers else NOT_SEEN
        left_out = (reason for result in about for reason in result.reason.split("; "))
        return ClauseVerdict(clause, Verdict.NOT_APPLICABLE, _joined(left_out) or never)

    def _is_stale(self, expectation: Expectation, results: Iterable[Result]) -> bool:
        """Return whether deterministic results show that the expected violation does not occur."""
        if any(map(expectation.matches, self.violations)):
            return False
        about = [
            result
            for result in results
            if expectation.clause in result.clauses and expectation.is_about(result.check, result.setting)
        ]
        if any(result.status in UNDECIDING for result in about):
            return False
        return any(result.status is Status.PASSED and result.layer in DETERMINISTIC for result in about)


NEVER_SHOWN = "the answers never show"


def _never_shown(clause: str, results: Iterable[Result]) -> str:
    """Return which parts of a clause no answer showed, in words; "" if each was shown (SPEC CNF-9)."""
    parts: dict[str, bool] = {}
    for result in results:
        for what, shown in result.parts.get(clause, {}).items():
            parts[what] = parts.get(what, False) or shown
    missing = [what for what, shown in parts.items() if not shown]
    return f"{NEVER_SHOWN} {', '.join(missing)}" if missing else ""


DECIDING = (Status.PASSED, Status.FAILED)
UNDECIDING = (Status.MASKED, Status.INTERRUPTED, Status.DIED, Status.BROKEN)
NOT_SEEN = "the kit has no check for it: it is not visible from outside, or depends on how the server is used"


def _why(result: Result) -> str:
    return result.reason if result.status is Status.MASKED else result.status.value


def _joined(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(text for text in texts if text))
