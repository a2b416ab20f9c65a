"""SPEC SAF-1: the limits on what comes from outside, and what is refused beyond them.

What these refuse would take seconds, gigabytes or the process; `tests/process/test_attacks.py` shows that of some.
"""

import base64
import re
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.core.support import with_groups
from toolfold import (
    GroupNotFound,
    InvalidCursor,
    InvalidDefinition,
    InvalidName,
    ToolfoldError,
    ToolNotFound,
    ToolSet,
)
from toolfold._limits import (
    MAX_CURSOR,
    MAX_DEFINITION,
    MAX_DEPTH,
    MAX_SCHEMA_VALUES,
    MAX_URI,
    MAX_VALUES,
    MAX_VARIABLES,
)

OPEN: dict[str, Any] = {"type": "object"}
LONG = "x" * 1_000_000


def nested(depth: int, key: str | None = None) -> Any:
    """Return so many lists, or objects, inside of one another."""
    value: Any = 1
    for _ in range(depth):
        value = [value] if key is None else {key: value}
    return value


def chain(count: int, wrap: Callable[[dict[str, Any]], dict[str, Any]], last: dict[str, Any]) -> dict[str, Any]:
    """Return a schema whose definitions each contain a reference to the next one."""
    definitions = {f"d{at}": wrap({"$ref": f"#/$defs/d{at + 1}"}) for at in range(count)}
    return {**OPEN, "properties": {"v": {"$ref": "#/$defs/d0"}}, "$defs": {**definitions, f"d{count}": last}}


async def text_of(schema: dict[str, Any], arguments: dict[str, Any]) -> str:
    """Return what a tool with that schema answers."""
    tools = ToolSet("t")
    tools.register("t", lambda arguments: "done", input_schema=schema)
    return (await tools.call_tool("t", arguments)).text


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("SAF-1")
@pytest.mark.parametrize("key", [None, "k"], ids=["lists", "objects"])
async def test_arguments_that_are_nested_too_deep_are_refused(key: str | None) -> None:
    assert await text_of(OPEN, {"v": nested(MAX_DEPTH - 1, key)}) == "done"
    text = await text_of(OPEN, {"v": nested(MAX_DEPTH, key)})
    assert text.startswith(f"Invalid arguments for t: arguments: it is more than {MAX_DEPTH} levels deep.")
    assert await text_of(OPEN, {"v": nested(100_000, key)}) == text


