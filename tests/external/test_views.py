"""Views of two servers with one URI, rendered in a browser by the SDK of MCP Apps (SPEC GWY-18)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.external.boards import BOARD
from tests.external.support import FOLDER, PATIENCE, ROOT, over_stdio

pytestmark = pytest.mark.usefixtures("node_packages")


@pytest.mark.spec("GWY-18")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
def test_each_view_is_rendered_and_what_it_asks_reaches_its_own_server(era: str, chromium: str, tmp_path: Path) -> None:
    servers = {
        name: {"command": sys.executable, "args": ["-m", "tests.external.boards", name]} for name in ("north", "south")
    }
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": servers}))
    started = over_stdio(str(config), "--active", "north", "--active", "south")
    server = {"command": started.command, "args": started.args, "cwd": str(ROOT), "env": started.env}
    asked = {"browser": chromium, "era": era, "server": server, "open": ["north", "south"]}
    asked |= {"tools": ["north__show", "south__show"]}
    command = ["node", str(FOLDER / "views.mjs"), json.dumps(asked)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.returncode == 0, ran.stderr
    north, south = json.loads(ran.stdout)
    assert (north["uri"], south["uri"]) == (BOARD, BOARD.replace("//", "//south+"))
    for name, view in (("north", north), ("south", south)):
        lines = [line for line in view["lines"] if line]
        assert lines[:3] == [f"the view of {name}", f"show of {name}", f"refresh_{name} of {name}"]
        assert f"Unknown tool: models_{name}" in lines[3]
    assert "refresh of north" in north["lines"]  # no other view had been read by then
    assert any("refresh can be any of north__refresh, south__refresh" in line for line in south["lines"])
