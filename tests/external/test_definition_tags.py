"""Modern hosts that list again see by name what they opened: two of ours, and one on the TypeScript SDK (NXT-1)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.external.support import DESK, FOLDER, over_http, run, serving
from toolfold_adapters.mcp.extensions.tagged_client import TaggedClient

pytestmark = pytest.mark.spec("NXT-1")

TOKEN = "a token that is long enough to be one"
TAGS = ("--draft", "tags=signal")
MODERN = "2026-07-28"
QUERY = {"sql": "select 1"}


async def test_a_client_that_carries_handles_sees_what_it_opened() -> None:
    async with over_http(*DESK, *TAGS) as url, TaggedClient(url, mode=MODERN) as client:
        assert "database.query" not in await client.everything()
        await client.call_tool("database.activate", {})
        assert "database.query" in await client.everything()
        result = await client.call_tool("database.query", QUERY)
    assert result.structured_content == {"ran": "select 1"}


async def test_a_gateway_and_its_server_each_reject_by_their_own_tags() -> None:
    behind = serving(*DESK, "--draft", "tags=reject")
    async with over_http("--draft", "tags=reject", "--", *behind) as url, TaggedClient(url, mode=MODERN) as client:
        while "ping" not in await client.everything():  # its server starts
            client.stale = True
        await client.call_tool("open_group", {"group": "database"})
        assert "database_query" in await client.everything()
        for _ in range(3):
            result = await client.call_tool("database_query", QUERY)
            assert result.structured_content == {"ran": "select 1"}


@pytest.mark.usefixtures("node_packages")
async def test_the_typescript_sdk_needs_a_few_lines(tmp_path: Path) -> None:
    auth = tmp_path / "auth.toml"
    auth.write_text(f'[tokens]\nalice = "{TOKEN}"\n', encoding="utf-8")
    async with over_http(*DESK, *TAGS, "--delivery", "principal", "--auth", str(auth)) as url:
        given = {"url": url, "token": TOKEN, "open": "database.activate", "name": "database.query", "arguments": QUERY}
        status, printed = await run("node", str(FOLDER / "tagged.mjs"), json.dumps(given))
    said = json.loads(printed)
    before, after = said["listed"]
    assert status == 0
    assert set(after) - set(before) == {"database.query"}
    assert said["result"]["structuredContent"] == {"ran": "select 1"}
