"""SPEC CALL-2, SAF-1: the report of arguments that do not fit: the place, the message, and the bounds on both."""

import json
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field

from toolfold import InvalidArguments, ToolResult, ToolSet
from toolfold._limits import MAX_PROBLEMS

DRAFT_7 = "http://json-schema.org/draft-07/schema#"


async def received(schema: dict[str, Any], value: Any) -> dict[str, str]:
    """Return the problems of a value by place, relative to the value."""
    tools = ToolSet("t")
    of_root = ("$schema", "$defs", "definitions")
    inner = {key: value for key, value in schema.items() if key not in of_root}
    wrapped = {"type": "object", "properties": {"v": inner}, **{key: schema[key] for key in of_root if key in schema}}
    arguments = tools.register("t", lambda arguments: "done", input_schema=wrapped).arguments
    assert arguments is not None
    try:
        arguments.check("t", {"v": value})
    except InvalidArguments as error:
        return {place.removeprefix("arguments.v"): text for place, text in error.problems.items()}
    return {}


class Leaf(BaseModel):
    kind: Literal["leaf"]
    value: int


class Not(BaseModel):
    kind: Literal["not"]
    of: "Node"


class And(BaseModel):
    kind: Literal["and"]
    of: "list[Node]"


Node = Annotated[Leaf | Not | And, Field(discriminator="kind")]


def nested(depth: int, leaf: Any) -> dict[str, Any]:
    for _ in range(depth):
        leaf = {"kind": "not", "of": leaf}
    return {"node": leaf}


@pytest.mark.spec("CALL-2", "SAF-1")
@pytest.mark.parametrize(
    ("leaf", "place", "text"),
    [
        ({"kind": "leaf", "value": "x"}, ".value", '"x" is not of type "integer"'),
        ({"kind": "leaf"}, "", '"value" is a required property'),
        ({"kind": "or", "of": []}, ".kind", '"leaf" was expected, or "not" was expected, or "and" was expected'),
        ({"kind": "and", "of": [{"kind": "leaf", "value": 1}, 5]}, ".of[1]", '5 is not of type "object"'),
        (None, "", 'null is not of type "object"'),
    ],
    ids=["value", "missing", "kind", "item", "none"],
)
@pytest.mark.parametrize("depth", [0, 1, 9, 40])
async def test_a_wrong_leaf_of_a_recursive_union_is_named_at_any_depth(
    depth: int, leaf: Any, place: str, text: str
) -> None:
    def handler(node: Node) -> None: ...

    tools = ToolSet("t")
    tools.register("t", handler)
    result = await tools.call_tool("t", nested(depth, leaf))
    at = "arguments.node" + ".of" * depth + place
    assert result.text == f"Invalid arguments for t: {at}: {text}. Call it again with arguments that fit its schema."


@pytest.mark.spec("CALL-2", "SAF-1")
@pytest.mark.parametrize(
    "wrap", [lambda one: one, lambda one: {"anyOf": [one, {"type": "null"}]}], ids=["list", "union"]
)
async def test_a_few_places_are_named_and_the_others_counted(wrap: Any) -> None:
    tools = ToolSet("t")
    schema = {"type": "object", "properties": {"n": wrap({"type": "array", "items": {"type": "string"}})}}
    tools.register("t", lambda arguments: "done", input_schema=schema)
    spec = tools.catalog.tools["t"]
    assert spec.arguments is not None
    with pytest.raises(InvalidArguments) as caught:
        spec.arguments.check("t", {"n": ["x", *range(2000)]})
    assert list(caught.value.problems) == [f"arguments.n[{at}]" for at in range(1, 1 + MAX_PROBLEMS)]
    assert caught.value.more == 2000 - MAX_PROBLEMS
    assert str(caught.value).endswith(
        'n[10]: 9 is not of type "string"; and 1,990 more. Call it again with arguments that fit its schema.'
    )


@pytest.mark.spec("CALL-2", "SAF-1")
def test_an_error_about_arguments_quotes_only_their_beginning() -> None:
    problems = {f"arguments.{number}{'k' * 10_000}": "x" * 10_000 for number in range(1000)}
    error = InvalidArguments("n" * 10_000, problems)
    assert len(error.problems) == MAX_PROBLEMS
    assert error.more == 1000 - MAX_PROBLEMS
    assert len(str(error)) < 20_000
    assert "(10,000 characters)" in str(error)


