"""The life of a connection, over all states and events."""

from __future__ import annotations

import itertools

import pytest
from attrs import evolve

from toolfold_adapters.gateway.upstream.life import TRANSITIONS, Backoff, Event, Life, NotNow, State, after

pytestmark = pytest.mark.spec("GWY-3", "GWY-4")

BACKOFF = Backoff(first=1, most=8, steady=10)
PAIRS = list(itertools.product(State, Event))


def life_of(*events: tuple[Event, float]) -> Life:
    """Return where a connection stands after events at their times."""
    life = Life()
    for event, now in events:
        life = after(life, event, now, BACKOFF, "why")
    return life


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=lambda one: one.name)
def test_an_event_leads_where_the_table_says_or_is_refused(state: State, event: Event) -> None:
    life = Life(state)
    if (state, event) in TRANSITIONS:
        assert after(life, event, 0, BACKOFF).state is TRANSITIONS[state, event]
    else:
        with pytest.raises(NotNow, match=f"{state.value} can't take the event '{event.value}'"):
            after(life, event, 0, BACKOFF)


def test_every_state_can_be_reached_and_left_for_idle() -> None:
    assert {to for _, to in TRANSITIONS.items()} == {*State}
    for state in State:
        reached = {state}
        while reached != (more := reached | {to for (of, _), to in TRANSITIONS.items() if of in reached}):
            reached = more
        assert State.IDLE in reached


def test_waits_grow_with_failures_in_a_row_up_to_a_bound() -> None:
    life, now, waits = Life(), 0.0, []
    for _ in range(6):
        life = after(after(life, Event.USE, now, BACKOFF), Event.FAILED, now, BACKOFF, "why")
        waits.append(life.due - now)
        now = life.due
    assert waits == [1, 2, 4, 8, 8, 8]
    assert life.reason == "why"


def test_a_use_before_its_time_is_refused_and_says_when_it_is_tried_again() -> None:
    failed = life_of((Event.USE, 0), (Event.FAILED, 0))
    for event in (Event.USE, Event.DUE):
        with pytest.raises(NotNow, match=r"in 0\.5 seconds"):
            after(failed, event, 0.5, BACKOFF)
        assert after(failed, event, 1, BACKOFF).state is State.STARTING


def test_a_connection_that_was_up_for_long_starts_again_at_once() -> None:
    lost = life_of((Event.USE, 0), (Event.FAILED, 0), (Event.USE, 1), (Event.STARTED, 2), (Event.LOST, 12))
    assert (lost.failures, lost.due, lost.lost) == (0, 12, True)
    assert after(lost, Event.USE, 12, BACKOFF).state is State.STARTING


def test_a_connection_that_is_lost_soon_counts_as_failed() -> None:
    lost = life_of((Event.USE, 0), (Event.STARTED, 0), (Event.LOST, 9))
    assert (lost.failures, lost.due) == (1, 10)
    again = after(after(lost, Event.USE, 10, BACKOFF), Event.STARTED, 10, BACKOFF)
    assert after(again, Event.LOST, 11, BACKOFF).failures == 2


def test_what_stops_forgets_its_failures() -> None:
    failed = life_of((Event.USE, 0), (Event.FAILED, 0), (Event.STOP, 1))
    assert failed == evolve(Life(), since=1)
