"""What providers take as the schemas of arguments, and what is called with their own names again (SPEC AGT-3)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import pytest

from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation, Format, Native

FORMATS: tuple[Format, ...] = get_args(Format)
NATIVES: tuple[Native, ...] = ("anthropic", "openai", "kimi")
KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
CARD, CASH = ({"properties": {"kind": {"const": kind}, kind: TEXT}, "required": ["kind"]} for kind in ("card", "cash"))

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "either": {"properties": {"id": TEXT, "name": TEXT}, "anyOf": [{"required": ["id"]}, {"required": ["name"]}]},
    "variants": {"oneOf": [{"$ref": "#/$defs/card"}, CASH], "$defs": {"card": CARD}},
    "both": {"allOf": [{"properties": {"id": TEXT}, "required": ["id"]}, {"anyOf": [CARD, CASH]}]},
    "odata": {"properties": {"$filter": TEXT, "$top": NUMBER, "_filter": TEXT}, "required": ["$filter"]},
    "brackets": {"properties": {"filter[status]": TEXT, "filter{status}": TEXT}},
    "nothing": {},
    "open": {"properties": {"where": {"type": "object"}, "maybe": {"type": ["object", "null"]}}},
    "deep": {
        "properties": {"rows": {"type": "array", "items": {"$ref": "#/$defs/row"}}, "free": {"type": "object"}},
        "$defs": {"row": {"type": "object", "properties": {"@id": NUMBER, "next": {"$ref": "#/$defs/row"}}}},
    },
    "foreign": {"properties": {"größe": NUMBER, "大小": NUMBER, "x" * 70: TEXT, "x" * 71: TEXT}},
}


def shop(called: list[Any]) -> ToolSet:
    tools = ToolSet("shop", control="open_group")
    tools.register_group("deep")
    for name, schema in SCHEMAS.items():
        schema = {"type": "object", **schema}
        tools.register(name, called.append, input_schema=schema)
        tools.register(name, called.append, input_schema=schema, group="deep")
    return tools


def parameters(definition: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names and the schemas of the functions in a declaration, those in namespaces included."""
    one = definition.get("function", definition)
    for inner in one.get("tools", ()):
        yield from parameters(inner)
    if "name" in one and "tools" not in one:
        yield one["name"], one.get("input_schema", one.get("parameters"))


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, list):
        for one in schema:
            yield from objects(one)
    elif isinstance(schema, dict):
        yield schema
        for one in schema.values():
            yield from objects(one)


def check(schema: dict[str, Any]) -> None:
    assert schema["type"] == "object"
    assert schema.keys().isdisjoint({"anyOf", "oneOf", "allOf", "enum", "not"})
    for one in objects(schema):
        if one.get("type") == "object" or "object" in (one["type"] if isinstance(one.get("type"), list) else ()):
            assert isinstance(one["properties"], dict)
        if isinstance(one.get("properties"), dict) and "type" in one:
            assert all(KEY.fullmatch(name) for name in one["properties"])
            assert set(one.get("required", ())) <= one["properties"].keys()


@pytest.mark.spec("AGT-3")
@pytest.mark.parametrize("format", FORMATS)
def test_each_format_has_only_schemas_that_its_provider_takes(format: Format) -> None:
    conversation = Conversation(shop([]), active=["deep"])
    found = dict(one for definition in conversation.tools(format) for one in parameters(definition))
    assert found.keys() > {*SCHEMAS, *(f"deep__{name}" for name in SCHEMAS)}
    for schema in found.values():
        check(schema)
    assert found["either"]["properties"] == {"id": TEXT, "name": TEXT}
    assert "required" not in found["either"]
    kinds = {"anyOf": [{"const": "card"}, {"const": "cash"}]}
    assert found["variants"]["properties"] == {"kind": kinds, "card": TEXT, "cash": TEXT}
    assert found["variants"]["required"] == ["kind"]
    assert found["both"]["properties"].keys() == {"id", "kind", "card", "cash"}
    assert found["both"]["required"] == ["id", "kind"]
    assert found["odata"]["properties"].keys() == {"_filter_2", "_top", "_filter"}
    assert found["odata"]["required"] == ["_filter_2"]


@pytest.mark.spec("AGT-3", "INT-3")
@pytest.mark.parametrize("native", NATIVES)
def test_declarations_of_tools_that_are_loaded_late_have_them_too(native: Native) -> None:
    for definition in Conversation(shop([]), native=native).tools():
        for _, schema in parameters(definition):
            check(schema)


@pytest.mark.spec("AGT-3")
def test_the_shape_of_the_specification_has_the_schemas_as_they_are() -> None:
    found = {one["name"]: one["inputSchema"] for one in Conversation(shop([])).tools()}
    assert {name: found[name] for name in SCHEMAS} == {
        name: {"type": "object", **schema} for name, schema in SCHEMAS.items()
    }


@pytest.mark.spec("AGT-3", "AGT-1")
@pytest.mark.parametrize(
    ("name", "written", "called"),
    [
        ("odata", {"_filter_2": "a", "_top": 1, "_filter": "b"}, {"$filter": "a", "$top": 1, "_filter": "b"}),
        ("odata", {"$filter": "a"}, {"$filter": "a"}),
        ("brackets", {"filter_status_": "a", "filter_status__2": "b"}, {"filter[status]": "a", "filter{status}": "b"}),
        ("open", {"where": {"_filter": 1}}, {"where": {"_filter": 1}}),
        (
            "deep",
            {"rows": [{"_id": 1, "next": {"_id": 2}}], "free": {"_id": 3}},
            {"rows": [{"@id": 1, "next": {"@id": 2}}], "free": {"_id": 3}},
        ),
        ("variants", {"kind": "cash", "cash": "x"}, {"kind": "cash", "cash": "x"}),
    ],
)
async def test_a_tool_is_called_with_its_own_names(name: str, written: dict[str, Any], called: dict[str, Any]) -> None:
    given: list[Any] = []
    async with Conversation(shop(given), active=["deep"]) as conversation:
        await conversation.execute([(name, written), (f"deep__{name}", written)])
        await conversation.call(name, written)
    assert given == [called] * 3


@pytest.mark.spec("AGT-3")
async def test_whatever_a_provider_is_given_leads_back_to_the_tool_s_own_names() -> None:
    given: list[Any] = []
    async with Conversation(shop(given)) as conversation:
        found = dict(one for definition in conversation.tools("openai") for one in parameters(definition))
        written = {name: 1 if "gr" in name or name.startswith("_") else "t" for name in found["foreign"]["properties"]}
        assert len(written) == 4
        (result,) = await conversation.execute([("foreign", written)])
    assert not result.is_error
    assert given[0].keys() == SCHEMAS["foreign"]["properties"].keys()
