"""Makes a plan that fails as small as it can be: few requests and faults, and few draws that change the order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import evolve

from tests.simulation.outcome import Outcome
from tests.simulation.plan import Plan


def shrunk(plan: Plan, run: Callable[[Plan], Outcome]) -> Plan:
    """Return a plan that still fails, and does not without any one of its items, or of the draws of its order.

    What is ready first goes on first in it, but for these draws. Where order plays no part, there are none.

    Args:
        plan: A plan that fails.
        run: Runs a plan.
    """

    def fails(one: Plan) -> bool:
        return bool(run(one).wrong)

    def of(numbers: frozenset[int]) -> Plan:
        return plan.without(plan.numbers - numbers)

    plan = of(_fewest(plan.numbers, lambda numbers: fails(of(numbers))))
    in_order = evolve(plan, turns=frozenset())
    if fails(in_order):
        return in_order
    turns = _fewest(run(plan).turned, lambda numbers: fails(evolve(plan, turns=numbers)))
    return evolve(plan, turns=turns)


def _fewest(numbers: Iterable[int], fails: Callable[[frozenset[int]], bool]) -> frozenset[int]:
    """Return some of the numbers, all of which are needed for what fails with all of them."""
    left = sorted(numbers)
    size = max(1, len(left) // 2)
    while True:
        tries = (left[:start] + left[start + size :] for start in range(0, len(left), size))
        fewer = next((tried for tried in tries if fails(frozenset(tried))), None)
        if fewer is not None:
            left = fewer
        elif size == 1:
            return frozenset(left)
        else:
            size //= 2
