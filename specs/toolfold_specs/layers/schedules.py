"""Schedules forced through blocked hooks: the hooks decide who goes on when, so nothing depends on time (SPEC CNF-7).

An operation is blocked in a hook of its own, others come meanwhile, and hooks are let go on in a chosen order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import cycle
from typing import Any

from ..checks import Check
from ..driver import Answer, Operation, Setup
from ..evidence import CAUSE
from ..oracle import Oracle, World, as_setup
from ..overlap import Hook, Overlap, agrees
from ..runs import TestRun
from ..systems import distinct_systems
from .blocking import (
    HOOKS,
    QUEUES,
    begun,
    blocked,
    changes,
    foreseen,
    hooked,
    hooks_of,
    newest,
    oldest,
    ran_otherwise,
    scripts,
    steps_of,
    ways,
)
from .cancelling import cancelled_twice, cancelled_while_waiting

PARKING = ("hooks", "blocked hooks", "concurrency")

SIZE = 3
"""How many groups the systems have at most. Of the largest, `deep` tries all pairs of operations in both orders;
usually those that do not commute are tried, in one order by turns."""

OTHER = "other"
"""The second session."""


# -- systems and states ----------------------------------------------------------------------------------------------


def _systems(test_run: TestRun) -> Iterator[Setup]:
    if test_run.driver.given is not None:
        yield test_run.driver.given
        return
    for size in range(1, SIZE + 1):
        for system in distinct_systems(size):
            yield as_setup(system, hooks=HOOKS)


def _commute(oracle: Oracle, world: World, one: Operation, other: Operation) -> bool:
    """Return whether two operations come to the same in both orders."""
    (first, a), (second, b) = oracle.apply(world, one), oracle.apply(world, other)
    (after, c), (same, d) = oracle.apply(first, other), oracle.apply(second, one)
    return after == same and agrees(a, d) and agrees(b, c)


def _pairs(oracle: Oracle, world: World, whole: bool) -> Iterator[tuple[Operation, Operation]]:
    """Yield the pairs of operations of which the first runs a hook: all, or those that do not commute."""
    for first in changes(oracle):
        if hooks_of(oracle, world, first):
            for second in changes(oracle):
                if whole or not _commute(oracle, world, first, second):
                    yield first, second


# -- two steps at once -----------------------------------------------------------------------------------------------


def _two_at_once(test_run: TestRun) -> None:
    for number, setup in enumerate(_systems(test_run), 1):
        test_run.progress(f"system {number}, {len(setup.groups)} groups")
        oracle = Oracle(setup)
        whole = test_run.deep or len(oracle.paths) < SIZE
        turns = cycle(((oldest, newest),) if whole else ((oldest,), (newest,)))
        for world, way in ways(oracle):
            for pair in _pairs(oracle, world, whole):
                for order in next(turns):
                    if not _schedule(test_run, setup, way, pair, order):
                        return


def _schedule(
    test_run: TestRun,
    setup: Setup,
    way: tuple[Operation, ...],
    pair: tuple[Operation, Operation],
    order: Callable[[Sequence[Hook]], Hook],
) -> bool:
    """Have two steps overlap; return whether all went well."""
    oracle = Oracle(setup)
    world = oracle.initial
    for operation in way:
        world, _ = oracle.apply(world, operation)
    run = begun(test_run, setup, way, (hook for operation in pair for hook in hooks_of(oracle, world, operation)))
    if run is None or (first := blocked(run, pair[0])) is None:
        return False
    second = run.start(pair[1])
    if not _unchanged(run, world):
        return False
    run.drain(order)
    run.finish(first)
    run.finish(second)
    final = run.perform(Operation("snapshot"))
    if not run.linearizable():
        _report_order(run, f"{pair[0]} and {pair[1]} at once come to what neither order of them comes to", final)
        return False
    test_run.showed(final, {"SES-2": "active", "HOOK-2": "active"})
    return True


def _report_order(run: Overlap, message: str, final: Answer) -> None:
    active = run.oracle.active(run.serial.holder("main"))
    run.report("SES-2", message, {**run.foretold(), "active": active}, {**run.told(), "active": final.active})


def _unchanged(run: Overlap, world: World) -> bool:
    """Return whether what can be read is as before, while a step is blocked (SPEC HOOK-2, NTF-2)."""
    small = len(run.oracle.paths) < SIZE
    reads = [Operation("snapshot"), *([Operation("list")] if small and run.test_run.can("listing") else [])]
    for read in reads:
        _, expected = run.oracle.apply(world, read)
        got = run.perform(read)
        if not agrees(expected, got):
            message = f"{read} shows another state while hooks of the step still run"
            run.report("HOOK-2", message, expected.to_json(), got.to_json())
            return False
        if got.notified:
            run.report("NTF-2", "a notice of a changed list comes before the step is committed", got=got.to_json())
            return False
    return True


# -- reads -----------------------------------------------------------------------------------------------------------


def _reads(test_run: TestRun) -> None:
    """A read during a step is answered with the state before it.

    Whether an answer that shows the state after has waited, or the state has changed too soon, is told by a step that
    fails: nothing changes then, so that only the second is still seen.
    """
    setup = test_run.driver.given or hooked("a", "b", "b.c", exclusions=[("a", "b")])
    oracle = Oracle(setup)
    for world, way in ways(oracle):
        for step in changes(oracle):
            for hook in hooks_of(oracle, world, step):
                seen = _read_during(test_run, setup, way, step, hook, fail=False)
                if seen is None:
                    return
                before = oracle.active(world.holder("main"))
                if seen.active not in (None, before):
                    told = _read_during(test_run, setup, way, step, hook, fail=True)
                    waited = told is not None and told.active == before
                    message = "a read waits for a step" if waited else "the state changes before the hooks have run"
                    test_run.violated(
                        "SES-2" if waited else "HOOK-2",
                        message,
                        setup=setup,
                        history=(*way, *scripts([hook], "block"), _started(step), Operation("snapshot")),
                        expected={"active": before},
                        got=seen.to_json(),
                    )
                    return
                test_run.showed(seen, {"SES-2": "active", "HOOK-2": "active"})


def _started(operation: Operation) -> Operation:
    return Operation("start", {"ticket": 1, "operation": operation.to_json()})


def _read_during(
    test_run: TestRun, setup: Setup, way: Iterable[Operation], step: Operation, hook: Hook, *, fail: bool
) -> Answer | None:
    run = begun(test_run, setup, way, [hook])
    ticket = None if run is None else blocked(run, step, hook if fail else None)
    if run is None or ticket is None:
        return None
    read = run.start(Operation("snapshot"))
    run.release(run.waiting()[0], fail)
    run.drain(oldest)
    run.finish(ticket)
    return run.finish(read)


def _notices(test_run: TestRun) -> None:
    setup = test_run.driver.given or as_setup(next(distinct_systems(1)), hooks=HOOKS)
    oracle = Oracle(setup)
    for world, way in ways(oracle):
        for step in changes(oracle):
            hooks = hooks_of(oracle, world, step)
            run = begun(test_run, setup, way, hooks[:1]) if hooks else None
            ticket = None if run is None else blocked(run, step)
            if run is None or ticket is None:
                continue
            if (seen := run.perform(Operation("snapshot"))).notified:
                run.report("NTF-2", "a notice comes before the step is committed", {"notified": 0}, seen.to_json())
                return
            run.drain(oldest)
            if seen.notified is not None and run.finish(ticket).notified == run.expected[ticket].notified:
                test_run.holds("NTF-2")


# -- order of arrival ------------------------------------------------------------------------------------------------


def _order(test_run: TestRun) -> None:
    for setup, queue in QUEUES:
        run = begun(test_run, setup, (), [("on_activate", "a")])
        if run is None or (first := blocked(run, queue[0])) is None:
            return
        tickets = [first, *(run.start(operation) for operation in queue[1:])]
        run.drain(oldest)
        right = [agrees(run.expected[ticket], run.finish(ticket)) for ticket in tickets]
        final = run.perform(Operation("snapshot"))
        active = run.oracle.active(run.serial.holder("main"))
        if not all(right) or final.active not in (None, active) or ran_otherwise(run, tickets):
            _report_order(run, "steps are not taken in the order in which they were asked for", final)
            return
        test_run.showed(final, {"SES-2": "active"})


# -- a step that is undone while others wait -------------------------------------------------------------------------


def _undone(test_run: TestRun, clause: str, undo: Callable[[Overlap, int, Hook], None]) -> None:
    """Park a step in each of its hooks in turn, have another come, and make the first fail."""
    for rollback in ((), ("on_rollback",)):
        setup = hooked("a", "a.b", "c", exclusions=[("a", "c")], hooks=(*HOOKS, *rollback))
        oracle = Oracle(setup)
        for world, way in ways(oracle):
            for first in changes(oracle):
                for hook in hooks_of(oracle, world, first):
                    for second in changes(oracle):
                        run = begun(test_run, setup, way, [hook])
                        if run is None or not _undone_once(run, clause, undo, (first, second), hook):
                            return


def _undone_once(
    run: Overlap,
    clause: str,
    undo: Callable[[Overlap, int, Hook], None],
    pair: tuple[Operation, Operation],
    hook: Hook,
) -> bool:
    first = blocked(run, pair[0], undone=hook)
    if first is None:
        return False
    second = run.start(pair[1])
    undo(run, first, hook)
    run.drain(oldest)
    answer = run.finish(first, clause)
    run.finish(second, clause)
    final = run.perform(Operation("snapshot"))
    active = run.oracle.active(run.serial.holder("main"))
    known: tuple[Any, Any] = ({**run.foretold(), "active": active}, {**run.told(), "active": final.active})
    if (
        answer.error is None
        or final.active not in (None, active)
        or not agrees(run.expected[second], run.answers[second])
    ):
        run.report(clause, f"{pair[0]} does not come to nothing while {pair[1]} waits", *known)
        return False
    if ran_otherwise(run, (first, second)):
        ran = {"hooks": foreseen(run, (first, second))}, {"hooks": run.hooks}
        run.report("HOOK-5" if clause == "HOOK-4" else clause, "the hooks that had succeeded are not undone", *ran)
        return False
    run.test_run.showed(final, {clause: "active"})
    run.test_run.showed(
        Answer(hooks=None if run.hooks is None else ()), {"HOOK-5": "hooks"} if clause == "HOOK-4" else {}
    )
    return True


def _failing(test_run: TestRun) -> None:
    _undone(test_run, "HOOK-4", lambda run, _, hook: run.release(hook, fail=True))


def _cancelled(test_run: TestRun) -> None:
    _undone(test_run, "HOOK-6", lambda run, ticket, _: run.cancel(ticket))
    if not test_run.knows("HOOK-6"):
        cancelled_while_waiting(test_run)
    if not test_run.knows("HOOK-6"):
        cancelled_twice(test_run)


# -- hooks that ask their own session --------------------------------------------------------------------------------


def _asking(test_run: TestRun) -> None:
    setup = hooked("a", "b", exclusions=[("a", "b")])
    cases = ((), steps_of("+b")[0], ("on_activate", "b")), (steps_of("+a"), steps_of("+b")[0], ("on_deactivate", "a"))
    for way, step, hook in cases:
        case = test_run.begin(setup)
        if case is None or not all(case.do(operation) for operation in (*way, *scripts([hook], "ask"))):
            return
        run = Overlap(case)
        ticket = run.start(step)
        got = run.finish(ticket, "HOOK-7")
        expected = run.expected[ticket]
        final = run.perform(Operation("snapshot"))
        if not agrees(expected, got) or final.active not in (None, case.oracle.active(case.holder)):
            message = "a hook that asks its own session is not refused"
            run.report("HOOK-7", message, expected.to_json(), {**got.to_json(), "active": final.active})
            return
        if not _goes_on(run, hook, step):
            return
        test_run.showed(got, {"HOOK-7": CAUSE})


def _goes_on(run: Overlap, hook: Hook, step: Operation) -> bool:
    """Return whether the session takes the same step once its hook asks no more."""
    run.perform(scripts([hook], "succeed")[0])
    ticket = run.start(step)
    got = run.finish(ticket, "HOOK-7")
    if not agrees(run.expected[ticket], got):
        run.report("HOOK-7", "the session is stuck", run.expected[ticket].to_json(), got.to_json())
        return False
    return True


# -- several sessions ------------------------------------------------------------------------------------------------


def _apart(test_run: TestRun) -> None:
    setup = hooked("a", "b", "c", exclusions=[("a", "c")])
    for way in ((), steps_of("+b"), steps_of("+c")):
        for step in ("+b", "-b", "+c"):
            run = begun(test_run, setup, way, [("on_activate", "a")])
            if run is None or (first := blocked(run, steps_of("+a")[0])) is None:
                return
            theirs = Operation(steps_of(step)[0].verb, steps_of(step)[0].arguments, OTHER)
            second = run.start(theirs)
            look = run.perform(Operation("snapshot", session=OTHER))
            active = run.oracle.active(run.serial.holder(OTHER))
            if look.active not in (None, active):
                message = "a step of one session waits for a step of another, or shows in it"
                run.report("SES-1", message, {"active": active}, look.to_json())
                return
            run.drain(oldest)
            right = [agrees(run.expected[ticket], run.finish(ticket, "SES-1")) for ticket in (first, second)]
            if not all(right) or not run.linearizable():
                run.report("SES-1", "steps of two sessions disturb each other", run.foretold(), run.told())
                return
            test_run.showed(look, {"SES-1": "active"})


CHECKS = (
    Check("reads during a step", "schedules", ("HOOK-2", "SES-2"), _reads, PARKING),
    Check("no notice before the commit", "schedules", ("NTF-2",), _notices, (*PARKING, "notifications")),
    Check("two steps at once", "schedules", ("SES-2", "HOOK-2"), _two_at_once, PARKING),
    Check("order of arrival", "schedules", ("SES-2",), _order, (*PARKING, "setups")),
    Check(
        "a step fails while another waits",
        "schedules",
        ("HOOK-4", "HOOK-5"),
        _failing,
        (*PARKING, "setups", "failing hooks"),
    ),
    Check(
        "a step is cancelled while another waits",
        "schedules",
        ("HOOK-6",),
        _cancelled,
        (*PARKING, "setups", "cancellation"),
    ),
    Check(
        "hooks that ask their own session",
        "schedules",
        ("HOOK-7",),
        _asking,
        ("hooks", "asking hooks", "concurrency", "setups"),
    ),
    Check("two sessions at once", "schedules", ("SES-1",), _apart, (*PARKING, "setups", "sessions")),
)
