"""The plugin of mutmut's pytest runs: quick tests come first, and Hypothesis is deterministic and never shrinks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.mutation.kills import UNCOLLECTED, is_counted, is_under_test, write_kill

STATS = Path("mutmut-stats.json")
"""What mutmut measured before it changed anything."""

# A health check fails on a busy machine, and a failure counts as a kill.
settings.register_profile(
    "mutation",
    database=None,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
os.environ["HYPOTHESIS_PROFILE"] = "mutation"  # which tests/conftest.py loads


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the tests that took the least time first: most mutants need no more than those."""
    if STATS.exists():
        took: dict[str, float] = json.loads(STATS.read_text(encoding="utf-8"))["duration_by_test"]
        items.sort(key=lambda item: took.get(item.nodeid, 0.0))


_failed: set[str] = set()


def pytest_configure(config: pytest.Config) -> None:
    """Have pytest go on after a failure, if kills are counted."""
    if is_counted():
        config.option.maxfail = 0


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note the first failure of a file, for the kill table."""
    file = report.nodeid.partition("::")[0]
    if report.failed and is_counted() and file not in _failed:
        _failed.add(file)
        write_kill(file)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note that a file could not be imported, which mutmut does not tell from other crashes of its worker."""
    if report.failed and is_under_test():
        write_kill(report.nodeid, UNCOLLECTED)


def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """Pass over the other tests of a file that has failed: one failure is a kill."""
    return True if item.nodeid.partition("::")[0] in _failed else None
