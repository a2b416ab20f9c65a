"""SPEC REG-6: a definition is checked when it is registered, so none can break a list; REG-1 for arbitrary values."""

import json
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.support import answer
from toolfold import InvalidDefinition, InvalidName, Loader, ToolfoldError, ToolSet


def desk() -> ToolSet:
    """Groups a and a.x; a tool at root."""
    tools = ToolSet("desk")
    tools.register_group("a")
    tools.register_group("a.x")
    tools.register("ping", answer)
    return tools


def refuse(tools: ToolSet, act: Callable[[], object], match: str) -> None:
    """Check that `act` is refused as an invalid definition and changes nothing."""
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=match):
        act()
    assert tools.catalog is before


JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=3),
    st.just(object()),
    st.just(len),
    st.just(int),
    st.lists(st.one_of(st.integers(), st.text(max_size=3)), max_size=3),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.just({"type": "object"}),
    st.just("\ud800"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "properties", "$ref", "enum", "items", "minimum"]), inner)
    ),
    max_leaves=6,
)
SCHEMAS = st.one_of(
    st.none(),
    JSON,
    JSON.map(lambda value: {"type": "object", "properties": {"x": value}}),
    JSON.map(lambda value: {"type": "object", "x-note": value}),
)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "description": JUNK,
        "input_schema": SCHEMAS,
        "output_schema": SCHEMAS,
        "title": JUNK,
        "group": st.sampled_from([None, "a", "a.x", "nope", ""]) | JUNK,
        "flat": st.booleans() | JUNK,
        "visibility": JUNK,
        "hidden": st.booleans() | JUNK,
        "visible": st.booleans() | JUNK,
        "always": st.booleans() | JUNK,
        "check_output": st.booleans() | JUNK,
        "modes": JUNK,
        "category": JUNK,
        "tags": JUNK,
        "annotations": JUNK | st.dictionaries(st.sampled_from(["read_only_hint", "title"]), JUNK),
        "icons": JUNK | st.lists(st.dictionaries(st.sampled_from(["src", "sizes", "theme"]), JUNK), max_size=2),
        "meta": JUNK,
    },
)
HANDLERS: list[Any] = [answer, lambda a, b: None, lambda a, b, c: None, None, int, max, print, 5, "handler"]
NAMES = st.sampled_from(["new", "a.new", "ping", "a.activate", "activate", ""]) | JUNK


def plain(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.spec("REG-1", "REG-6")
@pytest.mark.filterwarnings("ignore:The tool .* takes the place of the one that opens:toolfold.ToolfoldWarning")
@given(name=NAMES, handler=st.sampled_from(HANDLERS), options=OPTIONS)
def test_any_value_registered_as_a_tool_is_refused_without_effect_or_can_be_sent(
    name: Any, handler: Any, options: Mapping[str, Any]
) -> None:
    tools = desk()
    before = tools.catalog
    try:
        spec = tools.register(name, handler, **options)
    except ToolfoldError:
        assert tools.catalog is before
        return
    assert tools.catalog.tools[spec.name] is spec
    assert spec.definition["name"] == spec.name
    assert json.loads(plain(spec.definition)) == spec.definition
    assert spec.input_schema["type"] == "object"
    jsonschema_rs.Draft202012Validator(dict(spec.input_schema))
    assert "ping" in tools.list_tools().names


@pytest.mark.spec("REG-1", "REG-6")
@given(
    name=NAMES,
    options=st.fixed_dictionaries(
        {},
        optional={
            "description": JUNK,
            "parent": st.sampled_from([None, "a", "nope"]) | JUNK,
            "title": JUNK,
            "on_activate": JUNK,
            "on_deactivate": JUNK,
            "on_rollback": JUNK,
            "opens_on": JUNK,
            "show_deactivator": JUNK,
            "controls": JUNK,
            "pinned": JUNK,
            "transient": JUNK,
        },
    ),
)
def test_any_value_registered_as_a_group_is_refused_without_effect_or_can_be_sent(
    name: Any, options: Mapping[str, Any]
) -> None:
    tools = desk()
    before = tools.catalog
    try:
        made = tools.register_group(name, **options)
    except ToolfoldError:
        assert tools.catalog is before
        return
    assert tools.catalog.group(made.path) is made
    assert tools.list_groups()
    plain([dict(spec.definition) for spec in tools.list_tools().tools])
    plain([(info.description, info.display_name) for info in tools.list_groups()])


@pytest.mark.spec("REG-6")
@pytest.mark.parametrize("what", ["input_schema", "output_schema"])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": []},
        {"type": "object", "required": "name"},
        {"type": "object", "properties": {"n": {"minimum": "one"}}},
        {"type": "object", "properties": {"n": {"pattern": "("}}},
        {"type": "object", "properties": {"n": {"$ref": "#/$defs/missing"}}},
        {"type": "object", "$ref": "https://example.com/schema.json"},
        {"type": "object", "default": math.nan},
        {"type": "object", "default": {1, 2}},
        {"type": "object", "title": "\ud800"},
        [],
        "object",
    ],
)
def test_a_schema_that_is_not_valid_is_refused(what: str, schema: Any) -> None:
    tools = desk()
    refuse(tools, lambda: tools.register("new", answer, **{what: schema}), f"'new'.*{what[:5]}")


