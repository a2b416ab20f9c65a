"""An operation that is cancelled at any of its awaits, once or twice, or killed there, has happened or not."""

from __future__ import annotations

import pytest

from tests.simulation.cancelling import CASES, swept_by_gate


@pytest.mark.spec("STO-2", "STO-3", "STO-6", "STO-9", "HOOK-5", "HOOK-6", "HOOK-9", "SES-3", "GWY-3")
@pytest.mark.parametrize("name", CASES)
def test_what_is_cancelled_or_killed_at_any_await_has_happened_or_not(name: str) -> None:
    coverage = swept_by_gate(name)
    assert coverage.wrong == []
    assert coverage.points
    assert coverage.runs > 20
