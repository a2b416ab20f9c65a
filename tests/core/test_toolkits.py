"""SPEC KIT-1 to KIT-5: toolkits as document D has them: its tables of options, arities and precedence, row by row."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from toolfold import (
    Context,
    DuplicateName,
    InvalidDefinition,
    Profile,
    Spec,
    ToolNotFound,
    ToolSet,
    group,
    prompt,
    resource,
    resource_template,
    tool,
    toolkit,
)

OBJECT: Mapping[str, Any] = {"type": "object"}
ICON = {"src": "https://example.com/i.png"}


def kit_of(**functions: Callable[..., Any]) -> Any:
    """Return an instance of a class `Kit` with these functions as its static methods."""
    return type("Kit", (), {name: staticmethod(function) for name, function in functions.items()})()


def module_of(**contents: Any) -> types.ModuleType:
    """Return a module `kit` with these contents."""
    module = types.ModuleType("kit")
    vars(module).update(contents)
    return module


def declared_as(how: str, options: Mapping[str, Any]) -> Spec:
    """Return the spec of `server_time`, declared with these options: in a class, in a module, or at a tool set."""
    tools = ToolSet("t", control="none")

    def server_time(arguments: Any = None) -> dict[str, Any]:
        """The time."""
        return {}

    if how == "tools.tool":
        tools.tool(**options)(server_time)
    else:
        marked = tool(**options)(server_time)
        tools.include(kit_of(server_time=marked) if how == "class" else module_of(server_time=marked))
    (spec,) = tools.catalog.tools.values()
    return spec


ROWS: list[tuple[str, dict[str, Any], str, Any]] = [
    ("name", {}, "name", "server_time"),
    ("name", {"name": "time"}, "name", "time"),
    ("title", {"title": "Server time"}, "title", "Server time"),
    ("description", {"description": "When asked."}, "description", "When asked."),
    ("description", {}, "description", "The time."),
    ("category", {"category": "Clock"}, "_meta", {"category": "Clock"}),
    ("input", {"input": {"zone": "string"}}, "inputSchema.properties", {"zone": {"type": "string"}}),
    ("input", {"input": OBJECT}, "inputSchema", OBJECT),
    ("input", {"input": '{"type": "object"}'}, "inputSchema", OBJECT),
    ("output", {"output": {"at": "string"}}, "outputSchema.properties", {"at": {"type": "string"}}),
    ("output", {"output": OBJECT}, "outputSchema", OBJECT),
    ("output", {"output": '{"type": "object"}'}, "outputSchema", OBJECT),
    ("input_schema", {"input_schema": OBJECT}, "inputSchema", OBJECT),
    ("input_schema", {"input_schema": '{"type": "object"}'}, "inputSchema", OBJECT),
    ("output_schema", {"output_schema": OBJECT}, "outputSchema", OBJECT),
    ("output_schema", {"output_schema": '{"type": "object"}'}, "outputSchema", OBJECT),
    (
        "annotations",
        {"annotations": {"read_only_hint": True, "destructive_hint": False, "idempotentHint": True}},
        "annotations",
        {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True},
    ),
    ("annotations", {"annotations": {"open_world_hint": False}}, "annotations", {"openWorldHint": False}),
    ("icons", {"icons": [ICON]}, "icons", [ICON]),
    ("meta", {"meta": {"example.org/x": 1}}, "_meta", {"example.org/x": 1}),
    ("meta", {"meta": {"x": 1}, "category": "Clock"}, "_meta", {"x": 1, "category": "Clock"}),
]


@pytest.mark.spec("KIT-1", "KIT-3", "KIT-5")
@pytest.mark.parametrize("how", ["class", "module", "tools.tool"])
@pytest.mark.parametrize(
    ("option", "options", "place", "expected"), ROWS, ids=[f"{number}-{row[0]}" for number, row in enumerate(ROWS)]
)
def test_each_option_of_a_decoration_is_on_the_wire(
    option: str, options: dict[str, Any], place: str, expected: Any, how: str
) -> None:
    """Document D, table of options."""
    shown: Any = declared_as(how, options).definition
    for key in place.split("."):
        shown = shown[key]
    assert shown == expected


@pytest.mark.spec("KIT-1", "VIS-6")
@pytest.mark.parametrize("how", ["class", "module", "tools.tool"])
@pytest.mark.parametrize(
    ("options", "hidden"),
    [
        ({}, False),
        ({"hidden": True}, True),
        ({"hidden": False}, False),
        ({"visible": False}, True),
        ({"visible": True}, False),
        ({"hidden": True, "visible": True}, True),
        ({"hidden": False, "visible": False}, False),
        ({"hidden": None, "visible": None}, False),
    ],
)
def test_hidden_leaves_a_tool_out_of_lists_and_visible_is_its_opposite(
    options: dict[str, Any], hidden: bool, how: str
) -> None:
    """Document D, table of options, rows `:hidden` and `:visible`; an explicit `hidden` goes over `visible`."""
    assert declared_as(how, options).hidden is hidden


@pytest.mark.spec("KIT-1")
def test_tags_are_for_programs_and_not_on_the_wire() -> None:
    spec = declared_as("class", {"tags": ["slow", "paid"]})
    assert spec.tags == ("slow", "paid")
    assert "tags" not in str(spec.definition)


@pytest.mark.spec("KIT-1", "KIT-4")
def test_several_marks_merge_and_the_later_applied_wins() -> None:
    """Document D, merging of `@mcp` lines: one set of options, with the later one on conflict."""

    @tool(category="Reports", visible=False)
    @tool(description="The report of a week", category="Drafts", hidden=False)
    @tool(name="weekly", input={"week": {"type": "integer", "min": 1, "max": 53}})
    def weekly_report(arguments: dict[str, Any]) -> None: ...

    tools = ToolSet("t")
    tools.include(module_of(weekly_report=weekly_report))
    spec = tools.catalog.tools["weekly"]
    assert (spec.description, spec.category, spec.hidden) == ("The report of a week", "Reports", True)
    assert spec.input_schema["properties"] == {"week": {"type": "integer", "minimum": 1, "maximum": 53}}


# -- arities ----------------------------------------------------------------------------------------------------------


class Arities:
    @tool(input={"n": "integer"})
    def none(self) -> str:
        return "nothing"

    @tool(input={"n": "integer"})
    def one(self, arguments: dict[str, Any]) -> list[Any]:
        return [arguments]

    @tool(input={"n": "integer"})
    async def two(self, arguments: dict[str, Any], context: Context) -> list[Any]:
        return [arguments, context.name]

    @staticmethod
    @tool(input={"n": "integer"})
    def of_no_instance(arguments: dict[str, Any], context: Context) -> list[Any]:
        return [arguments, context.name]


@pytest.mark.spec("KIT-2")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("none", "nothing"),
        ("one", '[{"n": 1}]'),
        ("two", '[{"n": 1}, "two"]'),
        ("of_no_instance", '[{"n": 1}, "of_no_instance"]'),
    ],
)
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


@pytest.mark.spec("KIT-2")
def test_what_is_no_function_can_not_be_declared() -> None:
    """Document D, compile-time validation: a mark on anything but a public function."""
    for decorate in (tool(), prompt(), resource("x:1"), resource_template("x:{v}")):
        with pytest.raises(InvalidDefinition, match="only functions and methods"):
            decorate(len)


# -- precedence -------------------------------------------------------------------------------------------------------


def precedence(default: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any], how: str) -> Spec:
    """Return the spec of a tool after what its toolkit, its mark and its registration say."""

    def t() -> None: ...

    marked = tool(**own)(t)
    tools = ToolSet("t")
    kit = module_of(t=marked, __toolkit__=default) if how == "module" else toolkit(**default)(type(kit_of(t=marked)))()
    tools.include(kit, **given)
    return tools.catalog.tools["t"]


@pytest.mark.spec("KIT-4")
@pytest.mark.parametrize("how", ["class", "module"])
@pytest.mark.parametrize(
    ("default", "own", "given", "category"),
    [
        (None, None, None, None),
        ("Utility", None, None, "Utility"),
        (None, "Files", None, "Files"),
        (None, None, "Admin", "Admin"),
        ("Utility", "Files", None, "Files"),
        ("Utility", None, "Admin", "Admin"),
        (None, "Files", "Admin", "Admin"),
        ("Utility", "Files", "Admin", "Admin"),
    ],
)
def test_a_category_of_the_registration_goes_over_the_tools_and_that_over_the_toolkits(
    default: str | None, own: str | None, given: str | None, category: str | None, how: str
) -> None:
    """Document D, category metadata: the most specific of toolkit, tool and registration wins."""
    spec = precedence({"category": default}, {"category": own}, {"category": given}, how)
    assert spec.category == category
    assert spec.definition.get("_meta") == (None if category is None else {"category": category})


SAYINGS: list[tuple[dict[str, bool], bool | None]] = [
    ({}, None),
    ({"hidden": True}, True),
    ({"hidden": False}, False),
    ({"visible": False}, True),
    ({"visible": True}, False),
    ({"hidden": True, "visible": True}, True),
]
"""What one place may say of `hidden`, and what it means."""


@pytest.mark.spec("KIT-4", "VIS-6")
@pytest.mark.parametrize(("given", "registration"), SAYINGS)
@pytest.mark.parametrize(("own", "mark"), SAYINGS)
@pytest.mark.parametrize(("default", "kit"), SAYINGS)
def test_hidden_of_the_registration_goes_over_the_tools_and_that_over_the_toolkits(
    default: dict[str, bool],
    kit: bool | None,
    own: dict[str, bool],
    mark: bool | None,
    given: dict[str, bool],
    registration: bool | None,
) -> None:
    """Document D, hidden tools: the registration overrides in either direction; then the tool, then the toolkit."""
    expected = next((said for said in (registration, mark, kit) if said is not None), False)
    assert [precedence(default, own, given, how).hidden for how in ("class", "module")] == [expected, expected]


@pytest.mark.spec("KIT-4", "KIT-7")
def test_a_group_inside_a_toolkit_takes_over_what_the_toolkit_says_unless_it_says_otherwise() -> None:
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
def test_what_fits_one_tool_alone_is_refused_for_a_toolkit(option: str) -> None:
    """Document D, last note: `:name` and `:description` are ambiguous for a toolkit and raise."""
    tools = ToolSet("t")
    with pytest.raises(InvalidDefinition, match=f"'Arities' can't be registered: {option} is said of one tool"):
        tools.include(Arities(), **{option: "x"})
    assert not tools.catalog.tools


# -- a toolkit as a whole ---------------------------------------------------------------------------------------------


@toolkit(category="Desk", hidden=True)
class Desk:
    def __init__(self, owner: str) -> None:
        self.owner = owner

    @tool(hidden=False)
    def who(self) -> str:
        return self.owner

    @prompt(arguments=["topic"])
    def ask(self, arguments: dict[str, str]) -> str:
        """Ask about a topic."""
        return f"{self.owner}, tell me about {arguments['topic']}."

    @prompt(name="greet", hidden=False)
    def greeting(self) -> str:
        return "Hello."

    @resource("desk://owner", mime_type="text/plain")
    def owner_of(self) -> str:
        return self.owner

    @resource_template("desk://drawers/{number}", name="drawer", visible=True)
    def drawer(self, arguments: dict[str, str], context: Context) -> str:
        return f"drawer {arguments['number']} of {self.owner}"


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
    shelves = tools.catalog.shelves
    assert shelves["prompt"].by_name["ask"].description == "Ask about a topic."
    assert shelves["resource"].by_name["desk://owner"].definition["name"] == "owner_of"
    assert shelves["resource_template"].by_name["desk://drawers/{number}"].definition["name"] == "drawer"


@pytest.mark.spec("KIT-4", "REG-9")
async def test_a_registration_puts_a_toolkit_into_a_group_and_overrules_all_of_it() -> None:
    """Document D, precedence at the registration: it applies to every tool of the toolkit."""
    tools = ToolSet("t", control="none")
    tools.register_group("desk")
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
def test_names_of_a_toolkit_can_stay_as_they_are_in_a_group() -> None:
    tools = ToolSet("t", control="none")
    tools.register_group("desk")
    tools.include(Desk("Ada"), group="desk", flat=True)
    assert list(tools.catalog.tools) == ["who"]
    assert sorted(tools.catalog.shelves["prompt"].by_name) == ["ask", "greet"]


@pytest.mark.spec("KIT-4", "REG-1")
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource", "resource template"])
def test_two_functions_that_would_be_the_same_are_refused_by_both_names(kind: str) -> None:
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
def test_a_toolkit_that_meets_a_name_of_another_is_refused_as_a_whole() -> None:
    tools = ToolSet("t")
    tools.register("who", lambda: "another")
    before = tools.catalog
    with pytest.raises(DuplicateName, match="'who'"):
        tools.include(Desk("Ada"))
    assert tools.catalog is before


@pytest.mark.spec("KIT-4", "KIT-7")
def test_two_instances_of_a_toolkit_fit_into_two_groups_unless_they_have_the_same_uris() -> None:
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
    ("said", "match"),
    [
        (
            {"name": "x"},
            "'kit' can't be registered: its __toolkit__ says 'name', and may say category, hidden, visible",
        ),
        (["Files"], "'kit' can't be registered: its __toolkit__ must be a mapping"),
        ({"category": 5}, "'t' can't be registered: its category is int"),
    ],
)
def test_a_toolkit_that_says_something_wrong_is_refused_by_name(said: Any, match: str) -> None:
    with pytest.raises(InvalidDefinition, match=match):
        ToolSet("t").include(module_of(t=tool(lambda: None), __toolkit__=said))


@pytest.mark.spec("KIT-4")
def test_a_module_that_declares_nothing_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidDefinition, match="'kit' can't be registered: it declares nothing"):
        ToolSet("t").include(module_of())


@pytest.mark.spec("KIT-1")
def test_one_function_is_one_thing() -> None:
    @prompt
    def p() -> str:
        return ""

    with pytest.raises(InvalidDefinition, match="'p' can't be registered: it is marked as a prompt already"):
        tool(p)


@pytest.mark.spec("PRO-3", "KIT-1")
def test_a_read_only_profile_keeps_the_tools_of_a_toolkit_that_say_they_only_read() -> None:
    class Kit:
        @tool(annotations={"read_only_hint": True})
        def read(self) -> None: ...

        @tool(annotations={"read_only_hint": False})
        def write(self) -> None: ...

        @tool
        def silent(self) -> None: ...

    tools = ToolSet("t")
    tools.include(Kit())
    reader = tools.catalog.under(Profile(name="reader", available="*", read_only=True))
    assert list(reader.tools) == ["read"]
