"""One transaction over hooks, as a state machine without I/O (SPEC HOOK-2 to HOOK-10).

`Transaction` is a model of one synchronous state machine without callbacks. Its states are a hierarchy: what is said of
the composite state `running` holds in both states inside of it.

                 ┌─ running ───────────────────────────────────┐
    planned ─ begin ─► tearing_down ─ torn_down ─► setting_up ─ commit ─► committed
                 └──────────────────────┬──────────────────────┘
                                      fail
                                        └─► rolling_back ─ abort ─► aborted

It never runs a hook. It says which one is next (`next`) and records how it ended (`succeeded`, `failed`); the
caller awaits hooks between those calls. That nothing is rolled back once the commit has begun is a fact of the table:
the machine has no such transition and raises.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from attrs import evolve, frozen
from transitions import Machine

from ..errors import HookFailed

PLANNED = "planned"
RUNNING = "running"
TEARING_DOWN = "running.tearing_down"
SETTING_UP = "running.setting_up"
COMMITTED = "committed"
ROLLING_BACK = "rolling_back"
ABORTED = "aborted"

STATES = (PLANNED, TEARING_DOWN, SETTING_UP, COMMITTED, ROLLING_BACK, ABORTED)
"""The states without others in them; a composite state is what stands before a dot."""

TRANSITIONS = (
    ("begin", PLANNED, TEARING_DOWN),
    ("torn_down", TEARING_DOWN, SETTING_UP),
    ("commit", SETTING_UP, COMMITTED),
    ("fail", RUNNING, ROLLING_BACK),
    ("abort", ROLLING_BACK, ABORTED),
)
"""Event, source, target. A composite source stands for each state in it."""


def leaves(state: str) -> tuple[str, ...]:
    """Return the states in a composite state, in order; any other is returned alone."""
    return tuple(leaf for leaf in STATES if leaf.startswith(f"{state}.")) or (state,)


def flat() -> Iterator[tuple[str, str, str]]:
    """Yield the transitions with each composite source put as the states in it: the table that the machine runs."""
    for event, source, target in TRANSITIONS:
        for leaf in leaves(source):
            yield event, leaf, target


_NAME = "toolfold.transaction"
_MACHINE: Machine = Machine(
    model=None,
    name=_NAME,
    states=list(STATES),
    transitions=[list(row) for row in flat()],
    initial=None,
    auto_transitions=False,
)
_EVENTS: dict[str, Any] = dict(_MACHINE.events)


def _is_of_another(record: logging.LogRecord) -> bool:
    """Return whether a record of `transitions` is about another machine, whose name it begins with."""
    return not isinstance(record.args, tuple) or record.args[:1] != (f"{_NAME}: ",)


# Some twenty lines for each transition, at INFO and below; observers and tracers get the same in a better form.
# The logger is shared with other users of the package, so it keeps its level and their records.
logging.getLogger("transitions.core").addFilter(_is_of_another)

Hook = Callable[..., Any]
Phase = Literal["on_activate", "on_deactivate", "on_rollback", "resume"]


@frozen
class Hooks:
    """The hooks of the group at `path`.

    `on_rollback` undoes either of the others in place of its opposite; `False` opts out of compensation (SPEC HOOK-5).
    """

    path: str
    on_activate: Hook | None = None
    on_deactivate: Hook | None = None
    on_rollback: Hook | Literal[False] | None = None


@frozen
class HookCall:
    """A hook to run, with its group and phase. `undoes` names the phase that a compensation undoes."""

    group: Hooks
    phase: Phase
    hook: Hook
    undoes: Phase | None = None

    def __str__(self) -> str:
        undoing = "" if self.undoes is None else f", which was to undo {self.undoes},"
        return f"{self.phase} of group {self.group.path}{undoing}"


class Transaction:
    """One transaction: hooks of deactivated groups, then of activated ones, then the commit; or all of it undone.

    Args:
        deactivated: The groups to deactivate, in the order in which their hooks run (SPEC HOOK-3).
        activated: The groups to activate, likewise.
        force: Whether a failing `on_deactivate` is only recorded (SPEC HOOK-8).
    """

    __slots__ = (
        "_current",
        "_done",
        "_force",
        "_queue",
        "_setup",
        "cause",
        "compensation_failures",
        "failures",
        "state",
    )

    def __init__(self, deactivated: Iterable[Hooks], activated: Iterable[Hooks], *, force: bool = False) -> None:
        self.state: str = PLANNED
        self.cause: BaseException | None = None
        self.failures: list[HookFailed] = []
        self.compensation_failures: list[BaseException] = []
        self._queue = [
            HookCall(group, "on_deactivate", group.on_deactivate)
            for group in deactivated
            if group.on_deactivate is not None
        ]
        self._setup = [
            HookCall(group, "on_activate", group.on_activate) for group in activated if group.on_activate is not None
        ]
        self._done: list[HookCall] = []
        self._current: HookCall | None = None
        self._force = force

    @classmethod
    def interrupted(cls, begun: Iterable[tuple[Hooks, Phase]], error: BaseException) -> Transaction:
        """Return a transaction whose process ended after it had begun some hooks, to be undone (SPEC STO-3)."""
        transaction = cls((), ())
        transaction.trigger("begin")
        transaction._done = [HookCall(group, phase, _unknown) for group, phase in begun]
        transaction.give_up(error)
        return transaction

    @property
    def has_hooks(self) -> bool:
        """Whether any hook is still to be run."""
        return bool(self._queue or self._setup)

    @property
    def to_undo(self) -> tuple[HookCall, ...]:
        """The hooks that would have to be undone if the process ended during the hook that is next, in their order."""
        if self.state == ROLLING_BACK or self._current is None:
            return tuple(self._done)
        return (*self._done, self._current)

    def trigger(self, event: str) -> None:
        """Move the machine; raises `transitions.MachineError` for what its table does not allow."""
        _EVENTS[event].trigger(self)

    def next(self) -> HookCall | None:
        """Return the hook to run now, or `None`: then commit, unless the transaction is aborted."""
        if self.state == PLANNED:
            self.trigger("begin")
        if self.state == TEARING_DOWN and not self._queue:
            self.trigger("torn_down")
            self._queue = self._setup
        if self.state == ROLLING_BACK:
            return self._next_compensation()
        if not self._queue:
            return None
        self._current = self._queue.pop(0)
        return self._current

    def _next_compensation(self) -> HookCall | None:
        while self._done:
            if (undo := _compensation(self._done[-1])) is not None:
                return undo
            self._done.pop()
        self.trigger("abort")
        return None

    def succeeded(self, call: HookCall) -> None:
        """Record that `call` succeeded."""
        if self.state == ROLLING_BACK:
            self._done.pop()
        else:
            self._done.append(call)

    def failed(self, call: HookCall, error: BaseException) -> None:
        """Record that `call` failed: undo what had succeeded, or continue where failures are only recorded."""
        if self.state == ROLLING_BACK:
            self.compensation_failures.append(error)
            self._done.pop()
        elif self._goes_on(call):
            self.failures.append(HookFailed(call.group.path, call.phase, error, forced=True))
        else:
            self.give_up(error)

    def cancelled(self, call: HookCall, error: BaseException) -> None:
        """Record that `call` succeeded, but the transition was cancelled meanwhile: undo it too, unless forced."""
        self.succeeded(call)
        if not self._goes_on(call):
            self.give_up(error)

    def _goes_on(self, call: HookCall) -> bool:
        return self._force and call.phase == "on_deactivate"

    def give_up(self, error: BaseException) -> None:
        """Undo what had succeeded, in reverse order (SPEC HOOK-5)."""
        self.cause = error
        self.trigger("fail")
        self._queue = []

    def commit(self) -> None:
        """Record that the state has changed."""
        self.trigger("commit")

    def error(self) -> HookFailed:
        """Return the error of an aborted transaction, with what failed while compensating attached."""
        assert self._current is not None
        return HookFailed(self._current.group.path, self._current.phase, self.cause, self.compensation_failures)


def _unknown(*_: Any) -> None:
    """Stand for a hook that another process ran."""


def _compensation(call: HookCall) -> HookCall | None:
    group = call.group
    if group.on_rollback is False:
        return None
    if group.on_rollback is not None:
        return HookCall(group, "on_rollback", group.on_rollback, undoes=call.phase)
    opposite = group.on_deactivate if call.phase == "on_activate" else group.on_activate
    if opposite is None:
        return None
    phase: Phase = "on_deactivate" if call.phase == "on_activate" else "on_activate"
    return evolve(call, phase=phase, hook=opposite, undoes=call.phase)
