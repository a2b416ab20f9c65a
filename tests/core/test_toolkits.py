"""SPEC KIT-1 to KIT-5: document D's toolkits: its tables of options, arities and precedence, row by row.

What a toolkit is as a whole is in test_toolkit_registration.py; the same tables on the wire of both eras are in
tests/adapters/mcp/test_document_d.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from tests.core.document_d import (
    ARITIES,
    CATEGORIES,
    HIDDEN,
    HIDDEN_OPTIONS,
    OBJECT,
    OPTIONS,
    Arities,
    declared,
    include_kit,
    kit_of,
    module_of,
    weekly_report,
)
from toolfold import Component, InvalidDefinition, ToolSet, group, prompt, resource, resource_template, tool, toolkit
from toolfold._toolset.options import ToolOptions


def declared_as(how: str, options: Mapping[str, Any]) -> Component:
    """Return the spec of `server_time`, declared with these options."""
    (spec,) = declared(how, options).catalog.tools.values()
    return spec


@pytest.mark.spec("KIT-1", "KIT-3", "KIT-5")
@pytest.mark.parametrize("how", ["class", "module", "tools.tool", "register"])
@pytest.mark.parametrize(
    ("option", "options", "place", "expected"),
    OPTIONS,
    ids=[f"{number}-{row[0]}" for number, row in enumerate(OPTIONS)],
)
def test_each_option_of_a_decoration_is_in_the_definition(
    option: str, options: dict[str, Any], place: str, expected: Any, how: str
) -> None:
    """Document D, table of options."""
    shown: Any = declared_as(how, options).definition
    for key in place.split("."):
        shown = shown[key]
    assert shown == expected


@pytest.mark.spec("KIT-1", "VIS-6")
@pytest.mark.parametrize("how", ["class", "module", "tools.tool", "register"])
@pytest.mark.parametrize(("options", "hidden"), HIDDEN)
def test_hidden_leaves_a_tool_out_of_lists_and_visible_is_its_opposite(
    options: dict[str, Any], hidden: bool, how: str
) -> None:
    """Document D, table of options, rows `:hidden` and `:visible`; an explicit `hidden` overrides `visible`."""
    assert declared_as(how, options).hidden is hidden


@pytest.mark.spec("KIT-1")
def test_tags_are_not_on_the_wire() -> None:
    spec = declared_as("class", {"tags": ["slow", "paid"]})
    assert spec.tags == ("slow", "paid")
    assert "tags" not in str(spec.definition)


@pytest.mark.spec("KIT-1", "KIT-4")
def test_several_marks_merge_and_the_later_applied_wins() -> None:
    """Document D, merging of `@mcp` lines: one set of options, with the later one on conflict."""

    tools = ToolSet("t")
    tools.include(module_of(weekly_report=weekly_report))
    spec = tools.catalog.tools["weekly"]
    assert (spec.description, spec.category, spec.hidden) == ("The report of a week", "Reports", True)
    assert spec.input_schema["properties"] == {"week": {"type": "integer", "minimum": 1, "maximum": 53}}


# -- arities ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("KIT-2")
@pytest.mark.parametrize(("name", "text"), ARITIES)
async def test_a_function_is_called_with_what_it_takes(name: str, text: str) -> None:
    """Document D, table of arities: 0, 1 and 2."""
    tools = ToolSet("t")
    tools.include(Arities())
    assert (await tools.call_tool(name, {"n": 1})).text == text


@pytest.mark.spec("KIT-2")
def test_a_function_that_takes_three_is_an_error_at_decoration() -> None:
    """Document D, compile-time validation: arity above 2; by every way of declaring it."""
    refusal = (
        "^'three' can't be registered: its handler must take nothing, the arguments, or the arguments and the context"
    )

    def three(first: Any, second: Any, third: Any) -> None: ...

    tools = ToolSet("t")
    for decorate in (
        tool(input=OBJECT),
        tools.tool(input=OBJECT),
        prompt(),
        resource("x:1"),
        resource_template("x:{v}"),
        lambda function: tools.register("three", function, input={}),
    ):
        with pytest.raises(InvalidDefinition, match=refusal):
            decorate(three)
    with pytest.raises(InvalidDefinition, match=refusal):

        class Kit:
            @tool(input=OBJECT)
            def three(self, first: Any, second: Any, third: Any) -> None: ...

    unbound = tool(input=OBJECT)(Taking.three)  # of a class: one more may be the instance
    with pytest.raises(InvalidDefinition, match=refusal):
        tools.include(kit_of(three=unbound))
    assert not tools.catalog.tools


class Taking:
    @staticmethod
    def three(first: Any, second: Any, third: Any) -> None: ...


# -- precedence -------------------------------------------------------------------------------------------------------


def precedence(default: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any], how: str) -> Component:
    """Return the spec of a tool with options of its toolkit, its mark and its registration."""
    tools = ToolSet("t")
    include_kit(tools, how, default, own, given)
    return tools.catalog.tools["t"]


@pytest.mark.spec("KIT-4")
@pytest.mark.parametrize("how", ["class", "module"])
@pytest.mark.parametrize(("default", "own", "given", "category"), CATEGORIES)
def test_the_category_of_the_registration_overrides_the_tools_which_overrides_the_toolkits(
    default: str | None, own: str | None, given: str | None, category: str | None, how: str
) -> None:
    """Document D, category metadata: the most specific of toolkit, tool and registration wins."""
    spec = precedence({"category": default}, {"category": own}, {"category": given}, how)
    assert spec.category == category
    assert spec.definition.get("_meta") == (None if category is None else {"category": category})


@pytest.mark.spec("KIT-4", "VIS-6")
@pytest.mark.parametrize(("given", "registration"), HIDDEN_OPTIONS)
@pytest.mark.parametrize(("own", "mark"), HIDDEN_OPTIONS)
@pytest.mark.parametrize(("default", "kit"), HIDDEN_OPTIONS)
def test_hidden_of_the_registration_overrides_the_tools_which_overrides_the_toolkits(
    default: dict[str, bool],
    kit: bool | None,
    own: dict[str, bool],
    mark: bool | None,
    given: dict[str, bool],
    registration: bool | None,
) -> None:
    """Document D, hidden tools: the registration overrides in either direction; then the tool, then the toolkit."""
    expected = next((value for value in (registration, mark, kit) if value is not None), False)
    assert [precedence(default, own, given, how).hidden for how in ("class", "module")] == [expected, expected]


@pytest.mark.spec("KIT-4", "KIT-7")
def test_a_group_inside_a_toolkit_inherits_the_options_that_it_does_not_set() -> None:
    @toolkit(hidden=True)
    class Inner:
        @tool
        def t(self) -> None: ...

    @toolkit(category="Outer")
    class Outer:
        @group
        def inner(self) -> Inner:
            return Inner()

    tools = ToolSet("t")
    tools.include(Outer())
    spec = tools.catalog.tools["inner.t"]
    assert (spec.category, spec.hidden) == ("Outer", True)


@pytest.mark.spec("KIT-4")
@pytest.mark.parametrize(
    "option",
    ["name", "title", "description", "input", "output", "input_schema", "output_schema"],
)
def test_options_of_a_single_tool_are_refused_for_a_toolkit(option: str) -> None:
    """Document D, last note: `:name` and `:description` are ambiguous for a toolkit and raise."""
    tools = ToolSet("t")
    with pytest.raises(InvalidDefinition, match=f"'Arities' can't be registered: {option} is an option of one tool"):
        tools.include(Arities(), **cast("ToolOptions", {option: "x"}))
    assert not tools.catalog.tools
