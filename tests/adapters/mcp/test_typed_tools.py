"""Typed functions on the wire, in both eras, and in process: clients see what they are annotated with."""

from __future__ import annotations

from typing import Annotated

import mcp_types as types
import pytest
from pydantic import BaseModel, Field

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


@pytest.mark.spec("KIT-6", "AGT-1")
async def test_a_conversation_has_the_same_results() -> None:
    async with Conversation(typed()) as conversation:
        found, picture = await conversation.execute([("find", {"words": "tea", "limit": 1}), ("picture", {})])
    assert (found.structured, found.text) == ({"result": [{"id": 0, "note": ""}]}, '[{"id": 0, "note": ""}]')
    assert picture.content[0]["mimeType"] == "image/png"
