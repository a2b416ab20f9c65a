"""The hosts that `toolfold init` knows: where their files are, and the entry that each is given."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.initialising import SECRET, SERVERS, init, read, write
from toolfold_adapters.files import read_table
from toolfold_adapters.gateway import load_config
from toolfold_adapters.gateway.config.clients import servers_in
from toolfold_adapters.hosts import HOSTS
from toolfold_cli.client_files import client_files

pytestmark = pytest.mark.spec("GWY-2")


ROOT = Path(__file__).resolve().parents[2]
RIGHT = {"command": sys.executable, "args": ["-v"]}
WRONG = {"command": "no-such-program"}
TOOLFOLD = ["connect", "SERVED"]


def commented(section: str, servers: dict[str, Any]) -> str:
    """Return JSON with a comment before each server."""
    entries = "".join(f"    // {name} is mine\n    {json.dumps({name: one})[1:-1]},\n" for name, one in servers.items())
    return f'{{\n  "theme": "dark", // kept\n  "{section}": {{\n{entries}  }},\n}}\n'


CODEX = f"""model = 'x'  # kept

# a is mine
[mcp_servers.a]
command = '{sys.executable}' # python
tool_timeout_sec = 90
env_vars = ['B', 'A']

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


VIBE = f"""model = "x" # kept

# a is mine
[[mcp_servers]]
name = "a"
transport = "stdio"
command = '{sys.executable}' # python
args = ["-v"]
tool_timeout_sec = 90

[[mcp_servers]]
name = "off"
transport = "http"
url = "https://x.org"
disabled = true

# b is mine
[[mcp_servers]]
name = "b"
transport = "http"
url = "https://y.org"
api_key_env = "KEY"
api_key_header = "X-Key"
api_key_format = "{{token}}"

[[mcp_servers]]
name = "bad"
transport = "stdio"
command = "no-such-program"

[tools]
theme = 1
"""


FAST_AGENT = f"""default_model: x # kept
mcp:
  servers:
    # a is mine
    a:
      transport: stdio
      command: {sys.executable}
      args: [-v]
    bad:
      command: no-such-program
    b: # b is mine
      transport: http
      url: https://y.org
      headers:
        Key: x
  defaults: {{}}
logger:
  type: none
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
        {"command": "PROGRAM", "args": TOOLFOLD, "required": True, "tool_timeout_sec": 90, "env_vars": ["A", "B"]},
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
    ".config/kilo/kilo.jsonc": (
        commented("mcp", {"a": {"type": "local", "command": [sys.executable, "-v"], "timeout": 90_000}}),
        {"type": "local", "enabled": True, "command": ["PROGRAM", *TOOLFOLD], "timeout": 90_000},
    ),
    ".kilocode/cli/global/settings/mcp_settings.json": (
        commented("mcpServers", {"a": {**RIGHT, "alwaysAllow": ["search"]}, "bad": WRONG}),
        {"command": "PROGRAM", "args": TOOLFOLD},
    ),
    ".kimi-code/mcp.json": (
        commented("mcpServers", {"a": {**RIGHT, "startupTimeoutMs": 60_000}, "bad": WRONG}),
        {"command": "PROGRAM", "args": TOOLFOLD, "startupTimeoutMs": 60_000},
    ),
    ".factory/mcp.json": (
        commented("mcpServers", {"a": {"type": "stdio", **RIGHT, "disabled": False}, "bad": WRONG}),
        {"type": "stdio", "command": "PROGRAM", "args": TOOLFOLD},
    ),
    ".vibe/config.toml": (
        VIBE,
        {
            "name": "toolfold",
            "transport": "stdio",
            "command": "PROGRAM",
            "args": TOOLFOLD,
            "tool_timeout_sec": 90,
        },
    ),
    "project/.fast-agent/fast-agent.yaml": (
        FAST_AGENT,
        {"transport": "stdio", "command": "PROGRAM", "args": TOOLFOLD},
    ),
    ".config/zed/settings.json": (
        commented("context_servers", {"a": {"source": "custom", **RIGHT}, "ext": {"source": "extension"}}),
        {"source": "custom", "command": "PROGRAM", "args": TOOLFOLD, "env": {}},
    ),
}


def entries_in(file: Path) -> dict[str, Any]:
    """Return the servers in a file, whichever host's it is."""
    found = servers_in(read_table(file))
    assert found is not None
    return {**found.entries}


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("name", HOST_FILES)
def test_each_host_starts_toolfold_in_its_own_words_with_what_it_can_serve_and_undo_is_to_the_byte(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("toolfold_cli.init._program", lambda: ("PROGRAM",))
    monkeypatch.setenv("KEY", SECRET)
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
    places = json.dumps(entry).replace('"SERVED"', json.dumps(str(served)))
    expected = json.loads(places)
    assert after.pop(next(name for name in after if name.startswith("toolfold"))) == expected
    assert {**moved, **after} == before
    assert "kept" in file.read_text()
    assert "is mine" in served.read_text() or (file.suffix == ".toml" and "is mine" in file.read_text())
    assert file.read_bytes().startswith(b"\xef\xbb\xbf")
    for changed in (file, served):
        assert b"\n" not in changed.read_bytes().replace(b"\r\n", b"")
    init("--undo", "--yes")
    assert file.read_bytes() == content
    assert not served.exists()


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize(
    "name",
    [
        *(".codex/config.toml", ".continue/config.yaml", ".config/goose/config.yaml"),
        *(".vibe/config.toml", "project/.fast-agent/fast-agent.yaml"),
    ],
)
def test_a_file_that_was_edited_since_gets_its_servers_back_with_all_comments(home: Path, name: str) -> None:
    file = write(home / name, HOST_FILES[name][0])
    before = read_table(file)
    init("--yes")
    file.write_text("# added\n" + file.read_text())
    init("--undo", "--yes")
    text = file.read_text()
    assert all(comment in text for comment in ("# added", "kept", "# a is mine"))
    after = read_table(file)
    for section in ("mcpServers", "mcp_servers"):
        if isinstance(before.get(section), list):
            assert sorted(map(str, after.pop(section))) == sorted(map(str, before.pop(section)))
    assert after == before


@pytest.mark.spec("GWY-13")
def test_what_a_host_no_longer_applies_to_its_servers_is_said(home: Path) -> None:
    for name in (".codex/config.toml", ".cline/data/settings/cline_mcp_settings.json", ".gemini/settings.json"):
        write(home / name, HOST_FILES[name][0])
    output = " ".join(init("--dry-run").split())
    assert "a: tools is left out: it is about tools by names" in output
    assert "a: autoApprove is left out: it is about tools by names" in output
    assert "a: trust is left out: not all of the servers have it." in output


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


def test_what_the_client_will_give_toolfold_is_not_missed(home: Path) -> None:
    write(
        home / ".codex" / "config.toml",
        "[mcp_servers.web]\nurl = 'https://x.org'\nbearer_token_env_var = 'NOT_SET_HERE'\n",
    )
    assert "NOT_SET_HERE" not in init("--dry-run")


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
        *(config / "kilo" / "kilo.json", home / "project" / "kilo.json", home / "project" / ".kilo" / "kilo.json"),
        home / "project" / ".kilocode" / "mcp.json",
        *(base / f".{name}" / "mcp.json" for name in ("kimi-code", "factory") for base in (home, home / "project")),
        *(base / ".vibe" / "config.toml" for base in (home, home / "project")),
        *(home / "project" / name for name in (".fast-agent/fast-agent.yaml", "fastagent.config.yaml")),
        settings / "Block" / "goose" / "config" / "config.yaml",
        *(settings / "Zed" / "settings.json", home / "project" / ".zed" / "settings.json"),
    }
    for place in places:
        write(place, "{}")
    found = client_files(home, home / "project", {}, platform)
    assert {file.path for file in found} == places
    assert len(found) == len(places)


