"""Random histories of larger systems, compared with the reference after every operation, by the machine of the kit.

Groups and exclusions are registered and removed while sessions are open, hooks begin and cease to fail, facts are set.
"""

from __future__ import annotations

from collections import Counter

import pytest

from toolfold_specs.checks import Options, run_checks
from toolfold_specs.driver import Answer, Operation
from toolfold_specs.layers import stateful
from toolfold_specs.report import Violation
from verification.library.driver import CoreDriver


@pytest.fixture(autouse=True)
def silence(caplog: pytest.LogCaptureFixture) -> None:
    """Keep the core from formatting the traceback of each failing hook: there are hundreds."""
    caplog.set_level("CRITICAL", logger="toolfold")


def random_histories(driver: type[CoreDriver], seed: int) -> dict[str, Violation]:
    results = run_checks(stateful.CHECKS, driver, Options(seed=seed, budget=1500))
    return {violation.clause: violation for result in results for violation in result.violations}


@pytest.mark.spec("ACT-2", "ACT-3", "ACT-4", "ACT-5", "ACT-6", "ACT-9", "INV-1", "INV-2")
@pytest.mark.spec(
    "HOOK-3", "HOOK-4", "HOOK-5", "HOOK-8", "HOOK-9", "NTF-1", "SES-1", "SES-5", "REG-3", "REG-5", "REG-7"
)
@pytest.mark.parametrize("seed", [0, 2])
def test_random_histories_agree_with_the_reference(seed: int) -> None:
    met: Counter[str] = Counter()

    class Counting(CoreDriver):
        def perform(self, operation: Operation) -> Answer:
            answer = super().perform(operation)
            met[answer.error or {True: "changed", False: "unchanged", None: operation.verb}[answer.changed]] += 1
            return answer

    assert random_histories(Counting, seed) == {}
    assert {"changed", "unchanged", "ParentInactive", "ExclusionConflict", "HookFailed", "register", "end"} <= set(met)


class KeepsRemovedOpen(CoreDriver):
    """Says that a group that was removed is still active."""

    def perform(self, operation: Operation) -> Answer:
        before = self._sessions[operation.session].active if operation.session in self._sessions else ()
        answer = super().perform(operation)
        return Answer(active=before) if operation.verb == "register" and answer.error is None else answer


class RefusesNoExclusion(CoreDriver):
    """Says that an exclusion of groups that are active together was registered."""

    def perform(self, operation: Operation) -> Answer:
        answer = super().perform(operation)
        return Answer() if operation.verb == "register" else answer


@pytest.mark.spec("REG-3", "REG-5", "REG-7")
@pytest.mark.parametrize(("driver", "clause"), [(KeepsRemovedOpen, "REG-5"), (RefusesNoExclusion, "REG-3")])
def test_faults_when_groups_are_registered_and_removed_are_found_by_their_clause(
    driver: type[CoreDriver], clause: str
) -> None:
    found = next(filter(None, (random_histories(driver, seed) for seed in range(10))))
    assert set(found) == {clause}
    assert found[clause].history[-1].verb == "register"
