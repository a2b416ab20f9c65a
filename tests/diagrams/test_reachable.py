"""The graph of reachable states: all of them and no others, as an independent enumeration finds them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest

from tests.core.support import FAMILIES, World, desk, world
from toolfold import ConfigError, Plan, Profile, Snapshot, ToolSet, TransitionRequest
from toolfold_diagrams import reachable
from toolfold_diagrams.reachable import Graph, explore
from toolfold_specs import reference as model
from toolfold_specs.reference import Order, System
from verification.systems import reachable as enumerated

Moved = tuple[Order, bool, int, Order]
"""A move: from the groups of a state, activating or not, which group, to the groups of the other state."""

CHAIN = System((None, 0, 1, None), (frozenset({0, 3}),))


def members(family: str) -> Iterator[System]:
    return islice(FAMILIES[family], 0, None, 5 if family.endswith("4") else 1)


def in_order(here: World, state: Snapshot) -> Order:
    """The groups of a state: in order of activation if that matters, else by number."""
    if here.catalog.evict_oldest:
        return tuple(here.paths.index(path) for path in state.configuration.oldest_first)
    return tuple(sorted(here.active(state.configuration.active)))


def moves_of(here: World, graph: Graph) -> set[Moved]:
    states = [in_order(here, state) for state in graph.states]
    assert len(set(states)) == len(states)
    moves = [(states[one.tail], one.activates, here.paths.index(one.group), states[one.head]) for one in graph.moves]
    assert len(set(moves)) == len(moves)
    return set(moves)


def expected_moves(system: System, limit: int | None = None, evict_oldest: bool = False) -> set[Moved]:
    """The same, found by the reference model."""
    found: dict[Order, None] = {(): None}
    moves: set[Moved] = set()
    frontier: list[Order] = [()]
    while frontier:
        state = frontier.pop()
        for group in system.groups:
            for activates in (True, False):
                if limit is None:
                    step = model.activate if activates else model.deactivate
                    answer = step(system, frozenset(state), group)
                    kind, after = answer.kind, tuple(sorted(answer.state))
                else:
                    asked: tuple[list[int], list[int]] = ([group], []) if activates else ([], [group])
                    within = model.step_within(system, state, *asked, limit=limit, evict_oldest=evict_oldest)
                    kind, after = within.kind, within.state if evict_oldest else tuple(sorted(within.state))
                if kind == "changed":
                    moves.add((state, activates, group, after))
                    if after not in found:
                        found[after] = None
                        frontier.append(after)
    return moves


@pytest.mark.spec("DIA-1", "INV-4")
@pytest.mark.parametrize("family", FAMILIES)
def test_states_and_moves_are_those_of_the_reference(family: str) -> None:
    for system in members(family):
        here = world(system)
        graph = explore(here.catalog, 64)
        assert {here.active(state.configuration.active) for state in graph.states} == set(enumerated(system))
        assert moves_of(here, graph) == expected_moves(system)


@pytest.mark.spec("DIA-1", "ACT-10")
@pytest.mark.parametrize("evict_oldest", [False, True])
@pytest.mark.parametrize("limit", [1, 2])
def test_a_quota_is_observed_and_what_it_evicts_depends_on_the_order_of_activation(
    limit: int, evict_oldest: bool
) -> None:
    for system in (CHAIN, System((None, None, None)), System((None, 0, None), (frozenset({0, 2}),))):
        here = world(system, limit, evict_oldest)
        assert moves_of(here, explore(here.catalog, 64)) == expected_moves(system, limit, evict_oldest)


@pytest.mark.spec("DIA-1", "ACT-4", "ACT-5")
@pytest.mark.parametrize("family", ["pairs-3", "wide-3"])
def test_a_move_has_the_groups_that_are_deactivated_because_of_it_and_why(family: str) -> None:
    for system in members(family):
        here = world(system)
        graph = explore(here.catalog, 64)
        for move in graph.moves:
            group = here.paths.index(move.group)
            before, after = (
                here.active(graph.states[number].configuration.active) for number in (move.tail, move.head)
            )
            left = {here.paths[other] for other in before - after}
            displaced = {*move.displaced} if move.activates else set()
            assert displaced == (left if move.activates else set())
            assert {*move.below} == (set() if move.activates else left - {move.group})
            assert move.evicted == ()
            assert {here.paths.index(path) for path in move.below} <= system.subtree(group)


# The pictures


@pytest.mark.spec("DIA-1", "PRO-1")
async def test_a_session_under_a_profile_has_the_states_that_its_profile_admits() -> None:
    tools = desk()
    async with tools.open_session(Profile(name="p", available=("b.z",))) as session:
        graph = explore(session.catalog, 3)
        assert [state.active for state in graph.states] == [(), ("b",), ("b", "b.z")]
        assert reachable(session, limit=3).dot.count('label="b') == 2


# The limit


@pytest.mark.spec("DIA-1")
def test_the_error_beyond_the_limit_says_how_many_states_were_found_and_what_to_do() -> None:
    tools = desk()
    number = len(explore(tools.catalog, 64).states)
    assert number == 14
    reachable(tools, limit=number)
    with pytest.raises(ConfigError, match=r"more than 13 .*at least 14 .*profile.*limit.*structure"):
        reachable(tools, limit=number - 1)


@pytest.mark.spec("DIA-1")
def test_the_search_ends_at_the_limit_however_many_states_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = ToolSet("many", control="none")
    for number in range(300):
        tools.register_group(f"g{number}")
    plans: list[Plan] = []
    plan = Snapshot.plan

    def counted(snapshot: Snapshot, request: TransitionRequest) -> Plan:
        plans.append(plan(snapshot, request))
        return plans[-1]

    monkeypatch.setattr(Snapshot, "plan", counted)
    with pytest.raises(ConfigError, match="at least 65 were found"):
        reachable(tools)
    assert len(plans) == 64
    with pytest.raises(ConfigError, match=r"more than 0 .*at least 1 "):
        reachable(tools, limit=0)


@pytest.mark.spec("DIA-1")
def test_a_graph_that_is_too_large_for_mermaid_has_no_mermaid_form() -> None:
    tools = ToolSet("cube", control="none")
    for number in range(8):
        tools.register_group(f"g{number}")
    picture = reachable(tools, limit=256)
    assert picture.mermaid is None
    assert picture.dot.count("->") == 1 + 8 * 128
    with pytest.raises(ConfigError, match="use one of"):
        picture.render("cube.mmd")


# Texts


@pytest.mark.spec("DIA-1")
def test_the_order_of_registration_makes_no_difference() -> None:
    pictures = set[str]()
    for paths in (("a", "a.x", "b"), ("b", "a", "a.x")):
        tools = ToolSet("same")
        for path in paths:
            tools.register_group(path)
        tools.register_exclusion(paths[0], paths[-1] if paths[0] == "a" else "a")
        pictures.add(reachable(tools).dot)
    assert len(pictures) == 1
