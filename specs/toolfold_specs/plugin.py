"""The pytest plugin, which collects a `toolfold_specs.suite` as a test for each clause (SPEC CNF-2).

pytest loads it in every run if this distribution is installed, so it imports nothing else until a test module has a
suite.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .clauses import Clause
    from .report import Report
    from .suites import Suite
    from .targets import Target


class ClauseItem(pytest.Item):
    """The test of one clause."""

    def __init__(self, *, suite: Suite, clause: Clause, **known: Any) -> None:
        super().__init__(**known)  # pyright: ignore[reportUnknownMemberType]
        self._suite = suite
        self._clause = clause
        self.user_properties += [("clause", clause.id), ("level", clause.level)]

    def runtest(self) -> None:
        """Pass if the clause holds."""
        from .report import Verdict
        from .suites import failure_text

        row = self._suite.rows[self._clause.id]
        match row.verdict:
            case Verdict.HELD | Verdict.PARTLY:
                return
            case Verdict.NOT_APPLICABLE:
                pytest.skip(row.reason)
            case Verdict.EXPECTED:
                pytest.xfail(row.reason)
            case Verdict.UNDECIDED if row.masked:
                pytest.skip(f"{row.verdict.value}: {row.reason}")
            case Verdict.VIOLATED if not row.fails:
                pytest.xfail(f"{row.level}: {row.violations[0].message}")
            case _:
                pytest.fail(failure_text(row), pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        """Return the location of the suite and the clause."""
        return self.path, None, f"{self.parent.name if self.parent else ''}: {self.name}"


class TargetItem(pytest.Item):
    """The test in place of all others where there is no driver."""

    def __init__(self, *, error: Exception, **known: Any) -> None:
        super().__init__(**known)  # pyright: ignore[reportUnknownMemberType]
        self._error = error

    def runtest(self) -> None:
        """Fail."""
        pytest.fail(f"The target can't be checked: {type(self._error).__name__}: {self._error}", pytrace=False)


class SuiteCollector(pytest.Collector):
    """A suite in a test module."""

    def __init__(self, *, suite: Suite, **known: Any) -> None:
        super().__init__(**known)  # pyright: ignore[reportUnknownMemberType]
        self._suite = suite
        self._absent = False

    def collect(self) -> Iterable[pytest.Item]:
        """Return a test for each clause that can be checked, or one that fails because none can."""
        try:
            clauses = self._suite.clauses()
        except Exception as error:
            self._absent = True
            yield TargetItem.from_parent(self, name="target", error=error)  # pyright: ignore[reportUnknownMemberType]
            return
        for clause in clauses:
            known = {"name": clause.id, "suite": self._suite, "clause": clause}
            yield ClauseItem.from_parent(self, **known)  # pyright: ignore[reportUnknownMemberType]

    def setup(self) -> None:
        """Run the kit before the first test; a fault of the kit is an error of all tests (SPEC CNF-8)."""
        from .report import Status

        if self._absent:
            return
        broken = [result for result in self._suite.report.results if result.status is Status.BROKEN]
        if broken:
            pytest.fail(f"{broken[0].check} ({broken[0].setting}): {broken[0].reason}", pytrace=False)


@pytest.fixture
def conforms() -> Callable[..., Report]:
    """Return a function that checks a target, and fails the test unless it conforms.

    It takes what `toolfold_specs.suite` takes, and returns the report.
    """

    def check(target: Target, **options: Any) -> Report:
        from .render.text import text
        from .suites import suite

        report = suite(target, **options).report
        if report.exit_status:
            pytest.fail(text(report), pytrace=False)
        return report

    return check


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> SuiteCollector | None:
    """Return the collector of a suite, or None for anything else."""
    kind = type(obj)  # compared by name, so that nothing is imported
    if (kind.__module__, kind.__qualname__) != ("toolfold_specs.suites", "Suite"):
        return None
    known = {"name": name, "suite": obj}
    return SuiteCollector.from_parent(collector, **known)  # pyright: ignore[reportUnknownMemberType]
