"""What changes while a transition is blocked: the system, facts, what is used (SPEC REG-3, REG-5, REG-7, SES-5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from attrs import evolve, frozen

from ..driver import Answer, Group, Operation, Setup, Tool
from ..oracle import Oracle
from ..overlap import Hook, Overlap
from ..reference import legal
from ..runs import TestRun
from .blocking import HOOKS, begun, blocked, hooked, oldest, steps_of

SNAPSHOT = Operation("snapshot")
PAIR = hooked("a", "b")


@frozen
class CatalogChange:
    """A change of the system while `a` is about to be activated, by the clause that it tests."""

    clause: str
    setup: Setup
    refusable: bool = True
    """Whether it may be refused, since the transition may count as taken before it."""


CHANGES = (
    CatalogChange("REG-3", evolve(PAIR, exclusions=[("a", "b")])),
    CatalogChange("REG-5", hooked("b")),
    CatalogChange("REG-7", hooked("a", "b", "c"), refusable=False),
)


def registered(test_run: TestRun) -> None:
    """Judge that what a transition commits is legal in the system that there is by then."""
    for change in CHANGES:
        run = begun(test_run, PAIR, steps_of("+b"), [("on_activate", "a")])
        first = blocked(run, steps_of("+a")[0])
        answer, final = _changed(run, change, first)
        oracle = Oracle(PAIR if answer.error is not None else change.setup)
        active = final.active
        known = active is None or set(active) <= set(oracle.paths)
        right = known and legal(oracle.system, frozenset(oracle.number[path] for path in active or ()))
        if not right or (answer.error is not None and not change.refusable):
            message = "a change of the system is refused while a transition is under way" if right else ILLEGAL
            run.report(change.clause, message, got={**answer.to_json(), "active": active})
        if active is not None and run.hooks is not None and not _fitting(active, [*run.hooks, *(answer.hooks or ())]):
            message = "the hooks that ran do not fit what is active after a change of the system during a transition"
            run.report(change.clause, message, got={"hooks": [*run.hooks, *(answer.hooks or ())], "active": active})
        test_run.showed(final, ((change.clause, "active"),))


ILLEGAL = "what is active after a change of the system during a transition is not legal in it"


def _fitting(active: Collection[str], hooks: Iterable[Hook]) -> bool:
    """Return whether the hooks that ran since only `b` was active leave exactly what is active set up."""
    balance = Counter({"b": 1})
    for phase, group in hooks:
        balance[group] += 1 if phase == "on_activate" else -1
    return all(balance[group] == (group in active) for group in PAIR.paths)


def _changed(run: Overlap, change: CatalogChange, first: int) -> tuple[Answer, Answer]:
    """Return the answer to a change of the system while a transition is blocked, and the state after both."""
    driver, asked = run.test_run.driver, Operation("register", {"setup": change.setup})
    run.history.append(Operation("start", {"ticket": 0, "operation": asked.to_json()}))
    ticket = driver.start(asked)
    run.drain(oldest)
    run.history.append(Operation("finish", {"ticket": 0}))
    answer = driver.finish(ticket)
    run.finish(first, change.clause)
    return answer, run.perform(SNAPSHOT)


FACT = Setup(groups=[Group("a", hooks=HOOKS)], tools=[Tool("x", when="fact ready"), Tool("tool", "a")])


def fact_set(test_run: TestRun) -> None:
    """Judge that a fact that is set during a transition is there after it, and that both changes are notified."""
    run = begun(test_run, FACT, (), [("on_activate", "a")])
    first = blocked(run, steps_of("+a")[0])
    second = run.start(Operation("set_fact", {"fact": "ready", "value": True}))
    run.drain(oldest)
    answers = [run.finish(ticket, "SES-5") for ticket in (first, second)]
    listed = run.perform(Operation("list"))
    _, right = run.oracle.apply(run.serial, Operation("list"))
    if listed.tools not in (None, right.tools):
        message = "a fact or the transition during which it is set is lost"
        run.report("SES-5", message, right.to_json(), listed.to_json())
    test_run.showed(listed, (("SES-5", "tools"),))
    notified = [answer.notified for answer in answers if answer.notified is not None]
    if len(notified) == len(answers) and sum(notified) != len(answers):
        message = f"{sum(notified)} notices of a list that a transition and a fact have changed"
        run.report("NTF-3", message, {"notified": len(answers)}, {"notified": notified})
    test_run.showed(answers[1], (("NTF-3", "notified"),))


FULL = evolve(hooked(*"abcd"), tools=[Tool("tool", path) for path in "abcd"], max_active=3, evict_oldest=True)


def used(test_run: TestRun) -> None:
    """Judge that a group that is used during a transition counts as used after it, so that another makes room."""
    if "HOOK-2" in test_run.violated_clauses:  # a transition that commits too soon has another order in any case
        return
    setup = evolve(FULL, evict_idlest=True)
    run = begun(test_run, setup, steps_of("+a", "+b"), [("on_activate", "c")])
    first = blocked(run, steps_of("+c")[0])
    run.perform(Operation("call", {"tool": "a.tool", "arguments": {}}))
    run.drain(oldest)
    run.finish(first, "FND-3")
    answer, right = run.perform(steps_of("+d")[0]), ("a", "c", "d")
    if answer.active not in (None, right):
        message = "a group that was used during a transition is deactivated before one that was not"
        run.report("FND-3", message, {"active": right}, answer.to_json())
    test_run.showed(answer, (("FND-3", "active"),))
    test_run.noted(False, "a budget in tokens", "FND-3")
