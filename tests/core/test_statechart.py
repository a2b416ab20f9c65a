"""The statechart of a catalog, and its exports, run by other people's libraries and compared with the core."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from attrs import evolve
from attrs.exceptions import FrozenInstanceError

from tests.core.charts import (
    FOUR,
    LARGE,
    RUNNERS,
    SMALL,
    Active,
    Runner,
    arrows,
    by_scxml,
    by_transitions,
    chart_of,
    desk,
    difference,
    exported,
    followed,
    mutants,
    nested_partners,
    odd,
    tour,
    wander,
)
from toolfold import Catalog, ToolSet
from toolfold._names import ancestors
from toolfold.machine import TABLE, Effect, RegionEvent, RegionState
from toolfold.machine.statechart import INITIAL, STATES, event_name, to_scxml, to_transitions, to_xstate

each_export = pytest.mark.parametrize("run", RUNNERS.values(), ids=RUNNERS)


# Agreement


@each_export
@pytest.mark.spec("CNF-6", "DIA-1", "DIA-2", "ACT-2", "ACT-4", "ACT-5", "ACT-6", "ACT-7", "ACT-8")
def test_every_request_in_every_state_of_all_small_systems_gives_what_the_core_gives(run: Runner) -> None:
    for catalog in (*SMALL, *FOUR[::4]):
        assert difference(run, catalog, followed(catalog, tour(catalog))) is None


@each_export
@pytest.mark.spec("CNF-6", "DIA-2")
@pytest.mark.parametrize("seed", range(len(LARGE)))
def test_random_requests_in_large_forests_give_what_the_core_gives(run: Runner, seed: int) -> None:
    assert difference(run, LARGE[seed], followed(LARGE[seed], wander(LARGE[seed], seed, 150))) is None


@each_export
@pytest.mark.spec("CNF-6", "DIA-1", "NAM-1")
def test_groups_with_odd_names_are_exported_and_behave_as_in_the_core(run: Runner) -> None:
    catalog = odd()
    assert difference(run, catalog, followed(catalog, wander(catalog, 1, 100))) is None


@each_export
@pytest.mark.spec("CNF-6", "DIA-1")
def test_a_catalog_without_groups_has_a_statechart(run: Runner) -> None:
    catalog = ToolSet("empty").catalog
    assert list(run(catalog, [])) == []
    assert chart_of(catalog).regions == ()
    assert to_xstate(chart_of(catalog)) == {"id": "empty", "type": "parallel", "states": {}}


def partners(catalog: Catalog, path: str) -> Active:
    return frozenset().union(*(members for members in catalog.exclusions if path in members)) - {path}


@pytest.mark.spec("CNF-6")
def test_the_walks_in_large_forests_include_the_difficult_cases() -> None:
    met: Counter[str] = Counter()
    for seed, catalog in enumerate(LARGE):
        made, before = wander(catalog, seed, 150), frozenset[str]()
        for (request, path), (_, after) in zip(made, followed(catalog, made), strict=True):
            excluded, lost = partners(catalog, path), before - after
            below = {group for group in lost if excluded.intersection(ancestors(group))}
            if request is RegionEvent.ACTIVATE:
                met["refused"] += path not in after
                met["a subtree leaves"] += bool(below - excluded)
                met["a partner below a partner leaves"] += bool(below & excluded)
            before = after
    assert len(met) == 3
    assert min(met.values()) > 5


# The comparison can fail


@each_export
@pytest.mark.spec("CNF-6")
def test_the_comparison_notices_an_export_with_a_disabled_transition_or_a_missing_guard(run: Runner) -> None:
    catalogs = [catalog for catalog in (*SMALL, *FOUR) if any(each.guard for each in arrows(chart_of(catalog)))]
    noticed = 0
    for catalog in catalogs[::8]:
        trace = followed(catalog, tour(catalog))
        for broken in mutants(catalog, trace):
            assert difference(run, broken, trace) is not None
            noticed += 1
    assert noticed > 30


@pytest.mark.spec("CNF-6")
@pytest.mark.parametrize("run", [by_transitions, by_scxml])
def test_a_partner_below_a_partner_must_not_react_too_or_the_upper_one_stays_active(run: Runner) -> None:
    catalog = nested_partners()
    chart, trace = chart_of(catalog), followed(catalog, tour(catalog))
    upper = next(each for each in chart.reactions["activate:c"] if each.group == "a")
    lower = chart.regions[0].children[0]
    assert lower.group == "a.b"
    assert all(each.cause is not RegionEvent.DISPLACED for each in lower.transitions)
    both = evolve(lower, transitions=(*lower.transitions, evolve(upper, group="a.b")))
    broken = evolve(chart, regions=(evolve(chart.regions[0], children=(both,)), *chart.regions[1:]))
    assert difference(run, chart, trace) is None
    found = difference(run, broken, trace)
    assert found is not None
    assert found[1:] == ("activate:c", frozenset({"c"}), frozenset({"a", "c"}))


# The description


@pytest.mark.spec("DIA-1", "DIA-2")
def test_the_regions_are_the_forest_in_canonical_order_and_each_is_either_inactive_or_active() -> None:
    chart = chart_of(desk())
    assert [region.group for region in chart.regions] == ["chat", "files", "repo"]
    assert [child.segment for child in chart.regions[2].children] == ["prod", "test"]
    assert tuple(region.group for region in chart.walk()) == tuple(group.path for group in desk().groups)
    assert STATES == (RegionState.INACTIVE, RegionState.ACTIVE)
    assert INITIAL is RegionState.INACTIVE
    with pytest.raises(FrozenInstanceError):
        chart.regions[0].transitions[0].guard = "files"  # type: ignore[misc]


@pytest.mark.spec("DIA-1", "ACT-4", "ACT-7")
def test_the_reactions_to_an_event_are_its_transitions_in_all_regions_with_their_guards() -> None:
    received = {
        event: {(each.group, each.effect, each.guard) for each in transitions}
        for event, transitions in chart_of(desk()).reactions.items()
    }
    assert received["activate:repo"] == {("repo", Effect.SET_UP, None), ("chat", Effect.TEAR_DOWN, None)}
    assert received["deactivate:repo"] == {("repo", Effect.TEAR_DOWN, None)}
    assert received["activate:files:write"] == {
        ("files.write", Effect.SET_UP, None),
        ("repo.prod", Effect.TEAR_DOWN, "files"),
        ("repo.test", Effect.TEAR_DOWN, "files"),
        ("chat.rooms", Effect.TEAR_DOWN, "files"),
    }


@pytest.mark.spec("DIA-2", "ACT-2")
def test_nesting_implements_the_rows_about_ancestors() -> None:
    assert {
        row.target for (_, event), rows in TABLE.items() if event is RegionEvent.ANCESTOR_DEACTIVATED for row in rows
    } == {RegionState.LOCKED}
    entered = {state: rows for (state, event), rows in TABLE.items() if event is RegionEvent.ANCESTOR_ACTIVATED}
    assert {(state, row.target) for state, rows in entered.items() for row in rows} == {
        (RegionState.LOCKED, INITIAL),
        (RegionState.LOCKED, RegionState.LOCKED),
    }
    asked = [TABLE[RegionState.LOCKED, event] for event in (RegionEvent.ACTIVATE, RegionEvent.DEACTIVATE)]
    assert {(row.target, row.effect) for rows in asked for row in rows} == {
        (RegionState.LOCKED, Effect.REFUSE),
        (RegionState.LOCKED, Effect.NOTHING),
    }


# Names and bytes


@pytest.mark.spec("NAM-1", "DIA-1")
def test_ids_are_unique_xml_names_and_events_are_single_tokens() -> None:
    chart = chart_of(odd())
    document = ET.fromstring(to_scxml(chart))
    ids = [element.attrib["id"] for element in document.iter() if "id" in element.attrib]
    assert len(ids) == len(set(ids)) == 1 + 3 * len(odd().groups)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9._-]*", name) for name in ids)
    used = {value for element in document.iter() for key in ("target", "initial") if (value := element.get(key))}
    assert used <= set(ids)
    assert len(chart.reactions) == 2 * len(odd().groups)
    assert all(re.fullmatch(r"[A-Za-z0-9_:-]+", event) for event in chart.reactions)


def changes(catalog: Catalog) -> Iterator[tuple[bool, str]]:
    """Whether each request of a tour changes something in the core."""
    before: Active = frozenset()
    for event, after in followed(catalog, tour(catalog)):
        yield before != after, event
        before = after


@pytest.mark.spec("DIA-1")
def test_an_event_that_no_group_has_is_an_error_and_others_return_whether_they_changed_something() -> None:
    machine: Any = to_transitions(chart_of(desk()))
    received = [(machine.trigger(event_name(*move)), event_name(*move)) for move in tour(desk())]
    assert received == list(changes(desk()))
    machine.trigger("activate:repo")
    assert machine.is_state("groups.repo.active", machine, allow_substates=True)
    with pytest.raises(AttributeError, match="activate:rep"):
        machine.trigger("activate:rep")


@pytest.mark.spec("DIA-1", "INV-5")
def test_the_order_of_registration_makes_no_difference_to_the_bytes() -> None:
    assert exported(desk()) == exported(desk(backwards=True))
