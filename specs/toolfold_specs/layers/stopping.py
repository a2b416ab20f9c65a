"""Processes that stop in the middle of a transition, for another to go on with the session (SPEC STO-2, STO-3)."""

from __future__ import annotations

from ..driver import Operation
from ..overlap import Hook, Overlap
from ..runs import TestRun
from .blocking import begun, blocked, hooked, scripts, steps_of

SETUP = hooked("a", "b", "c", exclusions=[("a", "b")])
HOOKS: tuple[Hook, ...] = (("on_deactivate", "b"), ("on_activate", "a"))
"""The hooks of the transition that is stopped: `a` is activated in place of `b`."""
OPPOSITE = {"on_deactivate": "on_activate", "on_activate": "on_deactivate"}
ACTIVE = ("b", "c")
"""What is active after another transition, which activates `c`."""


def stopped(test_run: TestRun) -> None:
    """Judge that another process undoes what a stopped one has begun, and that this one can't commit any more."""
    for number, hook in enumerate(HOOKS, 1):
        for resumed in (False, True):
            run = begun(test_run, SETUP, steps_of("+b"), [hook])
            first = blocked(run, steps_of("+a")[0], undone=hook)
            _judge_undone(run, hook, number)
            if resumed:
                _judge_refused(run, hook, first)


def _judge_undone(run: Overlap, hook: Hook, number: int) -> None:
    run.perform(scripts([hook], "succeed")[0])
    run.perform(Operation("fail_over"))
    got = run.perform(steps_of("+c")[0])
    undone = [(OPPOSITE[phase], group) for phase, group in reversed(HOOKS[:number])]
    hooks = [*HOOKS[:number], *undone, ("on_activate", "c")]
    if got.active not in (None, ACTIVE) or run.hooks not in (None, hooks):
        message = "what a process that stopped had begun is not undone before the next transition"
        run.report("STO-3", message, {"active": ACTIVE, "hooks": hooks}, {**got.to_json(), "hooks": run.hooks})
    run.test_run.showed(got, (("STO-3", "active"), ("STO-3", "hooks")))


def _judge_refused(run: Overlap, hook: Hook, first: int) -> None:
    ran = list(run.hooks or ())
    run.release(hook)
    answer, final = run.finish(first, "STO-2"), run.perform(Operation("snapshot"))
    if answer.error is None or final.active not in (None, ACTIVE) or ran != (run.hooks or ran):
        message = "a process commits, or runs hooks, although its lease is lost"
        run.report("STO-2", message, {"active": ACTIVE, "hooks": ran}, {**answer.to_json(), "active": final.active})
    run.test_run.showed(final, (("STO-2", "active"),))
