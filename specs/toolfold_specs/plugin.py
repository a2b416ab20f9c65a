"""The pytest plugin, which collects a `toolfold_specs.suite` as a test for each clause (SPEC CNF-2).

pytest loads it in every run if this distribution is installed, so it imports nothing else until a test module has a
suite.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .clauses import Clause
    from .suites import Suite


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


class SuiteCollector(pytest.Collector):
    """A suite in a test module."""

    def __init__(self, *, suite: Suite, **known: Any) -> None:
        super().__init__(**known)  # pyright: ignore[reportUnknownMemberType]
        self._suite = suite

    def collect(self) -> Iterable[ClauseItem]:
        """Return a test for each clause."""
        for clause in self._suite.clauses:
            known = {"name": clause.id, "suite": self._suite, "clause": clause}
            yield ClauseItem.from_parent(self, **known)  # pyright: ignore[reportUnknownMemberType]

    def setup(self) -> None:
        """Run the kit before the first test; a fault of the kit is an error of all tests (SPEC CNF-8)."""
        from .report import Status

        broken = [result for result in self._suite.report.results if result.status is Status.BROKEN]
        if broken:
            pytest.fail(f"{broken[0].check} ({broken[0].setting}): {broken[0].reason}", pytrace=False)


def pytest_pycollect_makeitem(collector: pytest.Module, name: str, obj: object) -> SuiteCollector | None:
    """Return the collector of a suite, or None for anything else."""
    kind = type(obj)  # compared by name, so that nothing is imported
    if (kind.__module__, kind.__qualname__) != ("toolfold_specs.suites", "Suite"):
        return None
    known = {"name": name, "suite": obj}
    return SuiteCollector.from_parent(collector, **known)  # pyright: ignore[reportUnknownMemberType]
