"""The official inspector's command line before `toolfold serve`: one connection for each command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.external.support import DESK, PACKAGES, TOOLFOLD, names_in, over_http, run

pytestmark = [pytest.mark.usefixtures("node_packages"), pytest.mark.parametrize("era", ["legacy", "modern"])]

INSPECTOR = str(PACKAGES / "inspector/clients/launcher/build/index.js")


async def inspector(home: Path, target: list[str], era: str, *options: str) -> tuple[int, Any]:
    """Return the status and the result of one command; its files go to a folder of the test."""
    command = ["node", INSPECTOR, "--cli", *target, "--quiet", "--format", "json", "--protocol-era", era, *options]
    status, printed = await run(*command, env={"HOME": str(home)})
    return status, json.loads(printed)["result"] if printed else None


async def story(home: Path, target: list[str], era: str) -> None:
    status, listed = await inspector(home, target, era, "--method", "tools/list", "--strict")
    assert status == 0, "the schemas are not portable"
    assert {"ping", "database.activate"} <= names_in(listed)
    assert "database.query" not in names_in(listed)

    status, pong = await inspector(home, target, era, "--method", "tools/call", "--tool-name", "ping")
    assert status == 0
    assert pong["content"] == [{"type": "text", "text": "pong"}]

    query = ("--tool-name", "database.query", "--tool-args-json", '{"sql": "select 1"}')
    status, nothing = await inspector(home, target, era, "--method", "tools/call", *query)
    assert status != 0
    assert nothing is None


@pytest.mark.spec("DEL-1", "DEL-7", "DEL-10", "CALL-1")
async def test_the_inspector_lists_and_calls_over_stdio(era: str, tmp_path: Path) -> None:
    await story(tmp_path, [TOOLFOLD, "serve", *DESK], era)


@pytest.mark.spec("DEL-1", "DEL-7", "DEL-10", "CALL-1")
async def test_the_inspector_lists_and_calls_over_http(era: str, tmp_path: Path) -> None:
    async with over_http(*DESK) as url:
        await story(tmp_path, [url], era)
