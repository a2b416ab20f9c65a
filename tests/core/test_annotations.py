"""SPEC KIT-2: the annotations of a handler's parameters describe its arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Annotated, Any, Literal, NewType, Optional

import pytest
from annotated_types import Ge
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, create_model
from pydantic_core import CoreSchema, core_schema
from typing_extensions import TypedDict

from tests.core.support import own
from toolfold import InvalidDefinition, ToolSet


class Order(BaseModel):
    """What was ordered."""

    id: int
    lines: list[Line] = []


class Line(BaseModel):
    text: str


class Node(BaseModel):
    next: Optional[Node] = None  # noqa: UP045 - as people write it


class Point(TypedDict, total=False):
    x: float


class Color(Enum):
    RED = "red"
    BLUE = "blue"


UserId = NewType("UserId", int)
Percent = Annotated[int, Field(ge=0, le=100, description="A percentage.")]


def function_of(parameters: dict[str, tuple[Any, Any]]) -> Callable[..., Any]:
    """Return a function with parameters of these annotations and defaults, `...` for none."""
    names = ", ".join(name if default is ... else f"{name}=_{name}" for name, (_, default) in parameters.items())
    space: dict[str, Any] = {f"_{name}": default for name, (_, default) in parameters.items()}
    exec(f"def function({names and '*, ' + names}): return 'called'", space)
    space["function"].__annotations__ = {name: annotation for name, (annotation, _) in parameters.items()}
    function: Callable[..., Any] = space["function"]
    return function


def without_titles(schema: Any, *, names: bool = False) -> Any:
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: without_titles(value, names=key in ("properties", "$defs"))
        for key, value in schema.items()
        if names or key != "title"
    }


SIGNATURES: list[dict[str, tuple[Any, Any]]] = [
    {},
    {"a": (str, ...), "b": (int, 3), "c": (bool, True), "d": (float, 1), "e": (list[str] | None, None)},
    {"first": (int | str, ...), "second": (str | int, ...)},
    {"first": (Literal["a", "b"], ...), "second": (Literal["b", "a"], "a"), "third": (Literal[1, True], True)},
    {"one": (int, 1), "other": (int, True), "third": (float, 1.0), "fourth": (float, -0.0)},
    {"order": (Order, ...), "orders": (list[Order], []), "line": (Line | None, None)},
    {"node": (Node, ...), "point": (Point, ...), "color": (Color, Color.RED), "user": (UserId, 7)},
    {
        "share": (Percent, 5),
        "least": (Annotated[int, Ge(0)], 1),
        "described": (Annotated[Order, Field(description="d")], ...),
    },
    {
        "text": (Annotated[str, Field(min_length=1, pattern="^a", examples=["ab"])], "a"),
        "many": (dict[str, Percent], {}),
    },
    {"by_default": (int, Field(4, ge=1, description="How many.")), "made": (list[int], Field(default_factory=list))},
    {"model_config": (int, ...), "schema": (str, ...), "self": (str, ...), "_private": (int, 1)},
    {"any": (Any, ...), "anything": (object, None), "nested": (list[Annotated[int, Field(description="n")]], ...)},
]


@pytest.mark.spec("KIT-2")
@pytest.mark.parametrize("parameters", SIGNATURES, ids=[" ".join(one) or "none" for one in SIGNATURES])
async def test_the_schema_is_that_of_one_model_of_all_parameters(parameters: dict[str, tuple[Any, Any]]) -> None:
    fields: dict[str, Any] = {
        f"p{number}": (Annotated[annotation, default], Field(alias=name))
        if type(default) is type(Field())
        else (annotation, Field(default, alias=name))
        for number, (name, (annotation, default)) in enumerate(parameters.items())
    }
    model = create_model("arguments", __config__=ConfigDict(extra="forbid"), **fields)
    tools = ToolSet("t")
    for other in SIGNATURES:  # what was registered before makes no difference
        if other is not parameters:
            tools.register(f"t{SIGNATURES.index(other)}", function_of(other))
    assert tools.register("t", function_of(parameters)).input_schema == without_titles(model.model_json_schema())


@pytest.mark.spec("KIT-2")
async def test_a_default_may_be_a_field_as_in_other_frameworks() -> None:
    tools = ToolSet("t")

    @tools.tool
    def page(
        size: int = Field(10, ge=1, description="How many."), token: str = Field(description="From the last.")
    ) -> str:
        return f"{size} {token}"

    assert own(tools)["page"].input_schema["properties"] == {
        "size": {"type": "integer", "default": 10, "minimum": 1, "description": "How many."},
        "token": {"type": "string", "description": "From the last."},
    }
    assert own(tools)["page"].input_schema["required"] == ["token"]
    assert (await tools.call_tool("page", {"token": "x"})).text == "10 x"
    assert (await tools.call_tool("page", {"token": "x", "size": 0})).is_error


@pytest.mark.spec("KIT-2")
async def test_classes_of_one_name_are_distinguished_in_one_signature() -> None:
    one: Any = create_model("Item", a=(int, ...))
    other: Any = create_model("Item", b=(str, ...))
    tools = ToolSet("t")
    tools.register("t", function_of({"one": (one, ...), "other": (list[other], ...)}))
    assert not (await tools.call_tool("t", {"one": {"a": 1}, "other": [{"b": "x"}]})).is_error
    assert (await tools.call_tool("t", {"one": {"b": "x"}, "other": []})).is_error


class Counted:
    """A class that counts how often its schema is made."""

    made = 0

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        cls.made += 1
        return core_schema.str_schema()


@pytest.mark.spec("REG-8")
async def test_schemas_are_made_once_for_equal_annotations_and_models_when_a_tool_is_first_called() -> None:
    tools = ToolSet("t")
    for number in range(10):
        tools.register(f"t{number}", function_of({"text": (Counted, "x"), "more": (list[Counted], ...)}))
    registered = Counted.made
    assert registered < 10
    assert len(tools.list_tools().tools) == 10
    assert Counted.made == registered
    for _ in range(3):
        assert (await tools.call_tool("t0", {"more": ["y"]})).text == "called"
    assert Counted.made > registered
    called = Counted.made
    await tools.call_tool("t0", {"more": []})
    assert Counted.made == called


class Opaque: ...


UNSET: Any = object()


@pytest.mark.spec("KIT-2")
async def test_a_default_without_a_json_form_is_no_part_of_the_schema_and_is_what_the_handler_gets() -> None:
    tools = ToolSet("t")

    @tools.tool
    def t(a: int = UNSET, b: float = math.inf) -> list[bool]:
        return [a is UNSET, b == math.inf]

    (tool,) = tools.list_tools().tools
    assert tool.input_schema["properties"] == {"a": {"type": "integer"}, "b": {"type": "number"}}
    assert "required" not in tool.input_schema
    assert (await tools.call_tool("t")).structured == {"result": [True, True]}


ForeignContext = type("Context", (), {})


def unresolvable(a: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821


Many: Any = Literal[tuple(f"value {number}" for number in range(11_000))]

REFUSED: list[tuple[Callable[..., Any], str]] = [
    (
        function_of({"a": (str, ...), "it": (Opaque, ...)}),
        "no schema follows from its parameter 'it' .Unable to generate .*Opaque'>.: annotate it",
    ),
    (function_of({"it": (Callable[[int], int], ...)}), "no schema follows from its parameter 'it' "),
    (function_of({"it": (Annotated[str, Field(pattern="(")], ...)}), "no schema follows from its parameter 'it' "),
    (function_of({"one": (Many, ...), "other": (list[Many], ...)}), "its input schema has more than 20,000 values"),
    (function_of({"it": (Annotated[str, Field(description="\udce9")], ...)}), "its input schema is not JSON"),
    (function_of({"it": (Annotated[str, Field(description="x" * 2**20)], ...)}), "its input schema has 1,048,"),
    (
        function_of({"ctx": (ForeignContext, ...)}),
        "no .* parameter 'ctx' .*: the context of a call is annotated as toolfold",
    ),
    (unresolvable, "its annotations can't be resolved .name 'Missing' is not defined.: import"),
    (
        lambda *args: None,
        r"its parameter \*args can't be given by name, .* describe them by input=, and take them as one",
    ),
    (lambda **options: None, r"its parameter \*\*options can't be given by name"),
    (lambda a, /: None, "its parameter a can't be given by name"),
]


@pytest.mark.spec("KIT-2", "REG-1", "REG-6", "ERR-2")
@pytest.mark.parametrize(
    ("function", "problem"), REFUSED, ids=[f"{number} {problem[:40]}" for number, (_, problem) in enumerate(REFUSED)]
)
def test_parameters_without_a_schema_are_refused_at_registration_naming_tool_and_parameter(
    function: Callable[..., Any], problem: str
) -> None:
    tools = ToolSet("t")
    before = tools.catalog
    for _ in range(2):
        with pytest.raises(InvalidDefinition, match=f"'t' can't be registered: {problem}"):
            tools.register("t", function)
    assert tools.catalog is before


async def test_validators_in_annotations_convert_arguments() -> None:
    tools = ToolSet("t")
    tools.register("t", doubling)
    assert (await tools.call_tool("t", {"number": 4})).text == "8"


def doubling(number: Annotated[int, AfterValidator(lambda value: value * 2)]) -> int:
    return number
