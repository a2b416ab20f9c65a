"""The executable specification of Toolfold, and the kit that checks implementations against it.

    report = check(make_driver)             # kit.py: SPEC CNF-2
    conformance = suite(make_driver)        # suites.py: the same as tests of pytest

==============  =================================================================
clauses.toml    every clause as data: id, section, level, sources, text
clauses.py      the same as frozen, validated values
properties.py   properties of steps by clause: ALWAYS and SOMETIMES
reference.py    the rules in sets; systems.py: small systems
oracle.py       the expected answers; attribution.py: the clause of a mismatch
driver.py       the interface to an implementation; drivers/: ways to reach one
runs.py         a test run; shrinking.py: of histories; checks.py; layers/
report.py       results and verdicts; render/: as text, JSON, JUnit, Markdown
expected.py     the adopter's expected failures; replay.py: of a violation
suites.py       the kit as tests; plugin.py: how pytest collects them
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
    """Return a public name from its module, imported on demand because pytest loads this package in every run."""
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(import_module(f"{__name__}.{home}"), name)
            globals()[name] = value  # a module of the same name must not shadow it
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
