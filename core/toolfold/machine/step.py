"""The whole life of a transition, as rows and without I/O (SPEC HOOK-2 to HOOK-10, STO-2, STO-3).

Rules
-----
* What is to be done is planned; a plan without hooks is saved at once.
* Hooks run under the lease of the session's record. Each is recorded before it begins, among those to be undone.
* Groups are torn down first, then set up; then the result is saved. Nothing is undone once that was done.
* After a failure, a cancellation, or a change of the catalog, what had succeeded is undone in reverse, and the record
  says so.
* Who takes a lease and finds what another process has left undoes that, and plans again. So does who finds a newer
  record.
* What has no outcome, since the lease is lost or the store does not answer, ends where it is. The next one with the
  lease undoes it.

Theory of operation
-------------------
`TABLE` has, for each state and event, under which guard a step goes to which state, and what it notes of its hooks. A
guard is about the hooks as they were before the event. A *choice* is left at once, by a guard about the hooks as they
are then. What has no row can't happen: `rows` refuses it.

`EFFECTS` says what is done in a state, and the event is its outcome. A performer awaits that, and is no part of the
machine:

    while (effect := EFFECTS.get(step.state)) is not None:
        step = step.on(*await perform(effect, step))

A session in memory takes the same way, and is asked for less: what a store answers has one outcome there (`IN_MEMORY`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, get_args

from attrs import evolve

from .._values import frozen
from ..errors import HookFailed, IllegalEvent

# -- hooks ------------------------------------------------------------------------------------------------------------

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

    @property
    def compensation(self) -> HookCall | None:
        """The hook that undoes this one: the group's own for that, or the opposite one; `None` if there is none."""
        group = self.group
        if group.on_rollback is False:
            return None
        if group.on_rollback is not None:
            return HookCall(group, "on_rollback", group.on_rollback, undoes=self.phase)
        opposite = group.on_deactivate if self.phase == "on_activate" else group.on_activate
        if opposite is None:
            return None
        return HookCall(group, _OPPOSITE[self.phase], opposite, undoes=self.phase)

    @classmethod
    def begun(cls, group: Hooks, phase: Phase) -> HookCall:
        """Return one that another process has begun, and that is to be undone (SPEC STO-3)."""
        return cls(group, phase, _unknown)


def _unknown(*_: Any) -> None:
    """Stand for a hook that another process ran."""


_OPPOSITE: Final[Mapping[Phase, Phase]] = MappingProxyType(
    {"on_activate": "on_deactivate", "on_deactivate": "on_activate"}
)

# -- the words of the table -------------------------------------------------------------------------------------------

State = Literal[
    "new",
    "planned",
    "leased",
    "running.tearing_down",
    "running.setting_up",
    "saving",
    "given_up",
    "rolling_back",
    "settling",
    "unchanged",
    "committed",
    "aborted",
    "abandoned",
    "beginning",
    "going_on",
    "going_back",
]
"""Where a step is; what stands before a dot is a state with others in it, and the last three are choices."""
Event = Literal[
    "unchanged",
    "planned",
    "leased",
    "news",
    "left",
    "intended",
    "succeeded",
    "failed",
    "cancelled",
    "saved",
    "conflict",
    "changed",
    "refused",
    "settled",
    "lost",
]
"""The outcome of an effect.

    unchanged, planned               there is nothing to do; a plan was made, whose hooks are given
    leased, news, left               the lease is held; the record or the state is newer than the plan; the lease is
                                     held, and another process has left the hooks that are given
    intended                         the next hook is recorded
    succeeded, failed, cancelled     how a hook ended; `cancelled`: it succeeded, and its caller was cancelled meanwhile
    saved, conflict                  the result is saved; or not, since the record is newer
    changed, refused                 the plan differs in the catalog of now; it is refused there, with the error
    settled                          the record has no hook to be undone any more
    lost                             there is no outcome: the lease is lost, the store failed, or the process ended
"""
Effect = Literal["plan", "lease", "intend", "hook", "save", "settle"]
Guard = Literal[
    "",
    "hooks ahead",
    "no hooks ahead",
    "teardown next",
    "setup next",
    "forced",
    "not forced",
    "hooks to undo",
    "nothing to undo",
    "again",
    "for good",
]
Note = Literal[
    "", "load", "take over", "done", "forgive", "give up", "done, give up", "plan again", "undone", "not undone", "stop"
]
"""What a step notes of its hooks."""


# -- what is noted ----------------------------------------------------------------------------------------------------


