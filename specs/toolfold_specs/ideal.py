"""The oracle as an implementation: it shows which clauses a check could have put to the test (SPEC CNF-10)."""

from __future__ import annotations

from .driver import Answer, Driver, Operation, Setup
from .oracle import oracle_of, refusal


class IdealDriver(Driver):
    """Answers as the oracle expects, with the capabilities and the system of another driver, one request at a time."""

    def __init__(self, other: Driver) -> None:
        self.capabilities = other.capabilities
        self.given = other.given
        self._oracle = oracle_of(Setup())
        self._world = self._oracle.initial

    def configure(self, setup: Setup) -> Answer:
        """Install a system or refuse it."""
        if (refused := refusal(setup)) is not None:
            return Answer(error=refused.error)
        self._oracle = oracle_of(setup)
        self._world = self._oracle.initial
        return Answer()

    def perform(self, operation: Operation) -> Answer:
        """Return the right answer."""
        self._world, answer = self._oracle.apply(self._world, operation)
        if answer.error is None:
            self._oracle = self._oracle.following(operation)
        return answer
