"""Drafts of the next revision, as the SDK's clients see a server of the command line, over stdio and HTTP (NXT-2)."""

from __future__ import annotations

import httpx2
import pytest
from mcp import Client
from mcp.client import advertise

from tests.adapters.mcp.test_handle_delivery import opened
from tests.adapters.mcp.test_resolution import EXTENSION, resolved
from tests.external.support import DESK, over_http, over_stdio

pytestmark = pytest.mark.spec("NXT-2")

GIVEN = [f"--draft={one}" for one in ("requires", "resolve", "ttl=60")]
DECLARED = [advertise(EXTENSION, {})]
MODERN = "2026-07-28"
QUERY = {"name": "database.query", "arguments": {"sql": "select 1"}}
UNKNOWN = (False, True, False, True)
"""The hints of a tool that says nothing."""


async def test_over_stdio_a_client_is_told_and_asks_about_calls_of_what_it_opened() -> None:
    async with Client(over_stdio(*DESK, *GIVEN), mode=MODERN, extensions=DECLARED) as client:
        assert (await client.list_prompts()).ttl_ms == 60_000
        await client.call_tool("database.activate", {})
        assert await resolved(client, "call_tool", QUERY) == UNKNOWN
        assert not (await client.call_tool("call_tool", QUERY)).is_error


async def test_over_http_a_client_is_told_and_anybody_reads_the_card() -> None:
    async with over_http(*DESK, *GIVEN, "--draft=card=com.example/desk") as url:
        async with httpx2.AsyncClient() as http:
            card = (await http.get(f"{url}/server-card")).json()
        async with Client(url, mode=MODERN, extensions=DECLARED) as client:
            assert (await client.list_prompts()).ttl_ms == 60_000
            handle = await opened(client, "database")
            assert await resolved(client, "call_tool", {**QUERY, "handle": handle}) == UNKNOWN
    assert (card["name"], card["title"]) == ("com.example/desk", "desk")


async def test_a_client_of_the_era_before_notices_nothing() -> None:
    async with Client(over_stdio(*DESK, *GIVEN), mode="legacy", extensions=DECLARED) as client:
        assert not (await client.call_tool("ping", {})).is_error
        assert [tool.name for tool in (await client.list_tools()).tools if EXTENSION in (tool.meta or {})] == []
