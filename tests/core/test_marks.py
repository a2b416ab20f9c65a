"""SPEC KIT-8: marked functions registered directly or as a toolkit of one tool, and what is no toolkit."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from tests.core.document_d import kit_of, module_of
from tests.core.support import own, with_groups
from toolfold import (
    DuplicateName,
    InvalidDefinition,
    InvalidName,
    ToolSet,
    Visibility,
    group,
    prompt,
    resource,
    resource_template,
    tool,
)

OBJECT = {"type": "object", "properties": {"n": {"type": "integer"}}}


def function() -> None: ...


# -- marked functions -------------------------------------------------------------------------------------------------


def wiping() -> Any:
    @tool(name="wipe", hidden=True, input=OBJECT, category="Admin", title="Wipe", tags=["slow"])
    def wipe_everything(arguments: dict[str, Any]) -> str:
        """Wipe it."""
        return f"wiped {arguments}"

    return wipe_everything


DIRECTLY: Mapping[str, Callable[[ToolSet, Any], object]] = {
    "bare": lambda tools, function: tools.tool(function),
    "called": lambda tools, function: tools.tool()(function),
    "register": lambda tools, function: tools.register("wipe", function),
    "include": lambda tools, function: tools.include(function),
    "toolkit": lambda tools, function: tools.include(module_of(wipe_everything=function)),
}


@pytest.mark.spec("KIT-8", "KIT-4", "VIS-6")
@pytest.mark.parametrize("way", DIRECTLY)
async def test_a_marked_function_that_is_registered_directly_has_all_options_of_its_mark(way: str) -> None:
    tools = ToolSet("t")
    DIRECTLY[way](tools, wiping())
    assert tools.list_tools().names == ()
    spec = tools.catalog.tools["wipe"]
    assert (spec.hidden, spec.category, spec.title, spec.tags) == (True, "Admin", "Wipe", ("slow",))
    assert (spec.description, spec.input_schema) == ("Wipe it.", OBJECT)
    assert (await tools.call_tool("wipe", {"n": 5})).text == "wiped {'n': 5}"


@pytest.mark.spec("KIT-8", "KIT-4")
def test_the_options_of_a_registration_override_those_of_the_mark() -> None:
    tools = with_groups("a")
    tools.register("a.clear", wiping(), hidden=False, title="Clear")
    tools.tool(wiping(), name="fields", input={"n": "integer"})
    tools.tool("schema", input_schema={"type": "object"})(wiping())
    clear, fields, schema = (own(tools)[name] for name in ("a.clear", "fields", "schema"))
    assert (clear.hidden, clear.title, clear.category, clear.input_schema) == (False, "Clear", "Admin", OBJECT)
    assert (clear.group, clear.rule) == ("a", Visibility.group("a"))
    assert "additionalProperties" in fields.input_schema
    assert (schema.input_schema, schema.hidden) == ({"type": "object"}, True)


@pytest.mark.spec("KIT-8", "KIT-4")
def test_a_registration_overrides_the_group_and_visibility_of_a_mark() -> None:
    tools = with_groups("a", "b", control="none")
    placed = tool(group="a", always=True)(lambda: None)
    tools.register("t", placed)
    tools.register("u", placed, group="b", always=False)
    tools.include(kit_of(v=placed))
    tools.include(kit_of(w=placed), group="b")
    rules = {name: (spec.group, spec.rule) for name, spec in own(tools).items()}
    assert rules == {
        "a.t": ("a", Visibility.always()),
        "b.u": ("b", Visibility.group("b")),
        "a.v": ("a", Visibility.always()),
        "b.w": ("b", Visibility.always()),
    }


@pytest.mark.spec("KIT-8", "REG-9")
async def test_marks_of_prompts_resources_and_templates_apply_too() -> None:
    @prompt(arguments=["topic"], hidden=True, title="Ask")
    def ask(arguments: dict[str, str]) -> str:
        return arguments["topic"]

    @resource("x:ignored", mime_type="text/plain", hidden=True)
    def text() -> str:
        return "text"

    @resource_template("x:{n}", name="numbers")
    def number(arguments: dict[str, str]) -> str:
        return arguments["n"]

    tools = ToolSet("t")
    asked = tools.register_prompt("ask", ask, title="Ask me")
    read = tools.register_resource("x:text", text)
    template = tools.register_resource_template("y:{n}", number)
    assert (asked.hidden, asked.title, asked.definition["arguments"]) == (
        True,
        "Ask me",
        [{"name": "topic", "required": True}],
    )
    assert (read.name, read.hidden, read.definition["mimeType"]) == ("x:text", True, "text/plain")
    assert (template.name, template.definition["name"]) == ("y:{n}", "numbers")
    session = tools.default_session
    assert (await session.read("y:5"))["contents"][0]["text"] == "5"


@pytest.mark.spec("KIT-8", "KIT-1")
async def test_a_bound_method_is_registered_with_its_mark() -> None:
    class Counter:
        count = 0

        @tool(name="bump", title="Bump")
        def increase(self, by: int = 1) -> int:
            self.count += by
            return self.count

    tools = ToolSet("t")
    tools.tool(Counter().increase)
    assert own(tools)["bump"].title == "Bump"
    assert (await tools.call_tool("bump", {"by": 2})).text == "2"


@pytest.mark.spec("KIT-8", "REG-1")
@pytest.mark.parametrize(
    ("register", "kind"),
    [
        (lambda tools, function: tools.tool(function), "tool"),
        (lambda tools, function: tools.register("p", function), "tool"),
        (lambda tools, function: tools.register_resource("x:p", function), "resource"),
        (lambda tools, function: tools.register_resource_template("x:{p}", function), "resource template"),
    ],
    ids=["tool", "register", "resource", "template"],
)
def test_a_function_that_is_marked_as_another_kind_is_refused(
    register: Callable[[ToolSet, Any], object], kind: str
) -> None:
    @prompt
    def p() -> str:
        return ""

    tools = ToolSet("t")
    with pytest.raises(InvalidDefinition, match=f"p is marked as a prompt, and can't be registered as a {kind}"):
        register(tools, p)
    assert not own(tools)


# -- toolkits of one tool ---------------------------------------------------------------------------------------------


def single() -> list[Any]:
    @tool(description="Of the mark", hidden=True)
    def weather(city: str) -> str:
        return city

    return [kit_of(weather=weather), module_of(weather=weather), weather]


@pytest.mark.spec("KIT-8", "KIT-4")
@pytest.mark.parametrize("number", range(3), ids=["class", "module", "function"])
def test_name_and_description_apply_to_a_toolkit_of_one_tool(number: int) -> None:
    """Document D, last note: registration overrides of name and description apply where there is a single tool."""
    tools = ToolSet("t")
    tools.include(single()[number], name="forecast", description="Of the registration", title="Forecast")
    (spec,) = own(tools).values()
    assert (spec.name, spec.description, spec.title) == ("forecast", "Of the registration", "Forecast")
    assert (spec.hidden, list(spec.input_schema["properties"])) == (True, ["city"])


@pytest.mark.spec("KIT-8", "KIT-4", "REG-1")
def test_name_and_description_are_refused_elsewhere_with_the_reason() -> None:
    plain = tool(lambda: None)

    @group
    class Database:
        @tool
        def insert(self) -> None: ...

    class Asking:
        @prompt
        def ask(self) -> str:
            return ""

    tools = ToolSet("t")
    before = tools.catalog
    refused: list[tuple[Any, str, str]] = [
        (
            kit_of(one=plain, two=plain),
            "name",
            "'Kit'.* name is an option of one tool, and it declares Kit.one, Kit.two: ",
        ),
        (kit_of(one=plain, two=prompt(lambda: "")), "description", "it declares Kit.one, Kit.two"),
        (
            Database(),
            "name",
            "'Database'.* name is an option of one tool, and it is a group: say it of the group or of",
        ),
        (Asking(), "input", "input is an option of one tool, and it declares a prompt"),
    ]
    for kit, option, problem in refused:
        with pytest.raises(InvalidDefinition, match=problem):
            tools.include(kit, **cast("Any", {option: "x"}))
    assert tools.catalog is before


# -- what is included -------------------------------------------------------------------------------------------------


@pytest.mark.spec("KIT-7", "KIT-8", "REG-1", "ERR-2")
def test_a_wrong_declaration_of_a_group_is_refused_naming_what_and_where() -> None:
    class Empty: ...

    @group
    def reading() -> Empty:
        return Empty()

    def needing(table: str, row: Any) -> None: ...

    async def later() -> None: ...

    module = types.ModuleType("store")
    vars(module)["read"] = group(lambda: None)
    tools = ToolSet("t")
    before = tools.catalog
    refused: list[tuple[Any, str]] = [
        (
            reading,
            r"'reading' can't be registered: @group marks classes, and methods that return a group: include",
        ),
        (function, "'function' can't be registered: it declares nothing with @tool or @group"),
        (
            module,
            "'store.read' can't be registered: it is marked with @group and returned None, and not an",
        ),
        (kit_of(g=group(staticmethod(reading).__func__)), "'Kit.g'.* and returned <.*Empty object"),
        (kit_of(g=group(lambda: Empty)), "'Kit.g'.* and returned <class .*Empty"),
        (
            kit_of(g=group(needing)),
            r"'Kit.g' .*returns a group when called with nothing, and this one needs \(table",
        ),
        (kit_of(g=group(later)), "'Kit.g' .* and this one is async"),
    ]
    for declared, problem in refused:
        with pytest.raises(InvalidDefinition, match=problem):
            tools.include(declared)
    assert tools.catalog is before


@pytest.mark.spec("REG-1", "REG-4", "NAM-1")
def test_an_invalid_name_is_refused_however_it_is_given() -> None:
    tools: Any = ToolSet("t")
    tools.register("taken", function)
    for wrong, error in (("not a name", InvalidName), ("taken", DuplicateName), (5, InvalidName)):
        with pytest.raises(error):
            tools.register(wrong, function)
        with pytest.raises(error):
            tools.tool(name=wrong)(function)
        with pytest.raises(error):
            tools.include(tool(lambda: None), name=wrong)
