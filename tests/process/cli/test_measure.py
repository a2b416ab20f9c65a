"""`toolfold init --measure` with servers that are started for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.cli.initialising import read, write
from tests.cli.support import run

GOOD = {"command": sys.executable, "args": ["-m", "toolfold_cli", "serve", "toolfold_cli.shop:tools"]}
BAD = {"command": sys.executable, "args": ["-c", "exit('out of tea')"]}


@pytest.mark.spec("GWY-5", "GWY-13")
@pytest.mark.parametrize("option", ["--dry-run", "--yes"])
def test_a_server_that_can_not_be_asked_is_said_with_why_and_the_others_are_measured(
    tmp_path: Path, option: str, free_tcp_port: int
) -> None:
    away = {"url": f"http://127.0.0.1:{free_tcp_port}/mcp"}
    file = write(tmp_path / "m.json", {"mcpServers": {"shop": GOOD, "bad": BAD, "away": away}})
    done = run("init", "--config", file.name, option, "--measure", cwd=tmp_path)
    rows = [line.split() for line in done.stdout.splitlines()]
    assert (done.returncode, rows[2][:2]) == (0, ["shop", "38"])
    assert rows[3:5] == [["bad", "no", "answer"], ["away", "no", "answer"]]
    assert "1 of 3 servers measured: ~" in done.stdout
    said = [line for line in done.stderr.splitlines() if line.startswith("  ")]
    assert sum("'bad' did not start: " in line and "out of tea" in line for line in said) == 1
    assert sum("'away' did not start: it can't be reached" in line for line in said) == 1
    assert "  shop: 38 tools" in said
    assert ("toolfold" in read(file)["mcpServers"]) is (option == "--yes")
