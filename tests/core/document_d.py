"""Document D's tables as data, row by row; tests of the core and of the wire use the same rows."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from toolfold import Context, ToolSet, Visibility, prompt, resource, resource_template, tool, toolkit

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


# -- options ----------------------------------------------------------------------------------------------------------


def declared(how: str, options: Mapping[str, Any]) -> ToolSet:
    """Return a tool set with one tool, `server_time`, declared in a class, in a module, by a decorator or directly."""
    tools = ToolSet("t", control="none")

    def server_time(arguments: Any = None) -> dict[str, Any]:
        """The time."""
        return {}

    if how == "tools.tool":
        tools.tool(**options)(server_time)
    elif how == "register":
        chosen = {"name": "server_time", **options}
        tools.register(chosen.pop("name"), server_time, **chosen)
    else:
        marked = tool(**options)(server_time)
        tools.include(kit_of(server_time=marked) if how == "class" else module_of(server_time=marked))
    return tools


OPTIONS: list[tuple[str, dict[str, Any], str, Any]] = [
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
"""An option, the options of a decoration, a place in the definition, and the value there."""

HIDDEN: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"hidden": True}, True),
    ({"hidden": False}, False),
    ({"visible": False}, True),
    ({"visible": True}, False),
    ({"hidden": True, "visible": True}, True),
    ({"hidden": False, "visible": False}, False),
    ({"hidden": None, "visible": None}, False),
]
"""The options of a decoration, and whether the tool is hidden."""


@tool(category="Reports", visible=False)
@tool(description="The report of a week", category="Drafts", hidden=False)
@tool(name="weekly", input={"week": {"type": "integer", "min": 1, "max": 53}})
def weekly_report(arguments: dict[str, Any]) -> str:
    """Report; its options come from several marks."""
    return f"week {arguments['week']}"


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


ARITIES = [
    ("none", "nothing"),
    ("one", '[{"n": 1}]'),
    ("two", '[{"n": 1}, "two"]'),
    ("of_no_instance", '[{"n": 1}, "of_no_instance"]'),
]
"""Each function, and its result for n = 1."""


# -- precedence -------------------------------------------------------------------------------------------------------


def include_kit(
    tools: ToolSet, how: str, default: Mapping[str, Any], own: Mapping[str, Any], given: Mapping[str, Any]
) -> None:
    """Include a toolkit of one tool, with options of the toolkit, of the tool's mark, and of the registration."""

    def t() -> str:
        return "done"

    marked = tool(**own)(t)
    kit = module_of(t=marked, __toolkit__=default) if how == "module" else toolkit(**default)(type(kit_of(t=marked)))()
    tools.include(kit, **given)


CATEGORIES: list[tuple[str | None, str | None, str | None, str | None]] = [
    (None, None, None, None),
    ("Utility", None, None, "Utility"),
    (None, "Files", None, "Files"),
    (None, None, "Admin", "Admin"),
    ("Utility", "Files", None, "Files"),
    ("Utility", None, "Admin", "Admin"),
    (None, "Files", "Admin", "Admin"),
    ("Utility", "Files", "Admin", "Admin"),
]
"""The category given by the toolkit, by the tool and by the registration, and the one that applies."""

HIDDEN_OPTIONS: list[tuple[dict[str, bool], bool | None]] = [
    ({}, None),
    ({"hidden": True}, True),
    ({"hidden": False}, False),
    ({"visible": False}, True),
    ({"visible": True}, False),
    ({"hidden": True, "visible": True}, True),
]
"""The options of one place, and the value of `hidden` that they stand for."""


# -- prompts, resources and templates of a toolkit --------------------------------------------------------------------


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


# -- the catalog tool -------------------------------------------------------------------------------------------------

SECTIONS = ("tools", "prompts", "resources", "resource_templates")
ADMIN: Mapping[str, Any] = {"title": "Wipe", "annotations": {"destructiveHint": True}, "meta": {"x": 1}}


