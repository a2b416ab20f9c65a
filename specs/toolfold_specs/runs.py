"""A test run: one check at work on one driver. It performs, compares, attributes and shortens.

A `Case` is one configured system with everything that was done to it so far. The first difference ends it: what comes
after would only show the same mismatch again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from .attribution import RESTS_ON, STATE, Mismatch, mismatches
from .driver import Answer, Driver, Operation, Setup, TargetFailed
from .drivers.messages import checked
from .evidence import REFUSAL, SHOWN_BY, evidence, observed
from .oracle import NEXT, Holder, Oracle, World, refusal
from .report import Violation
from .shrinking import minimal

Progress = Callable[[str], None]

READS = frozenset({"list", "list_groups", "call", "snapshot"})
"""The verbs that change nothing: a wrong answer to one leaves the state right."""


_ABOUT_REFUSALS = {
    "InvalidName": "NAM-1",
    "GroupNotFound": "REG-2",
    "ExclusionConflict": "REG-3",
    "DuplicateName": "REG-4",
}


class Spent(Exception):
    """The budget of a test_run is used up; what was found until then stands."""


class TestRun:
    """What a check is given: a driver and somewhere to put what it finds.

    Args:
        driver: What is tested.
        check: The name of the check, for its violations.
        seed: Of whatever is random.
        deep: Whether to look further than usual.
        budget: The greatest number of operations; None for no bound.
        known: The clauses that checks before this one found broken; this one adds to them.
        progress: Receives a few words on how far it has come.
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
        known: set[str] | None = None,
        progress: Progress = lambda _: None,
    ) -> None:
        self.driver = driver
        self.check = check
        self.seed = seed
        self.deep = deep
        self.budget = budget
        self.known = set[str]() if known is None else known
        self.progress = progress
        self.shown: Counter[str] = Counter()
        self.unseen: dict[str, str] = {}
        """Clauses that a case put to the test, each with the member of the answer in which it would have been seen."""
        self.masked: dict[str, str] = {}
        """Clauses with a case that went wrong, each with a violated one that it relies on."""
        self.hidden: dict[str, Violation] = {}
        """What went wrong there: it may be a fault of its own, or follow from the broken clause."""
        self.cases = 0
        self.ended_by: str | None = None
        """The first clause at whose violation a case ended, so that what was to come after it was not seen."""
        self._violations: dict[str, Violation] = {}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """One violation for each clause that was found broken, in the order in which they were found."""
        return tuple(self._violations.values())

    def can(self, *capabilities: str) -> bool:
        """Return whether the driver has all these capabilities."""
        return self.driver.capabilities.issuperset(capabilities)

    def begin(self, setup: Setup) -> Case | None:
        """Configure a system; return None if it was rightly refused, or answered wrongly, which is reported."""
        expected = refusal(setup)
        self.count()
        answer = checked("configure", self.driver.configure(setup))
        if expected is None:
            if answer.error is None:
                return Case(self, setup)
            mismatch = Mismatch(
                _ABOUT_REFUSALS.get(answer.error, "REG-1"), f"a legal system is refused: {answer.error}"
            )
        elif answer.error in (expected.error, "error"):
            self.showed(answer, {expected.clause: REFUSAL})
            return None
        else:
            mismatch = Mismatch(expected.clause, f"{answer.error or 'accepted'} instead of {expected.error}")
        self.violated(mismatch.clause, mismatch.message, setup=setup, got=answer.to_json())
        return None

    def play(self, setup: Setup, operations: Iterable[Operation]) -> bool:
        """Configure a system and perform operations on it; return whether every answer was right."""
        case = self.begin(setup)
        return case is not None and all(case.do(operation) for operation in operations)

    def holds(self, *clauses: str) -> None:
        """Count a case as evidence for clauses, where no single operation is."""
        self.shown.update(clauses)
        self.cases += 1

    def showed(self, answer: Answer, members: Mapping[str, str]) -> None:
        """Say that an answer was right, and is evidence for each of these clauses if it shows the member beside it."""
        for clause, member in members.items():
            if clause in self.driver.never_shown:
                continue
            member = SHOWN_BY.get(clause, member)
            if observed(answer, member):
                self.shown[clause] += 1
            else:
                self.unseen.setdefault(clause, member)

    def not_shown(self, what: str, *clauses: str) -> None:
        """Say that the implementation did not show what it takes to judge some clauses."""
        for clause in clauses:
            self.unseen.setdefault(clause, what)

    def violated(self, clause: str, message: str, **known: Any) -> None:
        """Report a violation; the first of each clause is kept.

        Args:
            clause: The clause that is broken.
            message: What is wrong, in a sentence.
            known: `setup`, `history`, `expected` and `got` of the `Violation`.
        """
        self.found(Violation(clause, self.check, self.driver.name, message, **known))

    def found(self, violation: Violation, apart: frozenset[str] = frozenset()) -> None:
        """Report a violation; the first of each clause is kept.

        Where its clause rests on one known to be broken, this may be the same mismatch again: it is kept as hidden.

        Args:
            violation: What is wrong.
            apart: Clauses that it rests on and that can't be why, though they are broken.
        """
        clause = violation.clause
        if broken := (RESTS_ON.get(clause, frozenset()) & self.known) - apart:
            self.hide(clause, min(broken), violation)
            return
        self._violations.setdefault(clause, violation)
        self.known.add(clause)

    def hide(self, clause: str, broken: str, violation: Violation) -> None:
        """Note a violation of a clause that may follow from that of another one, which is reported instead."""
        self.masked.setdefault(clause, broken)
        self.hidden.setdefault(clause, violation)

    def knows(self, clause: str) -> bool:
        """Return whether what goes wrong with this clause was reported already, as a violation or as hidden by one."""
        return clause in self._violations or clause in self.hidden

    def count(self) -> None:
        """Count one operation; raises `Spent` once there were too many."""
        self.cases += 1
        if self.budget is not None and self.cases > self.budget:
            raise Spent


