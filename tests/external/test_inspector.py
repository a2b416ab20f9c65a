"""The official inspector's command line before `toolfold serve`: one connection for each command."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.external.support import DESK, PACKAGES, TOOLFOLD, names_in, over_http, run
from toolfold_adapters.names import CHANGE_META

pytestmark = pytest.mark.usefixtures("node_packages")


INSPECTOR = str(PACKAGES / "inspector/clients/launcher/build/index.js")


async def call(home: Path, target: list[str], era: str, tool: str, /, **arguments: Any) -> tuple[int, Any]:
    """Return the status and the result of one call."""
    named = ("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
    return await inspector(home, target, era, *named)


async def inspector(home: Path, target: list[str], era: str, *options: str) -> tuple[int, Any]:
    """Return the status and the result of one command; its files go to a folder of the test."""
    command = ["node", INSPECTOR, "--cli", *target, "--quiet", "--format", "json", "--protocol-era", era, *options]
    status, printed = await run(*command, env={"HOME": str(home)})
    return status, json.loads(printed)["result"] if printed else None


@pytest.mark.spec("DEL-1", "DEL-7", "DEL-10", "CALL-1")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_the_inspector_lists_and_calls(transport: str, era: str, tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        http = transport == "http"
        target = [await stack.enter_async_context(over_http(*DESK))] if http else [TOOLFOLD, "serve", *DESK]
        status, listed = await inspector(tmp_path, target, era, "--method", "tools/list", "--strict")
        assert status == 0, "the schemas are not portable"
        assert {"ping", "database.activate"} <= names_in(listed)
        assert "database.query" not in names_in(listed)
        status, pong = await call(tmp_path, target, era, "ping")
        assert (status, pong["content"]) == (0, [{"type": "text", "text": "pong"}])
        status, nothing = await call(tmp_path, target, era, "database.query", sql="select 1")
        assert (status != 0, nothing) == (True, None)


@pytest.mark.spec("DEL-2", "DEL-3", "DEL-10")
async def test_a_handle_from_one_command_of_the_inspector_is_valid_in_the_next(tmp_path: Path) -> None:
    async with over_http(*DESK) as url:
        status, opened = await call(tmp_path, [url], "modern", "database.activate")
        assert status == 0
        query = {"name": "database.query", "arguments": {"sql": "select 1"}}
        handle = opened["_meta"][CHANGE_META]["handle"]
        status, used = await call(tmp_path, [url], "modern", "call_tool", handle=handle, **query)
        assert (status, used["structuredContent"]) == (0, {"ran": "select 1"})
        status, _ = await call(tmp_path, [url], "modern", "call_tool", **query)
        assert status != 0