@pytest.mark.spec("SAF-1")
@pytest.mark.parametrize("wide", [False, True], ids=["list", "objects"])
async def test_arguments_with_too_many_values_are_refused(wide: bool) -> None:
    def items(count: int) -> list[Any]:
        return [{"k": 1}] * (count // 2) if wide else [1] * count

    assert await text_of(OPEN, {"v": items(MAX_VALUES - 2)}) == "done"
    text = await text_of(OPEN, {"v": items(MAX_VALUES)})
    assert text.startswith(f"Invalid arguments for t: arguments: it has more than {MAX_VALUES:,} values.")


@pytest.mark.spec("SAF-1")
async def test_arguments_that_contain_themselves_are_refused() -> None:
    loop: list[Any] = []
    loop += [loop, loop]
    assert "it has more than" in await text_of(OPEN, {"v": loop})


@pytest.mark.spec("SAF-1")
async def test_the_more_often_a_schema_visits_a_value_the_fewer_values_are_admitted() -> None:
    often = chain(14, lambda one: {"allOf": [one, one]}, {"items": {"type": "integer"}})
    assert await text_of(often, {"v": [1] * 100}) == "done"
    text = await text_of(often, {"v": [1] * 1000})
    assert "arguments: it has 1,002 values, too many at once for a schema as intricate as its own" in text


@pytest.mark.spec("SAF-1")
async def test_a_pattern_that_backtracks_is_tried_on_a_bounded_number_of_texts() -> None:
    schema = {**OPEN, "properties": {"v": {"items": {"pattern": r"^(a+)+\1$"}}}}
    assert await text_of(schema, {"v": ["aa"] * 100}) == "done"
    assert "does not match" in await text_of(schema, {"v": ["a" * 40 + "!"]})
    assert "too many at once" in await text_of(schema, {"v": ["aa"] * 10_000})
    linear = {**OPEN, "properties": {"v": {"items": {"pattern": r"^(a+)+$"}}}}
    assert await text_of(linear, {"v": ["aa"] * 10_000}) == "done"


class Group(BaseModel):
    items: "list[Group | Block | int]"


class Block(BaseModel):
    items: "list[Group | Block | int]"


class Tree(BaseModel):
    name: str
    children: "list[Tree]" = []


def of_items(depth: int) -> dict[str, Any]:
    value: Any = 1
    for _ in range(depth):
        value = {"items": [value]}
    return {"v": value}


@pytest.mark.spec("SAF-1", "CALL-2")
async def test_a_model_with_alternatives_at_every_level_admits_few_levels() -> None:
    def handler(v: Group) -> None: ...

    tools = ToolSet("t")
    tools.register("t", handler)
    assert not (await tools.call_tool("t", of_items(10))).is_error
    result = await tools.call_tool("t", of_items(30))
    assert "arguments: it is 61 levels deep, and has too many alternatives to try them all at each level" in result.text


@pytest.mark.spec("SAF-1", "CALL-2")
async def test_a_model_without_alternatives_admits_the_maximum_of_levels() -> None:
    def handler(tree: Tree) -> str:
        return "done"

    tree: dict[str, Any] = {"name": "leaf"}
    for _ in range(45):
        tree = {"name": "branch", "children": [tree]}
    tools = ToolSet("t")
    tools.register("t", handler)
    assert (await tools.call_tool("t", {"tree": tree})).text == "done"


# -- schemas ----------------------------------------------------------------------------------------------------------


def _deep_schema() -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(MAX_DEPTH // 2):
        schema = {"properties": {"v": schema}}
    return {**OPEN, **schema}


def _marking_schema() -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": True}}
    for _ in range(30):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return {**OPEN, **schema}


@pytest.mark.spec("SAF-1", "REG-6")
@pytest.mark.parametrize("what", ["input", "output"])
@pytest.mark.parametrize(
    ("schema", "match"),
    [
        (_deep_schema(), f"more than {MAX_DEPTH} levels deep"),
        ({**OPEN, "required": [str(at) for at in range(MAX_SCHEMA_VALUES)]}, f"more than {MAX_SCHEMA_VALUES:,} values"),
        ({**OPEN, "description": "x" * MAX_DEFINITION}, "bytes, and may have 1,000,000"),
        ({**OPEN, "$ref": "#"}, "refers to itself for the same value, without end"),
        (chain(2, lambda one: {"anyOf": [one, {"$ref": "#/$defs/d0"}]}, {}), "refers to itself for the same value"),
        (chain(MAX_DEPTH, lambda one: one, {}), f"more than {MAX_DEPTH} chained schemas for one value"),
        (chain(40, lambda one: {"allOf": [one, one]}, {"type": "null"}), "too many schemas for one value"),
        (chain(40, lambda one: {"anyOf": [one, one]}, {"type": "null"}), "too many schemas for one value"),
        (chain(40, lambda one: {"if": one, "then": one}, {"type": "null"}), "too many schemas for one value"),
        (_marking_schema(), "too many schemas for one value"),
    ],
    ids=["deep", "wide", "long", "self", "loop", "chain", "allOf", "anyOf", "if", "unevaluated"],
)
def test_a_schema_that_is_too_large_or_costs_too_much_is_refused(what: str, schema: dict[str, Any], match: str) -> None:
    tools = ToolSet("t")
    options: dict[str, Any] = {f"{what}_schema": schema}
    with pytest.raises(InvalidDefinition, match=f"its {what} schema .*{match}"):
        tools.register("t", lambda arguments: {}, **options)
    assert "t" not in tools.catalog.tools


@pytest.mark.spec("SAF-1", "REG-6")
async def test_patterns_of_a_schema_that_are_too_large_together_are_refused() -> None:
    def patterns(count: int) -> dict[str, Any]:
        return {**OPEN, "properties": {f"p{at}": {"pattern": rf"^\p{{L}}{{100}}$|{at}"} for at in range(count)}}

    with pytest.raises(InvalidDefinition, match='is not a "regex", or is too large a one'):
        await text_of(patterns(100), {})
    assert await text_of(patterns(5), {"p0": "x" * 100, "p4": "4"}) == "done"
    text = await text_of(patterns(5), {f"p{at}": "!" for at in range(5)})
    assert r'arguments.p4: "!" does not match "^\p{L}{100}$|4"' in text


@pytest.mark.spec("SAF-1", "REG-6")
def test_a_field_specification_that_is_nested_too_deep_is_refused() -> None:
    fields: Any = "string"
    for _ in range(2000):
        fields = {"type": "object", "fields": {"x": fields}}
    with pytest.raises(InvalidDefinition, match=r"too many fields inside of one another|levels deep"):
        ToolSet("t").register("t", lambda arguments: "", input={"x": fields})


@pytest.mark.spec("SAF-1", "REG-6")
async def test_a_definition_that_refers_to_itself_for_inner_values_admits_the_maximum_of_levels() -> None:
    node = {"oneOf": [{"type": "integer"}, {"type": "array", "items": {"$ref": "#/$defs/node"}}]}
    schema = {**OPEN, "properties": {"v": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    assert await text_of(schema, {"v": nested(MAX_DEPTH - 1)}) == "done"


# -- names, URIs and cursors ------------------------------------------------------------------------------------------


@pytest.mark.spec("SAF-1", "ERR-2")
@pytest.mark.parametrize(
    ("act", "error"),
    [
        (lambda tools: tools.call_tool(LONG), ToolNotFound),
        (lambda tools: tools.activate_group(LONG), GroupNotFound),
        (lambda tools: tools.default_session.read(f"x:{LONG}"), ToolNotFound),
        (lambda tools: tools.default_session.get_prompt(LONG), ToolNotFound),
    ],
    ids=["tool", "group", "resource", "prompt"],
)
async def test_an_error_about_a_long_name_quotes_its_beginning(
    act: Callable[[ToolSet], Any], error: type[ToolfoldError]
) -> None:
    tools = with_groups("g")
    tools.register_resource_template("x:{name}", lambda values: "")
    with pytest.raises(error) as caught:
        await act(tools)
    assert len(str(caught.value)) < 1000
    assert "xxx… (1,000,00" in str(caught.value)


@pytest.mark.spec("SAF-1", "NAM-1")
@pytest.mark.parametrize("name", [LONG, f"{LONG}.a", "a!" * 100_000], ids=["long", "dotted", "characters"])
def test_the_error_of_a_name_that_is_not_valid_is_short(name: str) -> None:
    with pytest.raises(InvalidName) as caught:
        ToolSet("t").register_group(name)
    assert len(str(caught.value)) < 1000


@pytest.mark.spec("SAF-1", "LST-3")
@pytest.mark.parametrize("cursor", ["A" * (MAX_CURSOR + 1), "A" * 4_000_000])
def test_a_long_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(InvalidCursor) as caught:
        ToolSet("t").list_tools(cursor)
    assert len(str(caught.value)) < 200
    assert base64.b64decode(cursor[:4])


@pytest.mark.spec("SAF-1", "LST-2")
def test_the_cursor_of_the_longest_uri_is_accepted() -> None:
    tools = ToolSet("t", page_size=1)
    uris = [f"x:{number}" + "\N{GRINNING FACE}" * (MAX_URI - 3) for number in (1, 2)]
    for uri in uris:
        tools.register_resource(uri, lambda: "")
    first = tools.default_session.list("resource")
    assert first.next_cursor is not None
    assert (first.names, tools.default_session.list("resource", first.next_cursor).names) == ((uris[0],), (uris[1],))


@pytest.mark.spec("SAF-1", "REG-9")
def test_a_uri_that_is_too_long_is_refused() -> None:
    with pytest.raises(InvalidName, match=f"a URI may have {MAX_URI:,}"):
        ToolSet("t").register_resource("x:" + "y" * MAX_URI, lambda: "")
    with pytest.raises(InvalidName, match=f"a URI may have {MAX_URI:,}"):
        ToolSet("t").register_resource_template("x:{name}" + "y" * MAX_URI, lambda values: "")


@pytest.mark.spec("SAF-1", "REG-9")
def test_a_template_with_too_many_variables_is_refused() -> None:
    many = "/".join(f"{{v{number}}}" for number in range(MAX_VARIABLES + 1))
    with pytest.raises(InvalidDefinition, match=f"{MAX_VARIABLES + 1} variables, .* may have {MAX_VARIABLES}"):
        ToolSet("t").register_resource_template(f"x:{many}", lambda values: "")


@pytest.mark.spec("SAF-1", "REG-9")
async def test_a_uri_that_is_too_long_matches_no_template() -> None:
    tools = ToolSet("t")
    tools.register_resource_template("x:{name}", lambda values: values["name"])
    longest = "y" * (MAX_URI - 2)
    assert (await tools.default_session.read(f"x:{longest}"))["contents"][0]["text"] == longest
    with pytest.raises(ToolNotFound):
        await tools.default_session.read(f"x:{longest}y")


def _as_regular_expression(template: str) -> re.Pattern[str]:
    """The templates of RFC 6570 that there are here, as what defines them: a pattern, tried from the left."""
    parts = re.split(r"\{([^{}]*)\}", template)
    made = ""
    for at, part in enumerate(parts):
        name = part.removeprefix("+")
        made += re.escape(part) if at % 2 == 0 else f"(?P<{name}>{'.+' if part != name else '[^/?#]+'})"
    return re.compile(made)


LITERALS = st.text("ab/", max_size=2)
TEMPLATES = st.lists(st.tuples(st.sampled_from(["", "+"]), LITERALS), min_size=1, max_size=4)


@pytest.mark.spec("SAF-1", "REG-9")
@settings(max_examples=4 * settings().max_examples)
@given(LITERALS, TEMPLATES, st.text("ab/?#\n", max_size=9))
def test_a_template_gives_the_values_that_a_regular_expression_would_find(
    beginning: str, variables: list[tuple[str, str]], rest: str
) -> None:
    made = "".join(f"{{{sign}v{at}}}{literal}" for at, (sign, literal) in enumerate(variables))
    template, uri = f"x:{beginning}{made}", f"x:{beginning}{rest}"
    tools = ToolSet("t")
    found: list[dict[str, str]] = []
    tools.register_resource_template(template, found.append)
    expected = _as_regular_expression(template).fullmatch(uri)
    if expected is None:
        with pytest.raises(ToolNotFound):
            anyio.run(tools.default_session.read, uri)
    else:
        anyio.run(tools.default_session.read, uri)
        assert found == [expected.groupdict()]