@pytest.mark.spec("REG-6")
def test_a_schema_is_never_fetched_from_elsewhere(tmp_path: Path) -> None:
    elsewhere = tmp_path / "schema.json"
    elsewhere.write_text('{"type": "object"}', encoding="utf-8")
    tools = desk()
    schema = {"type": "object", "$ref": elsewhere.as_uri()}
    refuse(tools, lambda: tools.register("new", answer, input_schema=schema), "never fetched")


@pytest.mark.spec("REG-6")
def test_a_schema_that_is_changed_after_registration_changes_nothing() -> None:
    tools = ToolSet("t")
    schema: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}}}
    spec = tools.register("new", lambda arguments: "done", input_schema=schema)
    schema["properties"]["n"] = {"type": object()}
    assert spec.input_schema == {"type": "object", "properties": {"n": {"type": "integer"}}}


def bad_name(value: "partial.nothing") -> None: ...  # type: ignore[name-defined]


def bad_type(value: object()) -> None: ...  # type: ignore[valid-type]


PARTS: list[tuple[dict[str, Any], str]] = [
    ({"description": 5}, "description is int"),
    ({"description": "\ud800"}, "description"),
    ({"title": b"x"}, "title is bytes"),
    ({"category": ["x"]}, "category is list"),
    ({"meta": [1]}, "meta must be"),
    ({"meta": {"x": object()}}, "meta is not JSON"),
    ({"annotations": {"readOnlyHint": "yes"}}, "readOnlyHint must be true or false"),
    ({"annotations": {"title": 5}}, "title must be"),
    ({"annotations": [1]}, "annotations must be"),
    ({"icons": [{"sizes": ["any"]}]}, "src"),
    ({"icons": [{"src": "x", "sizes": "any"}]}, "sizes"),
    ({"icons": [{"src": "x", "theme": "pink"}]}, "theme"),
    ({"icons": [{"src": "x", "mimeType": 5}]}, "mimeType must be a text"),
    ({"icons": [{"src": "x", "mimeType": None}]}, "mimeType"),
]
ARGUMENTS: tuple[Any, ...] = (
    *(5, {}, {"name": 5}, {"name": "a", "required": "no"}, {"name": "a", "description": 5}, {"name": "a", "title": []}),
)
UNFIT: list[tuple[str, tuple[Any, ...], dict[str, Any], str]] = [
    *(
        ("register", ("new", handler), {}, r"^'new' can't be registered: [^\n]*$")
        for handler in (bad_name, bad_type, max, int, None, 5)
    ),
    *(("register", ("new", answer), options, match) for options, match in PARTS),
    *(("register_prompt", ("new", answer), {"arguments": [argument]}, "argument") for argument in ARGUMENTS),
    *(
        ("register_resource_template", (template, lambda arguments: ""), {}, "file:///")
        for template in ("file:///x", "file:///{}", "file:///{a}{a}", "file:///{a*}", "file:///{?a}")
    ),
    *(
        ("register_group", ("new",), {what: value}, what)  # since its control tools contain them
        for what in ("description", "title", "opens_on")
        for value in (5, b"x", ["x"], "\ud800")
    ),
]


