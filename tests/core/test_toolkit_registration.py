"""SPEC KIT-4, REG-9: a toolkit as a whole, registered at once with all that it declares, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.core.document_d import Arities, Desk, kit_of, module_of
from tests.core.support import with_groups
from toolfold import (
    DuplicateName,
    InvalidDefinition,
    ToolNotFound,
    ToolSet,
    prompt,
    resource,
    resource_template,
    tool,
)


@pytest.mark.spec("KIT-4", "REG-9")
async def test_a_toolkit_registers_tools_prompts_resources_and_templates_at_once() -> None:
    """Document D, hidden tools: also prompts, resources and templates are left out of lists and used by name."""
    tools = ToolSet("t")
    tools.include(Desk("Ada"))
    session = tools.default_session
    listed = {kind: session.list(kind).names for kind in ("tool", "prompt", "resource", "resource_template")}
    assert listed == {
        "tool": ("who",),
        "prompt": ("greet",),
        "resource": (),
        "resource_template": ("desk://drawers/{number}",),
    }
    assert (await session.call("who")).text == "Ada"
    assert (await session.get_prompt("ask", {"topic": "tea"}))["messages"][0]["content"]["text"].startswith("Ada, ")
    assert (await session.read("desk://owner"))["contents"][0]["text"] == "Ada"
    assert (await session.read("desk://drawers/2"))["contents"][0]["text"] == "drawer 2 of Ada"
    components = tools.catalog.components
    assert components["prompt"].by_name["ask"].description == "Ask about a topic."
    assert components["resource"].by_name["desk://owner"].definition["name"] == "owner_of"
    assert components["resource_template"].by_name["desk://drawers/{number}"].definition["name"] == "drawer"


@pytest.mark.spec("KIT-4", "REG-9")
async def test_a_registration_puts_a_toolkit_into_a_group_and_overrides_its_options() -> None:
    """Document D, precedence at the registration: it applies to every tool of the toolkit."""
    tools = with_groups("desk", control="none")
    tools.include(Desk("Ada"), group="desk", visible=True, category="Given", tags=["given"], meta={"x": 1})
    session = tools.default_session
    with pytest.raises(ToolNotFound):
        await session.call("desk.who")
    await session.activate("desk")
    assert session.list("tool").names == ("desk.who",)
    assert session.list("prompt").names == ("desk.ask", "desk.greet")
    assert session.list("resource").names == ("desk://owner",)
    spec = tools.catalog.tools["desk.who"]
    assert (spec.category, spec.tags, spec.definition["_meta"]) == ("Given", ("given",), {"x": 1, "category": "Given"})
    assert session.list("resource").items[0].definition["_meta"] == {"x": 1}


@pytest.mark.spec("KIT-4", "NAM-5")
def test_names_of_a_toolkit_can_stay_unqualified_in_a_group() -> None:
    tools = with_groups("desk", control="none")
    tools.include(Desk("Ada"), group="desk", flat=True)
    assert list(tools.catalog.tools) == ["who"]
    assert sorted(tools.catalog.components["prompt"].by_name) == ["ask", "greet"]


@pytest.mark.spec("KIT-4", "REG-1")
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "resource template"])
def test_two_functions_with_the_same_name_are_refused_naming_both(kind: str) -> None:
    """Document D, compile-time validation: two tools of one wire name within a toolkit."""
    marks: Mapping[str, Callable[[], Callable[..., Any]]] = {
        "tool": lambda: tool(name="same"),
        "prompt": lambda: prompt(name="same"),
        "resource": lambda: resource("x:same"),
        "resource template": lambda: resource_template("x:{same}"),
    }

    def function(first: Any = None) -> str:
        return ""

    def other(first: Any = None) -> str:
        return ""

    kit = kit_of(first=tool(lambda: ""), one=marks[kind]()(function), two=marks[kind]()(other))
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=rf"'Kit'.* Kit\.one and Kit\.two would both be the {kind} '\S*same"):
        tools.include(kit)
    assert tools.catalog is before


@pytest.mark.spec("KIT-4", "REG-1", "REG-4")
def test_a_toolkit_with_a_name_that_is_taken_is_refused_as_a_whole() -> None:
    tools = ToolSet("t")
    tools.register("who", lambda: "another")
    before = tools.catalog
    with pytest.raises(DuplicateName, match="'who'"):
        tools.include(Desk("Ada"))
    assert tools.catalog is before


@pytest.mark.spec("KIT-4", "KIT-7")
def test_two_instances_of_a_toolkit_can_be_in_two_groups_unless_they_have_the_same_uris() -> None:
    tools = ToolSet("t")
    for name in ("east", "west"):
        tools.register_group(name)
    tools.include(Desk("Ada"), group="east")
    with pytest.raises(DuplicateName, match="desk://"):
        tools.include(Desk("Bob"), group="west")
    tools.include(Arities(), group="east")
    tools.include(Arities(), group="west")
    assert {"east.who", "east.one", "west.one"} <= tools.catalog.tools.keys()


@pytest.mark.spec("KIT-4")
@pytest.mark.parametrize(
    ("declaration", "match"),
    [
        (
            {"name": "x"},
            r"'kit' can't be registered: its __toolkit__ has the unknown option 'name' \(the options are",
        ),
        (["Files"], "'kit' can't be registered: its __toolkit__ must be a mapping"),
        ({"category": 5}, "'t' can't be registered: its category is int"),
    ],
)
def test_a_toolkit_with_a_wrong_declaration_is_refused_by_name(declaration: Any, match: str) -> None:
    with pytest.raises(InvalidDefinition, match=match):
        ToolSet("t").include(module_of(t=tool(lambda: None), __toolkit__=declaration))


@pytest.mark.spec("KIT-1")
def test_a_function_can_not_be_marked_as_two_kinds() -> None:
    @prompt
    def p() -> str:
        return ""

    with pytest.raises(InvalidDefinition, match="'p' can't be registered: it is marked as a prompt already"):
        tool(p)
