"""The exploration of the core in every state of every small system, and that it can fail."""

from __future__ import annotations

import pytest
from attrs import evolve

from toolfold import Configuration, Plan, TransitionRequest, plan
from verification import explore


@pytest.mark.spec("CNF-6", "INV-1", "INV-2", "INV-4", "ACT-6")
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_core_agrees_with_the_reference_in_every_state(size: int) -> None:
    assert explore.explore(size) == explore.KNOWN[size]


def test_a_core_that_leaves_descendants_active_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(now: Configuration, step: TransitionRequest) -> Plan:
        planned = plan(now, step)
        if step.activate:
            return planned
        active = planned.after.active | planned.deactivated >> 1 & now.active
        return evolve(planned, after=Configuration.of(now.forest, active, planned.after.locked))

    monkeypatch.setattr(explore, "plan", forgetful)
    with pytest.raises(explore.Disagreement, match="deactivate"):
        explore.explore(2)


def test_an_unexpected_number_of_states_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(explore.KNOWN, 1, explore.Counts(1, 3, 4, 0))
    assert explore.main([]) == 1
    assert "expected for 1 groups" in capsys.readouterr().err
