"""An operation that is cancelled at any of its awaits, once or twice, has happened or not."""

from __future__ import annotations

import pytest

from tests.simulation.cancelling import CASES, swept_by_gate


@pytest.mark.spec("STO-9", "HOOK-6", "HOOK-9", "GWY-3")
@pytest.mark.parametrize("name", CASES)
def test_what_is_cancelled_at_any_await_has_happened_or_not(name: str) -> None:
    coverage = swept_by_gate(name)
    assert coverage.wrong == []
    assert coverage.points
    assert coverage.runs > 40
