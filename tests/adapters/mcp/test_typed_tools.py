"""Typed functions on the wire, in both eras, and in process: clients see what they are annotated with."""

from __future__ import annotations

from typing import Annotated

import mcp_types as types
import pytest
from pydantic import BaseModel, Field

from tests.adapters.mcp.support import build_server, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation


class Order(BaseModel):
    id: int
    note: str = ""


def typed() -> ToolSet:
    tools = ToolSet("typed")

    @tools.tool
    def find(words: Annotated[str, Field(min_length=2)], limit: int = 10) -> list[Order]:
        """Find orders.

        Args:
            words: What to look for.
            limit: How many to return.
        """
        return [Order(id=number) for number in range(limit)]

    @tools.tool
    def broken() -> Order:
        return Order.model_construct(id="one")

    @tools.tool
    def picture() -> types.ImageContent:
        return types.ImageContent(type="image", data="eA==", mime_type="image/png")

    return tools


@pytest.mark.spec("KIT-2", "KIT-6", "KIT-1")
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_definitions_and_structured_content_reach_clients_which_validate_them(era: str) -> None:
    async with client_of(build_server(typed()), era) as (client, _):
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed["find"].description == "Find orders."
        assert listed["find"].input_schema["properties"] == {
            "words": {"type": "string", "minLength": 2, "description": "What to look for."},
            "limit": {"type": "integer", "default": 10, "description": "How many to return."},
        }
        output = listed["find"].output_schema
        assert output is not None
        assert output["properties"]["result"]["items"] == {"$ref": "#/$defs/Order"}
        assert listed["picture"].output_schema is None
        found = await client.call_tool("find", {"words": "tea", "limit": 1})
        assert found.structured_content == {"result": [{"id": 0, "note": ""}]}
        assert text_of(found) == '[{"id": 0, "note": ""}]'
        assert (await client.call_tool("find", {"words": "t"})).is_error
        failed = await client.call_tool("broken", {})
        assert (failed.is_error, failed.structured_content) == (True, None)
        (image,) = (await client.call_tool("picture", {})).content
        assert isinstance(image, types.ImageContent)


@pytest.mark.spec("KIT-6", "AGT-1")
async def test_a_conversation_has_the_same_results() -> None:
    async with Conversation(typed()) as conversation:
        found, picture = await conversation.execute([("find", {"words": "tea", "limit": 1}), ("picture", {})])
    assert (found.structured, found.text) == ({"result": [{"id": 0, "note": ""}]}, '[{"id": 0, "note": ""}]')
    assert picture.content[0]["mimeType"] == "image/png"


class Dated(BaseModel):
    day: Annotated[str, Field(pattern=r"^(?i)\d{4}-\d{2}$")]


@pytest.mark.spec("GWY-20", "REG-6", "KIT-6")
@pytest.mark.parametrize("era", ["legacy", MODERN])
async def test_an_output_schema_that_strict_clients_cannot_compile_is_not_listed_and_still_checked(era: str) -> None:
    tools = typed()

    @tools.tool
    def dated(day: str) -> Dated:
        return Dated.model_construct(day=day)

    async with client_of(build_server(tools), era) as (client, _):
        listed = {tool.name: tool.output_schema is not None for tool in (await client.list_tools()).tools}
        assert (listed["dated"], listed["find"]) == (False, True)
        given = [await client.call_tool("dated", {"day": day}) for day in ("2026-01", "soon")]
    assert [answer.is_error for answer in given] == [False, True]
    assert given[0].structured_content == {"day": "2026-01"}