@frozen
class Work:
    """The hooks of a step.

    Attributes:
        ahead: Those to run, in their order (SPEC HOOK-3).
        done: Those that succeeded and can be undone, in the order in which they ran.
        force: Whether a failing `on_deactivate` is only recorded (SPEC HOOK-8).
        again: Whether a new plan is to be made once all is undone.
        stopped_by: The hook that failed, or with which the step was cancelled.
        cause: Why all is undone.
        failures: Those that were only recorded.
        compensation_failures: What failed while hooks were undone.
    """

    ahead: tuple[HookCall, ...] = ()
    done: tuple[HookCall, ...] = ()
    force: bool = False
    again: bool = False
    stopped_by: HookCall | None = None
    cause: BaseException | None = None
    failures: tuple[HookFailed, ...] = ()
    compensation_failures: tuple[BaseException, ...] = ()


def _load(work: Work, hooks: tuple[HookCall, ...]) -> Work:
    return Work(hooks, force=work.force)


def _take_over(work: Work, hooks: tuple[HookCall, ...]) -> Work:
    return Work(done=_to_undo(hooks), force=work.force, again=True)


def _done(work: Work, _: Any = None) -> Work:
    return evolve(work, ahead=work.ahead[1:], done=(*work.done, work.ahead[0]))


def _forgive(work: Work, error: BaseException) -> Work:
    call = work.ahead[0]
    failure = HookFailed(call.group.path, call.phase, error, forced=True)
    return evolve(work, ahead=work.ahead[1:], failures=(*work.failures, failure))


def _give_up(work: Work, error: BaseException) -> Work:
    stopped_by = work.ahead[0] if work.ahead else None
    return evolve(work, ahead=(), done=_to_undo(work.done), cause=error, stopped_by=stopped_by)


def _done_and_give_up(work: Work, error: BaseException) -> Work:
    return evolve(_give_up(work, error), done=_to_undo(_done(work).done))


def _plan_again(work: Work, _: Any) -> Work:
    return evolve(work, ahead=(), done=_to_undo(work.done), again=True)


def _undone(work: Work, _: Any = None) -> Work:
    return evolve(work, done=_to_undo(work.done[:-1]))


def _not_undone(work: Work, error: BaseException) -> Work:
    return evolve(_undone(work), compensation_failures=(*work.compensation_failures, error))


def _stop(work: Work, error: BaseException) -> Work:
    return evolve(work, cause=error)


def _to_undo(done: tuple[HookCall, ...]) -> tuple[HookCall, ...]:
    """Return hooks without the last ones that nothing undoes."""
    while done and done[-1].compensation is None:
        done = done[:-1]
    return done


GUARDS: Final[Mapping[Guard, Callable[[Work], bool]]] = MappingProxyType(
    {
        "": lambda work: True,
        "hooks ahead": lambda work: bool(work.ahead),
        "no hooks ahead": lambda work: not work.ahead,
        "teardown next": lambda work: work.ahead[0].phase == "on_deactivate",
        "setup next": lambda work: work.ahead[0].phase == "on_activate",
        "forced": lambda work: work.force,
        "not forced": lambda work: not work.force,
        "hooks to undo": lambda work: bool(work.done),
        "nothing to undo": lambda work: not work.done,
        "again": lambda work: work.again,
        "for good": lambda work: not work.again,
    }
)
NOTES: Final[Mapping[Note, Callable[[Work, Any], Work]]] = MappingProxyType(
    {
        "": lambda work, _: work,
        "load": _load,
        "take over": _take_over,
        "done": _done,
        "forgive": _forgive,
        "give up": _give_up,
        "done, give up": _done_and_give_up,
        "plan again": _plan_again,
        "undone": _undone,
        "not undone": _not_undone,
        "stop": _stop,
    }
)

# -- the table --------------------------------------------------------------------------------------------------------


@frozen
class Row:
    """A row: under which guard a step goes to which state or choice, and what it notes."""

    target: State
    guard: Guard = ""
    note: Note = ""


EFFECTS: Final[Mapping[State, Effect]] = MappingProxyType(
    {
        "new": "plan",
        "planned": "lease",
        "leased": "intend",
        "running.tearing_down": "hook",
        "running.setting_up": "hook",
        "saving": "save",
        "given_up": "intend",
        "rolling_back": "hook",
        "settling": "settle",
    }
)
"""What is done in a state. In the others, a step has ended."""

IN_MEMORY: Final[Mapping[State, Event]] = MappingProxyType(
    {"planned": "intended", "leased": "intended", "given_up": "intended", "settling": "settled"}
)
"""The outcome in a state where nothing is to be done for a session that is in no store."""

CHOICES: Final[Mapping[State, tuple[Row, ...]]] = MappingProxyType(
    {
        "beginning": (Row("planned", "hooks ahead"), Row("saving", "no hooks ahead")),
        "going_on": (Row("leased", "hooks ahead"), Row("saving", "no hooks ahead")),
        "going_back": (Row("given_up", "hooks to undo"), Row("settling", "nothing to undo")),
    }
)
"""The rows by which a choice is left."""

