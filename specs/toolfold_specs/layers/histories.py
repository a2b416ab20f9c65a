"""Random concurrent histories of one session, searched for an order that explains them (SPEC SES-2, CNF-7).

Clients send requests in rounds: some start, blocked hooks are released at random, states are read in between, and all
that was started is finished. Where hooks can't be blocked, it depends on the implementation whether anything overlaps;
a history without a visible overlap is evidence for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from random import Random
from typing import Any

from ..checks import Check
from ..driver import MAIN, Operation, Setup, TargetFailed
from ..oracle import Oracle, as_setup
from ..overlap import Hook, Overlap
from ..reference import System
from ..runs import TestRun
from ..shrinking import Budget, shortened
from ..systems import distinct_systems

HISTORIES, DEEP_HISTORIES, OVER_MCP = 30, 300, 15
"""The number of histories, usually and with `deep`, and its divisor over MCP."""

LONGEST, DEEP_LONGEST = 60, 320
"""The greatest number of operations in one history."""

CLIENTS, EACH = (2, 8), (5, 40)
"""The number of clients, and of the operations of each."""

SHRINKING = 1500
"""The greatest number of operations that shortening a history may take."""

SNAPSHOT = Operation("snapshot")


@cache
def _systems() -> tuple[System, ...]:
    """All systems of two to four groups with an exclusion."""
    return tuple(system for size in (2, 3, 4) for system in distinct_systems(size) if system.exclusions)


def _histories(test_run: TestRun) -> None:
    histories = DEEP_HISTORIES if test_run.deep else HISTORIES
    for number in range(histories // OVER_MCP if test_run.can("wire") else histories):
        test_run.progress(f"history {number + 1}")
        random = Random(f"{test_run.seed} {number}")
        setup = test_run.driver.given or _setup(test_run, random)
        if not setup.groups:
            return
        run = _Random(test_run, setup, random).run()
        if run is None or run.blind:
            return
        if run.explained:
            if run.overlapped:
                test_run.holds("SES-2")
            continue
        _report(test_run, setup, run)
        return


def _setup(test_run: TestRun, random: Random) -> Setup:
    hooks = ("on_activate", "on_deactivate") if test_run.can("hooks") else ()
    return as_setup(random.choice(_systems()), hooks=hooks)


# -- one history -----------------------------------------------------------------------------------------------------


class _HistoryRun(Overlap):
    """A history, judged in every pause, and whether operations were seen to overlap in it."""

    overlapped = False
    explained = True
    """Whether some order of the operations explains the answers."""
    paused = 0
    """The number of moves until the last pause."""
    blind = False
    """Whether the answers do not show the state, so that nothing can be judged."""

    def look(self) -> None:
        """Read the state; if it is not the result of everything that was started, something is still under way."""
        active = self.perform(SNAPSHOT).active
        if self.under_way and active not in (None, self.oracle.active(self.serial.state_of(MAIN))):
            self.overlapped = True

    def end(self, random: Random) -> None:
        """Finish everything, read the state and judge what was seen since the last such pause."""
        self.drain(random.choice)
        tickets = list(self.under_way)
        random.shuffle(tickets)
        for ticket in tickets:
            self.finish(ticket)
        shown = self.perform(SNAPSHOT)
        if shown.active is None:
            self.test_run.noted(False, "active", "SES-2")
        self.blind = shown.active is None
        self.explained = not self.blind and self.linearizable()
        if self.explained:
            self.pause(tuple(self.oracle.number[path] for path in shown.active or ()))
            self.paused = len(self.history)

    def last_round(self) -> list[Operation]:
        """Return moves that lead to the last pause without anything overlapping, and those made since then."""
        reached = self.oracle.active(self.initial.state_of(MAIN))
        scripts = [move for move in self.history[: self.paused] if move.verb == "script"]
        return [*(Operation("activate", {"group": path}) for path in reached), *scripts, *self.history[self.paused :]]


class _Random:
    """Draws a history while it runs."""

    def __init__(self, test_run: TestRun, setup: Setup, random: Random) -> None:
        self._test_run = test_run
        self._setup = setup
        self._random = random
        self._oracle = Oracle(setup)

    def run(self) -> _HistoryRun | None:
        """Return the history, or None if the system could not be configured."""
        case = self._test_run.begin(self._setup)
        if case is None:
            return None
        run = _HistoryRun(case)
        random = self._random
        for script in self._scripts():
            run.perform(script)
        clients = random.randint(*CLIENTS)
        left = min(clients * random.randint(*EACH), DEEP_LONGEST if self._test_run.deep else LONGEST)
        while left > 0 and run.explained:
            together = random.randint(1, min(clients, left))
            left -= together
            self._round(run, together)
        return run

    def _round(self, run: _HistoryRun, together: int) -> None:
        random = self._random
        for _ in range(together):
            run.start(self._drawn())
            if random.random() < 0.3:
                run.look()
            if random.random() < 0.3 and (waiting := self._waiting(run)):
                run.release(random.choice(waiting))
        while waiting := self._waiting(run):
            run.release(random.choice(waiting))
            if random.random() < 0.3:
                run.look()
        run.end(random)

    def _waiting(self, run: _HistoryRun) -> tuple[Hook, ...]:
        return run.waiting() if self._test_run.can("blocked hooks") else ()

    def _scripts(self) -> Iterator[Operation]:
        """Yield the scripts of the hooks for this history: most block, a few fail."""
        outcomes = ["succeed", *(["block"] * 3 if self._test_run.can("blocked hooks") else [])]
        outcomes += ["fail"] if self._test_run.can("failing hooks") else []
        for group in self._setup.groups:
            for phase in group.hooks if len(outcomes) > 1 else ():
                arguments = {"group": group.path, "phase": phase, "outcome": self._random.choice(outcomes)}
                yield Operation("script", arguments)

    def _drawn(self) -> Operation:
        random, paths = self._random, self._oracle.paths
        verbs: list[str] = ["activate", "activate", "activate", "deactivate", "deactivate", "snapshot"]
        if self._test_run.can("transition"):
            verbs.append("transition")
        verb = random.choice(verbs)
        if verb == "snapshot":
            return SNAPSHOT
        if verb == "transition":
            chosen = {name: tuple(random.sample(paths, random.randint(0, 1))) for name in ("activate", "deactivate")}
            return Operation(verb, chosen)
        return Operation(verb, {"group": random.choice(paths)})


# -- the shortest that is found --------------------------------------------------------------------------------------


def _report(test_run: TestRun, setup: Setup, run: _HistoryRun) -> None:
    """Report a history that no order explains, as short as it can be made."""
    found = [run]

    def shows(moves: Sequence[Operation]) -> bool:
        again = _again(TestRun(test_run.driver, test_run.check), setup, moves)
        if again is None or again.explained:
            return False
        found.append(again)
        return True

    try:
        shortened(run.history, run.last_round(), shows, Budget(SHRINKING))
    finally:
        shortest = found[-1]
        known: dict[str, Any] = {"setup": setup, "history": tuple(shortest.history)}
        message = "no order of the operations explains the answers"
        test_run.violated("SES-2", message, expected=shortest.expected_data(), got=shortest.got_data(), **known)


def _again(test_run: TestRun, setup: Setup, moves: Iterable[Operation]) -> _HistoryRun | None:
    """Return a run of some of the moves of a history, without those that are no longer possible."""
    case = test_run.begin(setup)
    if case is None:
        return None
    run, tickets = _HistoryRun(case), dict[int, int]()
    try:
        for move in moves:
            _repeat(run, move, tickets)
        run.end(Random(0))
    except TargetFailed:
        return None
    return run


def _repeat(run: _HistoryRun, move: Operation, tickets: dict[int, int]) -> None:
    """Make a move again; `tickets` has those of the operations that were begun again."""
    arguments = move.arguments
    if move.verb == "start":
        if len(run.under_way) == CLIENTS[1]:  # or judging it takes too long
            run.end(Random(0))
        tickets[arguments["ticket"]] = run.start(Operation.from_json(arguments["operation"]))
    elif move.verb == "finish":
        if tickets.get(arguments["ticket"]) in run.under_way and not _needs_release(run):
            run.finish(tickets[arguments["ticket"]])
    elif move.verb == "release":
        if (hook := (arguments["phase"], arguments["group"])) in run.waiting():
            run.release(hook)
    else:
        run.perform(move)


def _needs_release(run: _HistoryRun) -> bool:
    return run.test_run.can("blocked hooks") and bool(run.waiting())


CHECKS = (Check("random concurrent histories", "histories", ("SES-2",), _histories, ("concurrency",)),)
