"""`read_tool`, which calls only tools that declare `readOnlyHint` (SPEC CTL-9)."""

from __future__ import annotations

from typing import Any

import pytest
from mcp import Client

from tests.adapters.mcp.support import build_server, change_of, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from toolfold import ConfigError, ToolSet

pytestmark = pytest.mark.spec("CTL-9")

ERAS = ("legacy", MODERN)
OBJECT = {"type": "object"}
HINTS: dict[str, Any] = {"peek": {"readOnlyHint": True}, "wipe": {"readOnlyHint": False}, "plain": None}


def drawer(ran: list[str], **settings: Any) -> ToolSet:
    """Tools in a group that note that they ran: one that reads, one that does not, and one that says nothing."""
    tools = ToolSet("drawer", control="open_group", search=lambda documents: lambda query: [], **settings)
    tools.register_group("inside", "What is inside")
    for name, hints in HINTS.items():
        given: dict[str, Any] = {"group": "inside", "input_schema": OBJECT, "annotations": hints}
        tools.register(name, lambda arguments, name=name: ran.append(name), **given)
    return tools


async def read(client: Client, name: str, handle: dict[str, Any], **arguments: Any) -> Any:
    return await client.call_tool("read_tool", {"name": name, "arguments": arguments, **handle})


@pytest.mark.parametrize("era", ERAS)
async def test_it_calls_what_says_that_it_reads_and_refuses_the_rest(era: str) -> None:
    ran: list[str] = []
    async with client_of(build_server(drawer(ran), read_tool=True), era) as (client, _):
        opened = await read(client, "open_group", {}, group="inside")
        handle = {"handle": change_of(opened)["handle"]} if era == MODERN else {}
        assert not (await read(client, "inside.peek", handle)).is_error
        for name in ("inside.wipe", "inside.plain"):
            refused = await read(client, name, handle)
            assert refused.is_error
            assert text_of(refused) == f"{name} does not say that it only reads: call it by call_tool."
        assert ran == ["peek"]
        assert not (await client.call_tool("call_tool", {"name": "inside.wipe", **handle})).is_error
        assert ran == ["peek", "wipe"]


@pytest.mark.spec("CALL-1")
@pytest.mark.parametrize("era", ERAS)
async def test_it_says_of_a_closed_tool_what_it_says_of_an_unknown_one(era: str) -> None:
    async with client_of(build_server(drawer([]), read_tool=True), era) as (client, _):
        wrong = [text_of(await read(client, name, {})).replace(name, "?") for name in ("inside.wipe", "nothing")]
        assert wrong[0] == wrong[1]
        assert wrong[0].startswith("Unknown tool: ?")


@pytest.mark.spec("CTL-8")
@pytest.mark.parametrize("era", ERAS)
async def test_hints_tell_apart_what_a_host_may_let_pass(era: str) -> None:
    async with client_of(build_server(drawer([]), read_tool=True), era) as (client, _):
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        reading = {name for name, given in hints.items() if given is not None and given.read_only_hint}
        assert reading == {"read_tool", "find_tools", "open_group", "close_group"}
        assert set(hints) - reading == {"call_tool"}


def test_its_name_is_taken_while_it_is_there() -> None:
    tools = drawer([])
    tools.register("read_tool", lambda: "mine", input_schema=OBJECT)
    build_server(tools)
    with pytest.raises(ConfigError, match="read_tool="):
        build_server(tools, read_tool=True)
    with pytest.raises(ConfigError, match="'read_tool'"):
        build_server(drawer([]), read_tool=True, call_tool="read_tool")
