"""Definitions in the shapes of providers' APIs, checked against the types of their official packages (SPEC AGT-3)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from anthropic.types import ToolParam
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter, ValidationError

from examples.assistant import build
from toolfold import ConfigError, ToolSet
from toolfold_adapters.inprocess import Conversation, Format

TYPES: dict[Format, Any] = {
    "anthropic": ToolParam,
    "openai": ChatCompletionFunctionToolParam,
    "openai_responses": FunctionToolParam,
}
SCHEMA = {
    "type": "object",
    "properties": {"id": {"$ref": "#/$defs/id"}},
    "required": ["id"],
    "$defs": {"id": {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}


def fits(definition: Any, kind: Any) -> bool:
    """Return whether a definition is of a package's type, with nothing that the type does not have."""
    try:
        found = TypeAdapter(kind).validate_python(definition)
    except ValidationError:
        return False
    return bool(found == definition)


def shop(**options: Any) -> ToolSet:
    tools = ToolSet("shop", **options)
    tools.register_group("stock", "What there is")
    tools.register_group("orders", "What was ordered", parent="stock")
    tools.register("look", lambda given: f"{given['id']} left", group="stock", input_schema=SCHEMA, title="Look")
    tools.register("secret", lambda: "", group="stock", input_schema={"type": "object"}, hidden=True)
    tools.register("cancel", lambda given: "gone", group="stock.orders", input_schema=SCHEMA, description="Cancel one")
    tools.register("help", lambda: "", input_schema={"type": "object"}, output_schema={"type": "object"})
    return tools


def test_the_check_of_types_finds_a_mismatch() -> None:
    assert not fits({"name": "x"}, ToolParam)
    assert not fits({"name": "x", "input_schema": {"type": "object"}, "inputSchema": {}}, ToolParam)
    assert fits({"name": "x", "input_schema": {"type": "object"}}, ToolParam)


@pytest.mark.spec("AGT-3")
@pytest.mark.parametrize("make", [build, shop], ids=["assistant", "kinds of schemas"])
@pytest.mark.parametrize("format", TYPES)
def test_every_definition_fits_the_type_of_the_official_package(format: Format, make: Callable[[], ToolSet]) -> None:
    tools = make()
    conversation = Conversation(tools, active=[group.path for group in tools.catalog.groups])
    definitions = conversation.tools(format)
    assert len(definitions) == sum(component.hidden is False for component in tools.catalog.tools.values())
    assert [definition for definition in definitions if not fits(definition, TYPES[format])] == []


@pytest.mark.spec("AGT-3")
def test_each_format_has_the_same_content() -> None:
    conversation = Conversation(shop(), active=["stock", "stock.orders"])
    said = {"name": "stock__orders__cancel", "description": "Cancel one"}
    assert {
        "anthropic": conversation.tools("anthropic")[-1],
        "openai": conversation.tools("openai")[-1],
        "openai_responses": conversation.tools("openai_responses")[-1],
        None: conversation.tools()[-1],
    } == {
        "anthropic": {**said, "input_schema": SCHEMA},
        "openai": {"type": "function", "function": {**said, "parameters": SCHEMA}},
        "openai_responses": {"type": "function", **said, "parameters": SCHEMA, "strict": False},
        None: {**said, "inputSchema": SCHEMA},
    }


@pytest.mark.spec("AGT-3", "NAM-6")
async def test_names_have_only_characters_that_providers_accept_and_come_back_on_a_call() -> None:
    async with Conversation(shop(), active=["stock", "stock.orders"]) as conversation:
        names = [definition["name"] for definition in conversation.tools("anthropic")]
        assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)] == []
        results = await conversation.execute([("stock__look", {"id": 3}), ("stock__orders__cancel", '{"id": 1}')])
        assert [result.text for result in results] == ["3 left", "gone"]


@pytest.mark.spec("AGT-3")
def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'openai_responses'"):
        Conversation(shop()).tools("gemini")  # type: ignore[arg-type]
