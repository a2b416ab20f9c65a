"""Disclosure of what is no tool, and to whom: prompts, resources, callers, profiles (SPEC DEL-5, REG-9)."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.client import advertise
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server
from tests.adapters.mcp.test_handle_delivery import MODERN
from toolfold import ToolSet

pytestmark = pytest.mark.spec("DEL-5")

DECLARED = [advertise("io.modelcontextprotocol/groups", {})]


def make_library(journal: list[str]) -> ToolSet:
    tools = ToolSet("library")
    tools.register_group(
        "shelf",
        on_activate=lambda: journal.append("on"),
        on_deactivate=lambda: journal.append("off"),
    )
    tools.register_prompt("ask", lambda: "Ask.", group="shelf")
    tools.register_resource("note:///one", lambda: "first", group="shelf")
    tools.register_resource_template(
        "note:///by/{author}", lambda arguments: f"of {arguments['author']}", group="shelf"
    )
    return tools


@pytest.mark.spec("REG-9")
async def test_clients_that_declare_the_extension_use_prompts_and_resources_of_closed_groups() -> None:
    journal: list[str] = []
    server = build_server(make_library(journal))
    async with Client(server, mode=MODERN, extensions=DECLARED) as client:
        assert (await client.list_prompts()).prompts == []
        prompt = await client.get_prompt("shelf.ask")
        assert prompt.messages[0].content.text == "Ask."  # type: ignore[union-attr]
        for uri, text in (("note:///one", "first"), ("note:///by/ada", "of ada")):
            assert (await client.read_resource(uri)).contents[0].text == text  # type: ignore[union-attr]
        assert journal == ["on", "off"] * 3
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("note:///none/of/these")
    async with Client(server, mode=MODERN) as other:
        with pytest.raises(MCPError, match=r"Unknown prompt: shelf\.ask"):
            await other.get_prompt("shelf.ask")


@pytest.mark.spec("DEL-6")
async def test_declaring_the_extension_does_not_bypass_authentication() -> None:
    async with Client(build_server(make_shop(), delivery="principal"), mode=MODERN, extensions=DECLARED) as client:
        for asked in (client.list_tools, client.list_prompts, lambda: client.call_tool("stock.count", {})):
            with pytest.raises(MCPError, match="not authenticated"):
                await asked()


async def test_instructions_for_clients_that_declare_the_extension_name_no_control_tools() -> None:
    tools = make_shop()
    tools.register_group("rules", instructions="Weigh twice.", pinned=True)
    for given, expected in ((None, "Weigh twice."), ("Be brief.", "Be brief.\n\nWeigh twice.")):
        async with Client(build_server(tools, instructions=given), mode="auto", extensions=DECLARED) as client:
            assert client.instructions == expected
    for options, said in (({"instructions": "Be brief."}, "Be brief."), ({}, None)):
        async with Client(build_server(make_shop(), **options), mode="auto", extensions=DECLARED) as client:
            assert client.instructions == said
    async with Client(build_server(make_shop()), mode="auto") as other:
        assert "cash.activate" in (other.instructions or "")
