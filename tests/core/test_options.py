"""SPEC KIT-8: decorators bare and called, and invalid options; marked functions are in test_marks.py.

That type checkers find the same mistakes is in tests/typing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import pytest

from tests.core.document_d import kit_of
from tests.core.support import own
from toolfold import (
    InvalidDefinition,
    ToolSet,
    Visibility,
    group,
    prompt,
    resource,
    resource_template,
    tool,
    toolkit,
)

# -- bare and called --------------------------------------------------------------------------------------------------


@pytest.mark.spec("KIT-8", "KIT-1")
async def test_a_function_is_registered_by_the_decorator_bare_called_named_or_with_options() -> None:
    tools = ToolSet("t")

    @tools.tool
    def bare(number: int) -> int:
        """Add one."""
        return number + 1

    @tools.tool()
    def called() -> None: ...

    @tools.tool("positional", title="Title")
    def first() -> None: ...

    @tools.tool(name="keyword", category="Files")
    def second() -> None: ...

    def later() -> None: ...

    assert tools.tool(later, name="direct", hidden=True) is later
    assert own(tools).keys() == {"bare", "called", "positional", "keyword", "direct"}
    assert own(tools)["bare"].description == "Add one."
    assert (own(tools)["positional"].title, own(tools)["keyword"].category) == ("Title", "Files")
    assert own(tools)["direct"].hidden is True
    assert bare(1) == 2
    assert (await tools.call_tool("bare", {"number": 1})).text == "2"


@pytest.mark.spec("KIT-8", "REG-9")
async def test_prompts_resources_and_templates_are_registered_by_decorators_too() -> None:
    tools = ToolSet("t")

    @tools.prompt
    def bare() -> str:
        """Ask."""
        return "asked"

    @tools.prompt("named", arguments=["topic"])
    def second(arguments: dict[str, str]) -> str:
        return arguments["topic"]

    @tools.resource("x:today", mime_type="text/plain")
    def today() -> str:
        return "Monday"

    @tools.resource("x:marked")
    @resource("x:ignored", name="of the mark", hidden=True)
    def marked() -> str:
        return ""

    @tools.resource_template("x:day/{n}", name="days", title="Days")
    def day(arguments: dict[str, str]) -> str:
        return arguments["n"]

    assert (bare(), second({"topic": "x"}), today(), day({"n": "1"})) == ("asked", "x", "Monday", "1")
    components = tools.catalog.components
    assert components["prompt"].by_name.keys() == {"bare", "named"}
    assert components["prompt"].by_name["bare"].description == "Ask."
    named = {uri: one.definition["name"] for uri, one in components["resource"].by_name.items()}
    assert named == {"x:today": "today", "x:marked": "of the mark"}
    assert components["resource"].by_name["x:marked"].hidden is True
    assert components["resource_template"].by_name["x:day/{n}"].definition["name"] == "days"
    assert (await tools.default_session.read("x:day/5"))["contents"][0]["text"] == "5"


@pytest.mark.spec("KIT-8", "KIT-7")
def test_marks_are_made_bare_called_named_or_with_options() -> None:
    @group
    class Bare:
        @tool
        def bare(self) -> None: ...

        @tool()
        def called(self) -> None: ...

        @tool("positional", title="Title")
        def first(self) -> None: ...

        @prompt
        def asked(self) -> str:
            return ""

        @prompt("named")
        def second(self) -> str:
            return ""

        @group
        def inner(self) -> Inner:
            return Inner()

        @group("other", title="Other")
        def also_inner(self) -> Inner:
            return Inner()

    @group("within")
    @toolkit
    class Inner:
        @tool(name="t")
        def named(self) -> None: ...

    tools = ToolSet("t", control="none")
    tools.include(Bare())
    assert own(tools).keys() == {"bare.bare", "bare.called", "bare.positional", "bare.within.t", "bare.other.t"}
    assert tools.catalog.components["prompt"].by_name.keys() == {"bare.asked", "bare.named"}


@pytest.mark.spec("KIT-8", "ERR-2")
def test_mistakes_in_the_use_of_decorators_are_refused_by_name() -> None:
    tools = ToolSet("t")
    loose: Any = (tools.tool, tool, prompt, resource, resource_template, toolkit, group)
    tools_tool, tool_, prompt_, resource_, template_, toolkit_, group_ = loose

    class Kind: ...

    def function() -> None: ...

    mistakes: list[tuple[Callable[[], object], str]] = [
        (lambda: tools_tool("one", name="two"), "'one' can't be registered: it is given a second name, 'two'"),
        (lambda: tool_("one", name="two"), "'one' can't be registered: it is given a second name, 'two'"),
        (lambda: tools_tool(5), "'5' can't be registered: it has no name of its own"),
        (lambda: tools_tool(lambda: None), "'<lambda>' can't be registered: it has no name of its own, so give it one"),
        (lambda: tools.resource(cast("Any", function)), "'function'.* a resource is marked with its URI, such as @"),
        (lambda: tool_(Kind), "'Kind' can't be registered: only functions and methods can be tools"),
        *(
            (partial(decorate, len), "'len' can't be registered: only functions and methods can be")
            for decorate in (tool_, prompt_, resource_("x:1"), template_("x:{v}"))
        ),
        (
            lambda: resource_(function),
            r"'function' can't be registered: a resource is marked with its URI, such as @",
        ),
        (lambda: template_(function), r"a resource template is marked with its URI, such as @resource_template"),
        (lambda: toolkit_(function), "'function' can't be registered: only classes can be toolkits; a module says __t"),
        (lambda: group_(5), "'5' can't be registered: only classes and methods can be groups"),
    ]
    for mistake, problem in mistakes:
        with pytest.raises(InvalidDefinition, match=problem):
            mistake()
    assert not own(tools)


# -- unknown options and invalid values --------------------------------------------------------------------------------

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"grup": "a"}, r"it has the unknown option 'grup' \(did you mean 'group'\?\)\.$"),
    (
        {"outputs": {}},
        r"it has the unknown option 'outputs' \(did you mean 'output' or 'output_schema' or",
    ),
    (
        {"q": 1},
        r"it has the unknown option 'q' \(the options are always, annotations, bounded_by, category, .*, vis",
    ),
    ({"flat": "no"}, "its flat is 'no', and must be true or false"),
    ({"check_arguments": 0}, "its check_arguments is 0, and must be true or false"),
    ({"check_output": 0}, "its check_output is 0, and must be true or false"),
    ({"always": 1}, "its always is 1, and must be true or false"),
    ({"run_in_thread": "yes"}, "its run_in_thread is 'yes', and must be true or false"),
    ({"hidden": "no"}, "its hidden is 'no', and must be true, false or a visibility rule"),
    ({"visible": 0}, "its visible is 0, and must be true, false or a visibility rule"),
    ({"visibility": True}, "True is not a visibility rule"),
    ({"always": True, "visibility": Visibility.group("a")}, "it has both always and visibility: leave one of them out"),
    ({"tags": 5}, "its tags is 5, and must be a list"),
    ({"tags": ["a", 5]}, r"its tags are \['a', 5\], and must be texts"),
    ({"icons": 5}, "its icons is 5, and must be a list"),
]


def function() -> None: ...


def marked(**options: Any) -> Any:
    def made() -> None: ...

    return tool(**options)(made)


WAYS: Mapping[str, Callable[[ToolSet, dict[str, Any]], object]] = {
    "register": lambda tools, options: tools.register("function", function, **options),
    "tools.tool": lambda tools, options: tools.tool(**options)(function),
    "direct": lambda tools, options: tools.tool(function, **options),
    "mark": lambda tools, options: tools.tool(marked(name="function", **options)),
    "include": lambda tools, options: tools.include(kit_of(function=marked(name="function")), **options),
    "catalog tool": lambda tools, options: tools.register_catalog_tool("function", **options),
}


@pytest.mark.spec("KIT-8", "REG-1", "ERR-2")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("options", "problem"), WRONG, ids=[str(options) for options, _ in WRONG])
def test_an_invalid_option_is_refused_naming_tool_and_option_however_it_is_registered(
    way: str, options: dict[str, Any], problem: str
) -> None:
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=problem) as refused:
        WAYS[way](tools, options)
    assert refused.value.name in ("function", "Kit")
    assert tools.catalog is before


@pytest.mark.spec("KIT-8", "REG-9", "ERR-2")
def test_an_option_of_tools_is_unknown_for_other_kinds_and_for_groups() -> None:
    tools: Any = ToolSet("t")
    kinds: list[tuple[Callable[[], object], str]] = [
        (lambda: tools.register_prompt("p", function, categori="x"), "'p'.* the unknown option 'categori'"),
        (lambda: tools.register_prompt("p", function, category="x"), "'p'.* the unknown option 'category'"),
        (lambda: tools.register_prompt("p", function, argumnts=[]), "did you mean 'arguments'"),
        (lambda: tools.register_resource("x:1", function, flat=True), "'x:1'.* the unknown option 'flat'"),
        (lambda: tools.register_resource("x:1", function, mimetype="x"), "did you mean 'mime_type'"),
        (lambda: tools.register_resource_template("x:{n}", function, hiden=True), "did you mean 'hidden'"),
        (
            lambda: tools.register_group("g", tilte="x"),
            r"'g'.* the unknown option 'tilte' \(did you mean 'title'",
        ),
        (lambda: tools.register_group("g", pinned="yes"), "'g'.* its pinned is 'yes', and must be true or false"),
        (lambda: cast("Any", group)(tilte="x")(type("G", (), {})), "'G'.* the unknown option 'tilte'"),
        (lambda: cast("Any", toolkit)(categry="x")(type("K", (), {})), "'K'.* the unknown option 'categry'"),
        (lambda: cast("Any", resource)("x:1", uri="x:2")(function), "'function'.* the unknown option 'uri'"),
    ]
    before = tools.catalog
    for mistake, problem in kinds:
        with pytest.raises(InvalidDefinition, match=problem):
            mistake()
    assert tools.catalog is before


@pytest.mark.spec("KIT-8")
def test_a_single_tag_argument_or_icon_is_accepted_as_a_list() -> None:
    tools = ToolSet("t")
    icon = {"src": "https://example.com/i.png"}
    spec = tools.register("t", function, tags="slow", icons=cast("Any", icon))
    assert (spec.tags, spec.definition["icons"]) == (("slow",), [icon])
    listed = tools.register_prompt("p", lambda arguments: "", arguments="topic").definition["arguments"]
    assert listed == [{"name": "topic", "required": True}]
