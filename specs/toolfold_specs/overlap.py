"""Overlapping operations on one system: started, blocked in hooks, released and judged as one history (SPEC SES-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, NoReturn

from attrs import evolve, frozen

from . import linearize
from .driver import MAIN, Answer, Operation, TargetFailed
from .oracle import World
from .runs import Case

Hook = tuple[str, str]
"""Phase and group."""

MOST_RELEASES = 1000
"""The number of released hooks after which all operations must have ended."""


@frozen
class Asked:
    """An operation in a concurrent history, with its answer.

    `active` in an answer is a read of its own, at any time after the operation; both have the same number.
    """

    number: int
    operation: Operation
    got: Answer
    undone: bool = False
    """Whether it was forced to fail, so that it changes nothing."""
    reading: bool = False
    """Whether it is the read of `active`."""


class Over(Exception):
    """A check ends, since what it has reported shows that the rest of it would show nothing."""


class Overlap:
    """Concurrent operations on the system of a case, with their answers.

    `history` has all requests as operations: "start" begins one, "release" releases a blocked hook, "finish" waits for
    an answer. For each ticket, `expected` has the expected answer in the order of arrival and `answers` the actual one;
    `hooks` has the hooks that began, as far as they were observed.
    """

    def __init__(self, case: Case) -> None:
        self.test_run = case.test_run
        self.setup = case.setup
        self.oracle = case.oracle
        self.initial = case.world
        self.serial = case.world
        """The expected world after all operations, in the order of arrival."""
        self.history = list(case.history)
        self.expected: dict[int, Answer] = {}
        self.answers: dict[int, Answer] = {}
        self.hooks: list[Hook] | None = []
        self._driver = case.test_run.driver
        self._clock = count()
        self._tickets = count(1)
        self._begun: dict[int, tuple[int, int, Asked]] = {}
        self._events: list[linearize.Operation] = []
        self._waiting: list[Hook] = []
        self._judged: dict[tuple[World, int], tuple[World, bool]] = {}

    # -- operations ---------------------------------------------------------------------------------------------------

    def perform(self, operation: Operation) -> Answer:
        """Return the answer to an operation that is performed while nothing else proceeds."""
        begun = next(self._clock)
        self._record(operation)
        got = self._driver.perform(operation)
        self._answered(begun, Asked(next(self._tickets), operation, got))
        if operation.verb == "script":
            self.serial, _ = self.oracle.apply(self.serial, operation)
        return got

    def start(self, operation: Operation, undone: Hook | None = None) -> int:
        """Begin an operation and return a ticket for it.

        Args:
            operation: The operation.
            undone: The hook that will be forced to fail, if any.
        """
        ticket = next(self._tickets)
        self._record(Operation("start", {"ticket": ticket, "operation": operation.to_json()}))
        self.serial, self.expected[ticket] = self._apply(self.serial, operation, undone)
        asked = Asked(ticket, operation, Answer(), undone=undone is not None)
        self._begun[ticket] = (next(self._clock), self._driver.start(operation), asked)
        return ticket

    def waiting(self) -> tuple[Hook, ...]:
        """Return the blocked hooks, the longest blocked first."""
        found = list(self._driver.blocked())
        still: list[Hook] = []
        for hook in self._waiting:
            if hook in found:
                found.remove(hook)
                still.append(hook)
        self._waiting = [*still, *found]
        return tuple(self._waiting)

    def release(self, hook: Hook, fail: bool = False) -> None:
        """Release a blocked hook."""
        phase, group = hook
        self._record(Operation("release", {"group": group, "phase": phase, "fail": fail}))
        self._driver.release(group, phase, fail)

    def cancel(self, ticket: int) -> None:
        """Cancel an operation under way."""
        self._record(Operation("cancel", {"ticket": ticket}))
        self._driver.cancel(self._begun[ticket][1])

    def finish(self, ticket: int, clause: str = "SES-2") -> Answer:
        """Return the answer to a started operation.

        Args:
            ticket: The ticket of the operation.
            clause: The clause to report if it never ends.
        """
        begun, theirs, asked = self._begun.pop(ticket)
        self._record(Operation("finish", {"ticket": ticket}))
        try:
            got = self._driver.finish(theirs)
        except TargetFailed as error:
            message = f"{asked.operation} is never answered: {error}"
            self.test_run.never_ended(clause, message, self.setup, self.history)
            raise
        self.answers[ticket] = got
        self._answered(begun, evolve(asked, got=got))
        return got

    @property
    def under_way(self) -> tuple[int, ...]:
        """The tickets of operations that were started and not finished."""
        return tuple(self._begun)

    def drain(self, chosen: Callable[[Sequence[Hook]], Hook]) -> None:
        """Release blocked hooks, one by one as chosen, until none is blocked."""
        for _ in range(MOST_RELEASES):
            waiting = self.waiting() if self.test_run.can("blocked hooks") else ()
            if not waiting:
                return
            self.release(chosen(waiting))
        raise TargetFailed(f"{MOST_RELEASES} hooks were released, and one is still blocked")

    def report(self, clause: str, message: str, expected: Any = None, got: Any = None) -> NoReturn:
        """Report a violation with the whole history, and end the check."""
        known = {"setup": self.setup, "history": tuple(self.history)}
        self.test_run.violated(clause, message, expected=expected or {}, got=got or {}, **known)
        raise Over

    # -- judging ------------------------------------------------------------------------------------------------------

    def expected_active(self, session: str = MAIN) -> tuple[str, ...]:
        """Return the active groups after all operations, in the order of arrival."""
        return self.oracle.active(self.serial.state_of(session))

    def ran_as_expected(self, tickets: Iterable[int]) -> bool:
        """Return whether the hooks that began are those of the order of arrival, as far as they were observed."""
        return self.hooks is None or self.hooks == self.expected_hooks(tickets)

    def expected_hooks(self, tickets: Iterable[int]) -> list[Hook]:
        """Return the hooks of operations, in the order of arrival."""
        return [hook for ticket in tickets for hook in self.expected[ticket].hooks or ()]

    def linearizable(self) -> bool:
        """Return whether a sequential order of the operations explains their answers."""
        return linearize.linearizable((self.initial, frozenset[int]()), self._judge, self._events)

    def pause(self, order: tuple[int, ...]) -> None:
        """Assume that these groups are active in the main session, with nothing under way, and judge from here."""
        session_state = evolve(self.serial.state_of(MAIN), order=order)
        self.initial = self.serial = self.serial.having(MAIN, session_state)
        self._events.clear()
        self._judged.clear()

    def got_data(self) -> dict[str, Any]:
        """Return the answers as data for a violation."""
        return {"answers": [self.answers[ticket].to_json() for ticket in sorted(self.answers)]}

    def expected_data(self) -> dict[str, Any]:
        """Return the expected answers in the order of arrival, as data for a violation."""
        return {"answers": [self.expected[ticket].to_json() for ticket in sorted(self.answers)]}

    def _record(self, operation: Operation) -> None:
        self.test_run.count()
        self.history.append(operation)

    def _answered(self, begun: int, asked: Asked) -> None:
        ended = next(self._clock)
        got = asked.got
        self._events.append(linearize.Operation(asked.number, begun, ended, asked, True))
        if got.active is not None and asked.operation.verb != "snapshot":
            reading = evolve(asked, reading=True)
            self._events.append(linearize.Operation(asked.number, begun, ended, reading, True))
        if asked.operation.verb in ("activate", "deactivate", "transition"):
            self.hooks = None if got.hooks is None and got.error != "Cancelled" else self.hooks
        if self.hooks is not None:
            self.hooks += got.hooks or ()

    def _judge(self, state: tuple[World, frozenset[int]], asked: Asked) -> tuple[tuple[World, frozenset[int]], bool]:
        world, done = state
        if asked.reading:
            active = self.oracle.active(world.state_of(asked.operation.session))
            return state, asked.number in done and asked.got.active == active
        if asked.undone:
            return (world, done | {asked.number}), asked.got.error is not None
        if (world, asked.number) not in self._judged:
            after, expected = self.oracle.apply(world, asked.operation)
            self._judged[world, asked.number] = after, agrees(expected, asked.got)
        after, right = self._judged[world, asked.number]
        return (after, done | {asked.number}), right

    def _apply(self, world: World, operation: Operation, undone: Hook | None) -> tuple[World, Answer]:
        if undone is None:
            return self.oracle.apply(world, operation)
        failing = evolve(world, scripts=tuple(sorted({**dict(world.scripts), undone[::-1]: "fail"}.items())))
        return world, self.oracle.apply(failing, operation)[1]


def agrees(expected: Answer, got: Answer) -> bool:
    """Return whether an answer is as expected in the observed members that other operations don't affect."""
    pairs = [(got.changed, expected.changed), (got.tools, expected.tools)]
    pairs += [(got.detail.get(name), value) for name, value in expected.detail.items()]
    if expected.text is None and expected.error is None and expected.changed is None:
        pairs.append((got.active, expected.active))
    same = all(None in pair or pair[0] == pair[1] for pair in pairs)
    return same and (got.error is None) == (expected.error is None) and got.error in (None, "error", expected.error)
