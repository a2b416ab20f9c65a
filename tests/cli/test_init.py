"""`toolfold init`, in a home of its own."""

from __future__ import annotations

import json
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import invoke
from toolfold_adapters.gateway import load_config
from toolfold_cli.client_files import client_files

pytestmark = pytest.mark.spec("GWY-2")

SECRET = "s3cret"
SERVERS = {
    "files": {"command": sys.executable, "args": ["-m", "files"], "env": {"TOKEN": SECRET}},
    "My Web": {"url": "https://x.org/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    return tmp_path


def write(path: Path, data: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def init(*arguments: str, answer: str | None = None) -> str:
    result = invoke("init", *arguments, stdin=answer)
    assert result.exit_code == 0, result.output
    assert SECRET not in result.output
    return result.output


def test_a_client_starts_toolfold_with_its_servers_as_they_are_and_undo_puts_them_back(home: Path) -> None:
    file = write(home / ".cursor" / "mcp.json", {"theme": "dark", "mcpServers": SERVERS})
    output = init("--yes")
    assert "Cursor: " in output
    assert "files" in output
    assert "not measured" in output
    served = file.with_name("mcp.toolfold.json")
    changed = read(file)
    assert changed["theme"] == "dark"
    (entry,) = changed["mcpServers"].items()
    assert entry[0] == "toolfold"
    assert entry[1]["args"][-2:] == ["serve", str(served)]
    assert read(served) == {"mcpServers": SERVERS}
    assert stat.S_IMODE(served.stat().st_mode) == 0o600
    assert sorted(load_config(served).upstreams) == ["My_Web", "files"]
    assert read(file.with_name("mcp.json.backup")) == {"theme": "dark", "mcpServers": SERVERS}

    write(file, {**changed, "theme": "light"})
    init("--undo", "--yes")
    assert read(file) == {"theme": "light", "mcpServers": SERVERS}
    assert not served.exists()


def test_a_second_time_nothing_changes_and_new_servers_join_those_that_are_served(home: Path) -> None:
    file = write(home / ".claude.json", {"mcpServers": SERVERS})
    init("--yes")
    before = read(file)
    assert "There is nothing to change." in init("--yes")
    assert read(file) == before
    write(file, {"mcpServers": {**before["mcpServers"], "new": SERVERS["files"]}})
    init("--yes")
    assert read(file) == before
    assert list(read(home / ".claude.toolfold.json")["mcpServers"]) == ["files", "My Web", "new"]


def test_it_asks_first_and_changes_nothing_without_a_yes_or_in_a_dry_run(home: Path) -> None:
    file = write(home / "project" / ".mcp.json", {"mcpServers": SERVERS})
    before = file.read_bytes()
    assert "Nothing was changed." in init(answer="n\n")
    assert "Nothing was changed." in init("--dry-run")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [".mcp.json"]
    assert "Done." in init(answer="y\n")


def test_vs_code_goes_on_asking_for_inputs(home: Path) -> None:
    inputs = [{"type": "promptString", "id": "api-key", "password": True}]
    server = {"url": "https://x.org", "headers": {"Key": "${input:api-key}"}}
    file = write(
        home / ".config" / "Code" / "User" / "mcp.json", {"inputs": inputs, "servers": {"web": server, "b": server}}
    )
    if sys.platform != "linux":
        pytest.skip("the folder is that of Linux")
    init("--yes")
    assert read(file)["inputs"] == inputs
    assert read(file)["servers"]["toolfold"]["env"] == {"TOOLFOLD_INPUT_API_KEY": "${input:api-key}"}
    served = file.with_name("mcp.toolfold.json")
    config = load_config(served, {"TOOLFOLD_INPUT_API_KEY": SECRET})
    assert config.upstreams["web"].headers == {"Key": SECRET}


def test_codex_keeps_its_comments_and_passes_on_the_variables_that_servers_need(home: Path) -> None:
    text = (
        "# mine\nmodel = 'x'  # the model\n\n[mcp_servers.files]\n"
        f"command = '{sys.executable}' # python\nenv_vars = ['B', 'A']\n\n[tui]\ntheme = 1\n"
    )
    file = write(home / ".codex" / "config.toml", text)
    init("--yes")
    assert "# mine" in file.read_text()
    assert "# the model" in file.read_text()
    data = tomllib.loads(file.read_text())
    assert data["tui"] == {"theme": 1}
    assert list(data["mcp_servers"]) == ["toolfold"]
    assert data["mcp_servers"]["toolfold"]["env_vars"] == ["A", "B"]
    served = file.with_name("config.toolfold.toml")
    assert "# python" in served.read_text()
    assert list(load_config(served, {"A": "1", "B": "2", "PATH": ""}).upstreams) == ["files"]
    init("--undo", "--yes")
    assert tomllib.loads(file.read_text()) == tomllib.loads(text)


def test_a_file_that_is_wrong_is_reported_and_the_others_are_changed(home: Path) -> None:
    wrong = write(home / ".claude.json", "{")
    right = write(home / ".cursor" / "mcp.json", {"mcpServers": SERVERS})
    result = invoke("init", "--yes")
    assert result.exit_code == 1
    assert f"toolfold: {wrong} is not valid JSON" in result.stderr
    assert list(read(right)["mcpServers"]) == ["toolfold"]


def test_what_would_not_be_served_is_reported_before_anything_changes(home: Path) -> None:
    write(home / ".cursor" / "mcp.json", {"mcpServers": {**SERVERS, "bad": {"command": "no-such-program"}}})
    assert "mcpServers.bad: command: there is no program 'no-such-program'" in init("--dry-run")


def test_two_servers_of_one_name_are_not_lost(home: Path) -> None:
    file = write(home / ".cursor" / "mcp.json", '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}')
    result = invoke("init", "--yes")
    assert result.exit_code == 1
    assert "there are two servers named 'a'; rename one of them." in result.stderr
    assert "toolfold" not in file.read_text()


def test_without_a_configuration_it_says_how_to_name_one(home: Path) -> None:
    result = invoke("init")
    assert (result.exit_code, result.stderr) == (
        1,
        "toolfold: No configuration of an MCP client was found; name one with --config.\n",
    )


def test_a_file_is_named_on_the_command_line(home: Path) -> None:
    file = write(home / "other.json", {"mcpServers": SERVERS})
    init("--config", str(file), "--yes")
    assert list(read(file)["mcpServers"]) == ["toolfold"]


@pytest.mark.parametrize(
    ("platform", "folder"),
    [
        ("darwin", "Library/Application Support"),
        ("win32", "AppData/Roaming"),
        ("linux", ".config"),
    ],
)
def test_clients_are_found_where_their_platform_has_them(home: Path, platform: str, folder: str) -> None:
    settings = home / folder
    places = [
        settings / "Claude" / "claude_desktop_config.json",
        home / ".claude.json",
        home / "project" / ".mcp.json",
        home / ".cursor" / "mcp.json",
        settings / "Code" / "User" / "mcp.json",
        home / "project" / ".vscode" / "mcp.json",
        home / ".codex" / "config.toml",
    ]
    for place in places:
        write(place, "{}")
    assert [file.path for file in client_files(home, home / "project", {}, platform)] == places
