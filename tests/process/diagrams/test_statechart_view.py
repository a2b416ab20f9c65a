"""The statechart view: regions, arrows and highlights are those of the description that is exported too."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statemachine.io import load

from tests.core.charts import FOUR, chart_of, desk, odd
from tests.diagrams.support import Drawn, dot, forest, hostile, somewhere, states, texts_of
from toolfold import Catalog, ConfigError, Snapshot, ToolSet
from toolfold.machine.statechart import to_scxml, to_xstate
from toolfold_diagrams import statechart
from toolfold_diagrams.text import identifier


def hooked(max_active: int | None = None) -> ToolSet:
    """A nested group with hooks that another one excludes, so that there are a guard and actions."""
    tools = ToolSet("hooked", control="none", max_active=max_active)
    tools.register_group("repo", title="Repository")
    tools.register_group("prod", parent="repo", on_activate=print, on_deactivate=print)
    tools.register_group("chat", on_deactivate=print)
    tools.register_exclusion("repo.prod", "chat")
    return tools


def arrows(drawn: Drawn) -> dict[tuple[str, str], list[str]]:
    """The lines of the labels of the arrows between states."""
    found: dict[tuple[str, str], list[str]] = {}
    for tail, head, edge in drawn.edges:
        if edge.get("class") == "transition":
            found[tail, head] = [each["text"].strip() for each in edge["_ldraw_"] if each["op"] == "T"]
    return found


def described(catalog: Catalog) -> dict[tuple[str, str], list[str]]:
    """The same from the description, without what the actions run."""
    found: dict[tuple[str, str], list[str]] = {}
    for region in chart_of(catalog).walk():
        for each in region.transitions:
            ends = identifier(each.source.value, each.group), identifier(each.target.value, each.group)
            guard = f" [{each.guard} active]" if each.guard else ""
            found.setdefault(ends, []).append(f"{each.event}{guard} / {each.effect.value}")
    return found


@pytest.mark.spec("DIA-1", "DIA-2")
@pytest.mark.parametrize("catalog", [desk(), *FOUR[::40], ToolSet("empty").catalog])
def test_the_arrows_are_the_transitions_with_event_guard_and_action(catalog: Catalog) -> None:
    drawn = Drawn.of(statechart(catalog).dot)
    assert arrows(drawn) == described(catalog)
    assert len(drawn.joined("initial")) == len(catalog.groups)


@pytest.mark.spec("DIA-1", "HOOK-1")
def test_a_guard_and_the_hooks_that_run_are_in_the_label() -> None:
    received = arrows(Drawn.of(statechart(hooked()).dot))
    assert received["active_chat", "inactive_chat"] == [
        "deactivate:chat / tear down, on_deactivate()",
        "activate:repo:prod [repo active] / tear down,",
        "on_deactivate()",
    ]
    assert received["inactive_repo_dprod", "active_repo_dprod"] == ["activate:repo:prod / set up, on_activate()"]
    assert received["inactive_repo", "active_repo"] == ["activate:repo / set up"]


@pytest.mark.spec("DIA-1", "DIA-2")
def test_regions_are_boxes_and_those_of_children_are_inside_of_active() -> None:
    drawn = Drawn.of(statechart(desk()).dot)
    names = {each["_gvid"]: name for name, each in drawn.clusters.items()}
    inside = {name: {names[one] for one in each.get("subgraphs", [])} for name, each in drawn.clusters.items()}
    for region in chart_of(desk()).walk():
        box = f"cluster_{identifier('region', region.group)}"
        active = f"cluster_{identifier('active', region.group)}"
        assert inside[box] == ({active} if region.children else set())
        if region.children:
            children = {f"cluster_{identifier('region', child.group)}" for child in region.children}
            assert inside[active] == children
            assert "dashed" not in drawn.clusters[active]["style"]
        assert "dashed" in drawn.clusters[box]["style"]


@pytest.mark.spec("DIA-1")
def test_arrows_to_a_state_with_regions_end_at_its_border() -> None:
    edges = {(tail, head): edge for tail, head, edge in Drawn.of(statechart(desk()).dot).edges}
    assert edges["inactive_repo", "active_repo"]["lhead"] == "cluster_active_repo"
    assert edges["active_repo", "inactive_repo"]["ltail"] == "cluster_active_repo"
    assert "lhead" not in edges["inactive_repo_dprod", "active_repo_dprod"]


@pytest.mark.spec("DIA-1", "DIA-3")
@pytest.mark.parametrize("seed", range(6))
def test_the_current_state_of_every_region_is_highlighted_and_a_locked_one_has_none(seed: int) -> None:
    snapshot = somewhere(forest(10, seed=seed).catalog, seed)
    drawn = Drawn.of(statechart(snapshot).dot)
    boxes = {**drawn.nodes, **{name.removeprefix("cluster_"): each for name, each in drawn.clusters.items()}}
    current = {each["id"] for each in boxes.values() if each.get("class") == "state current"}
    received = states(snapshot)
    assert current == {identifier(state, path) for path, state in received.items() if state != "locked"}
    assert {path: boxes[identifier("region", path)]["class"] for path in received} == {
        path: f"region {state}" for path, state in received.items()
    }
    marked = {key for key in current if any(each.get("text", " ")[0] in "●○" for each in boxes[key]["_ldraw_"])}
    assert marked == current
    text = statechart(snapshot).mermaid or ""
    classes = [line.removeprefix("  class ").split() for line in text.splitlines() if line.startswith("  class ")]
    assert dict(classes) == {identifier(state, path): state for path, state in received.items() if state != "locked"}


@pytest.mark.spec("DIA-3")
async def test_the_state_of_a_session_is_drawn_and_a_tool_set_has_nothing_active() -> None:
    tools = hooked()
    async with tools.open_session(active=["repo"]) as session:
        drawn = Drawn.of(statechart(session).dot)
        assert drawn.clusters["cluster_active_repo"]["class"] == "state current"
        assert statechart(session) == statechart(session.snapshot) != statechart(tools)
    assert statechart(tools) == statechart(tools.catalog)


# The recipe for Mermaid


@pytest.mark.spec("DIA-1")
@pytest.mark.parametrize("catalog", [desk(), odd(), hostile().catalog])
def test_arrows_of_mermaid_connect_only_leaves_and_no_regions_are_separated_by_lines(catalog: Catalog) -> None:
    text = statechart(catalog, limit=100).mermaid or ""
    lines = [line.strip() for line in text.splitlines()]
    composites = {line.split(" as ")[1].removesuffix(" {") for line in lines if line.endswith("{")}
    ends = {end for line in lines if " --> " in line for end in line.partition(" : ")[0].split(" --> ")} - {"[*]"}
    assert len(ends) == 2 * len(catalog.groups)
    assert not ends & composites
    assert "--" not in lines
    assert text.count("{") == text.count("}") == len(composites)


# Limits


@pytest.mark.spec("DIA-1")
def test_more_groups_than_can_be_read_are_refused_unless_the_limit_is_raised() -> None:
    assert len(Drawn.of(statechart(forest(15)).dot).joined("initial")) == 15
    with pytest.raises(ConfigError, match=r"16 groups.*more than 15.*structure view, or raise the limit"):
        statechart(forest(16))
    assert len(Drawn.of(statechart(forest(16), limit=16).dot).joined("initial")) == 16


@pytest.mark.spec("DIA-1", "ACT-10")
def test_a_limit_on_active_groups_is_a_note_and_there_are_no_exports() -> None:
    limited, free = statechart(hooked(max_active=1)), statechart(hooked())
    assert (limited.scxml, limited.xstate) == (None, None)
    assert "At most 1 group may be" in " ".join(texts_of(dot(limited.dot, "svg")))
    assert "At most 1 group may be" in (limited.mermaid or "")
    assert ":note" not in Drawn.of(free.dot).nodes
    assert free.scxml


# Exports


@pytest.mark.spec("DIA-1", "CNF-6")
def test_the_exports_are_those_of_the_core_in_files_that_end_with_a_line() -> None:
    picture = statechart(desk())
    assert picture.scxml == to_scxml(chart_of(desk()))
    assert json.loads(picture.xstate or "") == to_xstate(chart_of(desk()))
    assert (picture.xstate or "").endswith("}\n")
    machine = load(picture.scxml or "", format="scxml")()
    machine.send("activate:repo")
    assert "active.repo" in {str(state) for state in machine.configuration_values}


# Texts


@pytest.mark.spec("DIA-1", "NAM-1")
def test_odd_names_and_hostile_titles_do_not_break_the_picture() -> None:
    for catalog in (odd(), hostile().catalog):
        picture = statechart(Snapshot.of(catalog), limit=100)
        assert len(Drawn.of(picture.dot).joined("initial")) == len(catalog.groups)
        assert texts_of(dot(picture.dot, "svg"))


@pytest.mark.spec("DIA-1")
@settings(max_examples=12, deadline=None)
@given(st.text(max_size=40), st.text(max_size=40))
def test_any_title_and_name_of_a_tool_set_can_be_drawn(name: str, title: str) -> None:
    title = title.encode(errors="ignore").decode()  # a registration refuses lone surrogates
    tools = ToolSet(name, control="none")
    tools.register_group("group", title=title)
    assert texts_of(dot(statechart(tools).dot, "svg"))
