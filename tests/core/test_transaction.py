"""The life cycle of a transaction (SPEC HOOK-10): its whole table, and the hooks it asks for, without an event loop."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from itertools import product
from typing import Any

import pytest
from transitions import Machine, MachineError

from toolfold.machine.transaction import (
    ABORTED,
    COMMITTED,
    PLANNED,
    ROLLING_BACK,
    SETTING_UP,
    STATES,
    TEARING_DOWN,
    TRANSITIONS,
    HookCall,
    Hooks,
    Transaction,
    flat,
)

TRIGGERS = ("begin", "torn_down", "commit", "fail", "abort")
TABLE = {
    (PLANNED, "begin"): TEARING_DOWN,
    (TEARING_DOWN, "torn_down"): SETTING_UP,
    (SETTING_UP, "commit"): COMMITTED,
    (TEARING_DOWN, "fail"): ROLLING_BACK,
    (SETTING_UP, "fail"): ROLLING_BACK,
    (ROLLING_BACK, "abort"): ABORTED,
}
ROUTES: dict[str, tuple[str, ...]] = {
    PLANNED: (),
    TEARING_DOWN: ("begin",),
    SETTING_UP: ("begin", "torn_down"),
    COMMITTED: ("begin", "torn_down", "commit"),
    ROLLING_BACK: ("begin", "fail"),
    ABORTED: ("begin", "fail", "abort"),
}


def never(*_: Any) -> None:
    raise AssertionError("a transaction runs no hook itself")


def spec(path: str, *, hooks: str = "+-", rollback: Any = None) -> Hooks:
    return Hooks(
        path=path,
        on_activate=never if "+" in hooks else None,
        on_deactivate=never if "-" in hooks else None,
        on_rollback=rollback,
    )


DEACTIVATED = (spec("a.x"), spec("a"))
ACTIVATED = (spec("b"), spec("b.z"))
CALLS = ("-a.x", "-a", "+b", "+b.z")


def line(call: HookCall) -> str:
    sign = {"on_activate": "+", "on_deactivate": "-", "on_rollback": "~"}[call.phase]
    return f"{'undo ' if call.undoes else ''}{sign}{call.group.path}"


def drive(transaction: Transaction, failing: Callable[[str], BaseException | None] = lambda line: None) -> list[str]:
    """Give a transaction the outcome of each hook that it asks for, to the end; return what it asked for."""
    asked: list[str] = []
    while (call := transaction.next()) is not None:
        asked.append(line(call))
        if (error := failing(line(call))) is None:
            transaction.succeeded(call)
        else:
            transaction.failed(call, error)
    return asked


def fails(*lines: str) -> Callable[[str], BaseException | None]:
    errors = {line: RuntimeError(line) for line in lines}
    return errors.get


# The table


@pytest.mark.spec("HOOK-10")
@pytest.mark.parametrize(("state", "trigger"), list(product(STATES, TRIGGERS)))
def test_every_state_takes_the_triggers_of_its_table_and_refuses_the_others(state: str, trigger: str) -> None:
    transaction = Transaction((), ())
    for event in ROUTES[state]:
        transaction.trigger(event)
    assert transaction.state == state
    if (target := TABLE.get((state, trigger))) is None:
        with pytest.raises(MachineError, match=trigger):
            transaction.trigger(trigger)
        assert transaction.state == state
    else:
        transaction.trigger(trigger)
        assert transaction.state == target


@pytest.mark.spec("HOOK-10")
def test_the_table_is_the_specified_one_and_the_running_states_are_nested_in_one() -> None:
    assert {(source, trigger): target for trigger, source, target in flat()} == TABLE
    assert [row for row in TRANSITIONS if row[0] == "fail"] == [("fail", "running", ROLLING_BACK)]
    assert STATES == (
        "planned",
        "running.tearing_down",
        "running.setting_up",
        "committed",
        "rolling_back",
        "aborted",
    )


# The hooks that it asks for


@pytest.mark.spec("HOOK-3", "HOOK-10")
def test_it_asks_for_teardowns_then_for_setups_and_waits_for_the_commit() -> None:
    transaction = Transaction(DEACTIVATED, ACTIVATED)
    states = []
    while (call := transaction.next()) is not None:
        states.append((line(call), transaction.state))
        transaction.succeeded(call)
    assert states == [("-a.x", TEARING_DOWN), ("-a", TEARING_DOWN), ("+b", SETTING_UP), ("+b.z", SETTING_UP)]
    assert transaction.state == SETTING_UP
    assert transaction.next() is None
    transaction.commit()
    assert (transaction.state, transaction.failures) == (COMMITTED, [])


@pytest.mark.spec("HOOK-10")
def test_groups_without_hooks_are_skipped() -> None:
    deactivated = [spec("a.x", hooks="+"), spec("a.y", hooks=""), spec("a", hooks="-")]
    activated = [spec("b", hooks="-"), spec("b.z", hooks="+")]
    transaction = Transaction(deactivated, activated)
    assert drive(transaction) == ["-a", "+b.z"]
    assert drive(Transaction((), [spec("b", hooks="-")])) == []


@pytest.mark.spec("HOOK-4", "HOOK-5", "HOOK-10")
@pytest.mark.parametrize("undoing_fails", [False, True])
@pytest.mark.parametrize("position", range(len(CALLS)))
def test_after_a_failure_only_what_succeeded_is_undone_in_reverse_and_the_error_has_every_failure(
    position: int, undoing_fails: bool
) -> None:
    transaction = Transaction(DEACTIVATED, ACTIVATED)
    undone = ["undo -b", "undo +a", "undo +a.x"][3 - position :]
    failing = fails(CALLS[position], *(undone if undoing_fails else ()))
    assert drive(transaction, failing) == [*CALLS[: position + 1], *undone]
    assert transaction.state == ABORTED
    error = transaction.error()
    assert error.__cause__ is transaction.cause is failing(CALLS[position])
    assert f"{'-' if error.phase == 'on_deactivate' else '+'}{error.group}" == CALLS[position]
    assert error.compensation == tuple(failing(line) for line in undone if undoing_fails)
    assert (f"met {position} more failure(s)" in str(error)) is bool(error.compensation)


@pytest.mark.spec("HOOK-5")
def test_a_group_undoes_with_its_own_hook_with_its_opposite_or_not_at_all() -> None:
    def undone(hooks: str, rollback: Any) -> list[str]:
        transaction = Transaction([spec("a", hooks=hooks, rollback=rollback)], [spec("b")])
        return drive(transaction, fails("+b"))[2:]

    assert undone("+-", None) == ["undo +a"]
    assert undone("-", None) == []
    assert undone("+-", never) == ["undo ~a"]
    assert undone("-", never) == ["undo ~a"]
    assert undone("+-", False) == []


@pytest.mark.spec("HOOK-5")
@pytest.mark.parametrize(("own", "phase"), [(False, "on_activate"), (True, "on_rollback")])
def test_a_compensation_names_what_it_undoes_and_has_its_own_hook(own: bool, phase: str) -> None:
    def enter() -> None: ...
    def leave() -> None: ...
    def undo() -> None: ...

    group = Hooks(path="a", on_activate=enter, on_deactivate=leave, on_rollback=undo if own else None)
    transaction = Transaction([group], [spec("b")])
    first = transaction.next()
    assert first is not None
    assert first == HookCall(group, "on_deactivate", leave)
    transaction.succeeded(first)
    second = transaction.next()
    assert second is not None
    transaction.failed(second, RuntimeError())
    assert transaction.next() == HookCall(group, phase, undo if own else enter, undoes="on_deactivate")  # type: ignore[arg-type]


@pytest.mark.spec("HOOK-5")
def test_an_abandoned_transaction_is_undone() -> None:
    transaction = Transaction(DEACTIVATED, ACTIVATED)
    assert drive(transaction) == list(CALLS)
    cause = RuntimeError("the plan is void")
    transaction.give_up(cause)
    assert drive(transaction) == ["undo -b.z", "undo -b", "undo +a", "undo +a.x"]
    assert (transaction.state, transaction.cause) == (ABORTED, cause)


@pytest.mark.spec("HOOK-5")
def test_a_transaction_abandoned_before_any_hook_ran_is_aborted() -> None:
    transaction = Transaction((), ())
    assert transaction.next() is None
    transaction.give_up(RuntimeError("the plan is void"))
    assert transaction.next() is None
    assert transaction.state == ABORTED


# Force


def phases(failures: Iterable[Any]) -> list[tuple[str, str]]:
    return [(failure.group, failure.phase) for failure in failures]


@pytest.mark.spec("HOOK-8")
def test_forced_teardowns_that_fail_are_recorded_and_the_rest_runs() -> None:
    transaction = Transaction(DEACTIVATED, ACTIVATED, force=True)
    failing = fails("-a.x", "-a")
    assert drive(transaction, failing) == list(CALLS)
    transaction.commit()
    assert phases(transaction.failures) == [("a.x", "on_deactivate"), ("a", "on_deactivate")]
    assert [failure.__cause__ for failure in transaction.failures] == [failing("-a.x"), failing("-a")]
    assert transaction.cause is None


@pytest.mark.spec("HOOK-8", "HOOK-5")
def test_force_does_not_apply_to_setups_and_only_what_succeeded_is_undone() -> None:
    transaction = Transaction(DEACTIVATED, ACTIVATED, force=True)
    assert drive(transaction, fails("-a.x", "+b.z")) == [*CALLS, "undo -b", "undo +a"]
    assert transaction.state == ABORTED
    assert phases([transaction.error()]) == [("b.z", "on_activate")]


# What ends from outside


@pytest.mark.spec("STO-3")
def test_what_would_have_to_be_undone_is_what_succeeded_and_the_hook_under_way_until_it_is_undone() -> None:
    transaction = Transaction(DEACTIVATED, ACTIVATED)
    assert transaction.has_hooks
    assert not transaction.to_undo
    for done in range(3):
        call = transaction.next()
        assert call is not None
        assert [line(one) for one in transaction.to_undo] == [*CALLS[: done + 1]]
        transaction.succeeded(call)
    transaction.give_up(RuntimeError("the store is away"))
    assert [line(one) for one in transaction.to_undo] == [*CALLS[:3]]
    assert drive(transaction) == ["undo -b", "undo +a", "undo +a.x"]


@pytest.mark.spec("STO-3", "HOOK-5")
def test_a_transaction_whose_process_ended_undoes_what_that_had_begun() -> None:
    error = RuntimeError("the process is gone")
    transaction = Transaction.interrupted([(spec("a"), "on_deactivate"), (spec("b"), "on_activate")], error)
    assert [line(one) for one in transaction.to_undo] == ["-a", "+b"]
    assert drive(transaction) == ["undo -b", "undo +a"]
    assert (transaction.state, transaction.cause) == (ABORTED, error)


@pytest.mark.spec("HOOK-8", "SAF-5")
@pytest.mark.parametrize("force", [False, True])
def test_a_hook_that_succeeds_while_the_transition_is_cancelled_is_undone_unless_it_closes_by_force(
    force: bool,
) -> None:
    transaction = Transaction(DEACTIVATED[:1], ACTIVATED[:1], force=force)
    call = transaction.next()
    assert call is not None
    transaction.cancelled(call, RuntimeError("cancelled"))
    assert drive(transaction) == (["+b"] if force else ["undo +a.x"])


@pytest.mark.spec("HOOK-10")
def test_its_machine_writes_nothing_to_the_log_and_does_not_silence_other_machines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        transaction = Transaction(DEACTIVATED, ACTIVATED)
        while (call := transaction.next()) is not None:
            transaction.succeeded(call)
        transaction.commit()
        assert caplog.messages == []
        other = Machine(states=["on", "off"], transitions=[["flip", "off", "on"]], initial="off", name="lamp")
        other.trigger("flip")
        assert "lamp: Finished processing state on enter callbacks." in caplog.messages
