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
        "The tool 'task' can only be called as a task, which is not passed on: calls will fail.",
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
        {"outputSchema": {"type": "object", "properties": {"x": {"$ref": "#/nowhere"}}}},
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
