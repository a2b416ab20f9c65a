"""Composite tools on the wire of both eras: restricted definitions, `_meta`, one reading for each request (SPEC 13)."""

from __future__ import annotations

from typing import Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.client import advertise
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.support import build_server, client_of, schemas_in, target_of
from tests.adapters.mcp.test_disclosure import EXTENSION, contents_of
from tests.adapters.mcp.test_handle_delivery import text_of, through
from tests.core.modes import Buffers
from toolfold import Mode, Modes, ToolSet, View, Visibility
from toolfold_adapters.names import HANDLE_META

ERAS = ("legacy", "auto")
NAMES = ("errors", "network", "actions")
HOOKS = {"on_activate": lambda: None, "on_deactivate": lambda: None}
SCHEMA = {
    "type": "object",
    "properties": {"what": {"type": "string", "enum": list(NAMES)}},
    "required": ["what"],
}


def filled(name: str) -> Mode:
    def count(view: View) -> int:
        return int(view.state.get(name, 0))

    return Mode(available=lambda view: count(view) > 0, count=count)


def page_tools(buffers: Buffers, **hooks: Any) -> ToolSet:
    """Return a composite tool at the root, one in a group, and a plain tool with a predicate."""
    tools = ToolSet("page", state=buffers.read)
    tools.register_group("inner", **hooks)
    modes = Modes("what", {name: filled(name) for name in NAMES})
    for group in (None, "inner"):
        tools.register(
            "observe",
            lambda arguments: arguments["what"],
            group=group,
            input_schema=SCHEMA,
            modes=modes,
            category="page",
        )
    tools.register("seen", lambda: "seen", visibility=Visibility.when(lambda view: "network" in view.state))
    return tools


async def listed(client: Client, handle: str | None = None) -> dict[str, dict[str, Any]]:
    meta: Any = {HANDLE_META: handle} if handle else {}
    tools = (await client.list_tools(cache_mode="bypass", meta=meta)).tools
    return {tool.name: tool.model_dump(by_alias=True, exclude_none=True) for tool in tools}


@pytest.mark.spec("MOD-1", "MOD-4", "CALL-1")
@pytest.mark.parametrize("era", ERAS)
async def test_unavailable_modes_and_tools_without_modes_are_refused_like_unknown_ones(era: str) -> None:
    buffers = Buffers(network=1)
    async with target_of("memory", page_tools(buffers)) as target, client_of(target, era) as (client, _):
        unavailable = await client.call_tool("observe", {"what": "actions"})
        nonsense = await client.call_tool("observe", {"what": "nonsense"})
        assert unavailable.is_error
        assert text_of(unavailable).replace("actions", "nonsense") == text_of(nonsense)
        assert text_of(await client.call_tool("observe", {"what": "network"})) == "network"
        buffers.held = {}
        with pytest.raises(MCPError, match=r"^Unknown tool: observe$"):
            await client.call_tool("observe", {"what": "network"})


@pytest.mark.spec("DEL-2", "MOD-1", "MOD-2")
@pytest.mark.parametrize("hooks", [False, True])
async def test_opening_a_group_gives_a_modern_client_the_restricted_definitions(hooks: bool) -> None:
    buffers = Buffers(network=3)
    tools = page_tools(buffers, on_activate=(lambda: None) if hooks else None)
    async with target_of("memory", tools) as target, client_of(target, "auto") as (client, _):
        result = await client.call_tool("inner.activate", {})
        (schema,) = schemas_in(text_of(result)).values()
        assert schema["properties"]["what"]["enum"] == ["network"]
        shown = (await listed(client, (result.meta or {})[HANDLE_META]))["inner.observe"]
        assert schema == shown["inputSchema"]
        assert shown["_meta"]["data_counts"] == {"network": 3}


@pytest.mark.spec("MOD-3")
@pytest.mark.parametrize("era", ERAS)
async def test_each_request_on_the_wire_reads_the_state_exactly_once(era: str) -> None:
    buffers = Buffers(network=1)
    async with target_of("memory", page_tools(buffers)) as target, client_of(target, era) as (client, _):
        await listed(client)  # the client lists before it calls a tool that it does not know
        assert buffers.take() == 1
        await client.call_tool("seen", {})
        assert buffers.take() == 1
        await client.call_tool("observe", {"what": "nonsense"})
        assert buffers.take() == 1
        result = await client.call_tool("inner.activate", {})
        assert buffers.take() == 1
        handle = (result.meta or {}).get(HANDLE_META)
        assert "inner.observe" in await listed(client, handle)
        assert buffers.take() == 1
        assert text_of(await through(client, "inner.observe", {"what": "network"}, handle)) == "network"
        assert buffers.take() == 1
        await client.call_tool("inner.deactivate", {"handle": handle} if handle else {})
        assert buffers.take() == 1


@pytest.mark.spec("MOD-3")
@pytest.mark.parametrize("hooks", [False, True], ids=["", "hooks"])
@pytest.mark.parametrize("era", ERAS)
async def test_the_request_that_begins_a_session_with_groups_reads_the_state_once_too(era: str, hooks: bool) -> None:
    buffers = Buffers(network=1)
    tools = page_tools(buffers, **(HOOKS if hooks else {}))
    target = build_server(tools, active=["inner"])
    buffers.take()
    async with client_of(target, era) as (client, _):
        assert "inner.observe" in await listed(client)
        assert buffers.take() == 1


@pytest.mark.spec("MOD-3", "DEL-5")
@pytest.mark.parametrize("hooks", [False, True], ids=["", "hooks"])
async def test_a_call_of_a_disclosed_tool_reads_the_state_once(hooks: bool) -> None:
    buffers = Buffers(network=1)
    target = build_server(page_tools(buffers, **(HOOKS if hooks else {})))
    async with client_of(target, "auto", extensions=[advertise(EXTENSION, {})]) as (client, _):
        buffers.take()
        params = types.CallToolRequestParams(name="inner.observe", arguments={"what": "network"})
        request = types.CallToolRequest(params=params)  # the client's own method would list first
        assert text_of(await client.session.send_request(request, types.CallToolResult)) == "network"
        assert buffers.take() == 1


@pytest.mark.spec("DEL-5", "MOD-1")
async def test_a_group_that_is_fetched_by_the_draft_extension_has_restricted_definitions() -> None:
    buffers = Buffers(network=1)
    extensions = [advertise(EXTENSION, {})]
    async with (
        target_of("memory", page_tools(buffers)) as target,
        client_of(target, "auto", extensions=extensions) as (client, _),
    ):
        (received,) = (await contents_of(client, "inner"))["tools"]
        assert received["inputSchema"]["properties"]["what"]["enum"] == ["network"]
