"""`toolfold serve` for an existing server, over both transports and in both eras (SPEC INT-1)."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client

from tests.cli.support import SECONDS, server, started
from tests.cli.test_servers import MARKED


@asynccontextmanager
async def client_of(transport: str, era: Any, folder: Path) -> AsyncGenerator[Client]:
    """Serve the server in a folder, and yield a client of it."""
    if transport == "stdio":
        async with Client(server("serve", "server.py", cwd=folder), mode=era) as client:
            yield client
        return
    with started("serve", "server.py:mcp", "--http", "--port", "0", cwd=folder) as process:
        assert process.stderr is not None
        found = None
        while found is None:
            line = await anyio.to_thread.run_sync(process.stderr.readline)
            assert line, "it ended without serving"
            found = re.search(r"serving (http\S+)", line)
        try:
            async with Client(found[1], mode=era) as client:
                yield client
        finally:
            process.terminate()
            process.communicate(timeout=SECONDS)


@pytest.mark.spec("INT-1")
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_a_server_is_served_with_its_groups(
    tmp_path: Path, transport: str, era: Literal["legacy", "auto"]
) -> None:
    (tmp_path / "server.py").write_text(MARKED, encoding="utf-8")
    async with client_of(transport, era, tmp_path) as client:
        assert client.server_info is not None
        assert client.server_info.name == "mine"
        shown = [tool.name for tool in (await client.list_tools()).tools]
        assert shown == ["call_tool", "close_group", "open_group", "ping"]
        opened = await client.call_tool("open_group", {"group": "database"})
        assert "- query: Query." in str(opened.content)
