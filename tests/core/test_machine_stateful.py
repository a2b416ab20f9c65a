"""Random histories of larger systems, compared with the reference after every operation, by the machine of the kit.

Groups and exclusions are registered and removed while sessions are open, hooks begin and cease to fail, facts are set.
"""

from __future__ import annotations

from collections import Counter

import pytest

from toolfold_specs.checks import Options, run_checks
from toolfold_specs.driver import Answer, Operation
from toolfold_specs.layers import stateful
from verification.library.driver import CoreDriver


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the core from formatting the traceback of each failing hook: there are hundreds."""
    caplog.set_level("CRITICAL", logger="toolfold")


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
