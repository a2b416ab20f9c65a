"""What each operation of a store does with a record in each of its states."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve

from toolfold import Lease, Place, Record, records

pytestmark = pytest.mark.spec("STO-1", "STO-2", "STO-3", "STO-7", "PER-3")

NOW, NUMBER, MINE = 100.0, 9, 7
FREE = records.Entry(5, "old", "desk/handle", "ann", lifetime=50, expires=120)
HELD = evolve(FREE, token=MINE, until=110)
STATES: dict[str, records.Entry | None] = {
    "absent": None,
    "free": FREE,
    "held": HELD,
    "held with an intent": evolve(HELD, intent="open a"),
    "lost": evolve(HELD, until=NOW),
    "abandoned": evolve(HELD, until=NOW, intent="open a"),
    "expired": evolve(FREE, expires=NOW),
    "expired and held": evolve(HELD, expires=NOW),
}
OPERATIONS: dict[str, records.Operation[Any]] = {
    "create": records.create("new", Place("desk/handle", "ann"), 50),
    "read": records.read,
    "swap": records.swap(5, "new", None),
    "swap of another version": records.swap(4, "new", None),
    "swap under the lease": records.swap(5, "new", MINE),
    "swap under another lease": records.swap(5, "new", MINE - 1),
    "acquire": records.acquire(10, 5, "open b"),
    "acquire of another version": records.acquire(10, 4, "open b"),
    "intend": records.intend("open b", MINE),
    "take back": records.intend(None, MINE),
    "renew": records.renew(MINE, 60),
    "release": records.release(MINE),
    "delete": records.delete(MINE),
}
DONE: dict[str, tuple[str, dict[str, Any]]] = {
    "read": ("free, held, held with an intent, lost, abandoned", {"expires": 150}),
    "swap": ("free, lost, expired", {"version": 9, "data": "new", "expires": 150, "until": 0}),
    "swap under the lease": (
        "held, held with an intent, expired and held",
        {"version": 9, "data": "new", "intent": None, "until": 0, "expires": 150},
    ),
    "acquire": ("free, lost, expired", {"token": 9, "until": 110, "intent": "open b"}),
    "acquire of another version": ("free, lost, abandoned, expired", {"token": 9, "until": 110}),
    "intend": ("held, held with an intent, expired and held", {"intent": "open b"}),
    "take back": ("held, held with an intent, expired and held", {"intent": None, "until": 0}),
    "renew": ("held, held with an intent", {"until": 160, "expires": 150}),
    "release": ("held, held with an intent, expired and held", {"until": 0}),
}
"""The states in which each operation changes a record, and what it sets."""
OTHERWISE: dict[tuple[str, str], dict[str, Any]] = {
    ("acquire", "abandoned"): {"token": 9, "until": 110},  # the intent is left to whoever takes the record over
    ("renew", "expired and held"): {"until": 160},  # which is no use
}


def after(operation: str, state: str) -> records.Entry | None:
    """Return what the tables say of an operation in a state."""
    entry = STATES[state]
    if operation == "create" and entry is None:
        return evolve(FREE, version=NUMBER, data="new", expires=150)
    if entry is None or (operation == "delete" and entry.is_held(MINE, NOW)):
        return None
    states, changes = DONE.get(operation, ("", {}))
    changed = changes if state in states.split(", ") else OTHERWISE.get((operation, state))
    return entry if changed is None else evolve(entry, **changed)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_changes_what_the_table_says_and_nothing_else(operation: str, state: str) -> None:
    before = STATES[state]
    decision = OPERATIONS[operation](before, records.Moment(NOW, NUMBER))
    assert decision.entry == after(operation, state)
    assert (decision.entry is before) == (decision.entry == before)
    gone = before is not None and decision.entry is None
    was = None if before is None else before.data
    assert decision.is_news == (
        gone or (before is not None and decision.entry is not None and decision.entry.data != was)
    )


@pytest.mark.parametrize(
    ("operation", "state", "answer"),
    [
        ("create", "absent", NUMBER),
        ("create", "expired", "exists"),
        ("read", "free", Record(5, "old")),
        ("read", "held with an intent", Record(5, "old", "open a", 10)),
        ("read", "expired", None),
        ("swap", "free", NUMBER),
        ("swap", "held", None),
        ("acquire", "absent", None),
        ("acquire", "free", Lease(NUMBER, Record(5, "old"))),
        ("acquire", "held", Lease(None, Record(5, "old", None, 10))),
        ("acquire", "abandoned", Lease(NUMBER, Record(5, "old", "open a"))),
        ("intend", "lost", False),
        ("delete", "held", True),
        ("delete", "free", False),
    ],
)
def test_an_operation_answers_with_what_there_was_or_with_the_new_number(
    operation: str, state: str, answer: object
) -> None:
    assert OPERATIONS[operation](STATES[state], records.Moment(NOW, NUMBER)).answer == answer


@pytest.mark.parametrize(
    ("place", "total", "own", "answer"),
    [
        (Place("desk/handle", "ann", total=3, per_caller=2), 2, 1, NUMBER),
        (Place("desk/handle", "ann", total=3, per_caller=2), 3, 1, "full"),
        (Place("desk/handle", "ann", total=3, per_caller=2), 3, 2, "caller_full"),
        (Place("desk/handle", None, total=3, per_caller=2), 2, 2, NUMBER),
        (Place("desk/handle", "ann"), 1000, 1000, NUMBER),
    ],
)
def test_a_record_is_created_while_there_is_room(place: Place, total: int, own: int, answer: object) -> None:
    decision = records.create("new", place, 50)(None, records.Moment(NOW, NUMBER, total, own))
    assert decision.answer == answer
    assert (decision.entry is None) == (answer != NUMBER)


@pytest.mark.parametrize(
    ("operation", "state", "before"),
    [
        ("read", "free", 120),
        ("swap", "free", float("inf")),
        ("swap under the lease", "held", 110),
        ("renew", "held", 110),
        ("release", "held", 110),
        ("acquire", "lost", float("inf")),
    ],
)
def test_what_hangs_on_a_lease_or_a_lifetime_is_right_until_that_ends(
    operation: str, state: str, before: float
) -> None:
    assert OPERATIONS[operation](STATES[state], records.Moment(NOW, NUMBER)).before == before


@pytest.mark.parametrize(("left", "can_wait"), [(50, True), (45, True), (44, False), (1, False)])
def test_a_use_can_wait_within_a_tenth_of_the_lifetime_after_the_last(left: float, can_wait: bool) -> None:
    decision = records.read(evolve(FREE, expires=NOW + left), records.Moment(NOW, NUMBER))
    assert decision.can_wait == can_wait


def test_a_number_is_greater_than_the_last_and_than_those_that_were_lost() -> None:
    assert records.following(5, 1.0) == 1_000_000
    assert records.following(2_000_000, 1.0) == 2_000_001
