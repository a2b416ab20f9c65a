"""The tree of text: states, tools, exclusions, and a width (SPEC DIA-1, DIA-3)."""

import pytest

from toolfold import Snapshot, ToolSet, TransitionRequest
from toolfold_diagrams import tree


def shop() -> ToolSet:
    tools = ToolSet("shop")
    tools.register_group("orders", "Look at orders")
    tools.register_group("returns", "Take things\nback", parent="orders")
    tools.register_group("refunds", "", parent="orders.returns")
    tools.register_group("stock", "Count what is there")
    tools.register_exclusion("orders.returns", "stock")
    tools.register("ping", lambda: "pong")
    for name in ("find", "count"):
        tools.register(name, lambda: None, group="orders")
    return tools


@pytest.mark.spec("DIA-1", "DIA-3")
def test_each_group_has_a_line_with_its_state_its_tools_and_what_it_excludes() -> None:
    catalog = shop().catalog
    lines = tree(Snapshot.of(catalog).after(TransitionRequest("orders"))).splitlines()
    assert lines == [
        "shop: 4 groups, 1 tool in no group",
        "├─ ● orders · open · 2 tools · Look at orders",
        "│  └─ ○ returns · 0 tools · excludes stock · Take things back",
        "│     └─ ◌ refunds · locked · 0 tools",
        "└─ ○ stock · 0 tools · excludes orders.returns · Count what is there",
        "● open   ○ closed   ◌ locked: a group above it is not open",
    ]


@pytest.mark.spec("DIA-3")
async def test_a_session_is_drawn_in_its_current_state() -> None:
    async with shop().open_session() as session:
        before = tree(session)
        await session.activate("stock")
        assert "○ stock" in before
        assert "● stock · open" in tree(session)


@pytest.mark.spec("DIA-1")
def test_lines_are_cut_to_the_width_and_a_tree_without_groups_has_no_legend() -> None:
    lines = tree(shop(), width=24).splitlines()
    assert lines[1] == "├─ ○ orders · 2 tools ·…"
    assert all(len(line) <= 24 for line in lines[1:-1])
    assert tree(ToolSet("empty")) == "empty: 0 groups, 0 tools in no group\n"


@pytest.mark.spec("DIA-1")
def test_a_description_can_not_break_the_tree_or_the_terminal() -> None:
    tools = ToolSet("odd")
    tools.register_group("end", "a\x1b[31mb\u202ec\r\n└─ ● fake")
    assert tree(tools).splitlines()[1] == "└─ ○ end · 0 tools · a[31mbc └─ ● fake"
