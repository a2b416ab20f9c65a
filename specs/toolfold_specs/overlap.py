"""Operations that overlap on one system: begun, blocked in hooks, let go on, and judged as one history (SPEC SES-2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from attrs import evolve, frozen

from . import linearize
from .driver import MAIN, Answer, Operation, TargetFailed
from .oracle import World
from .runs import Case

Hook = tuple[str, str]
"""Phase and group."""

MOST_RELEASES = 1000
"""How many hooks are let go on at most until the operations must have come to an end."""


@frozen
class Asked:
    """An operation in a concurrent history, and what was answered.

    The number of an operation also marks the reading that its answer brings: `active` is read at any time after it.
    """

    number: int
    operation: Operation
    got: Answer
    undone: bool = False
    """Whether it was made to fail, so that it changes nothing."""
    reading: bool = False


class Overlap:
    """Operations under way at the same time on the system of a case, and what was seen of them.

    `history` has everything that was asked, as operations: to begin one is "start", to let a blocked hook go on
    "release", to wait for an answer "finish". `expected` has for each ticket the answer that is right in the order of
    arrival, `answers` the one that came, and `hooks` the hooks that began, as far as they were observed.
    """

    def __init__(self, case: Case) -> None:
        self.test_run = case.test_run
        self.setup = case.setup
        self.oracle = case.oracle
        self.initial = case.world
        self.serial = case.world
        """The world once everything has ended, in the order of arrival."""
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

    # -- what can be done ---------------------------------------------------------------------------------------------

    def perform(self, operation: Operation) -> Answer:
        """Return the answer to an operation that is asked for and answered while nothing else moves."""
        begun = next(self._clock)
        self._note(operation)
        got = self._driver.perform(operation)
        self._take(begun, Asked(next(self._tickets), operation, got))
        if operation.verb == "script":
            self.serial, _ = self.oracle.apply(self.serial, operation)
        return got

    def start(self, operation: Operation, undone: Hook | None = None) -> int:
        """Begin an operation and return a ticket for it.

        Args:
            operation: What to do.
            undone: The hook that will be made to fail, if one will.
        """
        ticket = next(self._tickets)
        self._note(Operation("start", {"ticket": ticket, "operation": operation.to_json()}))
        self.serial, self.expected[ticket] = self._apply(self.serial, operation, undone)
        asked = Asked(ticket, operation, Answer(), undone=undone is not None)
        self._begun[ticket] = (next(self._clock), self._driver.start(operation), asked)
        return ticket

    def waiting(self) -> tuple[Hook, ...]:
        """Return the hooks that are blocked, the one that has waited longest first."""
        found = list(self._driver.blocked())
        kept: list[Hook] = []
        for hook in self._waiting:
            if hook in found:
                found.remove(hook)
                kept.append(hook)
        self._waiting = [*kept, *found]
        return tuple(self._waiting)

    def release(self, hook: Hook, fail: bool = False) -> None:
        """Let a blocked hook end."""
        phase, group = hook
        self._note(Operation("release", {"group": group, "phase": phase, "fail": fail}))
        self._driver.release(group, phase, fail)

    def cancel(self, ticket: int) -> None:
        """Cancel an operation under way."""
        self._note(Operation("cancel", {"ticket": ticket}))
        self._driver.cancel(self._begun[ticket][1])

    def finish(self, ticket: int, clause: str = "SES-2") -> Answer:
        """Return the answer to an operation that was begun.

        Args:
            ticket: Which one.
            clause: The clause to report if it never ends.
        """
        begun, theirs, asked = self._begun.pop(ticket)
        self._note(Operation("finish", {"ticket": ticket}))
        try:
            got = self._driver.finish(theirs)
        except TargetFailed as error:
            self.report(clause, f"no answer comes to {asked.operation}: {error}")
            raise
        self.answers[ticket] = got
        self._take(begun, evolve(asked, got=got))
        return got

    @property
    def under_way(self) -> tuple[int, ...]:
        """The tickets of what was begun and not finished."""
        return tuple(self._begun)

    def drain(self, chosen: Callable[[Sequence[Hook]], Hook]) -> None:
        """Let blocked hooks go on, one by one as chosen, until none is blocked."""
        for _ in range(MOST_RELEASES):
            waiting = self.waiting() if self.test_run.can("blocked hooks") else ()
            if not waiting:
                return
            self.release(chosen(waiting))
        raise TargetFailed(f"{MOST_RELEASES} hooks were let go on, and still one waits")

    def report(self, clause: str, message: str, expected: Any = None, got: Any = None) -> None:
        """Report a violation, with everything that was asked."""
        known = {"setup": self.setup, "history": tuple(self.history)}
        self.test_run.violated(clause, message, expected=expected or {}, got=got or {}, **known)

    # -- what it came to ----------------------------------------------------------------------------------------------

    def linearizable(self) -> bool:
        """Return whether the operations can have taken effect one at a time, each between its call and its answer."""
        return linearize.linearizable((self.initial, frozenset[int]()), self._judge, self._events)

    def pause(self, order: tuple[int, ...]) -> None:
        """Take these groups for what is active in the main session now that nothing is under way; judge from here."""
        holder = evolve(self.serial.holder(MAIN), order=order)
        self.initial = self.serial = self.serial.having(MAIN, holder)
        self._events.clear()
        self._judged.clear()

    def told(self) -> dict[str, Any]:
        """Return what was answered, as data for a violation."""
        return {"answers": [self.answers[ticket].to_json() for ticket in sorted(self.answers)]}

    def foretold(self) -> dict[str, Any]:
        """Return what is answered in the order of arrival, as data for a violation."""
        return {"answers": [self.expected[ticket].to_json() for ticket in sorted(self.answers)]}

    def _note(self, operation: Operation) -> None:
        self.test_run.count()
        self.history.append(operation)

    def _take(self, begun: int, asked: Asked) -> None:
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
            active = self.oracle.active(world.holder(asked.operation.session))
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
    """Return whether an answer says what is expected, as far as it was observed, leaving aside what else can change."""
    said = [(got.changed, expected.changed), (got.tools, expected.tools)]
    said += [(got.detail.get(name), value) for name, value in expected.detail.items()]
    if expected.text is None and expected.error is None and expected.changed is None:
        said.append((got.active, expected.active))
    same = all(None in pair or pair[0] == pair[1] for pair in said)
    return same and (got.error is None) == (expected.error is None) and got.error in (None, "error", expected.error)
