"""Attacks, each to be run in a process of its own, whose processor time and memory are limited.

`python -m tests.process.attacks NAME` prints what is answered, as JSON. None is larger than a request may be.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal

import anyio
from pydantic import BaseModel, Field

from toolfold import GroupNotFound, InvalidDefinition, ToolNotFound, ToolResult, ToolSet

SECONDS = 10
BYTES = 2 << 30

Schema = dict[str, Any]
OPEN: Schema = {"type": "object"}


class Leaf(BaseModel):
    kind: Literal["leaf"]
    value: int


class Not(BaseModel):
    kind: Literal["not"]
    of: Node


class And(BaseModel):
    kind: Literal["and"]
    of: Node


class Or(BaseModel):
    kind: Literal["or"]
    of: Node


Node = Annotated[Leaf | Not | And | Or, Field(discriminator="kind")]


class Left(BaseModel):
    of: Left | Right | int


class Right(BaseModel):
    of: Left | Right | int


def takes_node(node: Node) -> str:
    return "done"


def takes_left(left: Left) -> str:
    return "done"


def nested(depth: int, value: Any, **around: Any) -> Any:
    for _ in range(depth):
        value = {**around, "of": value}
    return value


def in_turn(count: int, wrap: Callable[[Schema], Schema], last: Schema) -> Schema:
    """Return a schema with definitions each of which is made from a reference to the next one."""
    definitions = {f"d{at}": wrap({"$ref": f"#/$defs/d{at + 1}"}) for at in range(count)}
    return {**OPEN, "properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": {**definitions, f"d{count}": last}}


async def call(schema: Schema, value: Any) -> str:
    tools = ToolSet("t")
    tools.register("t", lambda arguments: "done", input_schema=schema)
    return (await tools.call_tool("t", {"v": value})).text


async def call_typed(function: Callable[..., Any], arguments: Mapping[str, Any]) -> str:
    tools = ToolSet("t")
    tools.register("t", function)
    return (await tools.call_tool("t", arguments)).text


async def refused(schema: Schema) -> str:
    try:
        return await call(schema, 1)
    except InvalidDefinition as error:
        return str(error)


async def recursive_union() -> str:
    """A typed tool with a recursive union, and one wrong leaf."""
    return await call_typed(takes_node, {"node": nested(14, {"kind": "leaf", "value": "x"}, kind="not")})


async def recursive_union_as_a_result() -> str:
    tools = ToolSet("t")
    schema = tools.register("node", takes_node).input_schema
    wrong = {"node": nested(14, {"kind": "leaf", "value": "x"}, kind="not")}
    tools.register("t", lambda: ToolResult(structured=wrong), input={}, output_schema=dict(schema))
    return (await tools.call_tool("t")).text


async def ambiguous_model() -> str:
    """A typed tool whose model tries two alternatives at every level, and arguments that fit."""
    return await call_typed(takes_left, {"left": nested(45, 1)})


async def many_wrong_items() -> str:
    return await call({**OPEN, "properties": {"v": {"items": {"type": "string"}}}}, [1] * 199_000)


async def too_many_wrong_items() -> str:
    return await call({**OPEN, "properties": {"v": {"items": {"type": "string"}}}}, [1] * 1_300_000)


async def many_wrong_items_of_an_alternative() -> str:
    wrong = {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]}
    return await call({**OPEN, "properties": {"v": wrong}}, [1] * 199_000)


async def doubling_definitions() -> str:
    """A schema of two kilobytes that looks at one value two to the fortieth times."""
    return await refused(in_turn(40, lambda one: {"anyOf": [one, one]}, {"type": "string"}))


async def doubling_definitions_inside() -> str:
    """The same, each definition for what is inside of the value of the one before."""

    def wrap(one: Schema) -> Schema:
        return {"anyOf": [{"properties": {"of": one}, "minProperties": 5}, {"properties": {"of": one}, "maxItems": 0}]}

    return await call(in_turn(40, wrap, {"type": "null"}), nested(40, 1))


async def unevaluated_properties() -> str:
    schema: Schema = {"properties": {"v": True}}
    for _ in range(40):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return await refused({**OPEN, **schema})


async def loop_of_references() -> str:
    everything = [{"$ref": f"#/$defs/d{at}"} for at in range(9)]
    definitions = {f"d{at}": {"allOf": everything} for at in range(9)}
    return await refused({**OPEN, "properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": definitions})


async def backtracking_pattern() -> str:
    pattern = {"anyOf": [{"pattern": r"^(([a-z])+.)+[A-Z]([a-z])+$(?<!q)"}, {"minLength": 1}]}
    return await call({**OPEN, "properties": {"v": {"items": pattern}}}, ["x" * 24] * 5_000)


async def many_comparisons() -> str:
    dependent = {"dependentRequired": {f"p{at}": ["x"] for at in range(9_000)}}
    return await call({**OPEN, "properties": {"v": {"items": dependent}}}, [{}] * 190_000)


async def deep_arguments() -> str:
    node = {"properties": {"of": {"$ref": "#/$defs/node"}}}
    return await call({**OPEN, "properties": {"v": node}, "$defs": {"node": node}}, nested(150_000, 1))


async def uri_template() -> str:
    return await read("x://{+a}/{+b}/{+c}end", "x://" + "a/" * 4_000)


async def uri_template_of_neighbours() -> str:
    return await read("x://{+a}{+b}{c}!", "x://" + "a" * 8_000 + "/!")


async def read(template: str, uri: str) -> str:
    tools = ToolSet("t")
    tools.register_resource_template(template, lambda values: "done")
    try:
        return str((await tools.default_session.read(uri))["contents"][0]["text"])
    except ToolNotFound as error:
        return str(error)


async def similar_names() -> str:
    """Names of groups that are not there, but much like the many that are."""
    tools = ToolSet("t", control="none")
    for number in range(1_000):
        tools.register_group(f"{number:04}{'abcdefgh_' * 6}")
    text = ""
    for number in range(90):
        try:
            await tools.activate_group(f"{number:03}{'hgfedcba_' * 6}")
        except GroupNotFound as error:
            text = str(error)
    return text


ATTACKS: Mapping[str, Callable[[], Awaitable[str]]] = {
    attack.__name__: attack
    for attack in (
        recursive_union,
        recursive_union_as_a_result,
        ambiguous_model,
        many_wrong_items,
        too_many_wrong_items,
        many_wrong_items_of_an_alternative,
        doubling_definitions,
        doubling_definitions_inside,
        unevaluated_properties,
        loop_of_references,
        backtracking_pattern,
        many_comparisons,
        deep_arguments,
        uri_template,
        uri_template_of_neighbours,
        similar_names,
    )
}

if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    print(json.dumps(anyio.run(ATTACKS[sys.argv[1]])))
