"""The life of a transition (SPEC HOOK-10): its whole table, and the hooks it asks for, without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import Any, get_args

import pytest

from toolfold import HookFailed
from toolfold.errors import IllegalEvent
from toolfold.machine.step import (
    CHOICES,
    EFFECTS,
    GUARDS,
    NOTES,
    STATES,
    TABLE,
    Event,
    HookCall,
    Hooks,
    State,
    Step,
    Work,
)

ERROR = RuntimeError("why")


def never(*_: Any) -> None:
    raise AssertionError("a step runs no hook itself")


def spec(path: str, *, hooks: str = "+-", rollback: Any = None) -> Hooks:
    return Hooks(
        path=path,
        on_activate=never if "+" in hooks else None,
        on_deactivate=never if "-" in hooks else None,
        on_rollback=rollback,
    )


def calls(lines: Iterable[str]) -> tuple[HookCall, ...]:
    phases: dict[str, Any] = {"+": "on_activate", "-": "on_deactivate"}
    return tuple(HookCall(spec(line[1:]), phases[line[0]], never) for line in lines)


CALLS = ("-a.x", "-a", "+b", "+b.z")
TEARDOWN, SETUP = calls(["-a"]), calls(["+b"])


def line(call: HookCall) -> str:
    sign = {"on_activate": "+", "on_deactivate": "-", "on_rollback": "~"}[call.phase]
    return f"{'undo ' if call.undoes else ''}{sign}{call.group.path}"


def planned(hooks: Iterable[HookCall], *, force: bool = False) -> Step:
    return Step.begin(force=force).on("planned", tuple(hooks))


def drive(step: Step, failing: Callable[[str], BaseException | None] = lambda line: None) -> tuple[list[str], Step]:
    """Give a step the outcome of each hook that it asks for, until it saves or has ended; return what it asked for."""
    asked: list[str] = []
    outcomes: dict[str, Event] = {"lease": "leased", "intend": "intended", "settle": "settled"}
    while (effect := EFFECTS.get(step.state)) not in ("save", "plan", None):
        if effect != "hook":
            step = step.on(outcomes[effect or ""])
            continue
        asked.append(line(step.hook))
        error = failing(asked[-1])
        step = step.on("succeeded") if error is None else step.on("failed", error)
    return asked, step


def fails(*lines: str) -> Callable[[str], BaseException | None]:
    errors = {line: RuntimeError(line) for line in lines}
    return errors.get


# The table

LEFT = Work(ahead=(*TEARDOWN, *SETUP), done=SETUP)
"""Hooks are ahead, and hooks are to be undone."""
TARGETS: dict[tuple[State, Event], dict[str, State]] = {
    ("new", "unchanged"): {"": "unchanged"},
    ("new", "planned"): {"hooks": "planned", "": "saving"},
    ("planned", "leased"): {"hooks": "leased", "": "new"},
    ("planned", "news"): {"": "settling"},
    ("planned", "left"): {"hooks": "given_up", "": "settling"},
    ("planned", "intended"): {"teardown": "running.tearing_down", "setup": "running.setting_up"},
    ("leased", "intended"): {"teardown": "running.tearing_down", "setup": "running.setting_up"},
    ("running.tearing_down", "succeeded"): {"more": "leased", "last": "saving"},
    ("running.tearing_down", "failed"): {
        "more forced": "leased",
        "last forced": "saving",
        "done": "given_up",
        "none done": "settling",
    },
    ("running.tearing_down", "cancelled"): {"more forced": "leased", "last forced": "saving", "last": "given_up"},
    ("running.setting_up", "succeeded"): {"more": "leased", "last": "saving"},
    ("running.setting_up", "failed"): {"done": "given_up", "none done": "settling", "done forced": "given_up"},
    ("running.setting_up", "cancelled"): {"last": "given_up", "last forced": "given_up"},
    ("saving", "saved"): {"": "committed"},
    ("saving", "conflict"): {"": "planned"},
    ("saving", "changed"): {"done": "given_up", "": "settling"},
    ("saving", "refused"): {"done": "given_up", "": "settling"},
    ("given_up", "intended"): {"done": "rolling_back"},
    ("rolling_back", "succeeded"): {"one done": "settling", "two done": "given_up"},
    ("rolling_back", "failed"): {"one done": "settling", "two done": "given_up"},
    ("settling", "settled"): {"again": "new", "": "aborted"},
}
"""Where each event leads in each state, by the hooks that there are; `lost` leads from each live one to `abandoned`."""
LIVE: tuple[State, ...] = STATES[: STATES.index("unchanged")]


def work(state: State, case: str) -> Work:
    """The hooks of a case in a state."""
    first = SETUP if state == "running.setting_up" or case == "setup" else TEARDOWN
    ahead = {"more": (*first, *SETUP), "hooks": TEARDOWN, "teardown": TEARDOWN, "setup": SETUP}.get(case.split(" ")[0])
    if ahead is None and state.startswith("running"):
        ahead = first
    undo = {"done": SETUP, "one": SETUP, "two": (*TEARDOWN, *SETUP)}.get(case.split(" ")[0], ())
    return Work(ahead or (), undo, force="forced" in case, again=case == "again")


def given(event: Event, case: str) -> Any:
    """What comes with an event: the hooks of a plan or of another process, or an error."""
    return (TEARDOWN if case == "hooks" else ()) if event in ("planned", "left") else ERROR


@pytest.mark.spec("HOOK-10")
@pytest.mark.parametrize(("state", "event"), list(product(STATES, get_args(Event))))
def test_every_state_takes_the_events_of_its_table_and_refuses_the_others(state: State, event: Event) -> None:
    if event == "lost" and state in LIVE:
        ended = Step(state, LEFT).on("lost", ERROR)
        assert (ended.state, ended.work.cause) == ("abandoned", ERROR)
    elif (targets := TARGETS.get((state, event))) is None:
        with pytest.raises(IllegalEvent, match=f"{event}.*{state}"):
            Step(state, LEFT).on(event, ())
    else:
        for case, target in targets.items():
            assert Step(state, work(state, case)).on(event, given(event, case)).state == target, case


@pytest.mark.spec("HOOK-10")
def test_a_step_is_live_until_one_of_four_ends_and_what_runs_hooks_is_nested_in_one_state() -> None:
    assert tuple(EFFECTS) == LIVE
    assert STATES[len(LIVE) :] == ("unchanged", "committed", "aborted", "abandoned")
    assert [state for state in STATES if "." in state] == ["running.tearing_down", "running.setting_up"]


@pytest.mark.spec("HOOK-10")
def test_every_word_of_the_table_is_used_and_every_row_leads_to_a_state_or_a_choice() -> None:
    found = [row for among in (*TABLE.values(), *CHOICES.values()) for row in among]
    assert {row.guard for row in found} == {*GUARDS}
    assert {row.note for row in found} == {*NOTES}
    assert {row.target for row in found} == {*STATES, *CHOICES}
    assert {event for _, event in TABLE} == {*get_args(Event)}


@pytest.mark.spec("HOOK-10")
@pytest.mark.parametrize("among", [*TABLE.values(), *CHOICES.values()])
def test_of_the_rows_for_an_event_exactly_one_applies_whatever_the_hooks(among: Any) -> None:
    for ahead, done, force, again in product([TEARDOWN, SETUP], [(), SETUP], [False, True], [False, True]):
        assert sum(GUARDS[row.guard](Work(ahead, done, force, again)) for row in among) == 1


# The hooks that it asks for


@pytest.mark.spec("HOOK-3", "HOOK-10", "STO-3")
def test_it_records_each_hook_before_it_runs_it_and_then_saves() -> None:
    step, seen = planned(calls(CALLS)).on("leased"), list[tuple[str, str, list[str]]]()
    while step.state != "saving":
        recorded = [line(call) for call in step.to_undo]
        step = step.on("intended")
        seen.append((line(step.hook), step.state, recorded))
        step = step.on("succeeded")
    down, up = "running.tearing_down", "running.setting_up"
    assert seen == [(call, down if call[0] == "-" else up, [*CALLS[: n + 1]]) for n, call in enumerate(CALLS)]
    assert (step.on("saved").state, step.on("saved").work.failures) == ("committed", ())


@pytest.mark.spec("HOOK-4", "HOOK-5", "HOOK-10")
@pytest.mark.parametrize("undoing_fails", [False, True])
@pytest.mark.parametrize("position", range(len(CALLS)))
def test_after_a_failure_only_what_succeeded_is_undone_in_reverse_and_the_error_has_every_failure(
    position: int, undoing_fails: bool
) -> None:
    undone = ["undo -b", "undo +a", "undo +a.x"][3 - position :]
    failing = fails(CALLS[position], *(undone if undoing_fails else ()))
    asked, step = drive(planned(calls(CALLS)), failing)
    assert asked == [*CALLS[: position + 1], *undone]
    assert step.state == "aborted"
    error = step.error
    assert error is not None
    assert error.__cause__ is step.work.cause is failing(CALLS[position])
    assert f"{'-' if error.phase == 'on_deactivate' else '+'}{error.group}" == CALLS[position]
    assert error.compensation == tuple(failing(line) for line in undone if undoing_fails)
    assert (f"met {position} more failure(s)" in str(error)) is bool(error.compensation)


@pytest.mark.spec("HOOK-5")
def test_a_group_undoes_with_its_own_hook_with_its_opposite_or_not_at_all() -> None:
    def undone(hooks: str, rollback: Any) -> list[str]:
        call = HookCall(spec("a", hooks=hooks, rollback=rollback), "on_deactivate", never)
        return drive(planned([*calls(["-c"]), call, *SETUP]), fails("+b"))[0][3:]

    assert undone("+-", None) == ["undo +a", "undo +c"]
    assert undone("-", None) == ["undo +c"]
    assert undone("+-", never) == ["undo ~a", "undo +c"]
    assert undone("-", never) == ["undo ~a", "undo +c"]
    assert undone("+-", False) == ["undo +c"]


@pytest.mark.spec("HOOK-5")
@pytest.mark.parametrize(("own", "phase"), [(False, "on_activate"), (True, "on_rollback")])
def test_a_compensation_names_what_it_undoes_and_has_its_own_hook(own: bool, phase: Any) -> None:
    def enter() -> None: ...
    def leave() -> None: ...
    def undo() -> None: ...

    group = Hooks(path="a", on_activate=enter, on_deactivate=leave, on_rollback=undo if own else None)
    undoing = HookCall(group, "on_deactivate", leave).compensation
    assert undoing == HookCall(group, phase, undo if own else enter, undoes="on_deactivate")


@pytest.mark.spec("HOOK-5", "REG-7")
@pytest.mark.parametrize("event", ["changed", "refused"])
@pytest.mark.parametrize("hooks", [CALLS, ()])
def test_what_ran_for_another_catalog_is_undone_and_is_planned_again_unless_it_is_refused(
    event: Event, hooks: tuple[str, ...]
) -> None:
    step = drive(planned(calls(hooks)))[1].on(event, ERROR)
    asked, step = drive(step)
    assert asked == (["undo -b.z", "undo -b", "undo +a", "undo +a.x"] if hooks else [])
    assert (step.state, step.error) == ("aborted" if event == "refused" else "new", None)
    assert step.work.cause is (ERROR if event == "refused" else None)


@pytest.mark.spec("HOOK-5")
def test_a_new_plan_begins_with_its_own_hooks_alone() -> None:
    step = drive(drive(planned(calls(CALLS), force=True), fails("-a"))[1].on("changed"), fails("undo -b"))[1]
    assert step.state == "new"
    assert step.on("planned", TEARDOWN).work == Work(TEARDOWN, force=True)


# Force


def phases(failures: Iterable[HookFailed]) -> list[tuple[str, str]]:
    return [(failure.group, failure.phase) for failure in failures]


@pytest.mark.spec("HOOK-8")
def test_forced_teardowns_that_fail_are_recorded_and_the_rest_runs() -> None:
    failing = fails("-a.x", "-a")
    asked, step = drive(planned(calls(CALLS), force=True), failing)
    assert (asked, step.state) == ([*CALLS], "saving")
    assert phases(step.work.failures) == [("a.x", "on_deactivate"), ("a", "on_deactivate")]
    assert [failure.__cause__ for failure in step.work.failures] == [failing("-a.x"), failing("-a")]
    assert step.work.cause is None


@pytest.mark.spec("HOOK-8", "HOOK-5")
def test_force_does_not_apply_to_setups_and_only_what_succeeded_is_undone() -> None:
    asked, step = drive(planned(calls(CALLS), force=True), fails("-a.x", "+b.z"))
    assert asked == [*CALLS, "undo -b", "undo +a"]
    assert step.error is not None
    assert phases([step.error]) == [("b.z", "on_activate")]


@pytest.mark.spec("HOOK-8", "SAF-5")
@pytest.mark.parametrize("force", [False, True])
def test_a_hook_that_succeeds_while_the_transition_is_cancelled_is_undone_unless_it_closes_by_force(
    force: bool,
) -> None:
    step = planned([*TEARDOWN, *SETUP], force=force).on("leased").on("intended").on("cancelled", ERROR)
    asked, step = drive(step)
    assert (asked, step.state) == ((["+b"], "saving") if force else (["undo +a"], "aborted"))
    assert phases([step.error] if step.error else []) == ([] if force else [("a", "on_deactivate")])


# In a store


@pytest.mark.spec("STO-3")
def test_while_hooks_are_undone_those_are_recorded_that_still_are_to_be() -> None:
    step, recorded = planned(calls(CALLS)).on("leased"), list[list[str]]()
    while step.state != "aborted":
        if EFFECTS[step.state] == "intend":
            recorded.append([line(call) for call in step.to_undo])
            step = step.on("intended")
        elif EFFECTS[step.state] == "settle":
            step = step.on("settled")
        else:
            step = step.on("failed", ERROR) if line(step.hook) == "+b" else step.on("succeeded")
    assert recorded == [[*CALLS[:1]], [*CALLS[:2]], [*CALLS[:3]], [*CALLS[:2]], [*CALLS[:1]]]


@pytest.mark.spec("STO-3", "HOOK-5")
def test_what_another_process_has_left_is_undone_before_the_own_plan_is_made_again() -> None:
    left = (HookCall.begun(spec("a"), "on_deactivate"), HookCall.begun(spec("c"), "on_activate"))
    step = planned(SETUP).on("left", left)
    assert [line(call) for call in step.to_undo] == ["-a", "+c"]
    asked, step = drive(step, fails("undo -c"))
    assert (asked, step.state) == (["undo -c", "undo +a"], "new")
    assert [str(failure) for failure in step.work.compensation_failures] == ["undo -c"]


@pytest.mark.spec("PER-3")
def test_a_transition_without_hooks_that_loses_is_planned_again_under_the_lease() -> None:
    step = planned(()).on("conflict")
    assert (step.state, EFFECTS[step.state]) == ("planned", "lease")
    assert step.on("leased").state == "new"
    assert step.on("leased").on("planned", ()).on("saved").state == "committed"


@pytest.mark.spec("STO-2", "STO-3")
def test_a_plan_for_an_older_record_is_withdrawn_and_made_again() -> None:
    step = planned(SETUP).on("news")
    assert (EFFECTS[step.state], step.to_undo) == ("settle", ())
    assert step.on("settled").state == "new"


@pytest.mark.spec("HOOK-10")
@pytest.mark.parametrize("failing", [(), ("+b",), ("-a", "undo +a.x"), ("+b.z", "undo -b")])
def test_a_session_in_memory_is_asked_for_the_same_hooks_and_for_nothing_else(failing: tuple[str, ...]) -> None:
    in_a_store = drive(planned(calls(CALLS)), fails(*failing))
    step, asked = Step.begin(stored=False).on("planned", calls(CALLS)), list[str]()
    while step.state not in ("saving", "aborted"):
        assert EFFECTS[step.state] == "hook"
        asked.append(line(step.hook))
        step = step.on("failed", ERROR) if asked[-1] in failing else step.on("succeeded")
    assert (asked, step.state) == (in_a_store[0], in_a_store[1].state)
