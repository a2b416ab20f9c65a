"""SPEC KIT-3: document D's three forms of schemas, and what each does to arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolfold import InvalidDefinition, ToolSet, tool
from toolfold._schema.fields import OPTIONS, TYPES, looks_like_json_schema

RAW: Mapping[str, Any] = {
    "type": "object",
    "properties": {"q": {"type": "string", "minLength": 2}, "n": {"type": "integer", "default": 5}},
    "required": ["q"],
}
SPEC: Mapping[str, Any] = {
    "message": {"type": "string", "required": True, "description": "What to say"},
    "repeat": {"type": "integer", "min": 1, "max": 10, "default": 1},
    "mode": {"type": "enum", "values": ["plain", "loud"], "default": "plain"},
    "address": {
        "type": "object",
        "fields": {"street": {"type": "string"}, "country": {"type": "string", "default": "?"}},
    },
    "tags": {"type": ("array", "string")},
    "rows": {"type": ["array", "object"], "fields": {"id": {"type": "integer", "required": True}, "n": "number"}},
    "note": "string",
}


def echo(arguments: dict[str, Any]) -> dict[str, Any]:
    return arguments


def refused(match: str, **options: Any) -> None:
    """Check that a tool is refused by name, however it is declared, and that nothing of it is registered."""
    tools = ToolSet("t")
    before = tools.catalog

    def by_mark() -> None:
        class Kit:
            @tool(name="broken", **options)
            def handler(self, arguments: dict[str, Any]) -> None: ...

    ways: list[Callable[[], Any]] = [
        lambda: tools.register("broken", echo, **options),
        lambda: tools.tool("broken", **options)(echo),
        by_mark,
    ]
    for way in ways:
        with pytest.raises(InvalidDefinition, match=match) as caught:
            way()
        assert caught.value.name == "broken"
    assert tools.catalog is before


async def given_to(arguments: Mapping[str, Any], **options: Any) -> dict[str, Any]:
    """Return the arguments that a handler is given for those of a call."""
    tools = ToolSet("t")
    tools.register("t", echo, **options)
    result = await tools.call_tool("t", arguments)
    assert not result.is_error, result.text
    received: dict[str, Any] = result.structured
    return received


async def error_of(arguments: Mapping[str, Any], **options: Any) -> str:
    tools = ToolSet("t")
    tools.register("t", lambda arguments: pytest.fail("the handler ran"), **options)
    result = await tools.call_tool("t", arguments)
    assert result.is_error
    return result.text


@pytest.mark.spec("KIT-3")
@pytest.mark.parametrize(
    "options",
    [{"input": RAW}, {"input": json.dumps(RAW)}, {"input_schema": RAW}, {"input_schema": json.dumps(RAW)}],
    ids=["mapping", "text", "raw mapping", "raw text"],
)
async def test_raw_schemas_validate_and_pass_arguments_through_untouched(options: dict[str, Any]) -> None:
    """Document D, schema forms 2 and 3."""
    tools = ToolSet("t")
    assert tools.register("t", echo, **options).input_schema == RAW
    assert await given_to({"q": "ab", "more": [1]}, **options) == {"q": "ab", "more": [1]}
    assert "arguments.q" in await error_of({"q": "a"}, **options)
    assert '"q"' in await error_of({}, **options)


@pytest.mark.spec("KIT-3")
def test_a_field_specification_becomes_one_closed_schema() -> None:
    """Document D, schema form 1: its example, field by field."""
    address = {"street": {"type": "string"}, "country": {"type": "string", "default": "?"}}
    row = {"id": {"type": "integer"}, "n": {"type": "number"}}
    assert ToolSet("t").register("t", echo, input=SPEC).input_schema == {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "What to say"},
            "repeat": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
            "mode": {"type": "string", "enum": ["plain", "loud"], "default": "plain"},
            "address": {"type": "object", "properties": address, "additionalProperties": False},
            "tags": {"type": "array", "items": {"type": "string"}},
            "rows": {
                "type": "array",
                "items": {"type": "object", "properties": row, "required": ["id"], "additionalProperties": False},
            },
            "note": {"type": "string"},
        },
        "required": ["message"],
        "additionalProperties": False,
    }


@pytest.mark.spec("KIT-3")
async def test_a_field_specification_fills_in_defaults_at_every_depth() -> None:
    """Document D, schema form 1: defaults applied; what has none and is absent stays absent."""
    assert await given_to({"message": "hi"}, input=SPEC) == {"message": "hi", "repeat": 1, "mode": "plain"}
    given_all = {"rows": [{"id": 1}], "address": {}, "message": "hi", "mode": "loud", "tags": []}
    assert await given_to(given_all, input=SPEC) == {
        "message": "hi",
        "repeat": 1,
        "mode": "loud",
        "address": {"country": "?"},
        "tags": [],
        "rows": [{"id": 1}],
    }


@pytest.mark.spec("KIT-3")
async def test_a_default_is_a_new_value_in_every_call() -> None:
    tools = ToolSet("t")

    def add(arguments: dict[str, Any]) -> list[int]:
        arguments["numbers"].append(len(arguments["numbers"]))
        numbers: list[int] = arguments["numbers"]
        return numbers

    tools.register("add", add, input={"numbers": {"type": ("array", "integer"), "default": []}})
    for _ in range(2):
        assert (await tools.call_tool("add")).text == "[0]"


@pytest.mark.spec("KIT-3")
async def test_a_default_of_an_object_is_filled_in_too_and_null_is_a_default() -> None:
    fields = {"at": {"type": "object", "fields": {"x": {"type": "integer", "default": 1}}, "default": {}}}
    assert await given_to({}, input={**fields, "any": {"type": "any", "default": None}}) == {
        "at": {"x": 1},
        "any": None,
    }


@pytest.mark.spec("KIT-3", "CALL-2")
@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        ({}, '"message"'),
        ({"message": 5}, "arguments.message"),
        ({"message": "", "repeat": 0}, "arguments.repeat"),
        ({"message": "", "repeat": 11}, "arguments.repeat"),
        ({"message": "", "mode": "odd"}, "arguments.mode"),
        ({"message": "", "tags": [1]}, "arguments.tags[0]"),
        ({"message": "", "rows": [{"id": 1}, {}]}, "arguments.rows[1]"),
        ({"message": "", "address": {"town": "?"}}, "arguments.address"),
        ({"message": "", "other": 1}, "'other'"),
        ({"message": "", "note": None}, "arguments.note"),
    ],
)
async def test_a_field_specification_checks_types_enums_and_bounds(arguments: dict[str, Any], place: str) -> None:
    """Document D, schema form 1: the options of its example, each overstepped."""
    assert place in await error_of(arguments, input=SPEC)


@pytest.mark.spec("KIT-3")
@pytest.mark.parametrize(
    ("field", "schema"),
    [
        ("string", {"type": "string"}),
        ("integer", {"type": "integer"}),
        ("number", {"type": "number"}),
        ("boolean", {"type": "boolean"}),
        ("object", {"type": "object"}),
        ("any", {}),
        ({"type": "string"}, {"type": "string"}),
        (("array", "string"), {"type": "array", "items": {"type": "string"}}),
        ({"type": ("array", ("array", "any"))}, {"type": "array", "items": {"type": "array", "items": {}}}),
        ({"type": "enum", "values": ("a", "b")}, {"type": "string", "enum": ["a", "b"]}),
        ({"type": "enum", "values": [1, None]}, {"enum": [1, None]}),
        ({"type": ("array", "enum"), "values": ["a"]}, {"type": "array", "items": {"type": "string", "enum": ["a"]}}),
        ({"type": "number", "min": 0.5, "max": 2}, {"type": "number", "minimum": 0.5, "maximum": 2}),
        ({"type": "string", "min_length": 2, "max_length": 3}, {"type": "string", "minLength": 2, "maxLength": 3}),
        ({"type": "string", "pattern": "^a"}, {"type": "string", "pattern": "^a"}),
        (
            {"type": ("array", "integer"), "min": 0, "min_items": 1, "max_items": 2},
            {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1, "maxItems": 2},
        ),
        (
            {"type": ("array", "string"), "title": "T", "description": "D", "default": ["x"]},
            {"type": "array", "items": {"type": "string"}, "title": "T", "description": "D", "default": ["x"]},
        ),
        ({"type": "object", "fields": {}}, {"type": "object", "properties": {}, "additionalProperties": False}),
        ({"type": "integer", "required": False}, {"type": "integer"}),
    ],
)
def test_every_type_and_option_of_a_field_has_its_json_schema(field: Any, schema: dict[str, Any]) -> None:
    """Document D, schema form 1: the options beyond its example pass through; these are ours."""
    made = ToolSet("t").register("t", echo, input={"field": field}).input_schema
    assert made["properties"] == {"field": schema}
    assert "required" not in made


@pytest.mark.spec("KIT-3")
@pytest.mark.parametrize(
    ("field", "match"),
    [
        (None, "input.x has no type"),
        ({"description": "?"}, "input.x has no type"),
        ("strin", "input.x has the type 'strin'; the types are string, integer"),
        ({"type": 5}, "input.x has the type 5"),
        (("array",), r"input.x has the type .*\"array\", TYPE"),
        (("list", "string"), "an array is"),
        (("array", "strin"), "input.x has the type 'strin'"),
        ({"type": "string", "minimum": 1}, "input.x has the option 'minimum'; the options are type, required"),
        ({"type": "string", 5: 1}, "input.x has the option 5"),
        ({"type": "string", "min": 1}, "input.x has the option 'min', which does not go with its type"),
        ({"type": "string", "fields": {}}, "option 'fields'"),
        ({"type": "integer", "max_items": 1}, "option 'max_items'"),
        ({"type": "integer", "values": [1]}, "option 'values'"),
        ({"type": "enum"}, "input.x is an enum and needs its values"),
        ({"type": "enum", "values": []}, "needs its values"),
        ({"type": "enum", "values": "ab"}, "needs its values"),
        ({"type": "enum", "values": [object()]}, "input.x is not JSON"),
        ({"type": "integer", "min": "one"}, "input.x is not valid JSON Schema"),
        ({"type": "string", "pattern": "("}, "input.x is not valid JSON Schema"),
        ({"type": "integer", "required": "yes"}, "input.x must be required or not"),
        ({"type": "integer", "required": True, "default": 1}, "input.x is required, so its default"),
        ({"type": "integer", "default": "one"}, "input.x has a default that does not fit"),
        ({"type": "integer", "max": 3, "default": 4}, "input.x has a default that does not fit"),
        ({"type": "enum", "values": ["a"], "default": "b"}, "input.x has a default that does not fit"),
        ({"type": "object", "fields": ["street"]}, "input.x has fields that are no mapping"),
        ({"type": "object", "fields": {"street": "strin"}}, "input.x.street has the type 'strin'"),
        ({"type": ("array", "object"), "fields": {"id": {"type": "enum"}}}, "input.x.id is an enum"),
    ],
)
def test_a_malformed_field_fails_at_decoration_naming_tool_and_place(field: Any, match: str) -> None:
    """Document D, compile-time validation: an invalid field specification is an error that names the tool."""
    refused(f"^'broken' can't be registered: its {match}" if match.startswith("input") else match, input={"x": field})


@pytest.mark.spec("KIT-3")
@pytest.mark.parametrize("what", ["input", "output"])
@pytest.mark.parametrize(
    ("schema", "match"),
    [
        ({"x": "strin"}, "{what}.x has the type"),
        ({5: "string"}, "{what} has a field named 5"),
        ({"": "string"}, "{what} has a field named ''"),
        ({"properties": {"q": {"type": "string"}}}, "{what}.properties has no type"),
        ({"type": "object", "properties": []}, "{what} schema is not valid JSON Schema"),
        ({"$ref": "#/nowhere", "type": "object"}, "{what} schema is not valid JSON Schema"),
        ('{"type": "object"', "{what} schema is a text that is not JSON: .*line 1 column"),
        ("type: object", "{what} schema is a text that is not JSON"),
        ('["object"]', "{what} schema is list, and must be a JSON object"),
        ('{"type": "object", "default": NaN}', "{what} schema is not JSON"),
        ('{"type": "object", "required": "q"}', "{what} schema is not valid JSON Schema"),
        (["string"], "{what} is list, and neither a field specification nor JSON Schema"),
        (5, "{what} is int"),
    ],
)
def test_a_wrong_schema_in_each_of_the_three_forms_fails_at_decoration(what: str, schema: Any, match: str) -> None:
    """Document D, compile-time validation: malformed JSON text, field specifications and mappings."""
    refused(f"^'broken' can't be registered: its {match.format(what=what)}", **{what: schema})


@pytest.mark.spec("KIT-3")
@pytest.mark.parametrize("what", ["input", "output"])
def test_a_schema_that_is_declared_raw_is_never_taken_for_a_field_specification(what: str) -> None:
    """Document D, options `:input_schema` and `:output_schema`."""
    specification = {"note": {"type": "string"}}
    if what == "input":
        refused("root type", input_schema=specification)
    else:
        spec = ToolSet("t").register("t", echo, input=RAW, output_schema=specification)
        assert spec.definition["outputSchema"] == specification
    refused(f"both {what} and {what}_schema", **{what: RAW, f"{what}_schema": RAW})


@pytest.mark.spec("KIT-3", "REG-6")
def test_an_input_schema_whose_root_is_no_object_is_refused_in_every_form() -> None:
    for schema in ({"type": "array"}, '{"type": "string"}', {"oneOf": [RAW]}, {"type": ["object", "null"]}):
        refused("root type", input=schema)
    raws: tuple[dict[str, object], ...] = ({}, {"type": "string"}, {"properties": {}})
    for raw in raws:
        refused("root type", input_schema=raw)


@pytest.mark.spec("KIT-3")
@pytest.mark.parametrize(
    ("given_mapping", "is_raw"),
    [
        (RAW, True),
        ({"type": ["object", "null"]}, True),
        ({"$ref": "#/x"}, True),
        ({"oneOf": [RAW]}, True),
        (SPEC, False),
        ({}, False),
        ({"type": {"type": "string"}}, False),
        ({"properties": {"type": "object"}, "anyOf": "string"}, False),
    ],
)
def test_json_schema_is_distinguished_from_a_field_specification(
    given_mapping: dict[object, Any], is_raw: bool
) -> None:
    assert looks_like_json_schema(given_mapping) is is_raw


@pytest.mark.spec("KIT-3", "KIT-2")
def test_a_tool_whose_specification_is_empty_takes_no_arguments() -> None:
    spec = ToolSet("t").register("t", lambda: "", input={})
    assert spec.input_schema == {"type": "object", "properties": {}, "additionalProperties": False}


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=3)
    | st.sampled_from([*TYPES, "array", ("array", "any")]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*OPTIONS, "x", "y", "$ref", "oneOf", "properties"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.spec("KIT-3", "REG-1")
@settings(max_examples=6 * settings().max_examples)
@given(schema=JUNK, what=st.sampled_from(["input", "output"]))
def test_any_value_given_as_a_schema_is_refused_without_effect_or_can_be_sent(schema: Any, what: str) -> None:
    tools = ToolSet("t")
    before = tools.catalog
    try:
        spec = tools.register("t", lambda: None, **{what: schema})
    except InvalidDefinition:
        assert tools.catalog is before
        return
    assert json.loads(json.dumps(spec.definition, allow_nan=False)) == spec.definition
