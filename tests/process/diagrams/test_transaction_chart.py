"""The core's own machines, drawn from the tables that drive the code."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.diagrams.support import Drawn, label_of, squeezed, texts_of
from toolfold.machine import TABLE, Effect, Guard, RegionEvent, RegionState, Row
from toolfold.machine.step import CHOICES, EFFECTS, STATES
from toolfold.machine.step import TABLE as LIFE
from toolfold.machine.step import Row as LifeRow
from toolfold_diagrams import Diagram, region_chart, transaction_chart
from toolfold_diagrams.text import identifier

CODE = import_module("toolfold_diagrams.transaction")


def key(state: str) -> str:
    return identifier("state", state)


def decoded(text: str) -> str:
    return re.sub(r"#(\d+);", lambda code: chr(int(code[1])), text)


def mermaid_arrows(picture: Diagram) -> list[tuple[str, str, str]]:
    """The arrows of a state diagram in Mermaid: from, to, and what they are labelled with."""
    found = re.findall(r"^  (\S+) --> (\S+?)(?: : (.*))?$", picture.mermaid or "", re.MULTILINE)
    return [(tail, head, decoded(label)) for tail, head, label in found]


def dot_arrows(drawn: Drawn) -> list[tuple[str, str, str]]:
    """The same of a picture by Graphviz, sorted."""
    arrows = [(tail.replace("initial", "[*]"), head, label_of(edge)) for tail, head, edge in drawn.edges]
    return sorted(arrows)


# The life of a transition


def said(labels: list[str]) -> str:
    return "<br/>".join(labels)


def expected_arrows() -> list[tuple[str, str, str]]:
    """The rows, with what all live states share, and both that run hooks, at the composite ones."""
    found = {("live", "abandoned"): ["lost"], ("running", "going_on"): ["succeeded"]}
    for (state, event), among in LIFE.items():
        for row in among:
            if event != "lost" and (state.partition(".")[0], row.target, event) != ("running", "going_on", "succeeded"):
                label = f"{event} [{row.guard}]" if row.guard else event
                found.setdefault((state, row.target), []).append(label)
    choices = [(key(choice), key(row.target), f"[{row.guard}]") for choice, among in CHOICES.items() for row in among]
    return [*((key(tail), key(head), said(labels)) for (tail, head), labels in found.items()), *choices]


@pytest.mark.spec("DIA-1", "DIA-2", "HOOK-10")
def test_the_arrows_of_the_transition_are_those_of_the_code() -> None:
    picture, expected = transaction_chart(), expected_arrows()
    drawn = Drawn.of(picture.dot)
    ends = [(key(state), "[*]", "") for state in STATES if state not in EFFECTS]
    assert sorted(mermaid_arrows(picture)) == sorted([("[*]", key("new"), ""), *expected, *ends])
    starts = {key("live"): key("going_back"), key("running"): key("running.tearing_down")}
    from_nodes = [(starts.get(tail, tail), head, label) for tail, head, label in expected]
    drawn_arrows = [(tail, head, label.replace("\n", "<br/>")) for tail, head, label in dot_arrows(drawn)]
    assert sorted(drawn_arrows) == sorted([("[*]", key("new"), ""), *from_nodes])
    cut = {label_of(edge): edge["ltail"] for _, _, edge in drawn.edges if "ltail" in edge}
    assert cut == {"lost": f"cluster_{key('live')}", "succeeded": f"cluster_{key('running')}"}


@pytest.mark.spec("DIA-1", "HOOK-10")
def test_what_runs_hooks_is_one_composite_state_within_the_live_one() -> None:
    picture = transaction_chart()
    drawn = Drawn.of(picture.dot)
    inside = {
        cluster["label"]: {name for name, node in drawn.nodes.items() if node["_gvid"] in cluster["nodes"]}
        for cluster in drawn.clusters.values()
    }
    running = {key(state) for state in STATES if state.startswith("running.")}
    assert inside == {"running": running, "live": {key(state) for state in (*EFFECTS, *CHOICES)}}
    (body,) = re.findall(
        r'^    state "running" as state_running \{\n(.*?)\n    \}$', picture.mermaid or "", re.S | re.M
    )
    assert {*re.findall(r"as (\w+)", body)} == running
    assert "-->" not in body


@pytest.mark.spec("DIA-2")
def test_another_row_of_the_life_is_another_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CODE, "LIFE", {**LIFE, ("committed", "news"): (LifeRow("new"),)})
    picture = transaction_chart()
    assert (key("committed"), key("new"), "news") in dot_arrows(Drawn.of(picture.dot))
    assert (key("committed"), key("new"), "news") in mermaid_arrows(picture)


# The region of a group


def joined(arrows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Arrows with the lines of their labels as one."""
    return sorted((tail, head, re.sub(r"\n|<br/>", " ", said)) for tail, head, said in arrows)


def label(event: RegionEvent, row: Row) -> str:
    guard = f" [{row.guard.value}]" if row.guard is not Guard.NONE else ""
    actions = [row.effect.value] * (row.effect is not Effect.NOTHING)
    actions += [f"{emission.event.value} to {emission.to.value}" for emission in row.emits]
    return event.value + guard + (f" / {', '.join(actions)}" if actions else "")


@pytest.mark.spec("DIA-1", "DIA-2")
def test_every_row_of_the_table_is_an_arrow_or_a_line_in_its_state() -> None:
    picture = region_chart()
    drawn = Drawn.of(picture.dot)
    rows = [(state, event, row) for (state, event), found in TABLE.items() for row in found]
    between = [(key(s.value), key(row.target.value), label(e, row)) for s, e, row in rows if row.target is not s]
    initial = [
        ("[*]", key(RegionState.INACTIVE.value), f"[{Guard.ANCESTORS_ACTIVE.value}]"),
        ("[*]", key(RegionState.LOCKED.value), f"[{Guard.ANCESTOR_INACTIVE.value}]"),
    ]
    assert joined(dot_arrows(drawn)) == joined(mermaid_arrows(picture)) == sorted([*initial, *between])
    for state in RegionState:
        inside = [label(event, row) for source, event, row in rows if source is state and row.target is state]
        title, *lines = re.sub(r"<BR[^>]*>", "\n", str(drawn.nodes[key(state.value)]["label"])).split("\n")
        assert state.value in title
        assert [re.sub(r"<[^>]*>", "", line) for line in lines if re.sub(r"<[^>]*>", "", line)] == inside
        (received,) = re.findall(rf'state "(.*)" as {key(state.value)}$', picture.mermaid or "", re.MULTILINE)
        assert decoded(received).split("<br/>")[1:] == inside


@pytest.mark.spec("DIA-2")
def test_another_row_of_the_table_is_another_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {**TABLE, (RegionState.LOCKED, RegionEvent.ACTIVATE): (Row(RegionState.ACTIVE, Effect.SET_UP),)}
    monkeypatch.setattr(CODE, "TABLE", changed)
    assert (key("locked"), key("active"), "activate / set up") in joined(dot_arrows(Drawn.of(region_chart().dot)))


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("picture", [transaction_chart(), region_chart()], ids=["transaction", "region"])
def test_all_texts_are_in_the_rendered_picture(picture: Diagram) -> None:
    shown = squeezed("".join(texts_of(picture.rendered("svg").decode())))
    arrows = [label for _, _, label in joined(mermaid_arrows(picture))]
    assert all(squeezed(label) in shown for label in arrows)
