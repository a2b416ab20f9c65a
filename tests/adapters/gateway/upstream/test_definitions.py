"""Which definitions of servers are registered, and as what."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_types import Tool

from tests.adapters.gateway.registering import homes, offering, registered, tool
from tests.adapters.gateway.upstreams.raw import FULL
from toolfold_adapters.gateway.upstream.definitions import Definitions
from toolfold_adapters.names import ONE_SERVER


@pytest.mark.spec("GWY-1")
async def test_a_definition_is_passed_on_unchanged() -> None:
    _, tools, _ = registered({ONE_SERVER: offering(FULL)})
    assert dict(tools.catalog.tools["full"].definition) == FULL


@pytest.mark.spec("REG-6", "GWY-7")
def test_a_definition_without_a_name_is_left_out_and_of_two_of_one_name_the_first_is_used() -> None:
    nulls = {"title": None, "outputSchema": None, "annotations": {"title": None, "readOnlyHint": True}}
    task = tool("task", execution={"taskSupport": "required"})
    said = ["not an object", tool("good", "first", **nulls), {"inputSchema": {}}, tool("good", "again"), task]
    _, tools, report = registered({ONE_SERVER: Definitions(tools=said)})
    assert list(homes(tools)) == ["good", "task"]
    good = tools.catalog.tools["good"]
    assert (good.description, good.definition["annotations"]) == ("first", {"readOnlyHint": True})
    assert report.warnings == (
        "The tool number 1 of the server's list has no name, so it is left out.",
        "The tool number 3 of the server's list has no name, so it is left out.",
        "The tool 'good' is listed more than once; the first is used.",
    )


@pytest.mark.spec("REG-6", "GWY-7")
async def test_what_cannot_be_registered_is_left_out_and_harms_nothing_else() -> None:
    deep: dict[str, Any] = {}
    for _ in range(3000):
        deep = {"items": deep}
    said = Definitions(
        tools=[
            tool("unpaired", description="\ud800"),
            tool("nested", inputSchema={"type": "object", "properties": {"x": deep}}),
            tool("endless", description="x" * 2_000_000),
            tool("infinite", inputSchema={"type": "object", "default": float("inf")}),
            tool("good"),
        ],
        prompts=[{"name": "ask", "arguments": [{"description": "no name"}]}, {"name": "good"}],
        resources=[{"uri": "no scheme", "name": "a"}, {"uri": "a:b", "name": "b"}],
    )
    _, tools, report = registered({ONE_SERVER: said})
    assert list(homes(tools)) == ["good"]
    assert [list(tools.catalog.components[kind].by_name) for kind in ("prompt", "resource")] == [["good"], ["a:b"]]
    assert dict(report.tools) == {"good": "good"}
    left_out = [warning.partition(" is left out: ")[0] for warning in report.warnings]
    assert left_out == [
        "The tool 'unpaired'",
        "The tool 'nested'",
        "The tool 'endless'",
        "The tool 'infinite'",
        "The prompt 'ask'",
        "The resource 'no scheme'",
    ]


@pytest.mark.spec("GWY-7")
@pytest.mark.parametrize(
    "field",
    [
        {"inputSchema": {"type": "object", "properties": {"x": {"type": "nonsense"}}}},
        {"inputSchema": {"type": "object", "$ref": "https://example.org/schema.json"}},
        {"inputSchema": {"type": "object", "properties": {"x": {"pattern": "("}}}},
        {"inputSchema": {"type": "object", "properties": {"x": {"minimum": 1, "exclusiveMinimum": True}}}},
        {"inputSchema": {"type": "object", "$defs": 5, "oneOf": "x", "additionalProperties": "no"}},
        {"inputSchema": {"type": "object", "$schema": "https://example.org/own"}},
        {"outputSchema": {"type": "object", "properties": {"x": {"format": "of-its-own", "kind": 5}}}},
        {"annotations": {"readOnlyHint": True, "example.org/cost": {"tokens": 5}}},
        {"icons": [{"src": "x:y", "more": 5}]},
        {"_meta": {"example.org/x": [None, 5]}},
    ],
)
async def test_what_the_gateway_does_not_understand_passes_on_and_is_called(field: dict[str, Any]) -> None:
    _, tools, report = registered({ONE_SERVER: offering(tool("odd", **field))})
    assert report.warnings == ()
    assert tools.catalog.tools["odd"].definition.items() >= field.items()
    async with tools.open_session() as session:
        assert (await session.call("odd", {"x": 1})).text == f"{ONE_SERVER} tool odd"


@pytest.mark.spec("GWY-7")
@pytest.mark.parametrize(
    ("given", "served"),
    [
        ({"inputSchema": {"properties": {"a": {}}}}, {"inputSchema": {"type": "object", "properties": {"a": {}}}}),
        ({"inputSchema": {"type": ["object", "null"]}}, {"inputSchema": {"type": "object"}}),
        ({"inputSchema": True}, {"inputSchema": {"type": "object"}}),
        (
            {"inputSchema": {"type": "object", "properties": {"a": True, "b": False}, "required": ["a", 5]}},
            {"inputSchema": {"type": "object", "properties": {"a": {}, "b": {"not": {}}}, "required": ["a"]}},
        ),
        (
            {"inputSchema": {"type": "object", "properties": [], "required": "a"}},
            {"inputSchema": {"type": "object", "properties": {}, "required": []}},
        ),
        ({"outputSchema": {"type": "array"}}, {"outputSchema": None}),
        ({"title": ["a"], "description": 5}, {"title": None, "description": ""}),
        (
            {"annotations": {"readOnlyHint": "yes", "destructiveHint": False, "title": 5}},
            {"annotations": {"destructiveHint": False}},
        ),
        ({"annotations": "none"}, {"annotations": None}),
        (
            {"icons": [{"src": "a:b", "sizes": "48x48", "theme": "blue", "mimeType": 5}, "x"]},
            {"icons": [{"src": "a:b"}]},
        ),
        ({"_meta": [1]}, {"_meta": None}),
    ],
)
def test_what_a_client_would_refuse_is_repaired_and_reported(given: dict[str, Any], served: dict[str, Any]) -> None:
    _, tools, report = registered({ONE_SERVER: offering({**tool("odd"), **given})})
    definition = tools.catalog.tools["odd"].definition
    assert {key: definition.get(key) for key in served} == served
    assert report.warnings == (
        f"The tool 'odd' is served without what clients would refuse in its {', '.join(given)}.",
    )
    assert Tool.model_validate(dict(definition)).name == "odd"


def of_value(schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"v": schema}, **more}


PART = {"$defs": {"part": {"type": "object", "properties": {"parts": {"items": {"$ref": "#/$defs/part"}}}}}}
CIRCLE = {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}


def twice(one: Any, other: Any) -> dict[str, Any]:
    """Return a schema with two parts of one identity."""
    same = {"$id": "https://example.org/part"}
    return {"type": "object", "properties": {"v": {**one, **same}, "w": {**other, **same}}}


@pytest.mark.spec("GWY-20", "GWY-7", "EXP-4")
@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        (of_value({"$ref": "#/$defs/none"}), "$ref leads to '#/$defs/none', which is not in it"),
        (of_value({"$ref": "other.json"}), "$ref leads to 'other.json', which is not in it"),
        (of_value({"$ref": "#/properties/v"}), "$ref leads to '#/properties/v', which leads back to it"),
        (of_value({"$ref": "#/$defs/a"}, **CIRCLE), "$ref leads to '#/$defs/a', which leads back to it"),
        (of_value({"$ref": "#here", "$anchor": "here"}), "$ref leads to '#here', which leads back to it"),
        ({"type": "object", "$ref": "#"}, "$ref leads to '#', which leads back to it"),
        (twice({"type": "string"}, {"type": "integer"}), "$id is 'https://example.org/part' in two parts"),
        (twice({"type": "string"}, {"type": "string"}), "$id is 'https://example.org/part' in two parts"),
        (of_value({"type": "int"}), "type is 'int', and must be one of array, boolean"),
        (of_value({"type": []}), "type is [], and must be"),
        (of_value({"type": "string", "required": True}), "required is True, and must be a list of names"),
        (of_value({"enum": []}), "enum is [], and must be a list of at least one value"),
        (of_value({"minimum": 0, "exclusiveMinimum": True}), "exclusiveMinimum is True, and must be a number"),
        (of_value({"nullable": True}), "nullable is True, and must be beside a type"),
        (of_value({"id": "#v"}), "id is '#v', and must be called $id"),
        (of_value({"anyOf": {}}), "anyOf is {}, and must be a list of at least one schema"),
        (of_value({"items": None}), "None stands where a schema is expected"),
        (of_value({"additionalProperties": "no"}), "'no' stands where a schema is expected"),
        (of_value({"pattern": "(?P<year>\\d{4})"}), "(?P< begins no group"),
        (of_value({"pattern": "(?i)abc"}), "(?i) begins no group"),
        (of_value({"pattern": "\\Aabc\\Z"}), "\\A is no escape"),
        (of_value({"pattern": "\\d\\-\\d"}), "\\- is no escape"),
        (of_value({"pattern": "a++"}), "quantifiers are not possessive"),
        (of_value({"pattern": "{a}"}), "{ stands alone"),
        (of_value({"pattern": "[]a]"}), "] stands alone"),
        (of_value({"pattern": "(a"}), "it is not well formed"),
        (of_value({"patternProperties": {"(?#all).*": {}}}), "(?#a begins no group"),
        (of_value({}, **{"$schema": "https://example.org/schema"}), "$schema is 'https://example.org/schema'"),
        (of_value({}, **{"$schema": ""}), "$schema is ''"),
        (of_value({"minLength": -1}), "minLength is -1, and must be a whole number"),
        (of_value({"maxItems": 1.5}), "maxItems is 1.5"),
        (of_value({"maxProperties": float("inf")}), "maxProperties is inf"),
        (of_value({"multipleOf": 0}), "multipleOf is 0"),
        (of_value({"required": ["a", "a"]}), "required is ['a', 'a'], and must be a list of names, each of them once"),
        (of_value({"enum": [1, 1]}), "enum is [1, 1]"),
        (of_value({"type": ["null", "null"]}), "type is ['null', 'null']"),
        (of_value({"title": 5}), "title is 5"),
        (of_value({"description": ["a"]}), "description is ['a']"),
        (of_value({"readOnly": "yes"}), "readOnly is 'yes'"),
    ],
)
async def test_an_output_schema_that_clients_cannot_compile_is_left_out_alone_and_said(
    schema: dict[str, Any], problem: str
) -> None:
    registration, tools, report = registered(
        {ONE_SERVER: offering(tool("odd", outputSchema=schema), tool("good", outputSchema=of_value({"type": "null"})))}
    )
    catalog = tools.catalog.tools
    assert ["outputSchema" in catalog[name].definition for name in ("odd", "good")] == [False, True]
    (warning,) = report.warnings
    assert warning.startswith("The tool 'odd' is served without what clients would refuse in its outputSchema (")
    assert problem in warning
    assert registration.without_output(ONE_SERVER) == ("odd",)
    async with tools.open_session() as session:
        assert (await session.call("odd", {})).text == f"{ONE_SERVER} tool odd"


@pytest.mark.spec("GWY-20", "GWY-7")
@pytest.mark.parametrize(
    "schema",
    [
        of_value({"$ref": "#/$defs/part"}, **PART),
        of_value({"items": {"$ref": "#"}}),
        of_value({"$ref": "#/$defs/a"}, **{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"type": "null"}}}),
        of_value({"type": "integer"}, **{"$schema": "http://json-schema.org/draft-07/schema#"}),
        of_value({"type": "integer"}, **{"$schema": "http://json-schema.org/draft-04/schema#"}),
        of_value({"type": "string", "format": "of-its-own"}),
        of_value({"type": ["string", "null"], "nullable": True, "unknown": []}),
        of_value({"items": [{}, True], "minLength": 0, "const": None, "enum": [None]}),
        of_value({"default": {"type": "int"}, "examples": [{"enum": []}]}),
        {"type": "object", "properties": {"required": {}, "type": {}, "id": {}, "pattern": {"type": "string"}}},
        of_value(
            {"$ref": "#/properties/w/items/0"},
            properties={"v": {"$ref": "#/properties/w/items/0"}, "w": {"items": [{}]}},
        ),
        of_value({"$ref": "#here"}, **{"$defs": {"x": {"$anchor": "here"}}}),
        of_value({"$ref": "part.json"}, **{"$defs": {"x": {"$id": "https://example.org/part.json"}}}),
        of_value({"$ref": "http://json-schema.org/draft-07/schema#"}),
        of_value({"dependencies": {"a": ["b"], "c": {}}}),
        of_value({"minLength": 2.0, "multipleOf": 0.5, "minimum": -1, "enum": [1, "1", None, False, 0]}),
        of_value({"type": "integer"}, **{"$schema": "https://json-schema.org/draft/2020-12/schema"}),
        of_value({"pattern": "^(?<year>\\d{4})-(?!0)[\\w\\-.]{1,2}?\\k<year>\\p{L}+$"}),
    ],
)
def test_an_output_schema_that_compiles_stays_as_it_is(schema: dict[str, Any]) -> None:
    registration, tools, report = registered({ONE_SERVER: offering(tool("good", outputSchema=schema))})
    assert tools.catalog.tools["good"].definition["outputSchema"] == schema
    assert (report.warnings, registration.without_output(ONE_SERVER)) == ((), ())
