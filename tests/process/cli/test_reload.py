"""A configuration file that is edited while `toolfold serve` runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import ToolListChangedNotification

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
