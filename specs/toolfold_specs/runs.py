"""A test run: one check on one driver. It performs operations, and compares, attributes and shrinks.

A `Case` is one configured system with its history. The first mismatch ends it, since later ones may only follow from
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic
from typing import Any

from attrs import evolve

from .attribution import NAMED, OUTCOMES, REFUSAL, Judgement, Mismatch, Part, observed
from .clauses import find_clause
from .driver import Answer, Driver, Operation, Setup, TargetFailed
from .drivers.messages import checked
from .oracle import NEXT, SessionState, World, oracle_of, refusal
from .report import Violation
from .roots import simpler
from .shrinking import minimal

Progress = Callable[[str], None]

READS = frozenset({"list", "list_groups", "call", "snapshot", "why"})
"""The verbs that change nothing: a wrong answer to one leaves the state right."""


_ABOUT_REFUSALS = {
    "InvalidName": "NAM-1",
    "GroupNotFound": "REG-2",
    "ExclusionConflict": "REG-3",
    "DuplicateName": "REG-4",
}


class Spent(Exception):
    """The budget of a test run is used up; what it has found stands."""


class TestRun:
    """What a check receives: a driver, and a place for its findings.

    Args:
        driver: What is tested.
        check: The name of the check, for its violations.
        seed: The seed of everything random.
        deep: Whether to search further than usual.
        budget: The greatest number of operations; None for no limit.
        violated_clauses: The clauses that earlier checks found violated; this one adds to them.
        progress: Receives a few words on the progress.
        found: Receives the first violation of each clause as soon as it shows, unless it may follow from another.
    """

    __test__ = False  # or pytest takes it for tests wherever it is imported

    def __init__(
        self,
        driver: Driver,
        check: str = "",
        *,
        seed: int = 0,
        deep: bool = False,
        budget: int | None = None,
        violated_clauses: set[str] | None = None,
        progress: Progress = lambda _: None,
        found: Callable[[Violation], None] = lambda _: None,
    ) -> None:
        self.driver = driver
        self.check = check
        self.seed = seed
        self.deep = deep
        self.budget = budget
        self.violated_clauses = set[str]() if violated_clauses is None else violated_clauses
        self.progress = progress
        self.found = found
        self.shown: Counter[str] = Counter()
        self.parts: dict[str, dict[str, bool]] = {}
        """The parts of each clause that a case tested, by what shows them, and whether an answer did."""
        self.masked: dict[str, str] = {}
        """Clauses with a failed case, each with a violated clause that it rests on."""
        self.hidden: dict[str, Violation] = {}
        """The failure of each masked clause: a fault of its own, or a consequence of the violated clause."""
        self.cases = 0
        self.ended_by: str | None = None
        """The first clause whose violation ended a case, so that the rest of that case was not seen."""
        self._violations: dict[str, Violation] = {}
        self._begun = monotonic()

    @property
    def seconds(self) -> float:
        """The time since it began."""
        return monotonic() - self._begun

    @property
    def violations(self) -> tuple[Violation, ...]:
        """One violation for each violated clause, in the order in which they were found."""
        return tuple(self._violations.values())

    def can(self, *capabilities: str) -> bool:
        """Return whether the driver has all these capabilities."""
        return self.driver.capabilities.issuperset(capabilities)

    def begin(self, setup: Setup) -> Case | None:
        """Configure a system; return None if it was refused rightly, or if the answer was wrong, which is reported."""
        expected = refusal(setup)
        self.count()
        answer = checked("configure", self.driver.configure(setup))
        if expected is None:
            if answer.error is None:
                inherits = self.driver.given is not None and self.may_share(setup) and self.inherits(setup)
                return None if inherits else Case(self, setup)
            mismatch = Mismatch(
                _ABOUT_REFUSALS.get(answer.error, "REG-1"), f"a legal system is refused: {answer.error}"
            )
        elif answer.error in (expected.error, "error"):
            self.showed(answer, ((expected.clause, REFUSAL), (expected.clause, NAMED)))
            return None
        else:
            mismatch = Mismatch(expected.clause, f"{answer.error or 'accepted'} instead of {expected.error}")
        self.ended_by = self.ended_by or mismatch.clause
        self.violated(mismatch.clause, mismatch.message, setup=setup, got=answer.to_json())
        return None

    def may_share(self, setup: Setup) -> bool:
        """Return whether connections could share a state: those to one process, each of which is a session."""
        return bool(setup.groups) and self.can("legacy wire", "sessions") and not self.driver.apart

    def inherits(self, setup: Setup) -> bool:
        """Report that a new session begins with the state of another, if it does: then nothing else can be judged."""
        oracle, read = oracle_of(setup), Operation("snapshot")
        got, right = self.driver.perform(read), oracle.active(oracle.initial.new)
        if got.active in (None, right):
            return False
        self.ended_by = self.ended_by or "SES-1"
        message = f"{', '.join(got.active or ()) or 'nothing'} is active in a new session"
        for clause in ("SES-1", "DEL-1"):
            known: dict[str, Any] = {"expected": {"active": right}, "got": got.to_json()}
            self.add(Violation(clause, self.check, self.driver.name, message, setup, (read,), **known))
        return True

    def play(self, setup: Setup, operations: Iterable[Operation]) -> bool:
        """Configure a system and perform operations on it; return whether every answer was right."""
        case = self.begin(setup)
        return case is not None and all(case.do(operation) for operation in operations)

    def holds(self, *clauses: str) -> None:
        """Count a case as evidence for clauses that no single operation shows."""
        for clause in clauses:
            self.saw(True, find_clause(clause).core or "what the check asks for", clause)
        self.cases += 1

    def showed(self, answer: Answer, parts: Iterable[Part]) -> None:
        """Record a right answer as evidence for parts of clauses, as far as it shows the member beside each."""
        for clause, member in parts:
            if clause not in self.driver.never_shown:
                self.saw(observed(answer, member), member, clause)

    def saw(self, shown: bool, what: str, *clauses: str) -> None:
        """Record a part of some clauses that was right, if it was shown."""
        self.noted(shown, what, *clauses)
        self.shown.update(clauses if shown else ())

    def shows(self, clause: str) -> bool:
        """Return whether anything was evidence for a clause, and its core too, if it has one."""
        core = find_clause(clause).core
        return bool(self.shown[clause]) and self.parts.get(clause, {}).get(core, not core)

    def noted(self, shown: bool, what: str, *clauses: str) -> None:
        """Record whether the implementation showed what a part of some clauses is judged by."""
        for clause in clauses:
            parts = self.parts.setdefault(clause, {})
            parts[what] = parts.get(what, False) or shown

    def violated(self, clause: str, message: str, **known: Any) -> None:
        """Add a violation to what is reported; only the first of each clause counts.

        Args:
            clause: The violated clause.
            message: What is wrong, in a sentence.
            known: `setup`, `history`, `expected` and `got` of the `Violation`.
        """
        violation = Violation(clause, self.check, self.driver.name, message, **known)
        violation = evolve(violation, exchange=self.driver.exchange())
        self.add(violation, self.also_wrong(violation))

    def add(self, violation: Violation, also_wrong: Collection[str] = ()) -> None:
        """Add a violation to what is reported; only the first of each clause counts.

        Args:
            violation: What is wrong.
            also_wrong: The clauses that the same case shows to be violated. If its clause rests on one of them, this
                may follow from that: then it is only listed with it (SPEC CNF-10).
        """
        clause = violation.clause
        if not (violation.exchange or self.knows(clause)):
            violation = evolve(violation, exchange=self.driver.exchange())
        if roots := find_clause(clause).rests_on.intersection(also_wrong) & self.violated_clauses:
            self.hide(clause, min(roots), violation)
            return
        if clause not in self._violations:
            self.found(violation)
        self._violations.setdefault(clause, violation)
        self.violated_clauses.add(clause)

    def also_wrong(self, violation: Violation) -> frozenset[str]:
        """Return which clauses that it rests on the case of a violation shows to be violated, in a simpler form.

        What has no history is repeated by running its check as a whole.
        """
        among = find_clause(violation.clause).rests_on & self.violated_clauses
        if not among:
            return among
        if violation.setup is None or not violation.history:
            return among & self._violations.keys()
        wrong: set[str] = set()
        for setup, operations in simpler(violation.setup, violation.history, self.can):
            quiet = TestRun(self.driver, self.check, violated_clauses={*self.violated_clauses, violation.clause})
            if (case := quiet.begin(setup)) is not None:
                all(case.passes(operation) for operation in operations)
                wrong |= case.wrong
        if wrong & OUTCOMES:  # what depends on the history is found as one of these
            wrong |= {"INV-4", "INV-5"}
        return among & wrong

    def never_ended(self, clause: str, message: str, setup: Setup, history: Sequence[Operation]) -> None:
        """Report that an operation never ends, which follows from nothing else."""
        self.add(Violation(clause, self.check, self.driver.name, message, setup, tuple(history)))

    def hide(self, clause: str, broken: str, violation: Violation) -> None:
        """Record a violation that may follow from that of another clause, which is reported instead."""
        self.masked.setdefault(clause, broken)
        self.hidden.setdefault(clause, evolve(violation, root=broken))

    def knows(self, clause: str) -> bool:
        """Return whether a violation of this clause was found already, reported or hidden."""
        return clause in self._violations or clause in self.hidden

    def count(self) -> None:
        """Count one operation; raises `Spent` once the budget is used up."""
        self.cases += 1
        if self.budget is not None and self.cases > self.budget:
            raise Spent


class Case:
    """One configured system, and its history."""

    def __init__(self, test_run: TestRun, setup: Setup) -> None:
        self.test_run = test_run
        self.setup = setup
        self.wrong: set[str] = set()
        """The clauses that its answers so far have shown to be violated."""
        self.oracle = oracle_of(setup)
        self.world: World = self.oracle.initial
        self.history: list[Operation] = []
        self.over = False
        self.last = Answer()
        self.last_step = Answer()
        """The answer to the last operation that is not a read."""
        self._cursors: dict[str, str | None] = {}

    @property
    def session_state(self) -> SessionState:
        """The state of the main session according to the oracle."""
        return self.world.state_of("main")

    def do(self, operation: Operation, clause: str | None = None, members: Iterable[str] = ("active",)) -> bool:
        """Perform an operation, and report it if its answer is wrong; return whether the case can go on.

        It can if the answer is right, or shows a known violation that leaves the state right.

        Args:
            operation: What to do.
            clause: The clause that a wrong answer violates, where the check knows it better than the comparison.
            members: The members of the answer that show that clause.
        """
        if self.over:
            return False
        mismatch, expected, got = self._judge(operation)
        self.last = got
        self.last_step = self.last_step if operation.verb in READS else got
        if mismatch is None:
            if clause is not None:
                self.test_run.showed(got, ((clause, member) for member in members))
            return True
        if self._is_known(mismatch, operation, expected, got):
            return True
        self.over = True
        run = self.test_run
        if run.may_share(self.setup) and run.driver.configure(self.setup).error is None and run.inherits(self.setup):
            return False
        if clause is None or mismatch.clause in self.test_run.violated_clauses:
            clause = self._finer(mismatch, operation)
        self._report(mismatch, clause, expected, got)
        self.test_run.ended_by = self.test_run.ended_by or self.test_run.masked.get(clause, clause)
        if mismatch.also is not None and mismatch.also not in self.test_run.violated_clauses:
            run, history = self.test_run, tuple(self.history)
            found = Violation(mismatch.also, run.check, run.driver.name, mismatch.message, self.setup, history)
            run.hide(mismatch.also, clause, found)
        return False

    def passes(self, operation: Operation) -> bool:
        """Perform an operation without reporting anything; return whether the case can go on."""
        mismatch, expected, got = self._judge(operation)
        if mismatch is None or self._is_known(mismatch, operation, expected, got):
            return True
        self.wrong.add(mismatch.clause)
        return False

    def _is_known(self, mismatch: Mismatch, operation: Operation, expected: Answer, got: Answer) -> bool:
        """Return whether a mismatch is known and leaves the state right."""
        if operation.verb == "register" and mismatch.explains:  # the system differs from now on
            return False
        reads = operation.verb in READS and expected.active is None
        return mismatch.clause in self.test_run.violated_clauses and (reads or _state_is_right(expected, got))

    def _judge(self, operation: Operation) -> tuple[Mismatch | None, Answer, Answer]:
        self.test_run.count()
        before = self.world
        self.history.append(operation)
        after, expected = self.oracle.apply(before, operation)
        got = self._performed(operation, expected)
        if operation.verb == "list":
            self._cursors[operation.session] = got.next_cursor
        elif operation.verb == "end":
            self._cursors.pop(operation.session, None)
        elif operation.verb == "restore":
            self._cursors.clear()
        judgement = Judgement(self.oracle, before, operation, expected, got)
        found = judgement.mismatches
        known = self.test_run.violated_clauses
        mismatch = next((one for one in found if one.clause not in known), found[0] if found else None)
        self.wrong.update(clause for one in found for clause in one.besides)
        self.wrong.update(one.clause for one in found if one is not mismatch or one.clause in known)
        if mismatch is None or self._is_known(mismatch, operation, expected, got):
            self.test_run.showed(got, judgement.shown)
            self.world = after
            self.oracle = self.oracle.following(operation) if expected.error is None else self.oracle
        return mismatch, expected, got

    def _performed(self, operation: Operation, expected: Answer) -> Answer:
        if self._asks_for_an_unseen_page(operation, expected):
            return Answer()
        try:
            return checked(operation.verb, self.test_run.driver.perform(self._with_cursor(operation)))
        except TargetFailed as error:
            if expected.detail.get("outcome") == "ask":  # a hook that waits for its own session
                self.test_run.never_ended("HOOK-7", str(error), self.setup, self.history)
            raise

    def _asks_for_an_unseen_page(self, operation: Operation, expected: Answer) -> bool:
        """Return whether there is a next page, but its cursor was not shown."""
        follows = operation.verb == "list" and operation.arguments.get("cursor") == NEXT and expected.error is None
        return follows and self._cursors.get(operation.session) is None

    def _with_cursor(self, operation: Operation) -> Operation:
        cursor = self._cursors.get(operation.session)
        if operation.verb != "list" or operation.arguments.get("cursor") != NEXT or cursor is None:
            return operation
        return evolve(operation, arguments={"cursor": cursor})

    # -- does a wrong answer depend on what came before? --------------------------------------------------------------

    def _finer(self, mismatch: Mismatch, operation: Operation) -> str:
        """Return the clause that is violated.

        It is INV-5 if the same request in the same state is answered rightly in a new session, or INV-4 if the
        group can't be activated again whatever is done.
        """
        if mismatch.clause not in OUTCOMES or self.test_run.knows(mismatch.clause):
            return mismatch.clause
        shortest = self._shortest_way(operation)
        if shortest is None or len(shortest) == len(self.history) or self._replayed(shortest) is not None:
            return mismatch.clause
        return "INV-4" if mismatch.clause == "ACT-4" and self._dead_end(operation) else "INV-5"

    def _dead_end(self, operation: Operation) -> bool:
        """Return whether it can't be activated even after all were deactivated and its ancestors activated."""
        if self._replayed(self.history) is None:
            return False
        driver, group = self.test_run.driver, operation.arguments["group"]
        roots = [path for path in self.oracle.paths if "." not in path]
        way = [group[:place] for place, letter in enumerate(group) if letter == "."]
        for verb, path in [*(("deactivate", path) for path in roots), *(("activate", path) for path in way)]:
            driver.perform(Operation(verb, {"group": path}, operation.session))
        answer = driver.perform(operation)
        return answer.active is not None and group not in answer.active

    # -- shortening ---------------------------------------------------------------------------------------------------

    def _report(self, mismatch: Mismatch, clause: str, expected: Answer, got: Answer) -> None:
        """Report a mismatch under its clause, with a short history on a small system that shows it too."""
        known = self.test_run.violated_clauses
        if self.test_run.knows(clause) and (clause in known or self.wrong & find_clause(clause).rests_on):
            return

        if not find_clause(clause).rests_on & {*known, *self.wrong}:  # else it may follow from one of these
            details = (self.setup, tuple(self.history), expected.to_json(), got.to_json())
            self.test_run.found(
                Violation(clause, self.test_run.check, self.test_run.driver.name, mismatch.message, *details)
            )

        def shows(setup: Setup, tried: Sequence[Operation]) -> bool:
            found = self._replayed(tried, setup)
            return found is not None and found[0].clause == mismatch.clause

        setup, history = minimal(
            self.setup, self.history, self._shortest_way(self.history[-1]), shows, self.test_run.can("setups")
        )
        wrong = self.wrong
        if history != self.history or setup != self.setup or self.test_run.can("wire"):  # so that this was sent last
            again = self._replayed(history, setup)
            if again is not None:
                mismatch, expected, got, wrong = again
        run, shown = self.test_run, (setup, tuple(history), expected.to_json(), got.to_json())
        violation = Violation(clause, run.check, run.driver.name, mismatch.message, *shown, run.driver.exchange())
        run.add(violation, wrong | run.also_wrong(violation))

    def _replayed(
        self, history: Sequence[Operation], setup: Setup | None = None
    ) -> tuple[Mismatch, Answer, Answer, set[str]] | None:
        """Return the mismatch of the last operation of a history on a new system, if no earlier one has one."""
        quiet = TestRun(self.test_run.driver, self.test_run.check, violated_clauses=set(self.test_run.violated_clauses))
        case = quiet.begin(setup or self.setup)
        if case is None:
            return None
        if not all(case.passes(operation) for operation in history[:-1]):
            return None
        mismatch, expected, got = case._judge(history[-1])
        return None if mismatch is None else (mismatch, expected, got, case.wrong)

    def _shortest_way(self, last: Operation) -> list[Operation] | None:
        """Return activations that lead to the state before the last operation, and that operation.

        They exist where nothing but activations and deactivations of one session came before.
        """
        simple = {"activate", "deactivate", "list", "snapshot", "why"}
        if any(operation.verb not in simple for operation in self.history[:-1]):
            return None
        if len({operation.session for operation in self.history}) > 1:
            return None
        world = self.oracle.initial
        for operation in self.history[:-1]:
            world, _ = self.oracle.apply(world, operation)
        reached = self.oracle.active(world.state_of(last.session))
        return [*(Operation("activate", {"group": path}, last.session) for path in reached), last]


def _state_is_right(expected: Answer, got: Answer) -> bool:
    return got.active is not None and got.active == expected.active
