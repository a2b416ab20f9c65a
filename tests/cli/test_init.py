"""`toolfold init`, in a home of its own."""

from __future__ import annotations

import json
import re
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.cli.support import invoke
from toolfold_adapters.gateway import load_config
from toolfold_adapters.gateway.config.clients import servers_in
from toolfold_adapters.gateway.config.data import read_file
from toolfold_cli.client_files import client_files

pytestmark = pytest.mark.spec("GWY-2")

SECRET = "s3cret"
SERVERS = {
    "files": {"command": sys.executable, "args": ["-m", "files"], "env": {"TOKEN": SECRET}},
    "My Web": {"url": "https://x.org/mcp", "headers": {"Authorization": f"Bearer {SECRET}"}},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME", "APPDATA"):
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


COMMENTED = """{
\t// what is asked
\t"inputs": [{ "type": "promptString", "id": "key" }, ], // once
\t"servers": { // mine
\t\t/* the first */
\t\t"files": {
\t\t\t"command": "PYTHON", // the interpreter
\t\t\t"args": ["-m", "files"],
\t\t},
\t\t// and the second
\t\t"web": { "url": "https://x.org//mcp", "headers": { "Key": "${input:key}" } }, // remote
\t\t// "off": {}
\t},
\t"number": 12345678901234567890.5, // as it is
}
""".replace("PYTHON", sys.executable)


def moved_and_back(home: Path, text: str) -> str:
    """Have Toolfold serve the servers of a file, check that nothing is lost, and return its text after an undo."""
    file, served = home / "mcp.json", home / "mcp.toolfold.json"
    file.write_bytes(text.encode())
    before = read_file(file)
    (section,) = {"mcpServers", "servers", "mcp"} & before.keys()
    init("--config", str(file), "--yes")
    assert read_file(served)[section] == before[section]
    assert {**read_file(file), section: before[section]} == before
    init("--config", str(file), "--undo", "--yes")
    return file.read_bytes().decode()


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
        COMMENTED.replace("\n", "\r\n"),
        '{"b": "ü", "mcpServers": {"a": {"url": "https://x.org"}, "c": {"url": "https://x.org"}}, "a": 1e2}',
        '{"servers": {"a": {"url": "https://x.org"}, "b": {"url": "https://y.org"} // last\n}}',
    ],
)
def test_a_file_is_as_it_was_to_the_letter_once_its_servers_are_put_back(home: Path, text: str) -> None:
    assert moved_and_back(home, text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"servers": {"a": {"url": "https://x.org"} /* one */ , "b": {"url": "https://y.org"}}, "z": {}}\n',
        '{"mcp": {"servers": {\n"a": {"url": "https://x.org"} // one \n, "b": {"url": "https://y.org"},}}}',
    ],
)
def test_a_comment_before_a_comma_is_not_lost(home: Path, text: str) -> None:
    back = moved_and_back(home, text)
    assert " one " in back
    (home / "before.json").write_text(text)
    assert read_file(home / "mcp.json") == read_file(home / "before.json")


def test_comments_stay_where_they_are_and_those_about_a_server_go_with_it(home: Path) -> None:
    file = home / "mcp.json"
    file.write_text(COMMENTED)
    init("--config", str(file), "--yes")
    changed, served = file.read_text(), (home / "mcp.toolfold.json").read_text()
    for comment in ("// what is asked", "// once", '// "off": {}', "// as it is"):
        assert comment in changed
    for comment in ("/* the first */", "// the interpreter", "// and the second", "// remote"):
        assert comment not in changed
        assert comment in served
    assert '\n\t\t"toolfold": {\n\t\t\t"type": "stdio",\n' in changed


def test_a_server_that_came_anew_joins_those_that_are_served_with_its_comment(home: Path) -> None:
    file = home / "mcp.json"
    file.write_text('{"servers": {"a": {"url": "https://x.org"}}}')
    init("--config", str(file), "--yes")
    server = '\n  "b": {"url": "https://y.org"} // new\n'
    file.write_text(file.read_text().replace('{"toolfold"', "{" + server + ', "toolfold"'))
    init("--config", str(file), "--yes")
    assert list(read_file(file)["servers"]) == ["toolfold"]
    assert list(read_file(home / "mcp.toolfold.json")["servers"]) == ["a", "b"]
    assert "// new" in (home / "mcp.toolfold.json").read_text()


