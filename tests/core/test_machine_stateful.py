"""What the kit finds of the core: every transition of every small system, and random histories of larger ones.

In the histories groups and exclusions are registered and removed while sessions are open, hooks begin and cease to
fail, facts are set.
"""

from __future__ import annotations

from collections import Counter

import pytest

from toolfold_specs.checks import Options, run_checks
from toolfold_specs.driver import Answer, Operation
from toolfold_specs.layers import exhaustive, stateful
from toolfold_specs.report import Status
from verification.library.driver import CoreDriver


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the core from formatting the traceback of each failing hook: there are hundreds."""
    caplog.set_level("CRITICAL", logger="toolfold")


@pytest.mark.spec("ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8", "INV-1", "INV-2", "INV-4")
@pytest.mark.spec("INV-5", "NTF-1", "VIS-2", "LST-1", "CTL-1", "CTL-2", "NAM-2", "EXP-1")
def test_every_transition_and_every_reason_in_every_small_system_is_that_of_the_reference() -> None:
    results = run_checks(exhaustive.CHECKS, CoreDriver)
    assert {result.status for result in results} == {Status.PASSED, Status.LEFT_OUT}


@pytest.mark.spec("ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-9", "INV-1", "INV-2")
@pytest.mark.spec(
    "HOOK-3", "HOOK-4", "HOOK-5", "HOOK-8", "HOOK-9", "NTF-1", "SES-1", "SES-5", "REG-3", "REG-5", "REG-7"
)
def test_random_histories_agree_with_the_reference() -> None:
    met: Counter[str] = Counter()

    class Counting(CoreDriver):
        def perform(self, operation: Operation) -> Answer:
            answer = super().perform(operation)
            met[answer.error or {True: "changed", False: "unchanged", None: operation.verb}[answer.changed]] += 1
            return answer

    results = run_checks(stateful.CHECKS, Counting, Options(budget=1500))
    assert [violation for result in results for violation in result.violations] == []
    assert {"changed", "unchanged", "ParentInactive", "ExclusionConflict", "HookFailed", "register", "end"} <= set(met)
