"""Mutants observed without the members of answers that betray them: then no clause of theirs may be held (SPEC CNF-9).

`unobserved` starts from a report in which a mutant is found out, leaves out the members in which its answers were
wrong, and repeats that until nothing betrays it any more. What is held then was held without evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from attrs import evolve, fields

from toolfold_specs.checks import Check
from toolfold_specs.driver import Answer, Driver, Operation, Setup
from toolfold_specs.kit import check
from toolfold_specs.layers import all_checks
from toolfold_specs.report import ClauseVerdict, Report, Verdict

from .mutants import Mutant

MEMBERS = frozenset(member.name for member in fields(Answer))
FEW = 250
"""Operations for each check, but of random histories: a clause that is held without evidence is held at once."""


class Blindfolded(Driver):
    """A driver whose answers lack some members; that something is refused is always seen, but not by which name."""

    def __init__(self, driver: Driver, members: Collection[str]) -> None:
        self.capabilities = driver.capabilities
        self._driver = driver
        self._without: dict[str, Any] = {name: {} if name == "detail" else None for name in members}

    def _seen(self, answer: Answer) -> Answer:
        refused = {"error": answer.error and "error"} if "error" in self._without else {}
        return evolve(answer, **{**self._without, **refused})

    def configure(self, setup: Setup) -> Answer:
        """Configure a system."""
        return self._seen(self._driver.configure(setup))

    def perform(self, operation: Operation) -> Answer:
        """Perform an operation."""
        return self._seen(self._driver.perform(operation))

    def start(self, operation: Operation) -> int:
        """Begin an operation."""
        return self._driver.start(operation)

    def blocked(self) -> tuple[tuple[str, str], ...]:
        """Return the blocked hooks."""
        return self._driver.blocked()

    def release(self, group: str, phase: str, fail: bool = False) -> None:
        """Release a blocked hook."""
        self._driver.release(group, phase, fail)

    def cancel(self, ticket: int) -> None:
        """Cancel an operation."""
        self._driver.cancel(ticket)

    def finish(self, ticket: int) -> Answer:
        """Finish an operation."""
        return self._seen(self._driver.finish(ticket))

    def close(self) -> None:
        """Close the driver."""
        self._driver.close()


def unobserved(mutant: Mutant, report: Report) -> ClauseVerdict:
    """Return the verdict on a mutant's clause once nothing is observed that betrays it, or only that it refuses.

    Args:
        mutant: The mutant.
        report: A report in which it is found to violate its clause.
    """
    about = tuple(_about(mutant.clause, report, all_checks((mutant.layer,))))
    budget = mutant.budget if mutant.layer == "stateful" else min(mutant.budget, FEW)
    without: set[str] = set()
    row = _row(mutant, report)
    while row.verdict is Verdict.VIOLATED and not without.issuperset(found := _betraying(row)):
        without |= found
        again = _blindfolded(mutant.driver, frozenset(without))
        row = _row(mutant, check(again, checks=about, budget=budget))
    return row


def _blindfolded(make: Callable[[], Driver], members: frozenset[str]) -> Callable[[], Driver]:
    return lambda: Blindfolded(make(), members)


def _about(clause: str, report: Report, checks: Iterable[Check]) -> Iterator[Check]:
    """Yield the checks that may judge a clause, or did."""
    found = {violation.check for violation in report.violations if violation.clause == clause}
    yield from (one for one in checks if clause in one.clauses or one.name in found)


def _row(mutant: Mutant, report: Report) -> ClauseVerdict:
    return next(row for row in report.rows if row.clause.id == mutant.clause)


def _betraying(row: ClauseVerdict) -> set[str]:
    """Return the members in which the answers that violate a clause were wrong."""
    return {name for one in row.violations for name in _differing(dict(one.expected), dict(one.got))}


def _differing(expected: object, got: object) -> Iterator[str]:
    """Yield the members in which two answers differ, or the answers in two histories."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        right, wrong = cast("Mapping[str, Any]", expected), cast("Mapping[str, Any]", got)
        for name in {*right, *wrong}:
            if name not in MEMBERS:
                yield from _differing(right.get(name), wrong.get(name))
            elif right.get(name) != wrong.get(name):
                yield name
    elif isinstance(expected, list) and isinstance(got, list):
        for one, other in zip(cast("list[object]", expected), cast("list[object]", got), strict=False):
            yield from _differing(one, other)
