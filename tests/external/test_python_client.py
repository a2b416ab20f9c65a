"""The client of the Python SDK, of both eras, before `toolfold serve`."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import INVALID_PARAMS

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import build_server, change_of, client_of, names_of
from tests.external.support import DESK, definitions, served

TRANSPORTS = ["memory", "stdio", "http"]
MODERN = "2026-07-28"


@asynccontextmanager
async def desk_over(transport: str) -> AsyncGenerator[Any]:
    """Yield what a client connects to; for a transport between processes, that is the command."""
    if transport == "memory":
        yield build_server(make_desk())
    else:
        async with served(transport, *DESK) as target:
            yield target


async def refused(client: Client, tool: str) -> bool:
    """Return whether a tool is answered as if it did not exist."""
    with pytest.raises(MCPError, match=rf"^Unknown tool: {tool}") as raised:
        await client.call_tool(tool, {"sql": "select 1"})
    return raised.value.code == INVALID_PARAMS


@pytest.mark.spec("DEL-1", "DEL-9", "DEL-10", "NTF-1", "NTF-4", "CALL-1")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_legacy_client_is_told_once_of_each_change_and_can_use_what_is_open(transport: str) -> None:
    async with desk_over(transport) as target, client_of(target, "legacy") as (client, listener):
        tools = client.server_capabilities.tools
        assert tools is not None
        assert tools.list_changed

        closed = await names_of(client)
        assert "database.query" not in closed
        assert await refused(client, "database.query")
        assert listener.changes == 0

        assert not (await client.call_tool("database.activate")).is_error
        assert listener.changes == 1
        assert set(await names_of(client)) - set(closed) == {"database.query"}
        assert not (await client.call_tool("database.activate")).is_error
        assert (await client.call_tool("database.query", {"sql": "select 1"})).structured_content == {"ran": "select 1"}
        assert listener.changes == 1

        assert not (await client.call_tool("database.deactivate")).is_error
        assert listener.changes == 2
        assert await names_of(client) == closed
        assert await refused(client, "database.query")
        assert listener.changes == 2


@pytest.mark.spec("DEL-1", "SES-1", "NTF-2")
async def test_what_one_legacy_client_opens_another_neither_sees_nor_hears_of() -> None:
    async with (
        desk_over("http") as url,
        client_of(url, "legacy") as (one, told),
        client_of(url, "legacy") as (other, untold),
    ):
        before = await names_of(other)
        await one.call_tool("database.activate")
        assert told.changes == 1
        assert await names_of(other) == before
        assert await refused(other, "database.query")
        assert untold.changes == 0


@pytest.mark.spec("DEL-2", "DEL-3", "DEL-7", "DEL-9", "DEL-10", "CALL-1")
@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_modern_client_is_always_listed_the_same_and_calls_by_handle(transport: str) -> None:
    async with desk_over(transport) as target, client_of(target, MODERN) as (client, listener):
        assert client.protocol_version == MODERN
        first = await definitions(client)
        async with client.listen(tools_list_changed=True):
            for name in ("ping", "open_database", "mode_a.activate", "database.deactivate"):
                await client.call_tool(name)
                assert await definitions(client) == first
            opened = change_of(await client.call_tool("database.activate"))
            assert opened["tools"] == ["database.query"]
            query = {"handle": opened["handle"], "name": "database.query", "arguments": {"sql": "select 1"}}
            assert (await client.call_tool("call_tool", query)).structured_content == {"ran": "select 1"}
            forged = await client.call_tool("call_tool", {**query, "handle": opened["handle"] + "x"})
            assert forged.is_error
            assert await definitions(client) == first
            assert await refused(client, "database.query")
        assert listener.changes == 0


@pytest.mark.spec("DEL-1", "DEL-7", "DEL-10")
async def test_clients_of_both_eras_are_served_by_one_process() -> None:
    async with (
        desk_over("http") as url,
        client_of(url, "legacy") as (legacy, told),
        client_of(url, MODERN) as (modern, untold),
    ):
        first = await definitions(modern)
        await legacy.call_tool("database.activate")
        assert told.changes == 1
        assert "database.query" in await names_of(legacy)
        assert await definitions(modern) == first
        assert untold.changes == 0
