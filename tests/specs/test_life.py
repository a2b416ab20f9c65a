"""The life of transitions of a stored session, on replicas that crash: what is found in all worlds (SPEC STO-6)."""

from __future__ import annotations

from functools import cache
from types import MappingProxyType

import pytest

from toolfold.errors import IllegalEvent
from toolfold.machine import step
from toolfold.machine.step import TABLE, Event, Row, State
from verification.life import ALWAYS, CORE, NEVER_HERE, WEAKER, Fate, Goal, Protocol, explore, report

found_of = cache(explore)


@pytest.mark.spec("STO-2", "STO-3", "STO-6", "PER-3", "HOOK-5")
@pytest.mark.parametrize("protocol", CORE, ids=lambda protocol: protocol.name)
def test_in_no_world_of_the_core_anything_is_violated(protocol: Protocol) -> None:
    found = found_of(protocol)
    assert found.violated == {}
    assert found.worlds > 2500


@pytest.mark.spec("STO-6")
@pytest.mark.parametrize("protocol", WEAKER, ids=lambda protocol: protocol.name)
def test_a_weaker_protocol_violates_what_it_is_said_to(protocol: Protocol) -> None:
    assert {*protocol.violated} == explore(protocol).violated.keys()


@pytest.mark.spec("STO-6")
def test_each_property_is_violated_by_some_protocol_and_each_row_is_used_by_the_core() -> None:
    assert {name for protocol in WEAKER for name in protocol.violated} == ALWAYS.keys()
    paused = Protocol(fate=Fate(pauses=1), goals=("open",))
    core = [protocol for protocol in CORE if not protocol.fate.pauses]
    missing = frozenset.intersection(*(found_of(protocol).missing for protocol in (*core, paused)))
    assert missing == NEVER_HERE


GOALS: dict[str, Goal] = {"conflict": "toggle"}


@pytest.mark.spec("STO-6")
@pytest.mark.parametrize(
    ("state", "event", "row"),
    [
        ("planned", "left", Row("leased")),
        ("planned", "news", Row("leased")),
        ("running.tearing_down", "failed", Row("going_on", note="done")),
        ("running.setting_up", "failed", Row("going_on", note="forgive")),
        ("running.setting_up", "cancelled", Row("going_back", note="give up")),
        ("saving", "conflict", Row("new")),
        ("saving", "changed", Row("new")),
        ("rolling_back", "succeeded", Row("settling")),
    ],
)
def test_a_row_that_leads_elsewhere_is_noticed(
    monkeypatch: pytest.MonkeyPatch, state: State, event: Event, row: Row
) -> None:
    monkeypatch.setattr(step, "TABLE", MappingProxyType({**TABLE, (state, event): (row,)}))
    fate, goal = Fate(crashes=1, catalogs=int(event == "changed")), GOALS.get(event, "open")
    try:
        violated = explore(Protocol(fate=fate, goals=(goal, "close"))).violated
    except (IllegalEvent, IndexError, StopIteration):
        return
    assert violated


def test_a_report_shows_the_way_to_what_is_not_expected() -> None:
    text, is_right = report([Protocol("weak", intends=False)])
    assert not is_right
    assert "weak: " in text
    assert "NOT AS EXPECTED" in text
    assert "0 begins on_activate of group a" in text
