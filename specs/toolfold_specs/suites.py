"""A suite of tests for pytest, a test for each clause (SPEC CNF-2).

In a test file, with the plugin that this distribution brings along:

    import toolfold_specs
    from shop.conformance import ShopDriver

    conformance = toolfold_specs.suite(ShopDriver, expected="expected-failures.toml")

The kit runs once, when the first of the tests does; then each test says what is known of its clause. A violated SHOULD,
and a violation that is expected, are expected failures of pytest too. Where tests are spread over processes, each runs
the kit for itself, so keep them together (pytest-xdist: ``--dist loadfile``).
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
from .render.trace import found_by, plain, steps
from .report import Report, Row, Verdict

FAILING = (Verdict.FIXED, Verdict.UNDECIDED)


@define(eq=False)
class Suite:
    """What `suite` returns: pytest collects it as a test for each clause."""

    factory: Factories
    options: OptionArguments = field(factory=OptionArguments)
    folder: Path | None = None
    """Where to write the reports; None for nowhere."""

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The clauses that there are tests for."""
        return load_clauses()

    @cached_property
    def report(self) -> Report:
        """The report; the kit runs when it is asked for first."""
        report = check(self.factory, **self.options)
        if self.folder is not None:
            from .render import write_reports

            write_reports(report, self.folder)
        return report

    @cached_property
    def rows(self) -> Mapping[str, Row]:
        """What is known of each clause."""
        return {row.clause.id: row for row in self.report.rows}


def suite(factory: Factories, *, reports: Path | str | None = None, **options: Unpack[OptionArguments]) -> Suite:
    """Return what pytest collects as a test for each clause, if a module of tests has it under any name.

    Args:
        factory: Makes a driver, or a factory for each setting; see `check`.
        reports: A folder to write the report to, in every form, and the violations for `toolfold conform --replay`.
        options: Those of `check`; `profiles` is "all" by default.
    """
    options.setdefault("profiles", ("all",))
    return Suite(factory, options, None if reports is None else Path(reports))


def told(row: Row) -> str:
    """Return what a failing test says of its clause."""
    lines = [f"{row.clause.id} ({row.level}): {row.verdict.value}", row.clause.text]
    lines += [plain(row.reason)] if row.reason else []
    if row.verdict is Verdict.FIXED:
        lines += ["Remove it from the expected failures."]
    for violation in row.violations:
        lines += ["", f"{plain(violation.message)} ({found_by(violation)})", *steps(violation)]
    return "\n".join(lines)
