"""Makes a plan that fails as small as it can be: the same world without most of its requests and faults."""

from __future__ import annotations

from collections.abc import Callable

from tests.simulation.plan import Plan


def shrunk(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """Return a plan that still fails, and does not without any one of its items.

    Args:
        plan: A plan that fails.
        fails: Whether a plan fails.
    """
    size = max(1, len(plan.items) // 2)
    while True:
        numbers = sorted(plan.numbers)
        smaller = next(
            (
                candidate
                for start in range(0, len(numbers), size)
                if fails(candidate := plan.without(numbers[start : start + size]))
            ),
            None,
        )
        if smaller is not None:
            plan = smaller
        elif size == 1:
            return plan
        else:
            size //= 2
