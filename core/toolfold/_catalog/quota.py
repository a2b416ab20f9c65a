"""Quotas: how many groups may be active, how long the list may be, and what makes room (SPEC ACT-10, FND-3).

A quota is a policy outside of the machine. It asks the machine what a request leads to. Where that is too much, it
refuses the request, or asks again with the groups that make room among those to deactivate; so the machine alone
decides what a state may be.
"""

from __future__ import annotations

from .._values import frozen
from ..errors import QuotaExceeded
from ..machine import Configuration, Plan, Run, TransitionRequest, bits, plan
from ..machine.planner import Runner


@frozen
class Cap:
    """The greatest sum of the weights of active groups.

    Attributes:
        what: What is counted, for refusals.
        most: The greatest sum.
        base: What there is without active groups.
        weights: What each group adds, by its number.
    """

    what: str
    most: int
    base: int
    weights: tuple[int, ...]

    def of(self, mask: int) -> int:
        """Return what the groups in a bit set add."""
        return sum([self.weights[number] for number in bits(mask)])

    def is_exceeded(self, active: int) -> bool:
        """Return whether it is exceeded while the groups in a bit set are active."""
        return self.base + self.of(active) > self.most


@frozen
class Quota:
    """The limits on the active groups of a session, and which groups make room.

    Attributes:
        count: Limits their number, if it is limited (SPEC ACT-10).
        length: Limits the length of the list, if it is limited (SPEC FND-3).
        pinned: The groups that are never evicted, as a bit set.
    """

    count: Cap | None = None
    length: Cap | None = None
    pinned: int = 0

    def plan(self, before: Configuration, request: TransitionRequest, run_of: Runner = Run) -> Plan:
        """Return the plan of a request within the limits; raises as `machine.plan`, and `QuotaExceeded`.

        Where the forest is ordered, the longest-active groups make room: neither those that are asked for, nor those
        with pinned ones or such in them, nor those whose deactivation does not help with the limit that is exceeded.
        """
        planned = plan(before, request, run_of)
        if not planned.activated or (cap := self._exceeded(planned.after.active)) is None:
            return planned
        forest, active, evicted = before.forest, planned.after.active, list[str]()
        wanted = forest.mask(request.activate)
        for number in before.order:
            gone = forest.subtree[number] & active
            if active >> number & 1 and not gone & (wanted | self.pinned) and cap.of(gone):
                active ^= gone
                evicted.append(forest.paths[number])
                if (cap := self._exceeded(active)) is None:
                    return plan(before, TransitionRequest(request.activate, (*request.deactivate, *evicted)), run_of)
        wished = ", ".join(map(repr, forest.named(wanted)))
        raise QuotaExceeded(cap.what, cap.most, f"close a group before you open {wished}")

    def _exceeded(self, active: int) -> Cap | None:
        """Return the first limit that the groups in a bit set exceed."""
        for cap in (self.count, self.length):
            if cap is not None and cap.is_exceeded(active):
                return cap
        return None
