"""The telemetry example as programs of their own."""

import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from mcp import StdioServerParameters

from tests.cli.support import PROGRAM
from tests.examples.callers import connected
from tests.examples.telemetry import (
    modes_of,
    observe,
)

ROOT = Path(__file__).parents[3]


def test_the_demonstration_runs_and_ends_with_the_gate_shut_for_another_session() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.browser_telemetry"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
    )
    first, *_, last = done.stdout.strip().split("\n\n")
    assert [line.split()[0] for line in first.splitlines()[1:]] == ["observe", "query_dom"]
    assert [line.split()[0] for line in last.splitlines()[1:]] == ["observe", "query_dom"]
    assert "websocket_events (1000)" in last


@pytest.mark.spec("MOD-5")
@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_it_is_served_by_the_command_line(era: Literal["legacy", "auto"]) -> None:
    command = [*PROGRAM[1:], "serve", "examples.browser_telemetry:tools"]
    environment = {"PYTHONPATH": ":".join(path for path in sys.path if path)}
    server = StdioServerParameters(command=PROGRAM[0], args=command, cwd=ROOT, env=environment)
    async with connected(server, era) as client:
        assert await modes_of(client, "observe") == ["errors", "logs", "page"]
        await observe(client)
        await client.call("configure", {"action": "visit", "amount": 200})
        assert "network" in await modes_of(client, "observe")