def test_servers_are_not_put_back_over_others_of_the_same_name(home: Path) -> None:
    file = write(home / "mcp.json", {"mcpServers": {"a": {"url": "https://x.org"}}})
    init("--config", str(file), "--yes")
    again = read(file)
    again["mcpServers"]["a"] = {"url": "https://y.org"}
    write(file, again)
    result = invoke("init", "--config", str(file), "--undo", "--yes")
    assert result.exit_code == 1
    assert f"{home / 'mcp.toolfold.json'} both have a server named 'a'; rename one of them." in result.stderr
    assert read(file) == again


def test_a_server_that_is_called_toolfold_is_put_back(home: Path) -> None:
    data = {"mcpServers": {"toolfold": {"command": sys.executable}}}
    file = write(home / ".cursor" / "mcp.json", data)
    init("--yes")
    init("--undo", "--yes")
    assert read(file) == data


def test_what_the_client_will_give_toolfold_is_not_missed(home: Path) -> None:
    write(
        home / ".codex" / "config.toml",
        "[mcp_servers.web]\nurl = 'https://x.org'\nbearer_token_env_var = 'NOT_SET_HERE'\n",
    )
    assert "NOT_SET_HERE" not in init("--dry-run")


def test_copilot_is_given_an_entry_with_the_fields_that_it_requires(home: Path) -> None:
    server = {"type": "local", "command": sys.executable, "args": [], "tools": ["*"]}
    file = write(home / ".copilot" / "mcp-config.json", {"mcpServers": {"a": server}})
    init("--yes")
    entry = read(file)["mcpServers"]["toolfold"]
    assert (entry["type"], entry["tools"]) == ("local", ["*"])


def test_a_server_that_is_switched_off_stays_where_it_is(home: Path) -> None:
    off = {"command": "x", "disabled": True}
    file = write(home / ".cursor" / "mcp.json", {"mcpServers": {**SERVERS, "off": off}})
    assert re.search(r"off +stays", init("--yes"))
    assert list(read(file)["mcpServers"]) == ["off", "toolfold"]
    assert "There is nothing to change." in init("--yes")


RIGHT = {"command": sys.executable, "args": ["-v"]}
WRONG = {"command": "no-such-program"}
TOOLFOLD = ["serve", "SERVED"]


def commented(section: str, servers: dict[str, Any]) -> str:
    """Return JSON with a comment before each server."""
    entries = "".join(f"    // {name} is mine\n    {json.dumps({name: one})[1:-1]},\n" for name, one in servers.items())
    return f'{{\n  "theme": "dark", // kept\n  "{section}": {{\n{entries}  }},\n}}\n'