_NEXT: Final = (Row("running.tearing_down", "teardown next"), Row("running.setting_up", "setup next"))

TABLE: Final[Mapping[tuple[State, Event], tuple[Row, ...]]] = MappingProxyType(
    {
        ("new", "unchanged"): (Row("unchanged"),),
        ("new", "planned"): (Row("beginning", note="load"),),
        # Without hooks, the lease was taken to plan again, where no other process can be faster (PER-3).
        ("planned", "leased"): (Row("leased", "hooks ahead"), Row("new", "no hooks ahead")),
        # The intent that came with the lease is of a plan that is void.
        ("planned", "news"): (Row("settling", note="plan again"),),
        ("planned", "left"): (Row("going_back", note="take over"),),
        # The first hook is recorded with the lease; each other one, and that of a plan made under the lease, after it.
        ("planned", "intended"): _NEXT,
        ("leased", "intended"): _NEXT,
        ("running.tearing_down", "succeeded"): (Row("going_on", note="done"),),
        ("running.tearing_down", "failed"): (
            Row("going_on", "forced", "forgive"),
            Row("going_back", "not forced", "give up"),
        ),
        ("running.tearing_down", "cancelled"): (
            Row("going_on", "forced", "done"),
            Row("going_back", "not forced", "done, give up"),
        ),
        ("running.setting_up", "succeeded"): (Row("going_on", note="done"),),
        ("running.setting_up", "failed"): (Row("going_back", note="give up"),),
        ("running.setting_up", "cancelled"): (Row("going_back", note="done, give up"),),
        ("saving", "saved"): (Row("committed"),),
        ("saving", "conflict"): (Row("planned"),),
        ("saving", "changed"): (Row("going_back", note="plan again"),),
        ("saving", "refused"): (Row("going_back", note="give up"),),
        ("given_up", "intended"): (Row("rolling_back"),),
        ("rolling_back", "succeeded"): (Row("going_back", note="undone"),),
        ("rolling_back", "failed"): (Row("going_back", note="not undone"),),
        ("settling", "settled"): (Row("new", "again"), Row("aborted", "for good")),
        **{(state, "lost"): (Row("abandoned", note="stop"),) for state in EFFECTS},
    }
)
"""The program. The next hook is recorded by who is `leased`, and of those to undo by who has `given_up`."""

STATES: Final[tuple[State, ...]] = tuple(state for state in get_args(State) if state not in CHOICES)
"""The states that a step can be in."""


def rows(state: State, event: Event) -> tuple[Row, ...]:
    """Return the rows for an event in a state; raises `IllegalEvent` if that can't happen."""
    found = TABLE.get((state, event))
    if found is None:
        raise IllegalEvent(state, event)
    return found


@frozen
class Step:
    """Where a transition is in its life, with its hooks. A step never runs one.

    Attributes:
        state: Where it is.
        work: Its hooks.
        stored: Whether its session is in a store.
    """

    state: State = "new"
    work: Work = Work()
    stored: bool = True

    @classmethod
    def begin(cls, *, force: bool = False, stored: bool = True) -> Step:
        """Return a new step."""
        return cls("new", Work(force=force), stored)

    @classmethod
    def hold(cls, *, force: bool = False) -> Step:
        """Return a step that takes the lease before it plans anything."""
        return cls("planned", Work(force=force))

    @property
    def hook(self) -> HookCall:
        """The hook to run now."""
        if self.state == "rolling_back":
            undo = self.work.done[-1].compensation
            assert undo is not None
            return undo
        return self.work.ahead[0]

    @property
    def to_undo(self) -> tuple[HookCall, ...]:
        """The hooks that are to be undone if the process ends during the one that is next, in their order."""
        return (*self.work.done, *self.work.ahead[:1])

    @property
    def error(self) -> HookFailed | None:
        """The error of a step that a hook has ended, with what failed while others were undone."""
        if (call := self.work.stopped_by) is None:
            return None
        return HookFailed(call.group.path, call.phase, self.work.cause, self.work.compensation_failures)

    def on(self, event: Event, given: Any = None) -> Step:
        """Return the step after an event; raises `IllegalEvent` if it can't happen now."""
        row = _chosen(rows(self.state, event), self.work)
        work = NOTES[row.note](self.work, given)
        target = row.target if (choice := CHOICES.get(row.target)) is None else _chosen(choice, work).target
        after = Step(target, work, self.stored)
        return after if self.stored or (outcome := IN_MEMORY.get(target)) is None else after.on(outcome)


def _chosen(among: tuple[Row, ...], work: Work) -> Row:
    return next(row for row in among if GUARDS[row.guard](work))