@pytest.mark.spec("CALL-2", "SAF-1")
@pytest.mark.parametrize(
    "value",
    ["x" * 100_000, [1] * 100_000, {"k" * 100_000: 1}, {f"k{number}": 1 for number in range(10_000)}],
    ids=["text", "list", "key", "keys"],
)
async def test_the_report_of_large_values_that_do_not_fit_is_short(value: Any) -> None:
    schema = {
        "type": ["array", "object"],
        "items": {"type": "string"},
        "properties": {},
        "additionalProperties": False,
        "maxItems": 3,
    }
    problems = await received(schema, value)
    assert problems
    assert len(json.dumps(problems)) < 10_000


@pytest.mark.spec("CALL-2")
@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"const": 1}, 2, {"": "1 was expected"}),
        ({"type": "object", "required": ["a"]}, {}, {"": '"a" is a required property'}),
        (
            {"properties": {"a": {}}, "additionalProperties": False},
            {"a": 1, "b": 1, "c": 1},
            {"": "it has properties that are not allowed: 'b', 'c'"},
        ),
        ({"additionalProperties": {"type": "string"}}, {"a": 1, "b": "x"}, {".a": '1 is not of type "string"'}),
        ({"patternProperties": {"^a": {"type": "string"}}}, {"ab": 1, "b": 1}, {".ab": '1 is not of type "string"'}),
        ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, {".ab": '"ab" is longer than 1 character'}),
        ({"items": {"maximum": 2}}, [1, 3], {"[1]": "3 is greater than the maximum of 2"}),
        (
            {"prefixItems": [{"type": "string"}], "items": {"type": "null"}},
            ["x", 1],
            {"[1]": '1 is not of type "null"'},
        ),
        ({"prefixItems": [{"type": "string"}]}, [1, 2], {"[0]": '1 is not of type "string"'}),
        ({"properties": {"a": False}}, {"a": 1}, {".a": "nothing is allowed here"}),
        ({"not": {"type": "integer"}}, 1, {"": '{"type":"integer"} is not allowed for 1'}),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, {"": '"b" is a required property'}),
        ({"if": {"required": ["a"]}, "else": {"required": ["b"]}}, {}, {"": '"b" is a required property'}),
        ({"dependentSchemas": {"a": {"required": ["b"]}}}, {"a": 1}, {"": '"b" is a required property'}),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, {"": '"b" is a required property'}),
        ({"allOf": [{"properties": {"a": {"type": "string"}}}]}, {"a": 1}, {".a": '1 is not of type "string"'}),
        (
            {"oneOf": [{"type": "integer"}, {"minimum": 3}]},
            4,
            {"": "it fits more than one of the alternatives, and must fit exactly one"},
        ),
        (
            {"anyOf": [{"type": "array"}, {"anyOf": [{"type": "string"}, {"type": "null"}]}]},
            5,
            {"": '5 is not of type "string", or 5 is not of type "null"'},
        ),
        (
            {"anyOf": [{"properties": {"a": {"type": "null"}}}, {"properties": {"b": {"type": "string"}}}]},
            {"b": 1, "a": 1, "c": 1},
            {".a": '1 is not of type "null"'},
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b"], "properties": {"b": {"type": "string"}}}]},
            {"b": 1},
            {".b": '1 is not of type "string"'},
        ),
        (
            {"properties": {"a": {}}, "unevaluatedProperties": False},
            {"b": 1},
            {"": "it has properties that are not allowed"},
        ),
        ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "null"}}}, 1, {"": '1 is not of type "null"'}),
        (
            {"$schema": DRAFT_7, "items": [{"type": "string"}], "additionalItems": {"type": "null"}},
            [1, 2],
            {"[0]": '1 is not of type "string"', "[1]": '2 is not of type "null"'},
        ),
        (
            {"$schema": DRAFT_7, "$ref": "#/definitions/a", "type": "null", "definitions": {"a": {"type": "string"}}},
            1,
            {"": '1 is not of type "string"'},
        ),
        (
            {"$schema": DRAFT_7, "dependencies": {"a": ["b"], "c": {"required": ["d"]}}},
            {"c": 1},
            {"": '"d" is a required property'},
        ),
        ({"$schema": DRAFT_7, "dependencies": {"a": ["b"]}}, {"a": 1}, {"": '"b" is a required property'}),
    ],
    ids=json.dumps,
)
async def test_every_keyword_that_is_violated_is_reported_at_its_place(
    schema: dict[str, Any], value: Any, expected: dict[str, str]
) -> None:
    assert await received(schema, value) == expected


