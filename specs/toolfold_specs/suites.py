"""A suite of tests for pytest, a test for each clause (SPEC CNF-2).

In a test file, with the plugin that this distribution brings along:

    import toolfold_specs
    from shop.conformance import ShopDriver

    conformance = toolfold_specs.suite(ShopDriver, expected="expected-failures.toml")

The kit runs once, with the first test; then each test reports the verdict on its clause. A violated SHOULD and an
expected violation are expected failures of pytest. If tests are distributed over processes, each process runs the kit,
so keep them together (pytest-xdist: ``--dist loadfile``).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Unpack

from attrs import define, field

from .checks import OptionArguments
from .clauses import Clause, load_clauses
from .kit import Factories, check
from .render.trace import histories, plain
from .report import Report, Row, Verdict


@define(eq=False)
class Suite:
    """The kit as tests: pytest collects one for each clause."""

    factory: Factories
    options: OptionArguments = field(factory=OptionArguments)
    folder: Path | None = None
    """Where to write the reports, if anywhere."""

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses, one for each test."""
        return load_clauses()

    @cached_property
    def report(self) -> Report:
        """The report; the first access runs the kit."""
        report = check(self.factory, **self.options)
        if self.folder is not None:
            from .render import write_reports

            write_reports(report, self.folder)
        return report

    @cached_property
    def rows(self) -> Mapping[str, Row]:
        """The row of each clause."""
        return {row.clause.id: row for row in self.report.rows}


def suite(factory: Factories, *, reports: Path | str | None = None, **options: Unpack[OptionArguments]) -> Suite:
    """Return a suite that pytest collects as a test for each clause, from any name in a test module.

    Args:
        factory: Makes a driver, or a factory for each setting; see `check`.
        reports: A folder for the report in every form, and for the violations (`toolfold conform --replay`).
        options: Those of `check`; `profiles` is "all" by default.
    """
    options.setdefault("profiles", ("all",))
    return Suite(factory, options, None if reports is None else Path(reports))


def failure_text(row: Row) -> str:
    """Return the text of a failing test."""
    lines = [f"{row.clause.id} ({row.level}): {row.verdict.value}", row.clause.text]
    lines += [plain(row.reason)] if row.reason else []
    if row.verdict is Verdict.FIXED:
        lines += ["Remove it from the expected failures."]
    return "\n".join((*lines, *histories(row)))