CODEX = f"""model = 'x'  # kept

# a is mine
[mcp_servers.a]
command = '{sys.executable}' # python
tool_timeout_sec = 90

[mcp_servers.a.tools.search]
approval_mode = "approve"

[mcp_servers.off]
command = "x"
enabled = false

[mcp_servers.bad]
command = "no-such-program"

[tui]
theme = 1
"""
CONTINUE = f"""name: mine
mcpServers:
- name: off # kept
  command: no-such-program
# a is mine
- name: a
  command: {sys.executable}
  args:
  - -v
  connectionTimeout: 5

# kept too
schema: v1"""
GOOSE = f"""# kept
extensions:
    developer:
        type: builtin # theirs
        enabled: true
    # a is mine
    a:
        type: stdio
        cmd: {sys.executable}
        args: [-v]
        description: |
            It does
            a lot.
        timeout: 400
    bad:
        type: stdio
        cmd: no-such-program
GOOSE_MODE: auto
"""
HOST_FILES: dict[str, tuple[str, dict[str, Any]]] = {
    ".claude.json": (
        commented("mcpServers", {"a": {**RIGHT, "timeout": 9}, "bad": WRONG}),
        {"type": "stdio", "command": "PROGRAM", "args": TOOLFOLD, "alwaysLoad": True, "timeout": 9},
    ),
    ".cursor/mcp.json": (
        commented("mcpServers", {"bad": WRONG, "a": RIGHT}),
        {"command": "PROGRAM", "args": TOOLFOLD},
    ),
    ".codex/config.toml": (
        CODEX,
        {"command": "PROGRAM", "args": TOOLFOLD, "required": True, "tool_timeout_sec": 90},
    ),
    ".copilot/mcp-config.json": (
        commented("mcpServers", {"a": {"type": "local", **RIGHT, "tools": ["*"]}, "bad": WRONG}),
        {"type": "local", "command": "PROGRAM", "args": TOOLFOLD, "tools": ["*"], "deferTools": "never"},
    ),
    ".gemini/settings.json": (
        commented("mcpServers", {"a": {**RIGHT, "trust": True, "timeout": 900_000}, "b": RIGHT, "bad": WRONG}),
        {"command": "PROGRAM", "args": TOOLFOLD, "timeout": 900_000},
    ),
    ".qwen/settings.json": (
        commented("mcpServers", {"a": {**RIGHT, "trust": True}, "bad": WRONG}),
        {"command": "PROGRAM", "args": TOOLFOLD, "trust": True},
    ),
    ".config/opencode/opencode.jsonc": (
        commented(
            "mcp", {"a": {"type": "local", "command": [sys.executable, "-v"]}, "bad": {"type": "local", **WRONG}}
        ),
        {"type": "local", "enabled": True, "command": ["PROGRAM", *TOOLFOLD]},
    ),
    ".cline/data/settings/cline_mcp_settings.json": (
        commented("mcpServers", {"a": {**RIGHT, "autoApprove": ["search"], "timeout": 30}, "bad": WRONG}),
        {"command": "PROGRAM", "args": TOOLFOLD, "timeout": 30},
    ),
    ".codeium/windsurf/mcp_config.json": (
        commented("mcpServers", {"a": RIGHT, "bad": WRONG}),
        {"command": "PROGRAM", "args": TOOLFOLD},
    ),
    ".continue/config.yaml": (
        CONTINUE,
        {"name": "toolfold", "command": "PROGRAM", "args": TOOLFOLD, "connectionTimeout": 5},
    ),
    ".config/goose/config.yaml": (
        GOOSE,
        {"type": "stdio", "name": "toolfold", "enabled": True, "cmd": "PROGRAM", "args": TOOLFOLD, "timeout": 400},
    ),
    ".config/zed/settings.json": (
        commented("context_servers", {"a": {"source": "custom", **RIGHT}, "ext": {"source": "extension"}}),
        {"source": "custom", "command": "PROGRAM", "args": TOOLFOLD, "env": {}},
    ),
}