@pytest.mark.spec("REG-1", "REG-6", "REG-9")
@pytest.mark.parametrize(("method", "arguments", "options", "match"), UNFIT)
def test_what_can_not_be_sent_to_clients_is_refused(
    method: str, arguments: tuple[Any, ...], options: dict[str, Any], match: str
) -> None:
    tools = desk()
    refuse(tools, lambda: getattr(tools, method)(*arguments, **options), match)


@pytest.mark.spec("REG-6")
async def test_callable_objects_and_partial_functions_are_handlers() -> None:
    class Doubler:
        def __call__(self, number: int) -> int:
            return 2 * number

    def add(left: int, right: int) -> int:
        return left + right

    tools = ToolSet("t")
    tools.register("double", Doubler())
    tools.register("add_five", partial(add, 5))
    assert tools.catalog.tools["double"].input_schema["properties"] == {"number": {"type": "integer"}}
    assert (await tools.call_tool("double", {"number": 4})).text == "8"
    assert (await tools.call_tool("add_five", {"right": 4})).text == "9"


@pytest.mark.spec("REG-6", "REG-9")
def test_an_absent_part_of_a_prompts_argument_is_not_sent() -> None:
    spec = ToolSet("t").register_prompt("p", lambda: "", arguments=[{"name": "a", "description": None}, "b"])
    assert spec.definition["arguments"] == [{"name": "a"}, {"name": "b", "required": True}]


@pytest.mark.spec("REG-6", "REG-9")
@pytest.mark.parametrize("uri", ["", "notes.txt", "file: x", "file:", ":x", "file:///\ud800", 5, "file:///x\n"])
def test_a_resource_without_a_proper_uri_is_refused(uri: Any) -> None:
    tools = desk()
    before = tools.catalog
    with pytest.raises((InvalidName, InvalidDefinition)):
        tools.register_resource(uri, answer)
    assert tools.catalog is before


@pytest.mark.spec("REG-6", "CTL-3")
def test_a_loader_with_invalid_texts_is_refused_when_the_tool_set_is_made() -> None:
    with pytest.raises((ToolfoldError, TypeError)):
        ToolSet("t", control=Loader(name="open", description=5))  # type: ignore[arg-type]
    with pytest.raises(InvalidName):
        ToolSet("t", control=Loader(name="open it"))


@pytest.mark.spec("REG-6")
def test_schemas_that_declare_an_older_dialect_are_accepted_unchanged() -> None:
    draft = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "properties": {"n": {}}}
    draft["properties"] = {"n": {"type": "integer", "minimum": 1, "exclusiveMinimum": True}}
    tools = ToolSet("t")
    assert tools.register("old", lambda arguments: "", input_schema=draft).input_schema == draft
    with pytest.raises(InvalidDefinition):
        tools.register(
            "new",
            lambda arguments: "",
            input_schema={**draft, "$schema": "https://json-schema.org/draft/2020-12/schema"},
        )


@pytest.mark.spec("REG-6")
def test_a_schema_may_be_any_kind_of_mapping() -> None:
    schema = MappingProxyType({"type": "object", "properties": MappingProxyType({"n": {"type": "integer"}})})
    spec = ToolSet("t").register("t", lambda arguments: "", input_schema=schema)
    assert spec.definition["inputSchema"] == {"type": "object", "properties": {"n": {"type": "integer"}}}
