"""The graph of reachable states: all of them and no others, as an independent enumeration finds them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

from tests.core.support import FAMILIES, World, desk, world
from tests.diagrams.support import HOSTILE, Drawn, label_of, squeezed
from toolfold import ConfigError, Configuration, Plan, Profile, Snapshot, ToolSet, TransitionRequest, plan
from toolfold_diagrams import reachable
from toolfold_diagrams.reachable import Graph, Move, explore
from toolfold_specs import reference as model
from toolfold_specs.reference import Order, System
from toolfold_specs.systems import reachable as enumerated

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
def test_a_quota_is_kept_and_what_it_evicts_depends_on_the_order_of_activation(limit: int, evict_oldest: bool) -> None:
    for system in (CHAIN, System((None, None, None)), System((None, 0, None), (frozenset({0, 2}),))):
        here = world(system, limit, evict_oldest)
        assert moves_of(here, explore(here.catalog, 64)) == expected_moves(system, limit, evict_oldest)


@pytest.mark.spec("DIA-1", "ACT-4", "ACT-5")
@pytest.mark.parametrize("family", ["pairs-3", "wide-3"])
def test_a_move_tells_what_leaves_because_of_it_and_why(family: str) -> None:
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


def lines_of(node: Any) -> str:
    return squeezed(label_of(node))


def drawn_moves(picture: Drawn) -> set[tuple[str, str, str]]:
    """What the arrows say: from the label of one state, by what, to the label of the other."""
    found: set[tuple[str, str, str]] = set()
    for tail, head, edge in picture.edges:
        if tail == "initial":
            continue
        upper, lower = lines_of(picture.nodes[tail]), lines_of(picture.nodes[head])
        label, way = squeezed(label_of(edge)), edge.get("dir", "forward")
        if way == "both":
            group = label.removeprefix("activate/deactivate")
            found |= {(upper, f"activate{group}", lower), (lower, f"deactivate{group}", upper)}
        else:
            found.add((upper, label, lower) if way == "forward" else (lower, label, upper))
    return found


def mermaid_moves(text: str) -> set[tuple[str, str, str]]:
    """The same, of a Mermaid text."""

    def plain(label: str) -> str:
        return squeezed(re.sub(r"#(\d+);", lambda code: chr(int(code[1])), label.replace("<br/>", "\n")))

    nodes = {key: plain(label) for key, label in re.findall(r'^  (state_\d+)\("(.*)"\)$', text, re.MULTILINE)}
    found: set[tuple[str, str, str]] = set()
    for tail, way, label, head in re.findall(r'^  (state_\d+) (<?-->)\|"(.*)"\| (state_\d+)$', text, re.MULTILINE):
        said = plain(label)
        if way == "<-->":
            group = said.removeprefix("activate/deactivate")
            found |= {(nodes[tail], f"activate{group}", nodes[head]), (nodes[head], f"deactivate{group}", nodes[tail])}
        else:
            found.add((nodes[tail], said, nodes[head]))
    return found


def told(graph: Graph) -> set[tuple[str, str, str]]:
    """What the arrows should say."""

    def named(number: int) -> str:
        state = graph.states[number]
        if not state.active:
            return "nothingactive"
        return ("then" if state.configuration.order else "").join(state.configuration.oldest_first)

    def said(move: Move) -> str:
        effects = [("displaces", move.displaced), ("evicts", move.evicted), ("closes", move.below)]
        because = "".join(f"/{verb}{','.join(paths)}" for verb, paths in effects if paths)
        return f"{'activate' if move.activates else 'deactivate'}{move.group}{because}"

    return {(named(move.tail), said(move), named(move.head)) for move in graph.moves}


def quota() -> ToolSet:
    tools = ToolSet("quota", max_active=2, evict="oldest")
    for path in ("a", "b", "c"):
        tools.register_group(path)
    return tools


@pytest.mark.spec("DIA-1", "DIA-2")
@pytest.mark.parametrize("tools", [desk(), quota(), ToolSet("empty")], ids=lambda tools: tools.name)
def test_both_pictures_hold_the_states_and_moves_and_nothing_else(tools: ToolSet) -> None:
    graph = explore(tools.catalog, 64)
    snapshot = Snapshot.of(tools.catalog)
    forest = tools.catalog.forest
    unmarked = snapshot.at(Configuration.of(forest, (1 << len(forest.paths)) - 1, 0)) if forest.paths else snapshot
    picture = reachable(unmarked)
    drawn = Drawn.of(picture.dot)
    mark = "" if tools.catalog.groups else "●"
    assert {*drawn.nodes} == {"initial", *(f"state_{number}" for number in range(len(graph.states)))}
    assert [(tail, head) for tail, head, _ in drawn.edges if tail == "initial"] == [("initial", "state_0")]
    assert lines_of(drawn.nodes["state_0"]) == f"{mark}nothingactive"
    assert drawn_moves(drawn) == told(graph)
    assert mermaid_moves(picture.mermaid or "") == told(graph)


@pytest.mark.spec("DIA-3")
async def test_the_state_of_a_session_is_marked_and_no_other() -> None:
    tools = desk()
    async with tools.open_session(active=["a", "a.x"]) as session:
        session.set_fact("f", 1)
        picture = reachable(session)
    drawn = Drawn.of(picture.dot)
    marked = {name: lines_of(node) for name, node in drawn.nodes.items() if "●" in lines_of(node)}
    thick = [name for name, node in drawn.nodes.items() if float(node.get("penwidth", 1)) > 1]
    assert list(marked.values()) == ["●aa.x"]
    assert [*marked] == thick
    assert re.findall(r"^  style (state_\d+) ", picture.mermaid or "", re.MULTILINE) == thick


@pytest.mark.spec("DIA-3")
def test_without_a_session_the_empty_state_is_marked_and_an_impossible_one_never() -> None:
    tools = desk()
    marked = [node for node in Drawn.of(reachable(tools).dot).nodes.values() if "●" in str(node["label"])]
    assert [lines_of(node) for node in marked] == ["●nothingactive"]
    impossible = Snapshot.of(tools.catalog, Configuration.of(tools.catalog.forest, 0b111111, 0))
    assert "●" not in reachable(impossible).dot
    assert "style" not in (reachable(impossible).mermaid or "")


@pytest.mark.spec("DIA-1", "PRO-1")
async def test_a_session_under_a_profile_has_the_states_that_its_profile_admits() -> None:
    tools = desk()
    async with tools.open_session(Profile(name="p", available=("b.z",))) as session:
        graph = explore(session.catalog, 3)
        assert [state.active for state in graph.states] == [(), ("b",), ("b", "b.z")]
        assert reachable(session, limit=3).dot.count('label="b') == 2


# The limit


@pytest.mark.spec("DIA-1")
def test_beyond_the_limit_it_is_said_how_many_were_found_and_what_to_do() -> None:
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

    def counted(configuration: Configuration, step: TransitionRequest) -> Plan:
        plans.append(plan(configuration, step))
        return plans[-1]

    monkeypatch.setitem(explore.__globals__, "plan", counted)
    with pytest.raises(ConfigError, match="at least 65 were found"):
        reachable(tools)
    assert len(plans) == 64
    with pytest.raises(ConfigError, match=r"more than 0 .*at least 1 "):
        reachable(tools, limit=0)


@pytest.mark.spec("DIA-1")
def test_what_mermaid_would_not_draw_has_no_mermaid_form() -> None:
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
def test_names_that_are_words_of_dot_or_mermaid_do_no_harm() -> None:
    tools = ToolSet(HOSTILE[1], control="none")
    names = ("node", "end", "subgraph", "end.end", "style", "__proto__", "-", "0", "W" * 64)
    for name in names:
        tools.register_group(name)
    roots = [name for name in names if "." not in name]
    tools.register_exclusion(*roots)
    picture = reachable(tools)
    graph = explore(tools.catalog, 64)
    assert {state.active for state in graph.states} == {(), *((name,) for name in roots), ("end", "end.end")}
    assert drawn_moves(Drawn.of(picture.dot.replace("● ", ""))) == told(graph)
    assert mermaid_moves((picture.mermaid or "").replace("● ", "")) == told(graph)


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
