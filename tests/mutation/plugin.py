"""The plugin of mutmut's pytest runs: quick tests come first, and Hypothesis is deterministic and never shrinks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

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
