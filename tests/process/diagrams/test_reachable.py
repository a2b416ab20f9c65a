"""The graph of reachable states as Graphviz draws it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.core.support import desk
from tests.diagrams.support import HOSTILE, Drawn, label_of, squeezed
from toolfold import Configuration, Snapshot, ToolSet
from toolfold_diagrams import reachable
from toolfold_diagrams.reachable import Graph, Move, explore


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
            group = label.removeprefix("open/close")
            found |= {(upper, f"open{group}", lower), (lower, f"close{group}", upper)}
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
            group = said.removeprefix("open/close")
            found |= {(nodes[tail], f"open{group}", nodes[head]), (nodes[head], f"close{group}", nodes[tail])}
        else:
            found.add((nodes[tail], said, nodes[head]))
    return found


def received(graph: Graph) -> set[tuple[str, str, str]]:
    """What the arrows should say."""

    def named(number: int) -> str:
        state = graph.states[number]
        if not state.active:
            return "nothingopen"
        return ("then" if state.configuration.order else "").join(state.configuration.oldest_first)

    def said(move: Move) -> str:
        effects = [("displaces", move.displaced), ("evicts", move.evicted), ("closes", move.below)]
        because = "".join(f"/{verb}{','.join(paths)}" for verb, paths in effects if paths)
        return f"{'open' if move.activates else 'close'}{move.group}{because}"

    return {(named(move.tail), said(move), named(move.head)) for move in graph.moves}


def quota() -> ToolSet:
    tools = ToolSet("quota", max_active=2, evict="oldest")
    for path in ("a", "b", "c"):
        tools.register_group(path)
    return tools


@pytest.mark.spec("DIA-1", "DIA-2")
@pytest.mark.parametrize("tools", [desk(), quota(), ToolSet("empty")], ids=lambda tools: tools.name)
def test_both_pictures_have_the_states_and_moves_and_nothing_else(tools: ToolSet) -> None:
    graph = explore(tools.catalog, 64)
    snapshot = Snapshot.of(tools.catalog)
    forest = tools.catalog.forest
    unmarked = snapshot.at(Configuration.of(forest, (1 << len(forest.paths)) - 1, 0)) if forest.paths else snapshot
    picture = reachable(unmarked)
    drawn = Drawn.of(picture.dot)
    mark = "" if tools.catalog.groups else "●"
    assert {*drawn.nodes} == {"initial", *(f"state_{number}" for number in range(len(graph.states)))}
    assert [(tail, head) for tail, head, _ in drawn.edges if tail == "initial"] == [("initial", "state_0")]
    assert lines_of(drawn.nodes["state_0"]) == f"{mark}nothingopen"
    assert drawn_moves(drawn) == received(graph)
    assert mermaid_moves(picture.mermaid or "") == received(graph)


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
    assert [lines_of(node) for node in marked] == ["●nothingopen"]
    impossible = Snapshot.of(tools.catalog, Configuration.of(tools.catalog.forest, 0b111111, 0))
    assert "●" not in reachable(impossible).dot
    assert "style" not in (reachable(impossible).mermaid or "")


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
    assert drawn_moves(Drawn.of(picture.dot.replace("● ", ""))) == received(graph)
    assert mermaid_moves((picture.mermaid or "").replace("● ", "")) == received(graph)
