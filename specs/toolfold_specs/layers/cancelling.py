"""Transitions that are cancelled while they are queued, and again while they are rolled back (SPEC HOOK-6)."""

from __future__ import annotations

from ..driver import Operation
from ..overlap import Overlap, agrees
from ..runs import TestRun
from .blocking import QUEUES, begun, blocked, hooked, oldest, steps_of


def cancelled_in_queue(test_run: TestRun) -> None:
    """Judge that a transition that is cancelled in the queue has no effect, and that the others do."""
    setup, queue = QUEUES[0]
    hook = ("on_activate", "a")
    run = begun(test_run, setup, (), [hook])
    first = blocked(run, queue[0])
    gone, last = run.start(queue[1], undone=hook), run.start(queue[2])
    run.cancel(gone)
    run.drain(oldest)
    right = [agrees(run.expected[ticket], run.finish(ticket, "HOOK-6")) for ticket in (first, last)]
    if run.finish(gone, "HOOK-6").error is None or not all(right):
        message = "a transition that is cancelled in the queue takes effect, or another does not"
        run.report("HOOK-6", message, run.expected_data(), run.got_data())


def cancelled_twice(test_run: TestRun) -> None:
    """Judge that a cancellation during the rollback of a transition, cancelled or failed, does not stop that."""
    setup = hooked("a", "c", "d", exclusions=[("a", "c"), ("a", "d")])
    hook, compensation = ("on_activate", "a"), ("on_activate", "c")
    for fails in (False, True) if test_run.can("failing hooks") else (False,):
        run = begun(test_run, setup, steps_of("+c", "+d"), [hook, compensation])
        ticket = blocked(run, steps_of("+a")[0], undone=hook)
        if fails:
            run.release(hook, fail=True)
        else:
            run.cancel(ticket)
        if compensation in run.waiting():
            run.cancel(ticket)
            if compensation not in run.waiting():
                run.report("HOOK-6", "a cancellation interrupts a hook that undoes another")
        _judge(run, ticket)


def _judge(run: Overlap, ticket: int) -> None:
    run.drain(oldest)
    answer = run.finish(ticket, "HOOK-6")
    following = run.start(steps_of("-d")[0])  # its answer has the hooks that began until now
    run.finish(following, "HOOK-6")
    final = run.perform(Operation("snapshot"))
    active, tickets = run.expected_active(), (ticket, following)
    if answer.error is None or final.active not in (None, active) or not run.ran_as_expected(tickets):
        message = "a transition that is cancelled again during its rollback is not rolled back completely"
        expected = {"hooks": run.expected_hooks(tickets), "active": active}
        run.report("HOOK-6", message, expected, {"hooks": run.hooks, "active": final.active})
    run.test_run.showed(final, (("HOOK-6", "active"),))
