"""The plugins of this checkout, installed by the hosts that they are for; the package comes from a wheel of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.external.hosts.hosts import HOSTS, Host
from tests.external.hosts.running import command
from tests.external.support import PATIENCE, ROOT

BY_NAME = {one.name: one for one in HOSTS}
Saying = Callable[..., str]


def of(name: str) -> pytest.MarkDecorator:
    """Have a test run with a host."""
    return pytest.mark.parametrize("host", [pytest.param(BY_NAME[name], id=name)], indirect=True)


@pytest.fixture
def said(host: Host, uv: str, tmp_path: Path) -> Iterator[Saying]:
    """Run the host with a home of its own and return what it prints; `uvx` finds the wheel, which no index has yet.

    The runtime that its plugin starts ends with it.
    """
    folder, home = tmp_path / "wheel", tmp_path / "home"
    home.mkdir()
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=PATIENCE)
    path = os.pathsep.join((str(Path(uv).parent), os.environ["PATH"]))
    runtime = TemporaryDirectory(prefix="r-", ignore_cleanup_errors=True)
    own = {"HOME": str(home), "PATH": path, "UV_FIND_LINKS": str(folder), "TOOLFOLD_RUNTIME": runtime.name}
    environment = {**os.environ, **own}
    program = command(host)
    assert program is not None

    def saying(*words: str) -> str:
        done = subprocess.run(
            [*program, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    with runtime:
        yield saying
        down = [sys.executable, "-m", "toolfold_cli", "down"]
        subprocess.run(down, env=environment, check=True, capture_output=True, timeout=PATIENCE)


@of("Claude Code")
def test_claude_code_finds_nothing_wrong_with_the_marketplace_and_connects_to_what_its_plugin_starts(
    said: Saying, tmp_path: Path
) -> None:
    configuration = tmp_path / "mcp.json"
    serving = {"command": sys.executable, "args": ["-m", "toolfold_cli", "serve", "toolfold_cli.shop:tools"]}
    configuration.write_text(json.dumps({"mcpServers": {"shop": serving}}), encoding="utf-8")
    assert "warning" not in said("plugin", "validate", ".")
    said("plugin", "validate", "deploy/plugins/claude-code")
    said("plugin", "marketplace", "add", "./")
    said("plugin", "install", "toolfold@toolfold", "--config", f"configuration={configuration}")
    assert f"toolfold connect {configuration} - ✔ Connected" in said("mcp", "list")


@of("Codex")
def test_codex_installs_the_plugin_of_the_marketplace_and_lists_its_server(said: Saying) -> None:
    said("plugin", "marketplace", "add", ".")
    said("plugin", "add", "toolfold@toolfold")
    assert "installed, enabled" in said("plugin", "list")
    assert " toolfold connect ~/toolfold.json " in said("mcp", "list")
