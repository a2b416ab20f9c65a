"""`call_tool` itself: its name, who is offered it, and that it obeys what a direct call obeys (SPEC DEL-2, DEL-8)."""

from __future__ import annotations

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server, client_of, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of, through
from toolfold import ConfigError, ToolSet

ERAS = ("legacy", MODERN)
OBJECT = {"type": "object"}


@pytest.mark.spec("DEL-8")
async def test_legacy_sessions_can_do_without_it() -> None:
    server = build_server(make_shop(), legacy_call_tool=False)
    async with client_of(server, "legacy") as (client, _):
        assert "call_tool" not in await names_of(client)
        assert "call_tool" not in (client.instructions or "")
        with pytest.raises(MCPError, match="Unknown tool: call_tool"):
            await through(client, "hello")


@pytest.mark.spec("DEL-2", "CTL-8")
@pytest.mark.parametrize("era", ERAS)
async def test_it_is_listed_in_its_place_and_shows_a_handle_in_the_modern_era_only(era: str) -> None:
    async with client_of(build_server(make_shop()), era) as (client, _):
        names = await names_of(client)
        assert names == sorted(names)
        shown = {tool.name: tool.input_schema for tool in (await client.list_tools()).tools}
        for name in ("call_tool", "stock.activate", "stock.deactivate"):
            assert ("handle" in shown[name]["properties"]) == (era == MODERN)
        assert "handle" not in shown["hello"].get("properties", {})
        if era == "legacy":
            for name, given in (("call_tool", {"name": "hello"}), ("cash.activate", {})):
                assert not (await client.call_tool(name, {**given, "handle": "x"})).is_error


@pytest.mark.spec("DEL-2")
@pytest.mark.parametrize("era", ERAS)
async def test_it_can_have_another_name(era: str) -> None:
    tools = make_shop()
    tools.register("call_tool", lambda: "mine", input_schema=OBJECT)
    async with client_of(build_server(tools, call_tool="use"), era) as (client, _):
        assert {"use", "call_tool"} <= set(await names_of(client))
        assert text_of(await client.call_tool("call_tool", {})) == "mine"
        assert text_of(await client.call_tool("use", {"name": "call_tool"})) == "mine"
    async with Client(build_server(tools, call_tool="use"), mode="auto") as client:
        assert "with which use calls its tools" in (client.instructions or "")


@pytest.mark.spec("DEL-2", "NAM-6")
def test_a_tool_of_its_name_is_an_error_when_the_server_is_built_or_the_tool_registered() -> None:
    taken = make_shop()
    taken.register("call_tool", lambda: "mine", input_schema=OBJECT)
    with pytest.raises(ConfigError, match="call_tool="):
        build_server(taken)
    tools = make_shop()
    build_server(tools)
    before = tools.catalog
    with pytest.raises(ConfigError, match="'call_tool'"):
        tools.register("call_tool", lambda: "mine", input_schema=OBJECT)
    assert tools.catalog is before
    for wrong in ("", "call tool", "call.tool", "x" * 200):
        with pytest.raises(ConfigError):
            build_server(make_shop(), call_tool=wrong)


@pytest.mark.spec("DEL-2", "NAM-6")
def test_a_tool_with_its_name_on_the_wire_is_an_error_too() -> None:
    tools = ToolSet("calls")
    tools.register_group("call")
    tools.register("tool", lambda: "x", group="call", input_schema=OBJECT)
    build_server(tools)
    with pytest.raises(ConfigError, match="'call_tool'"):
        build_server(tools, separator="_")


@pytest.mark.spec("DEL-2")
@pytest.mark.parametrize("era", ERAS)
async def test_without_groups_there_is_none_until_there_are_some(era: str) -> None:
    tools = ToolSet("flat")
    tools.register("hello", lambda: "hello", input_schema=OBJECT)
    async with client_of(build_server(tools), era) as (client, _):
        assert await names_of(client) == ["hello"]
        with pytest.raises(MCPError, match="Unknown tool: call_tool"):
            await through(client, "hello")
        assert not client.instructions
        tools.register_group("later")
        assert "call_tool" in await names_of(client)
        assert text_of(await through(client, "hello")) == "hello"