def shop(**options: Any) -> ToolSet:
    """Return a shop with something of every kind: listed, hidden, in a group, behind a predicate."""
    tools = ToolSet("shop", control="none")
    tools.register("search", lambda: "", description="Find an ITEM", category="Goods")
    tools.register("wipe", lambda: "", hidden=True, category="Admin", **ADMIN)
    tools.register("plain", lambda: "")
    tools.register_group("orders")
    tools.register("open", lambda: "", group="orders", category="goods")
    tools.register("audit", lambda: "", visibility=Visibility.when(lambda view: "auditor" in view.facts))
    tools.register_prompt("review", lambda: "", description="Review an item")
    tools.register_prompt("insult", lambda: "", hidden=True)
    tools.register_prompt("refund", lambda: "", group="orders")
    tools.register_resource("shop://items", lambda: "", name="all")
    tools.register_resource("shop://ledger", lambda: "", name="books", hidden=True)
    tools.register_resource_template("shop://items/{id}", lambda arguments: "", name="one")
    tools.register_resource_template("shop://orders/{id}", lambda arguments: "", name="order", group="orders")
    options.setdefault("hidden", True)
    tools.register_catalog_tool(**options)
    return tools


def names(sections: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[str]]:
    """Return the names in a result of the catalog tool, by section."""
    return {section: [entry["name"] for entry in entries] for section, entries in sections.items()}


ALL = {
    "tools": ["catalog", "plain", "search", "wipe"],
    "prompts": ["insult", "review"],
    "resources": ["all", "books"],
    "resource_templates": ["one"],
}
"""What is available in a new session."""

LISTED = {"tools": ["plain", "search"], "prompts": ["review"], "resources": ["all"], "resource_templates": ["one"]}
GOODS = {**ALL, "tools": ["search"]}
NOTHING: dict[str, list[str]] = {section: [] for section in SECTIONS}

ARGUMENTS: list[tuple[dict[str, Any], dict[str, list[str]]]] = [
    ({}, ALL),
    ({"type": "all"}, ALL),
    ({"type": "tools"}, {"tools": ALL["tools"]}),
    ({"type": "prompts"}, {"prompts": ALL["prompts"]}),
    ({"type": "resources"}, {"resources": ALL["resources"]}),
    ({"type": "resource_templates"}, {"resource_templates": ALL["resource_templates"]}),
    ({"query": ""}, ALL),
    ({"query": "WIP"}, {**NOTHING, "tools": ["wipe"]}),
    (
        {"query": "item"},
        {"tools": ["search"], "prompts": ["review"], "resources": ["all"], "resource_templates": ["one"]},
    ),
    ({"query": "SHOP://L"}, {**NOTHING, "resources": ["books"]}),
    ({"query": "{id}"}, {**NOTHING, "resource_templates": ["one"]}),
    ({"query": "goods"}, NOTHING),
    ({"query": "nothing has this"}, NOTHING),
    ({"category": "Goods"}, GOODS),
    ({"category": "gOODS"}, GOODS),
    ({"category": "good"}, {**ALL, "tools": []}),
    ({"category": ""}, {**ALL, "tools": []}),
    ({"include_hidden": True}, ALL),
    ({"include_hidden": False}, LISTED),
    ({"type": "tools", "category": "admin", "query": "W"}, {"tools": ["wipe"]}),
    ({"type": "tools", "category": "admin", "include_hidden": False}, {"tools": []}),
]
"""Arguments, and the names in the result by section."""

WRONG_ARGUMENTS: list[tuple[dict[str, Any], str]] = [
    ({"type": "everything"}, "arguments.type"),
    ({"type": None}, "arguments.type"),
    ({"query": 5}, "arguments.query"),
    ({"category": ["Goods"]}, "arguments.category"),
    ({"include_hidden": "no"}, "arguments.include_hidden"),
    ({"everything": True}, "'everything'"),
]
"""Arguments that are refused, and the place that the error names."""