def entries_in(file: Path) -> dict[str, Any]:
    """Return the servers in a file, whichever host's it is."""
    found = servers_in(read_file(file))
    assert found is not None
    return {**found.entries}


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("name", HOST_FILES)
def test_each_host_starts_toolfold_in_its_own_words_with_what_it_can_serve_and_undo_is_to_the_byte(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("toolfold_cli.init._program", lambda: ("PROGRAM",))
    text, entry = HOST_FILES[name]
    file = home / name
    file.parent.mkdir(parents=True, exist_ok=True)
    content = b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode()
    file.write_bytes(content)
    before = entries_in(file)
    init("--yes")
    after = entries_in(file)
    served = file.with_name(f"{file.stem}.toolfold{file.suffix}")
    assert list(load_config(served).upstreams) == [name for name in before if name in ("a", "b")]
    moved = entries_in(served)
    expected = json.loads(json.dumps(entry).replace('"SERVED"', json.dumps(str(served))))
    assert after.pop("toolfold") == expected
    assert {**moved, **after} == before
    assert "kept" in file.read_text()
    assert "is mine" in served.read_text() or (file.suffix == ".toml" and "is mine" in file.read_text())
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    init("--undo", "--yes")
    assert file.read_bytes() == content
    assert not served.exists()


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("name", [".codex/config.toml", ".continue/config.yaml", ".config/goose/config.yaml"])
def test_a_file_that_was_edited_since_gets_its_servers_back_with_all_comments(home: Path, name: str) -> None:
    file = write(home / name, HOST_FILES[name][0])
    before = read_file(file)
    init("--yes")
    file.write_text("# added\n" + file.read_text())
    init("--undo", "--yes")
    text = file.read_text()
    assert all(comment in text for comment in ("# added", "kept", "# a is mine"))
    after = read_file(file)
    if isinstance(before.get("mcpServers"), list):
        assert sorted(map(str, after.pop("mcpServers"))) == sorted(map(str, before.pop("mcpServers")))
    assert after == before


@pytest.mark.spec("GWY-13")
def test_servers_that_claude_mcp_add_added_to_a_project_are_served_to_that_project(home: Path) -> None:
    folder = "/home/me/shop"
    data = {"mcpServers": SERVERS, "projects": {folder: {"mcpServers": {"a": RIGHT}}, "/x": {"mcpServers": {}}}}
    file = write(home / ".claude.json", data)
    output = init("--yes")
    assert f"Claude Code, in {folder}: " in output
    changed = read(file)
    (entry,) = changed["projects"][folder]["mcpServers"].values()
    served = Path(entry["args"][-1])
    assert (served.parent, read(served)) == (home, {"mcpServers": {"a": RIGHT}})
    assert read(home / ".claude.toolfold.json") == {"mcpServers": SERVERS}
    init("--undo", "--yes")
    assert read(file) == data
    assert not served.exists()


@pytest.mark.spec("GWY-13")
def test_what_a_host_no_longer_applies_to_its_servers_is_said(home: Path) -> None:
    for name in (".codex/config.toml", ".cline/data/settings/cline_mcp_settings.json", ".gemini/settings.json"):
        write(home / name, HOST_FILES[name][0])
    output = " ".join(init("--dry-run").split())
    assert "a: tools is not kept: it is about tools by names" in output
    assert "a: autoApprove is not kept: it is about tools by names" in output
    assert "a: trust is not kept: not all of the servers have it." in output


@pytest.mark.spec("GWY-13")
def test_a_file_that_cannot_be_edited_in_place_is_named_and_unchanged(home: Path) -> None:
    text = f"extensions: {{a: {{cmd: {sys.executable}, type: stdio}}}}\n"
    file = write(home / ".config/goose/config.yaml", text)
    result = invoke("init", "--yes")
    assert result.exit_code == 1
    assert "extensions is not written with each server on lines of its own; write it so." in result.stderr
    assert file.read_text() == text


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
    assert "mcpServers.bad, command: the program no-such-program is not installed" in init("--dry-run")


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
    config = home / ".config"
    places = {
        settings / "Claude" / "claude_desktop_config.json",
        home / ".claude.json",
        home / "project" / ".mcp.json",
        home / ".cursor" / "mcp.json",
        home / "project" / ".cursor" / "mcp.json",
        settings / "Code" / "User" / "mcp.json",
        home / "project" / ".vscode" / "mcp.json",
        home / ".codex" / "config.toml",
        home / "project" / ".codex" / "config.toml",
        home / ".copilot" / "mcp-config.json",
        *(base / f".{name}" / "settings.json" for name in ("gemini", "qwen") for base in (home, home / "project")),
        *(config / "opencode" / "opencode.json", home / "project" / "opencode.json"),
        settings / "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
        home / ".cline" / "data" / "settings" / "cline_mcp_settings.json",
        home / ".continue" / "config.yaml",
        home / ".codeium" / "windsurf" / "mcp_config.json",
        settings / "Block" / "goose" / "config" / "config.yaml",
        *(settings / "Zed" / "settings.json", home / "project" / ".zed" / "settings.json"),
    }
    for place in places:
        write(place, "{}")
    found = client_files(home, home / "project", {}, platform)
    assert {file.path for file in found} == places
    assert len(found) == len(places)
