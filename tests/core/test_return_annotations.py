"""SPEC KIT-6: return annotations give output schemas and structured content, as in the MCP SDK."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import mcp_types as types
import pytest
from mcp.server.mcpserver.utilities.func_metadata import func_metadata
from mcp.server.mcpserver.utilities.types import Image
from pydantic import AfterValidator, BaseModel, Field, RootModel

from toolfold import Context, InputRequired, InvalidDefinition, ToolResult, ToolSet


class Order(BaseModel):
    """What was ordered."""

    id: int
    text: str = Field(default="", alias="note")


class Paid(Order):
    by: str = "card"


class Node(BaseModel):
    value: int
    next: Node | None = None


class Point(TypedDict, total=False):
    x: int
    y: int


@dataclass
class Size:
    width: int
    unit: str = "m"
    tags: list[str] = field(default_factory=list)


class Reading:
    """An ordinary class with annotated attributes."""

    value: float
    unit: str = "C"

    def __init__(self, value: float) -> None:
        self.value = value


class Opaque: ...


class Color(Enum):
    RED = "red"


def returning(annotation: Any, value: Any) -> Callable[[], Any]:
    def function() -> Any:
        return value

    function.__annotations__ = {"return": annotation}
    return function


def without_titles(schema: Any) -> Any:
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: without_titles(value) for key, value in schema.items() if key != "title"}


AS_THE_SDK: list[tuple[Any, Any]] = [
    (str, "text"),
    (int, 3),
    (float, 1.5),
    (bool, True),
    (bytes, b"x"),
    (None, None),
    (list[int], [1, 2]),
    (tuple[int, str], (1, "a")),
    (set[str], {"a"}),
    (dict[str, int], {"a": 1}),
    (dict[int, str], {1: "a"}),
    (Mapping[str, int], {"a": 1}),
    (Sequence[Order], [Order(id=1)]),
    (int | None, None),
    (Literal["a", "b"], "a"),
    (Annotated[int, Field(ge=0, description="How many.")], 3),
    (Order, Order(id=1, note="n")),
    (Order, {"id": 1, "text": "by its name in Python"}),
    (Order, Paid(id=1)),
    (Order | Size, Order(id=1)),
    (list[Order], [Order(id=1)]),
    (Node, Node(value=1, next=Node(value=2))),
    (Point, {"x": 1}),
    (Reading, Reading(1.5)),
    (list, [1]),
    (Any, 1),
    (object, 1),
    (Color, Color.RED),
    (date, date(2020, 1, 1)),
    (types.TextContent, types.TextContent(type="text", text="read")),
    (list[types.TextContent | str], [types.TextContent(type="text", text="read"), "this"]),
    (Image, Image(data=b"x", format="png")),
    (types.CallToolResult, types.CallToolResult(content=[types.TextContent(type="text", text="read")])),
    (
        Annotated[types.CallToolResult, Point],
        types.CallToolResult(content=[types.TextContent(type="text", text="read")], structured_content={"x": 1}),
    ),
]


@pytest.mark.spec("KIT-6")
@pytest.mark.parametrize(
    ("annotation", "value"), AS_THE_SDK, ids=[f"{n} {one}" for n, (one, _) in enumerate(AS_THE_SDK)]
)
async def test_schema_and_structured_content_are_those_of_the_sdk(annotation: Any, value: Any) -> None:
    function = returning(annotation, value)
    expected = func_metadata(function)
    tools = ToolSet("t")
    definition = tools.register("t", function).definition
    result = await tools.call_tool("t")
    answer: Any = expected.convert_result(value)
    assert definition.get("outputSchema") == without_titles(expected.output_schema)
    assert (result.is_error, result.structured) == (False, answer.structured_content)
    if answer.structured_content is None:
        texts = [block.text for block in answer.content if isinstance(block, types.TextContent)]
        assert len(result.content) == len(answer.content)
        assert isinstance(value, int | list | Enum | date) or result.text == "\n".join(texts)


@pytest.mark.spec("KIT-6")
async def test_a_dataclass_needs_no_more_than_the_class_does() -> None:
    tools = ToolSet("t")
    schema = tools.register("t", returning(Size, Size(3))).definition["outputSchema"]
    assert (list(schema["properties"]), schema["required"]) == (["width", "unit", "tags"], ["width"])
    assert (await tools.call_tool("t")).structured == {"width": 3, "unit": "m", "tags": []}


@pytest.mark.spec("KIT-6")
async def test_a_model_whose_root_is_no_object_is_wrapped_since_structured_content_must_be_an_object() -> None:
    tools = ToolSet("t")
    schema = tools.register("t", returning(RootModel[list[int]], [1])).definition["outputSchema"]
    assert schema["properties"] == {"result": {"type": "array", "items": {"type": "integer"}}}
    assert (await tools.call_tool("t")).structured == {"result": [1]}


@pytest.mark.spec("KIT-6", "CALL-3")
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (int, "secret"),
        (str, 5),
        (Order, {"id": "secret"}),
        (Order, Size(1)),
        (list[Order], [Order(id=1), "secret"]),
        (Point, {"x": "secret"}),
        (dict[str, int], {"one": "secret"}),
        (Order, ToolResult.of_text("read", {"id": "secret"})),
        (Annotated[str, AfterValidator(lambda value: [][1])], "secret"),
    ],
)
async def test_a_result_that_is_not_as_annotated_is_an_error_that_does_not_quote_it(
    annotation: Any, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tools = ToolSet("t")
    tools.register("t", returning(annotation, value))
    result = await tools.call_tool("t")
    assert (result.is_error, result.structured) == (True, None)
    assert "secret" not in result.text


@pytest.mark.spec("KIT-6")
async def test_a_validator_that_refuses_what_the_schema_allows_makes_an_error() -> None:
    def even(value: int) -> int:
        if value % 2:
            raise ValueError("odd")
        return value

    tools = ToolSet("t")
    tools.register("t", returning(Annotated[int, AfterValidator(even)], 3))
    result = await tools.call_tool("t")
    assert (result.is_error, "it is not what the return annotation says" in result.text) == (True, True)


@pytest.mark.spec("KIT-6")
async def test_results_that_a_handler_makes_itself_are_described_only_by_what_their_annotation_adds() -> None:
    tools = ToolSet("t")
    made = ToolResult.of_text("read", {"id": 1})
    for name, annotation in {
        "plain": ToolResult,
        "either": ToolResult | str,
        "asking": InputRequired,
        "missing": None,
    }.items():
        function = returning(annotation, made)
        if name == "missing":
            del function.__annotations__["return"]
        assert "outputSchema" not in tools.register(name, function).definition
        assert await tools.call_tool(name) == made
    described = tools.register("described", returning(Annotated[ToolResult, Order], made)).definition
    assert described["outputSchema"]["required"] == ["id"]
    assert (await tools.call_tool("described")).structured == {"id": 1}
    asking = tools.register("order", returning(Order | InputRequired, InputRequired(state="s"))).definition
    assert asking["outputSchema"] == described["outputSchema"]
    assert (await tools.call_tool("order")).needs == InputRequired(state="s")


@pytest.mark.spec("KIT-6", "KIT-8")
async def test_output_schemas_from_annotations_can_be_disabled_for_a_tool_and_for_a_tool_set() -> None:
    function = returning(int, 3)
    some, none = ToolSet("some"), ToolSet("none", structured_output=False)
    assert "outputSchema" not in some.register("t", function, structured_output=False).definition
    assert "outputSchema" not in some.register("unchecked", function, check_output=False).definition
    assert "outputSchema" not in none.register("t", function).definition
    assert "outputSchema" in none.register("wanted", function, structured_output=True).definition
    assert "outputSchema" in none.register("both", function, structured_output=True, check_output=False).definition
    assert "outputSchema" in none.register("declared", function, output_schema={"type": "integer"}).definition
    for tools, name in ((some, "t"), (some, "unchecked"), (none, "t")):
        assert (await tools.call_tool(name)).structured is None
    for name in ("wanted", "both"):
        assert (await none.call_tool(name)).structured == {"result": 3}


def raw(arguments: dict[str, Any], context: Context) -> int:
    return 3


REFUSED: list[tuple[Callable[..., Any], dict[str, Any], str]] = [
    (lambda: 3, {}, "its handler is not annotated with what it returns: annotate it with a model or another type"),
    (returning(Opaque, 3), {}, "its handler is not annotated with what it returns: annotate it"),
    (returning(list[Opaque], 3), {}, "no schema follows from what its handler returns .Unable to generate"),
    (raw, {"input": {}}, "structured_output is for a handler that alone describes arguments and results: leave it out"),
    (returning(int, 3), {"output": {"type": "integer"}}, "structured_output is for a handler that alone describes"),
]


@pytest.mark.spec("KIT-6", "KIT-8", "REG-1")
@pytest.mark.parametrize(("handler", "options", "problem"), REFUSED, ids=range(len(REFUSED)))
def test_structured_output_that_nothing_describes_is_refused(
    handler: Callable[..., Any], options: dict[str, Any], problem: str
) -> None:
    tools = ToolSet("t")
    before = tools.catalog
    with pytest.raises(InvalidDefinition, match=problem):
        tools.register("t", handler, structured_output=True, **options)
    assert tools.catalog is before


@pytest.mark.spec("KIT-6")
def test_a_return_annotation_without_a_schema_describes_nothing() -> None:
    assert "outputSchema" not in ToolSet("t").register("t", returning(list[Opaque], [])).definition


async def test_a_result_of_the_sdk_is_one_with_all_that_it_says() -> None:
    image = types.ImageContent(type="image", data="eA==", mime_type="image/png")
    made = types.CallToolResult(content=[image], structured_content={"x": 1}, is_error=True, _meta={"m": 1})
    tools = ToolSet("t")
    tools.register("t", returning(types.CallToolResult, made))
    block = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    assert await tools.call_tool("t") == ToolResult([block], {"x": 1}, True, {"m": 1})
