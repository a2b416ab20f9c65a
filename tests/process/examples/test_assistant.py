"""The assistant as programs of their own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from mcp import StdioServerParameters

from examples.assistant import build
from examples.assistant.savings import table
from tests.cli.support import PROGRAM
from tests.examples.callers import connected

ROOT = Path(__file__).parents[3]


@pytest.mark.spec("AGT-4")
def test_one_command_prints_the_conversation_and_the_table() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "examples.assistant"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert "[groups loaded: google_gmail, google_calendar;" in run.stdout
    printed = run.stdout.splitlines()[-4:]
    for line, row in zip(printed, table(build()), strict=True):
        assert line.startswith(row.scenario)
        numbers = [int(one.replace(",", "")) for one in re.findall(r"-?[\d,]+", line.removeprefix(row.scenario))]
        costs = [(cost.before, cost.after, round(cost.saved)) for cost in (row.document, row.here)]
        assert numbers == [*costs[0], *costs[1]]


@pytest.mark.spec("GRP-3", "GRP-6", "DEL-10")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_it_is_served_by_the_command_line(era: Literal["legacy", "auto"]) -> None:
    """Document C, manual verification 1, with the server as a process of its own."""
    command = [*PROGRAM[1:], "serve", "examples.assistant:tools"]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    server = StdioServerParameters(command=PROGRAM[0], args=command, cwd=ROOT, env=environment)
    async with connected(server, era) as client:
        assert "gmail_search" not in await client.names()
        assert not (await client.call("load_tool_group", {"group_name": "google_gmail"}))[0]
        assert "gmail_search" in await client.names()
        assert not (await client.call("gmail_search", {"labels": "unread"}))[0]
