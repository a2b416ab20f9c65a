"""Schedules enforced by blocked hooks, so that nothing depends on time (SPEC CNF-7).

An operation blocks in one of its hooks, others arrive, and the hooks are released in a chosen order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle, islice
from typing import NoReturn, TypeVar

from attrs import evolve

from ..attribution import CAUSE
from ..checks import Check
from ..driver import AT_RUN_TIME, IN_A_STORE, Answer, Operation, Setup
from ..oracle import Oracle, World, as_setup, oracle_of
from ..overlap import Hook, Over, Overlap, agrees
from ..runs import TestRun
from ..systems import distinct_systems
from . import changing
from .blocking import (
    HOOKS,
    QUEUES,
    begun,
    blocked,
    changes,
    hooked,
    hooks_of,
    newest,
    oldest,
    routes,
    scripts,
    steps_of,
)
from .cancelling import cancelled_in_queue, cancelled_twice
from .stopping import stopped

T = TypeVar("T")

BLOCKING = ("hooks", "blocked hooks", "concurrency")

SIZE, SIZE_OVER_MCP = 3, 2
"""The greatest number of groups, in process and, unless `deep`, over MCP. In the largest systems `deep` tries all pairs
of operations in both orders of release; otherwise those that do not commute are tried, with alternating orders."""

OVER_MCP = 8
"""Of the schedules that would be tried in process, every so many is tried over MCP, unless `deep`."""

OTHER = "other"
"""The second session."""


# -- systems and states ----------------------------------------------------------------------------------------------


def _chosen(test_run: TestRun, schedules: Iterable[T]) -> Iterator[T]:
    """Yield the schedules that are tried."""
    return islice(schedules, 0, None, OVER_MCP if test_run.can("wire") and not test_run.deep else 1)


def _largest(test_run: TestRun) -> int:
    """Return the greatest number of groups."""
    return SIZE_OVER_MCP if test_run.can("wire") and not test_run.deep else SIZE


def _systems(test_run: TestRun) -> Iterator[Setup]:
    if test_run.driver.given is not None:
        yield test_run.driver.given
        return
    for size in range(1, _largest(test_run) + 1):
        for system in distinct_systems(size):
            yield as_setup(system, hooks=HOOKS)


def _commute(oracle: Oracle, world: World, one: Operation, other: Operation) -> bool:
    """Return whether two operations have the same result in both orders."""
    (first, a), (second, b) = oracle.apply(world, one), oracle.apply(world, other)
    (after, c), (same, d) = oracle.apply(first, other), oracle.apply(second, one)
    return after == same and agrees(a, d) and agrees(b, c)


def _pairs(oracle: Oracle, world: World, whole: bool) -> Iterator[tuple[Operation, Operation]]:
    """Yield the pairs of operations whose first runs a hook: all, or those that do not commute."""
    for first in changes(oracle):
        if hooks_of(oracle, world, first):
            for second in changes(oracle):
                if whole or not _commute(oracle, world, first, second):
                    yield first, second


# -- two transitions at once -------------------------------------------------------------------------------------------


def _two_at_once(test_run: TestRun) -> None:
    for number, setup in enumerate(_systems(test_run), 1):
        test_run.progress(f"system {number}, {len(setup.groups)} groups")
        oracle = oracle_of(setup)
        whole = test_run.deep or len(oracle.paths) < _largest(test_run)
        orders = cycle(((oldest, newest),) if whole else ((oldest,), (newest,)))
        for world, route in routes(oracle):
            for pair in _chosen(test_run, _pairs(oracle, world, whole)):
                for order in next(orders):
                    _schedule(test_run, setup, route, pair, order)


def _schedule(
    test_run: TestRun,
    setup: Setup,
    route: tuple[Operation, ...],
    pair: tuple[Operation, Operation],
    order: Callable[[Sequence[Hook]], Hook],
) -> None:
    """Run two overlapping transitions."""
    oracle = oracle_of(setup)
    world = oracle.initial
    for operation in route:
        world, _ = oracle.apply(world, operation)
    run = begun(test_run, setup, route, (hook for operation in pair for hook in hooks_of(oracle, world, operation)))
    first, second = blocked(run, pair[0]), run.start(pair[1])
    _judge_reads(run, world)
    run.drain(order)
    run.finish(first)
    run.finish(second)
    final = run.perform(Operation("snapshot"))
    if not run.linearizable():
        _report_order(run, f"no order of {pair[0]} and {pair[1]} explains the result of both at once", final)
    test_run.showed(final, (("SES-2", "active"), ("HOOK-2", "active")))


def _report_order(run: Overlap, message: str, final: Answer) -> NoReturn:
    expected = {**run.expected_data(), "active": run.expected_active()}
    run.report("SES-2", message, expected, {**run.got_data(), "active": final.active})


def _judge_reads(run: Overlap, world: World) -> None:
    """Judge that reads during a blocked transition show the state before it (SPEC HOOK-2, NTF-2)."""
    small = len(run.oracle.paths) < SIZE
    reads = [Operation("snapshot"), *([Operation("list")] if small and run.test_run.can("listing") else [])]
    for read in reads:
        _, expected = run.oracle.apply(world, read)
        got = run.perform(read)
        if not agrees(expected, got):
            message = f"{read} shows another state while hooks of the transition still run"
            run.report("HOOK-2", message, expected.to_json(), got.to_json())
        if got.notified:
            run.report("NTF-2", "a list_changed notification is sent before the commit", got=got.to_json())


# -- reads -----------------------------------------------------------------------------------------------------------


def _reads(test_run: TestRun) -> None:
    """Judge that a read during a transition returns the state before it.

    If it returns the state after, either the read has waited or the state changed too soon. A transition that fails
    shows the two apart: it changes nothing, so only the second case still shows another state.
    """
    setup = test_run.driver.given or hooked("a", "b", "b.c", exclusions=[("a", "b")])
    oracle = oracle_of(setup)
    for world, route in routes(oracle):
        for step in changes(oracle):
            for hook in hooks_of(oracle, world, step):
                seen = _read_during(test_run, setup, route, step, hook, fail=False)
                before = oracle.active(world.state_of("main"))
                if seen.active not in (None, before):
                    failed = Answer()
                    with suppress(Over):
                        failed = _read_during(test_run, setup, route, step, hook, fail=True)
                    waited = failed.active == before
                    message = "a read waits for hooks" if waited else "the state changes before the hooks have run"
                    test_run.violated(
                        "SES-2" if waited else "HOOK-2",
                        message,
                        setup=setup,
                        history=(*route, *scripts([hook], "block"), _started(step), Operation("snapshot")),
                        expected={"active": before},
                        got=seen.to_json(),
                    )
                    return
                test_run.showed(seen, (("SES-2", "active"), ("HOOK-2", "active")))


def _started(operation: Operation) -> Operation:
    return Operation("start", {"ticket": 1, "operation": operation.to_json()})


def _read_during(
    test_run: TestRun, setup: Setup, route: Iterable[Operation], step: Operation, hook: Hook, *, fail: bool
) -> Answer:
    run = begun(test_run, setup, route, [hook])
    ticket = blocked(run, step, hook if fail else None)
    read = run.start(Operation("snapshot"))
    run.release(run.waiting()[0], fail)
    run.drain(oldest)
    run.finish(ticket)
    return run.finish(read)


def _notifications(test_run: TestRun) -> None:
    setup = test_run.driver.given or as_setup(next(distinct_systems(1)), hooks=HOOKS)
    oracle = oracle_of(setup)
    for world, route in routes(oracle):
        for step in changes(oracle):
            if not (hooks := hooks_of(oracle, world, step)):
                continue
            try:
                run = begun(test_run, setup, route, hooks[:1])
                ticket = blocked(run, step)
            except Over:
                continue
            if (seen := run.perform(Operation("snapshot"))).notified:
                message = "a list_changed notification is sent before the commit"
                run.report("NTF-2", message, {"notified": 0}, seen.to_json())
            run.drain(oldest)
            if run.finish(ticket).notified in (None, run.expected[ticket].notified):
                test_run.showed(seen, (("NTF-2", "notified"),))


# -- order of arrival ------------------------------------------------------------------------------------------------


def _order(test_run: TestRun) -> None:
    for setup, queue in QUEUES:
        run = begun(test_run, setup, (), [("on_activate", "a")])
        tickets = [blocked(run, queue[0]), *(run.start(operation) for operation in queue[1:])]
        run.drain(oldest)
        right = [agrees(run.expected[ticket], run.finish(ticket)) for ticket in tickets]
        final = run.perform(Operation("snapshot"))
        as_expected = final.active in (None, run.expected_active()) and run.ran_as_expected(tickets)
        if not (all(right) and as_expected):
            _report_order(run, "transitions do not run in the order of arrival", final)
        test_run.showed(final, (("SES-2", "active"),))


# -- a transition that is rolled back while others are queued ----------------------------------------------------------


def _rolled_back(test_run: TestRun, clause: str, undo: Callable[[Overlap, int, Hook], None]) -> None:
    """Block a transition in each of its hooks, start another, and make the first fail."""
    for rollback in ((), ("on_rollback",)):
        setup = hooked("a", "a.b", "c", exclusions=[("a", "c")], hooks=(*HOOKS, *rollback))
        for route, pair, hook in _chosen(test_run, _blocked_pairs(oracle_of(setup))):
            _roll_back(begun(test_run, setup, route, [hook]), clause, undo, pair, hook)


def _blocked_pairs(oracle: Oracle) -> Iterator[tuple[tuple[Operation, ...], tuple[Operation, Operation], Hook]]:
    """Yield the way to each state, every pair of operations there, and each hook of the first to block."""
    for world, route in routes(oracle):
        for pair in _pairs(oracle, world, whole=True):
            for hook in hooks_of(oracle, world, pair[0]):
                yield route, pair, hook


def _roll_back(
    run: Overlap,
    clause: str,
    undo: Callable[[Overlap, int, Hook], None],
    pair: tuple[Operation, Operation],
    hook: Hook,
) -> None:
    first, second = blocked(run, pair[0], undone=hook), run.start(pair[1])
    undo(run, first, hook)
    run.drain(oldest)
    answer = run.finish(first, clause)
    run.finish(second, clause)
    final = run.perform(Operation("snapshot"))
    active, queued = run.expected_active(), agrees(run.expected[second], run.answers[second])
    named = clause == "HOOK-6" and not run.test_run.can("wire")  # over MCP, a cancelled request has no answer
    if named and answer.error not in (None, "error", "Cancelled"):
        run.report(clause, f"a cancelled transition ends with {answer.error}", {"error": "Cancelled"}, answer.to_json())
    if answer.error is None or final.active not in (None, active) or not queued:
        expected, got = {**run.expected_data(), "active": active}, {**run.got_data(), "active": final.active}
        run.report(clause, f"{pair[0]} is not rolled back while {pair[1]} is queued", expected, got)
    compensated = "HOOK-5" if clause == "HOOK-4" else clause
    if not run.ran_as_expected((first, second)):
        expected, got = {"hooks": run.expected_hooks((first, second))}, {"hooks": run.hooks}
        run.report(compensated, "the hooks that had succeeded are not compensated", expected, got)
    run.test_run.showed(final, ((clause, "active"),))
    run.test_run.saw(run.hooks is not None, "hooks", compensated)


def _failing(test_run: TestRun) -> None:
    _rolled_back(test_run, "HOOK-4", lambda run, _, hook: run.release(hook, fail=True))


def _cancelled(test_run: TestRun) -> None:
    with suppress(Over):
        _rolled_back(test_run, "HOOK-6", lambda run, ticket, _: run.cancel(ticket))
    for judge in (cancelled_in_queue, cancelled_twice):
        with suppress(Over):
            if not test_run.knows("HOOK-6"):
                judge(test_run)


# -- hooks that request a transition of their own session --------------------------------------------------------------


def _asking(test_run: TestRun) -> None:
    setup = hooked("a", "b", exclusions=[("a", "b")])
    cases = ((), steps_of("+b")[0], ("on_activate", "b")), (steps_of("+a"), steps_of("+b")[0], ("on_deactivate", "a"))
    for route, step, hook in cases:
        run = begun(test_run, setup, (*route, *scripts([hook], "ask")))
        ticket = run.start(step)
        got = run.finish(ticket, "HOOK-7")
        expected = run.expected[ticket]
        final = run.perform(Operation("snapshot"))
        if not agrees(expected, got) or final.active not in (None, run.oracle.active(run.initial.state_of("main"))):
            message = "a hook that requests a transition of its own session is not refused"
            run.report("HOOK-7", message, expected.to_json(), {**got.to_json(), "active": final.active})
        _judge_next(run, hook, step)
        test_run.showed(got, (("HOOK-7", CAUSE),))


def _judge_next(run: Overlap, hook: Hook, step: Operation) -> None:
    """Judge that the session takes the same transition once its hook requests nothing."""
    run.perform(scripts([hook], "succeed")[0])
    ticket = run.start(step)
    got = run.finish(ticket, "HOOK-7")
    if not agrees(run.expected[ticket], got):
        run.report("HOOK-7", "the session is stuck", run.expected[ticket].to_json(), got.to_json())


# -- several sessions ------------------------------------------------------------------------------------------------


def _isolated(test_run: TestRun) -> None:
    setup = hooked("a", "b", "c", exclusions=[("a", "c")])
    for route in ((), steps_of("+b"), steps_of("+c")):
        for step in ("+b", "-b", "+c"):
            run = begun(test_run, setup, route, [("on_activate", "a")])
            first = blocked(run, steps_of("+a")[0])
            second = run.start(evolve(steps_of(step)[0], session=OTHER))
            seen = run.perform(Operation("snapshot", session=OTHER))
            active = run.expected_active(OTHER)
            if seen.active not in (None, active):
                message = "a transition of one session waits for one of another, or is visible in it"
                run.report("SES-1", message, {"active": active}, seen.to_json())
            run.drain(oldest)
            right = [agrees(run.expected[ticket], run.finish(ticket, "SES-1")) for ticket in (first, second)]
            if not all(right) or not run.linearizable():
                message = "transitions of two sessions interfere with each other"
                run.report("SES-1", message, run.expected_data(), run.got_data())
            test_run.showed(seen, (("SES-1", "active"),))


def _crossing(test_run: TestRun) -> None:
    """Judge that hooks of two sessions which ask one another end: one waits for the other until that asks it."""
    if "SES-1" in test_run.violated_clauses:  # which may be that they wait for one another without being asked to
        return
    setup = hooked("a", "b", "c", exclusions=[("b", "c")])
    hooks = {"ask other": ("on_activate", "a"), "ask main": ("on_activate", "b"), "block": ("on_deactivate", "c")}
    run = begun(test_run, setup, [evolve(steps_of("+c")[0], session=OTHER)])
    for outcome, hook in hooks.items():
        run.perform(scripts([hook], outcome)[0])
    tickets = [run.start(evolve(steps_of(step)[0], session=name)) for step, name in (("+b", OTHER), ("+a", "main"))]
    run.drain(oldest)
    answers = [run.finish(ticket, "HOOK-7") for ticket in tickets]
    final = [run.perform(Operation("snapshot", session=name)).active for name in (OTHER, "main")]
    if None in [answer.error for answer in answers] or final not in ([("c",), ()], [None, None]):
        message = "of two sessions whose hooks ask one another, none is refused, or one has changed"
        run.report("HOOK-7", message, got={"answers": [answer.to_json() for answer in answers], "active": final})
    test_run.saw(final[0] is not None, "active", "HOOK-7")


def _check(name: str, clauses: tuple[str, ...], run: Callable[[TestRun], None], *needs: str) -> Check:
    def ended(test_run: TestRun) -> None:
        with suppress(Over):
            run(test_run)

    return Check(name, "schedules", clauses, ended, needs)


REGISTRATION = tuple(change.clause for change in changing.CHANGES)

CHECKS = (
    _check("reads during a transition", ("HOOK-2", "SES-2"), _reads, *BLOCKING),
    _check("no notice before the commit", ("NTF-2",), _notifications, *BLOCKING, "notifications"),
    _check("two transitions at once", ("SES-2", "HOOK-2"), _two_at_once, *BLOCKING),
    _check("order of arrival", ("SES-2",), _order, *BLOCKING, "setups"),
    _check("failing while another waits", ("HOOK-4", "HOOK-5"), _failing, *BLOCKING, "setups", "failing hooks"),
    _check("cancelling while another waits", ("HOOK-6",), _cancelled, *BLOCKING, "setups", "cancellation"),
    _check("hooks that ask their own session", ("HOOK-7",), _asking, "hooks", "asking hooks", "concurrency", "setups"),
    _check("two sessions at once", ("SES-1",), _isolated, *BLOCKING, "setups", "sessions"),
    _check("hooks that ask one another", ("HOOK-7",), _crossing, *BLOCKING, "setups", "sessions", "crossing hooks"),
    _check("registration during a transition", REGISTRATION, changing.registered, *BLOCKING, "setups", *AT_RUN_TIME),
    _check("a process stops during a transition", ("STO-2", "STO-3"), stopped, *BLOCKING, "setups", *IN_A_STORE),
    _check("a group is used during a transition", ("FND-3",), changing.used, *BLOCKING, "setups", "recency", "calls"),
    _check("facts during a transition", ("SES-5", "NTF-3"), changing.fact_set, *BLOCKING, "setups", "facts", "listing"),
)
