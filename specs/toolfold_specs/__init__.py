"""The executable specification of Toolfold, and the kit that checks implementations against it.

    report = check(make_driver)             # kit.py: SPEC CNF-2
    conformance = suite(make_driver)        # suites.py: the same as tests of pytest

==============  =================================================================
clauses.toml    every clause as data: id, section, level, sources, text
clauses.py      the same as frozen, validated values
properties.py   what always holds, and what sometimes happens, by clause
reference.py    the rules in sets; systems.py: small systems to try them on
oracle.py       the right answers; attribution.py: which clause a wrong one breaks
driver.py       what is asked of an implementation; drivers/: ways to reach one
runs.py         a test run; shrinking.py: of what it finds; checks.py; layers/
report.py       what came of it; render/: in text, JSON, JUnit, Markdown
expected.py     the adopter's expected failures; replay.py: a violation, again
suites.py       a suite of tests; plugin.py: how pytest collects it
==============  =================================================================

`toolfold conform` is the command on top.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .driver import Answer, Driver, Group, Operation, Setup, TargetFailed, Tool
    from .expected import ExpectationError
    from .kit import check
    from .render import write_reports
    from .report import Expectation, Report, Verdict, Violation
    from .suites import suite

__all__ = [
    "Answer",
    "Driver",
    "Expectation",
    "ExpectationError",
    "Group",
    "Operation",
    "Report",
    "Setup",
    "TargetFailed",
    "Tool",
    "Verdict",
    "Violation",
    "check",
    "suite",
    "write_reports",
]

_HOMES = {
    "driver": ("Answer", "Driver", "Group", "Operation", "Setup", "TargetFailed", "Tool"),
    "expected": ("ExpectationError",),
    "kit": ("check",),
    "render": ("write_reports",),
    "report": ("Expectation", "Report", "Verdict", "Violation"),
    "suites": ("suite",),
}


def __getattr__(name: str) -> Any:
    """Return a public name from its module, which is imported only now: pytest loads this package in every run."""
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value  # a module of the same name must not take its place
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
