"""A suite of tests for pytest, a test for each clause (SPEC CNF-2).

In a test file, with the plugin that this distribution brings along:

    import toolfold_specs
    from engine import Engine

    conformance = toolfold_specs.suite(Engine, expected="expected-failures.toml")

or with a tool set, "shop:tools", the URL of a server, or the words of the command that starts one. There is a test for
each clause that can be checked in this way. The kit runs once, with the first test; then each test reports the verdict
on its clause. A violated SHOULD and an expected violation are expected failures of pytest. If tests are distributed
over processes, each process runs the kit, so keep them together (pytest-xdist: ``--dist loadfile``).

The fixture `conforms` is a function that does the same within a test, for what only fixtures can make.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Unpack

from attrs import define, field

from .checks import OptionArguments, Options
from .clauses import Clause, load_clauses
from .driver import AT_RUN_TIME, Driver, TargetFailed
from .kit import KitRun, check
from .render.trace import histories, plain
from .report import DETERMINISTIC, ClauseVerdict, Report, Verdict
from .targets import Target, factories_of, made


@define(eq=False)
class Suite:
    """The kit as tests: pytest collects one for each clause."""

    factory: Target
    options: OptionArguments = field(factory=OptionArguments)
    folder: Path | None = None
    """Where to write the reports, if anywhere."""

    def clauses(self) -> tuple[Clause, ...]:
        """Return the clauses that drivers of the target can be checked by, one for each test.

        Raises:
            TargetFailed: There is no driver of the target in any setting.
            TypeError: One of the factories makes something else.
        """
        found: set[str] = set()
        failed: list[TargetFailed] = []
        factories = factories_of(self.factory)
        for make in factories.values():
            try:
                with closing(made(make)) as driver:
                    found |= self._checked_by(driver)
            except TargetFailed as error:
                failed.append(error)
        if len(failed) == len(factories):
            raise failed[0]
        return tuple(clause for clause in load_clauses() if clause.id in found)

    def _checked_by(self, driver: Driver) -> set[str]:
        """Return the clauses that a driver can be checked by; of random histories those that have no other check."""
        checks = KitRun(self.factory, Options(**self.options)).checks
        certain = {clause for check in checks if check.layer in DETERMINISTIC for clause in check.clauses}
        able = {
            clause
            for check in checks
            if check.needs <= driver.capabilities
            for clause in check.clauses
            if check.layer in DETERMINISTIC or (clause not in certain and AT_RUN_TIME.keys() <= driver.capabilities)
        }
        return able - driver.never_shown.keys()

    @cached_property
    def report(self) -> Report:
        """The report; the first access runs the kit."""
        report = check(self.factory, **self.options)
        if self.folder is not None:
            from .render import write_reports

            write_reports(report, self.folder)
        return report

    @cached_property
    def rows(self) -> Mapping[str, ClauseVerdict]:
        """The row of each clause."""
        return {row.clause.id: row for row in self.report.rows}


def suite(factory: Target, *, reports: Path | str | None = None, **options: Unpack[OptionArguments]) -> Suite:
    """Return a suite that pytest collects as a test for each clause, from any name in a test module.

    Args:
        factory: A tool set, "module:attribute", a URL, the words of a command, or what makes a driver; see `check`.
        reports: A folder for the report in every form, and for the violations (`toolfold conform --replay`).
        options: Those of `check`; `profiles` is "all" by default.

    Raises:
        TypeError: It is nothing that can be checked.
    """
    if not isinstance(factory, str) or ":" not in factory:  # what is to be imported may import this
        factories_of(factory)
    options.setdefault("profiles", ("all",))
    return Suite(factory, options, None if reports is None else Path(reports))


def failure_text(row: ClauseVerdict) -> str:
    """Return the text of a failing test."""
    lines = [f"{row.clause.id} ({row.level}): {row.verdict.value}", row.clause.text]
    lines += [plain(row.reason)] if row.reason else []
    if row.verdict is Verdict.FIXED:
        lines += ["Remove it from the expected failures."]
    return "\n".join((*lines, *histories(row)))
