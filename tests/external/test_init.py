"""What a host that `toolfold init` has changed says of its servers, by its own commands (SPEC GWY-13)."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.external.hosts.hosts import HOSTS, Host
from tests.external.hosts.running import command
from tests.external.support import PATIENCE

(CLAUDE_CODE,) = (one for one in HOSTS if one.name == "Claude Code")


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("host", [pytest.param(CLAUDE_CODE, id=CLAUDE_CODE.name)], indirect=True)
def test_claude_code_has_the_entry_of_each_scope_in_every_folder_that_has_one(host: Host, tmp_path: Path) -> None:
    home, project, shop = tmp_path / "home", tmp_path / "home" / "project", tmp_path / "home" / "shop"
    for folder in (project, shop):
        (folder / ".git").mkdir(parents=True)
    files = {name: {"mcpServers": {name: {"command": sys.executable, "args": ["-m", name]}}} for name in "ulps"}
    projects = {str(project): files["l"], str(shop): files["s"]}
    (home / ".claude.json").write_text(json.dumps({**files["u"], "projects": projects}))
    (project / ".mcp.json").write_text(json.dumps(files["p"]))
    environment = {"HOME": str(home), "PATH": str(Path(sys.executable).parent) + ":/usr/bin:/bin"}

    def said(folder: Path, *words: str) -> str:
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    program = command(host)
    assert program is not None
    said(project, sys.executable, "-m", "toolfold_cli", "init", "--yes")
    entries = {
        project: {"toolfold": ".claude", "toolfold-project": ".mcp", "toolfold-project-local": ".claude.project-"},
        shop: {"toolfold": ".claude", "toolfold-shop-local": ".claude.shop-"},
    }
    for folder, served in entries.items():
        listed = said(folder, *program, "mcp", "list")
        assert [name for name in served if f"\n{name}: " not in listed] == []
        assert "Conflicting scopes" not in listed
        for name, file in served.items():
            (arguments,) = (
                line for line in said(folder, *program, "mcp", "get", name).splitlines() if "Args: " in line
            )
            assert Path(arguments.split()[-1]).name.startswith(file)
            assert arguments.endswith(".toolfold.json")
