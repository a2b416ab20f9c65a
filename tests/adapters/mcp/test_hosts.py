"""Answers are short for clients that are known to cut them (SPEC CTL-4)."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest

from tests.adapters.mcp.support import build_server, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold import ToolSet

OBJECT = {"type": "object"}


@pytest.mark.spec("CTL-4")
@pytest.mark.parametrize("era", ["legacy", MODERN])
@pytest.mark.parametrize(
    ("name", "most"), [("Cline", 5_500), ("fast-agent-mcp", 15_000), ("another", 20_000), ("decline", 20_000)]
)
async def test_an_answer_has_what_its_host_shows(era: str, name: str, most: int) -> None:
    tools = ToolSet("long")
    tools.register_group("g")
    for number in range(60):
        schema: dict[str, Any] = {**OBJECT, "properties": {"x": {"type": "string", "description": "word " * 100}}}
        tools.register(f"tool_{number}", lambda arguments: "", description="Some.", input_schema=schema, group="g")
    client_info = types.Implementation(name=name, version="1")
    async with client_of(build_server(tools), era, client_info=client_info) as (client, _):
        text = text_of(await client.call_tool("g.activate", {}))
        assert most - 700 < len(text) <= most
        assert all(f"g.tool_{number}(x?: str)" in text for number in range(40, 60))