class Case:
    """One configured system, and what was done to it."""

    def __init__(self, test_run: TestRun, setup: Setup) -> None:
        self.test_run = test_run
        self.setup = setup
        self.oracle = Oracle(setup)
        self.world: World = self.oracle.initial
        self.history: list[Operation] = []
        self.over = False
        self.last = Answer()
        self.last_step = Answer()
        """The answer to the last operation that is more than a read."""
        self._cursors: dict[str, str | None] = {}

    @property
    def holder(self) -> Holder:
        """The state of the main session, by the oracle."""
        return self.world.holder("main")

    def do(self, operation: Operation, clause: str | None = None, members: Iterable[str] = ("active",)) -> bool:
        """Perform an operation, and report it if its answer is wrong; return whether the case can go on.

        It can where the answer is right, or is wrong again in a way that is known and leaves the state as it should be.

        Args:
            operation: What to do.
            clause: The clause that is violated, where a check knows better than the comparison.
            members: The members of the answer in which that clause is seen.
        """
        if self.over:
            return False
        mismatch, expected, got = self._judge(operation)
        self.last = got
        self.last_step = self.last_step if operation.verb in READS else got
        if mismatch is None:
            if clause is not None:
                missing = [member for member in members if not observed(got, member)]
                self.test_run.showed(got, {clause: next(iter(missing or members))})
            return True
        if self._is_known(mismatch, operation, expected, got):
            return True
        self.over = True
        self.test_run.ended_by = self.test_run.ended_by or mismatch.clause
        if clause is None or mismatch.clause in self.test_run.known:
            clause = self._finer(mismatch, operation)
        self._report(mismatch, clause, expected, got)
        if mismatch.also is not None and mismatch.also not in self.test_run.known:
            run, history = self.test_run, tuple(self.history)
            found = Violation(mismatch.also, run.check, run.driver.name, mismatch.message, self.setup, history)
            run.hide(mismatch.also, clause, found)
        return False

    def _is_known(self, mismatch: Mismatch, operation: Operation, expected: Answer, got: Answer) -> bool:
        """Return whether a mismatch is an old one, and leaves the state as it should be."""
        if operation.verb == "register" and mismatch.explains:  # from now on the system is another one
            return False
        reads = operation.verb in READS and expected.active is None
        return mismatch.clause in self.test_run.known and (reads or _state_is_right(expected, got))

    def _judge(self, operation: Operation) -> tuple[Mismatch | None, Answer, Answer]:
        self.test_run.count()
        before = self.world
        self.history.append(operation)
        self.world, expected = self.oracle.apply(before, operation)
        got = self._performed(operation, expected)
        if operation.verb == "list":
            self._cursors[operation.session] = got.next_cursor
        elif operation.verb == "end":
            self._cursors.pop(operation.session, None)
        elif operation.verb == "restore":
            self._cursors.clear()
        found = list(mismatches(self.oracle, before, operation, expected, got))
        known = self.test_run.known
        mismatch = next((one for one in found if one.clause not in known), found[0] if found else None)
        if mismatch is None or self._is_known(mismatch, operation, expected, got):
            self._note_evidence(before, operation, expected, got, found)
            self.oracle = self.oracle.following(operation) if expected.error is None else self.oracle
        return mismatch, expected, got

    def _note_evidence(
        self, before: World, operation: Operation, expected: Answer, got: Answer, wrong: Sequence[Mismatch]
    ) -> None:
        """Note what an answer is evidence for: all that is right in it, if nothing is wrong that explains the rest."""
        if not any(one.explains for one in wrong):
            broken = {one.clause for one in wrong}
            shown = evidence(self.oracle, before, operation, expected)
            right = {clause: member for clause, member in shown.items() if clause not in broken}
            self.test_run.showed(got, right)

    def _performed(self, operation: Operation, expected: Answer) -> Answer:
        if self._asks_for_an_unseen_page(operation, expected):
            return Answer()
        try:
            return checked(operation.verb, self.test_run.driver.perform(self._with_cursor(operation)))
        except TargetFailed as error:
            if expected.detail.get("outcome") == "ask":  # a hook that waits for its own session
                self.test_run.violated("HOOK-7", str(error), setup=self.setup, history=tuple(self.history))
            raise

    def _asks_for_an_unseen_page(self, operation: Operation, expected: Answer) -> bool:
        """Return whether there is a next page, but the one before it was not shown, nor its cursor."""
        follows = operation.verb == "list" and operation.arguments.get("cursor") == NEXT and expected.error is None
        return follows and self._cursors.get(operation.session) is None

    def _with_cursor(self, operation: Operation) -> Operation:
        cursor = self._cursors.get(operation.session)
        if operation.verb != "list" or operation.arguments.get("cursor") != NEXT or cursor is None:
            return operation
        return evolve(operation, arguments={"cursor": cursor})

    # -- does a wrong answer depend on what came before? --------------------------------------------------------------

    def _finer(self, mismatch: Mismatch, operation: Operation) -> str:
        """Return the clause that is violated: is the same request in the same state answered rightly in a new session?

        That is INV-5; or INV-4, if the group can't be activated any more whatever is done.
        """
        if mismatch.clause not in ("ACT-1", "ACT-2", "ACT-3", "ACT-4", "ACT-5") or self.test_run.knows(mismatch.clause):
            return mismatch.clause
        shortest = self._shortest_way(operation)
        if shortest is None or len(shortest) == len(self.history) or self._replayed(shortest) is not None:
            return mismatch.clause
        return "INV-4" if mismatch.clause == "ACT-4" and self._dead_end(operation) else "INV-5"

    def _dead_end(self, operation: Operation) -> bool:
        """Return whether the group can't be activated either once all was deactivated and its ancestors opened."""
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
        if self.test_run.knows(clause):
            return

        def shows(setup: Setup, tried: Sequence[Operation]) -> bool:
            found = self._replayed(tried, setup)
            return found is not None and found[0].clause == mismatch.clause

        setup, history = minimal(
            self.setup, self.history, self._shortest_way(self.history[-1]), shows, self.test_run.can("setups")
        )
        if history != self.history or setup != self.setup:
            again = self._replayed(history, setup)
            if again is not None:
                mismatch, expected, got = again
        run, shown = self.test_run, (setup, tuple(history), expected.to_json(), got.to_json())
        violation = Violation(clause, run.check, run.driver.name, mismatch.message, *shown)
        run.found(violation, STATE if not mismatch.explains and _state_is_right(expected, got) else frozenset())

    def _replayed(
        self, history: Sequence[Operation], setup: Setup | None = None
    ) -> tuple[Mismatch, Answer, Answer] | None:
        """Return the mismatch that the last operation of a history shows on a new system, if it alone shows one."""
        quiet = TestRun(self.test_run.driver, self.test_run.check, known=set(self.test_run.known))
        case = quiet.begin(setup or self.setup)
        if case is None:
            return None
        for operation in history[:-1]:
            mismatch, expected, got = case._judge(operation)
            if mismatch is not None and not case._is_known(mismatch, operation, expected, got):
                return None
        mismatch, expected, got = case._judge(history[-1])
        return None if mismatch is None else (mismatch, expected, got)

    def _shortest_way(self, last: Operation) -> list[Operation] | None:
        """Return activations that lead to the state before the last operation, and that operation.

        They exist where nothing but activations and deactivations of one session came before.
        """
        if any(operation.verb not in ("activate", "deactivate", "list", "snapshot") for operation in self.history[:-1]):
            return None
        if len({operation.session for operation in self.history}) > 1:
            return None
        world = self.oracle.initial
        for operation in self.history[:-1]:
            world, _ = self.oracle.apply(world, operation)
        reached = self.oracle.active(world.holder(last.session))
        return [*(Operation("activate", {"group": path}, last.session) for path in reached), last]


def _state_is_right(expected: Answer, got: Answer) -> bool:
    return got.active is not None and got.active == expected.active
