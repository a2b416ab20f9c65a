"""The executable specification of Toolfold, and the kit that checks implementations against it.

    report = check(make_driver)             # `kit`: SPEC CNF-2
    conformance = suite(make_driver)        # `suites`: the same as tests of pytest

kit, suites, plugin, targets      the kit as a callable and as tests, and what it is given
clauses                           every clause as a value, of the data in clauses.toml
properties                        properties of transitions by clause: ALWAYS and SOMETIMES
reference, systems, machine/      the rules in sets, all small systems; the rules as rows
prefixes                          what of a conversation a transition may change
oracle, ideal                     the expected answers, and the oracle as an implementation
attribution, roots                the clauses that an answer shows or violates; simpler forms of a case
driver, drivers/                  the interface to an implementation, and ways to reach one
runs, checks, layers/             a test run, what is run, and the checks by layer
shrinking, linearize, overlap     shorter histories, the search for an order, operations that overlap
confirming, exchange              findings sent again by another client, and the messages of a run
report, render/, traces/          results and verdicts, in several forms; whether the rows allow what ran
expected, replay, itf             the adopter's expected failures; a violation, and traces of Quint, again
served, children                  servers for the kit, and processes that it has started
starters/, vectors/, extras       drivers to begin with, cases as data, and the packages that parts need

`toolfold conform` is the command on top; `python -m toolfold_specs` is the one where `toolfold` is not installed.
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
