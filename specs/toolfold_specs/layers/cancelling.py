"""Steps that are cancelled while they wait for their turn, and again while they are undone (SPEC HOOK-6)."""

from __future__ import annotations

from ..driver import Operation
from ..overlap import Overlap, agrees
from ..runs import TestRun
from .blocking import QUEUES, begun, blocked, foreseen, hooked, oldest, ran_otherwise, steps_of


def cancelled_while_waiting(test_run: TestRun) -> None:
    """Judge that a step is not taken that is cancelled before its turn, and that the others are."""
    setup, queue = QUEUES[0]
    hook = ("on_activate", "a")
    run = begun(test_run, setup, (), [hook])
    if run is None or (first := blocked(run, queue[0])) is None:
        return
    gone, last = run.start(queue[1], undone=hook), run.start(queue[2])
    run.cancel(gone)
    run.drain(oldest)
    right = [agrees(run.expected[ticket], run.finish(ticket, "HOOK-6")) for ticket in (first, last)]
    if run.finish(gone, "HOOK-6").error is None or not all(right):
        message = "a step that is cancelled while it waits is taken, or another is not"
        run.report("HOOK-6", message, run.foretold(), run.told())


def cancelled_twice(test_run: TestRun) -> None:
    """Judge that a second cancellation, while a step is undone, leaves nothing that is not undone."""
    setup = hooked("a", "c", "d", exclusions=[("a", "c"), ("a", "d")])
    hook, undoing = ("on_activate", "a"), ("on_activate", "c")
    run = begun(test_run, setup, steps_of("+c", "+d"), [hook, undoing])
    if run is None or (ticket := blocked(run, steps_of("+a")[0], undone=hook)) is None:
        return
    run.cancel(ticket)
    if undoing in run.waiting():
        run.cancel(ticket)
    _judge(run, ticket)


def _judge(run: Overlap, ticket: int) -> None:
    run.drain(oldest)
    answer = run.finish(ticket, "HOOK-6")
    following = run.start(steps_of("-d")[0])  # what began until now is told with its answer
    run.finish(following, "HOOK-6")
    final = run.perform(Operation("snapshot"))
    active = run.oracle.active(run.serial.holder("main"))
    if answer.error is None or final.active not in (None, active) or ran_otherwise(run, (ticket, following)):
        message = "a step that is cancelled again while it is undone is not undone to the end"
        ran = {"hooks": foreseen(run, (ticket, following)), "active": active}
        run.report("HOOK-6", message, ran, {"hooks": run.hooks, "active": final.active})
        return
    run.test_run.showed(final, {"HOOK-6": "active"})
