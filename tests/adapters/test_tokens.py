"""What lists cost, before and after."""

from __future__ import annotations

from typing import Any, cast

import pytest

from toolfold import ToolSet, Visibility
from toolfold._toolset.options import ToolOptions
from toolfold_adapters.tokens import approximate_tokens, cost, measure, rounded, saved_percent

OBJECT = {"type": "object", "properties": {}}
NOW = Visibility.when(lambda view: True)


async def answer() -> str:
    return ""


def desk(**options: Any) -> ToolSet:
    tools = ToolSet("desk", **options)
    tools.register_group("outer", "The outer group")
    tools.register_group("outer.inner", "The inner group")
    tools.register("free", answer, description="In no group", input_schema=OBJECT)
    tools.register("first", answer, description="One", input_schema=OBJECT, group="outer")
    tools.register("second", answer, description="Two", input_schema=OBJECT, group="outer")
    tools.register("third", answer, description="Three", input_schema=OBJECT, group="outer.inner")
    tools.register("secret", answer, description="Never listed", input_schema=OBJECT, group="outer", hidden=True)
    return tools


def definition(tools: ToolSet, name: str) -> dict[str, Any]:
    return dict(tools.catalog.tools[name].definition)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("größe", 2)])
def test_a_text_costs_a_quarter_of_its_characters_rounded_up(text: str, tokens: int) -> None:
    assert approximate_tokens(text) == tokens


@pytest.mark.parametrize(
    ("value", "compact"),
    [({"a": [1, 2.5, None], "b": True}, '{"a":[1,2.5,null],"b":true}'), (["größe"], '["größe"]'), (7, "7")],
)
def test_any_other_value_costs_as_much_as_its_compact_json(value: object, compact: str) -> None:
    assert approximate_tokens(value) == approximate_tokens(compact)


def test_specs_cost_as_much_as_their_definitions() -> None:
    tools = desk()
    specs = [tools.catalog.tools["free"], tools.catalog.tools["outer.first"]]
    definitions = [definition(tools, "free"), definition(tools, "outer.first")]
    assert cost(specs) == sum(map(approximate_tokens, definitions))
    assert cost([]) == 0


@pytest.mark.spec("GWY-5")
async def test_before_counts_all_tools_of_each_group_and_after_those_listed() -> None:
    tools = desk()
    async with tools.open_session() as session:
        root, outer, inner = measure(session.view()).groups
    assert [group.path for group in (root, outer, inner)] == [None, "outer", "outer.inner"]
    assert (root.tools, outer.tools, inner.tools) == (1, 2, 1)
    assert (root.listed, outer.listed, inner.listed) == (1, 2, 2)
    assert root.before == root.after == approximate_tokens(definition(tools, "free"))
    assert outer.before == cost(tools.catalog.tools[f"outer.{name}"] for name in ("first", "second"))
    assert outer.after == cost(tools.catalog.tools[f"outer.{name}"] for name in ("activate", "deactivate"))


@pytest.mark.spec("GWY-5")
async def test_opening_a_group_adds_its_tools_to_after_and_nothing_to_before() -> None:
    tools = desk(control="none")
    async with tools.open_session() as session:
        closed = measure(session.view())
        await session.activate("outer")
        opened = measure(session.view())
    assert closed.before == opened.before
    assert opened.after == closed.after + closed.groups[1].before
    assert (closed.tools, closed.listed, opened.listed) == (4, 1, 3)


async def test_a_loader_counts_among_the_tools_in_no_group() -> None:
    tools = desk(control="load_tool_group")
    async with tools.open_session() as session:
        root = measure(session.view()).groups[0]
    assert (root.tools, root.listed) == (1, 2)
    assert root.after == cost(tools.catalog.tools[name] for name in ("free", "load_tool_group"))


@pytest.mark.parametrize(("before", "after", "percent"), [(200, 50, 75.0), (3, 2, 33.3), (10, 15, -50.0), (0, 9, 0.0)])
def test_savings_are_a_percentage_with_one_decimal(before: int, after: int, percent: float) -> None:
    assert saved_percent(before, after) == percent


@pytest.mark.spec("GWY-5", "VIS-6")
async def test_a_hidden_tool_counts_like_one_that_is_not_available() -> None:
    counted: list[tuple[int, int]] = []
    for options in ({"hidden": NOW}, {"visibility": ~NOW}, {"hidden": True}):
        tools = ToolSet("t", control="none")
        tools.register("plain", lambda: "")
        tools.register("other", lambda: "", **cast("ToolOptions", options))
        costs = measure(tools.default_session.view())
        counted.append((costs.tools, costs.listed))
    assert counted == [(2, 1), (2, 1), (1, 1)]


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (7, "7"),
        (947, "950"),
        (12_345, "12,000"),
        (999_999, "1 million"),
        (1_234_567, "1.2 million"),
        (123_456_789, "120 million"),
        (2_345_678_901, "2.3 billion"),
    ],
)
def test_a_rounded_number_has_two_digits_that_count(number: int, text: str) -> None:
    assert rounded(number) == text
