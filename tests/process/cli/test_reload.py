"""A configuration file that is edited while `toolfold serve` runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult, ToolListChangedNotification

from tests.adapters.mcp.test_handle_delivery import text_of
from tests.cli.support import RAW, SECONDS, server

PROGRAM, *ARGUMENTS = RAW


def write(folder: Path, *behaviours: str) -> None:
    """Replace the file at once, as editors do."""
    servers = {name: {"command": PROGRAM, "args": [*ARGUMENTS, name]} for name in behaviours}
    (folder / "new").write_text(json.dumps({"mcpServers": servers}))
    (folder / "new").replace(folder / "mcp.json")


@pytest.mark.spec("GWY-9", "GWY-3")
async def test_an_edited_configuration_is_served_without_a_restart(tmp_path: Path) -> None:
    write(tmp_path, "plain", "words")
    changed = anyio.Event()

    async def observe(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            changed.set()

    with anyio.fail_after(SECONDS):
        async with Client(server("serve", "mcp.json", cwd=tmp_path), mode="legacy", message_handler=observe) as client:

            async def groups() -> set[str]:
                tools = {tool.name: tool for tool in (await client.list_tools()).tools}
                lines = (tools["open_group"].description or "").splitlines()
                return {line[2:].partition(":")[0] for line in lines if line.startswith("- ")}

            assert await groups() == {"plain", "words"}
            write(tmp_path, "words", "plain", "full")
            while await groups() != {"plain", "words", "full"}:
                await changed.wait()
                changed = anyio.Event()


@pytest.mark.spec("GWY-9", "GWY-4")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_server_that_is_added_or_removed_in_a_conversation_is_so_in_it(tmp_path: Path, era: str) -> None:
    write(tmp_path, "plain")
    with anyio.fail_after(SECONDS):
        async with Client(server("serve", "mcp.json", cwd=tmp_path), mode=era) as client:

            async def open_group(group: str) -> CallToolResult:
                return await client.call_tool("open_group", {"group": group})

            async def call(name: str) -> CallToolResult:
                return await client.call_tool("call_tool", {"name": name, "arguments": {}})

            while "plain__one" not in text_of(await open_group("plain")):
                pass  # each time it is asked, in another process
            before = await call("plain__one")
            assert not before.is_error

            write(tmp_path, "plain", "full")
            while "full__full" not in text_of(await open_group("full")):  # until then it is unknown, or is starting
                pass
            assert not (await call("full__full")).is_error
            found = await client.call_tool("find_tools", {"query": "all that a definition may have"})
            assert "full__full" in text_of(found)
            assert (await call("plain__one")).content == before.content

            write(tmp_path, "full")
            while "Unknown tool: plain__one" not in text_of(await call("plain__one")):
                pass  # one call may have been on its way
            assert not (await call("full__full")).is_error
