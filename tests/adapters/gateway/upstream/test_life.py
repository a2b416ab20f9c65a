"""The life of a connection, over all states and events."""

from __future__ import annotations

import itertools

import pytest
from attrs import evolve

from toolfold_adapters.gateway.upstream.life import TABLE, Backoff, Effect, Event, Guard, Life, NotNow, State
from toolfold_adapters.gateway.upstream.life import after as _after

pytestmark = pytest.mark.spec("GWY-3", "GWY-4")

BACKOFF = Backoff(first=1, most=8, steady=10)
PAIRS = list(itertools.product(State, Event))


def after(life: Life, event: Event, now: float) -> Life:
    return _after(life, event, now, BACKOFF, "why")[0]


def life_of(*events: tuple[Event, float]) -> Life:
    """Return where a connection stands after events at their times."""
    life = Life()
    for event, now in events:
        life = after(life, event, now)
    return life


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda one: one.name)
def test_an_event_leads_where_the_table_says_or_is_refused(state: State, event: Event) -> None:
    life = Life(state)
    for now in (0, BACKOFF.steady):
        if rows := TABLE.get((state, event)):
            late = Guard.STEADY if now else Guard.SOON
            (row,) = (row for row in rows if row.guard in (Guard.NONE, Guard.DUE, Guard.FIRST, late))
            changed, effect = _after(life, event, now, BACKOFF)
            assert (changed.state, effect) == (row.target, row.effect)
        else:
            with pytest.raises(NotNow, match=f"{state.value} can't take the event '{event.value}'"):
                after(life, event, now)


def test_what_is_done_follows_from_where_a_change_leads() -> None:
    for (state, _), rows in TABLE.items():
        for row in rows:
            done = {State.STARTING: Effect.OPEN, State.STOPPING: Effect.CLOSE, State.BACKING_OFF: Effect.REPORT}
            assert row.effect is (Effect.NOTHING if row.target is state else done.get(row.target, Effect.NOTHING))


def test_every_state_can_be_reached_and_left_for_idle() -> None:
    assert {row.target for rows in TABLE.values() for row in rows} == {*State}
    for state in State:
        reached = {state}
        while reached != (
            more := reached | {row.target for (of, _), rows in TABLE.items() if of in reached for row in rows}
        ):
            reached = more
        assert State.IDLE in reached


def test_waits_grow_with_failures_in_a_row_up_to_a_bound() -> None:
    life, now, waits = Life(), 0.0, []
    for _ in range(6):
        life = after(after(life, Event.USE, now), Event.FAILED, now)
        waits.append(life.due - now)
        now = life.due
    assert waits == [1, 2, 4, 8, 8, 8]
    assert life.reason == "why"


def test_a_use_before_its_time_is_refused_and_says_when_it_is_tried_again() -> None:
    failed = life_of((Event.USE, 0), (Event.FAILED, 0))
    for event in (Event.USE, Event.DUE):
        with pytest.raises(NotNow, match=r"in 0\.5 seconds"):
            after(failed, event, 0.5)
        assert after(failed, event, 1).state is State.STARTING


def test_a_connection_that_was_up_for_long_starts_again_at_once() -> None:
    lost = life_of((Event.USE, 0), (Event.FAILED, 0), (Event.USE, 1), (Event.STARTED, 2), (Event.LOST, 12))
    assert (lost.failures, lost.due, lost.lost) == (0, 12, True)
    assert after(lost, Event.USE, 12).state is State.STARTING


def test_a_connection_that_is_lost_soon_counts_as_failed() -> None:
    lost = life_of((Event.USE, 0), (Event.STARTED, 0), (Event.LOST, 9))
    assert (lost.failures, lost.due) == (1, 10)
    again = after(after(lost, Event.USE, 10), Event.STARTED, 10)
    assert after(again, Event.LOST, 11).failures == 2


def test_a_session_that_is_forgotten_is_begun_anew_at_once_but_not_one_begun_in_its_place() -> None:
    first = life_of((Event.USE, 0), (Event.STARTED, 0), (Event.FORGOTTEN, 1))
    assert (first.failures, first.due, first.lost) == (0, 1, True)
    again = after(after(first, Event.USE, 1), Event.STARTED, 1)
    second = after(again, Event.FORGOTTEN, 2)
    assert (second.failures, second.due) == (1, 3)
    third = after(after(after(second, Event.USE, 3), Event.STARTED, 3), Event.FORGOTTEN, 4)
    assert (third.failures, third.due) == (2, 6)
    assert after(again, Event.FORGOTTEN, 11).failures == 0


def test_what_stops_forgets_its_failures() -> None:
    failed = life_of((Event.USE, 0), (Event.FAILED, 0), (Event.STOP, 1))
    assert failed == evolve(Life(), since=1)