def test_the_how_to_names_each_host_that_init_knows() -> None:
    page = " ".join((ROOT / "docs/how-to/gateway.md").read_text(encoding="utf-8").split())
    assert [host.name for host in HOSTS if host.files and host.name not in page] == []


MERGED = (
    *(".codex/config.toml", ".vibe/config.toml", ".config/zed/settings.json"),
    *(".config/opencode/opencode.jsonc", ".config/kilo/kilo.jsonc", "project/.fast-agent/fast-agent.yaml"),
)
"""A file of each host that merges its files."""


def test_a_file_of_each_host_that_merges_is_tried() -> None:
    assert {host.name for host in HOSTS if host.merged} == {"Codex", "Vibe", "Zed", "opencode", "Kilo", "fast-agent"}


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("name", MERGED)
def test_a_file_that_is_named_is_not_merged_with_itself(home: Path, name: str) -> None:
    text = HOST_FILES.get(name, HOST_FILES[".config/opencode/opencode.jsonc"])[0]
    file = write(home / name, text)
    found = init("--dry-run").partition("\n")
    (home / "link").symlink_to(home, target_is_directory=True)
    for named in (file, home / "project" / ".." / name, home / "link" / name):
        output = init("--dry-run", "--config", str(named))
        assert "merged with that in" not in output
        assert output.count("starts.\n") == found[2].count("starts.\n") == 1


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("again", ["mcp.json", "project/../mcp.json"])
def test_a_file_that_is_named_twice_is_changed_once(home: Path, again: str) -> None:
    file = write(home / "mcp.json", {"mcpServers": SERVERS})
    init("--yes", "--config", str(file), "--config", str(home / again))
    assert read(home / "mcp.toolfold.json") == {"mcpServers": SERVERS}
    assert list(read(file)["mcpServers"]) == ["toolfold"]


ALLOWED: dict[str, tuple[str, dict[str, Any]]] = {
    "Cursor": (".cursor/mcp.json", {"autoApprove": ["search"], "alwaysAllow": ["get"]}),
    "Claude Code": (".claude.json", {"autoApprove": ["search"]}),
    "Windsurf": (".codeium/windsurf/mcp_config.json", {"alwaysAllow": ["get"], "autoApprove": ["search"]}),
    "Copilot CLI": (".copilot/mcp-config.json", {"tools": ["search"], "autoApprove": ["search"]}),
    "no known client": ("mcp.json", {"default_tools_approval_mode": "approve", "tools": {"search": {"a": 1}}}),
}
LEFT_OUT = "it is about tools by names that they do not have behind Toolfold. Set it anew."


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("client", ALLOWED)
def test_what_a_user_allows_of_a_server_is_said_to_be_left_out_whichever_client_it_is(home: Path, client: str) -> None:
    name, allowed = ALLOWED[client]
    nothing = {key: list[str]() for key in allowed}
    servers = {"a": {**RIGHT, **allowed}, "b": {**RIGHT, **nothing}, "c": RIGHT, "bad": {**WRONG, "autoApprove": ["x"]}}
    file = write(home / name, {"mcpServers": servers})
    output = " ".join(init("--dry-run", "--config", str(file)).split())
    said = {key for key in allowed if not (key == "tools" and isinstance(allowed[key], list))}
    assert {key for key in allowed if f"a: {key} is left out: {LEFT_OUT}" in output} == said
    assert output.count(LEFT_OUT) == len(said)
    assert "passed over" not in output