@pytest.mark.spec("CALL-2")
@pytest.mark.parametrize(
    "schema",
    [
        {"$dynamicRef": "#node"},
        {"$ref": "#node"},
        {"$ref": "https://example.com/tool#/$defs/node"},
        {"$ref": "#/$defs/node"},
    ],
    ids=str,
)
async def test_every_kind_of_reference_to_a_definition_is_followed(schema: dict[str, Any]) -> None:
    node = {"$anchor": "node", "type": "object", "properties": {"next": dict(schema), "value": {"type": "string"}}}
    if "$dynamicRef" in schema:
        node["$dynamicAnchor"] = node.pop("$anchor")
    tools = ToolSet("t")
    root = {"$id": "https://example.com/tool", "type": "object", "properties": {"v": schema}, "$defs": {"node": node}}
    tools.register("t", lambda arguments: "done", input_schema=root)
    assert not (await tools.call_tool("t", {"v": {"next": {"next": {"value": "x"}}}})).is_error
    result = await tools.call_tool("t", {"v": {"next": {"next": {"value": 1}}}})
    assert "arguments.v" in result.text
    assert result.is_error


def _refuse(value: int) -> int:
    raise ValueError("not today")


@pytest.mark.spec("CALL-2", "SAF-1")
@pytest.mark.parametrize(
    ("count", "text"),
    [
        (2, "arguments.n[0]: Value error, not today; arguments.n[1]: Value error, not today. Call"),
        (500, "arguments.n[9]: Value error, not today; and 490 more. Call"),
        (5000, "arguments: 5,000 values are not allowed. Call"),
    ],
)
async def test_the_report_of_a_types_own_checks_is_bounded_too(count: int, text: str) -> None:
    def handler(n: list[Annotated[int, AfterValidator(_refuse)]]) -> None: ...

    tools = ToolSet("t")
    tools.register("t", handler)
    assert text in (await tools.call_tool("t", {"n": [1] * count})).text


@pytest.mark.spec("KIT-6", "SAF-1")
async def test_the_report_of_a_result_that_does_not_fit_is_short_and_quotes_nothing() -> None:
    schema = {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}
    tools = ToolSet("t")
    tools.register("t", lambda: ToolResult(structured=["secret"] * 1000), input={}, output_schema=schema)
    text = (await tools.call_tool("t")).text
    assert 'result[0]: it is not of type "integer", or it is not of type "null"; ' in text
    assert "and 990 more" in text
    assert "secret" not in text


SCALARS = st.sampled_from([1, 2, "x", "yy", None, True])
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | st.just([]) | st.just({}),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)
REFERENCE = st.sampled_from([{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"}])
SIMPLE: st.SearchStrategy[Any] = st.sampled_from(
    [
        *({"type": kind} for kind in ("integer", "string", "object", "array")),
        *({}, True, False),
        *({"const": 1}, {"enum": ["x", 1]}, {"required": ["a"]}, {"minProperties": 2}, {"maxItems": 1}),
    ]
)


def _inside(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Schemas that contain others; they refer to definitions only for inner values, so that none is infinite."""
    some = st.lists(inner, min_size=1, max_size=3)
    below = inner | REFERENCE
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", "integer"]),
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
            "not": inner,
            "if": inner,
            "then": inner,
            "else": inner,
            "contains": inner,
            "items": below,
            "prefixItems": st.lists(below, min_size=1, max_size=2),
            "properties": st.dictionaries(st.sampled_from(["a", "b"]), below, max_size=2),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "[bc]"]), below, max_size=1),
            "additionalProperties": below,
            "propertyNames": st.just({"enum": ["a", "b"]}),
            "dependentSchemas": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=1),
        },
    )


SCHEMAS = st.recursive(SIMPLE, _inside, max_leaves=6)


def _places(errors: Any) -> set[str]:
    """The places of errors, those of alternatives included."""
    found: set[str] = set()
    for error in errors:
        found.add("".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path))
        for branch in getattr(error.kind, "context", ()):
            found |= _places(branch)
    return found


@pytest.mark.spec("CALL-2", "SAF-1")
@settings(max_examples=2 * settings().max_examples)
@given(schema=SCHEMAS, definitions=st.fixed_dictionaries({"d0": SCHEMAS, "d1": SCHEMAS}), value=VALUES)
def test_what_is_reported_is_what_the_validator_finds(schema: Any, definitions: dict[str, Any], value: Any) -> None:
    root = {"type": "object", "properties": {"v": schema}, "$defs": definitions}
    arguments = ToolSet("t").register("t", lambda arguments: "done", input_schema=root).arguments
    assert arguments is not None
    validator = jsonschema_rs.Draft202012Validator(root)
    faults = arguments.faults({"v": value})
    assert (faults is None) == validator.is_valid({"v": value})
    if faults is not None:
        places = _places(validator.iter_errors({"v": value}))
        for place, text in faults.problems.items():
            where = place.removeprefix("arguments")
            assert text != "it does not fit its schema"
            # a wrong name is reported at the property of that name, and by the validator at the object
            assert any(where == one or where.rpartition(".")[0] == one for one in places), (place, places)
