"""`toolfold init` where a client has servers in several places, of which it uses one entry for each name."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.initialising import init, read, write
from tests.cli.support import invoke
from toolfold_adapters.files import read_table
from toolfold_adapters.hosts import HOSTS
from toolfold_cli.client_files import ClientFile, client_files, read_section
from toolfold_cli.precedence import Place, place_of, reached

pytestmark = pytest.mark.spec("GWY-13")


def server(name: str) -> dict[str, Any]:
    """Return the entry of a server that can be told from others."""
    return {"command": sys.executable, "args": ["-m", name]}


def servers(*names: str) -> dict[str, Any]:
    return {"mcpServers": {name: server(name) for name in names}}


def files(home: Path) -> tuple[ClientFile, ...]:
    return client_files(home, home / "project", {})


def reached_in(home: Path, folder: Path | None, host: str = "Claude Code") -> list[str]:
    """Return the names of the servers that a client reaches in a folder, by its rules of precedence."""
    sections = [read_section(file) for file in files(home) if file.host and file.host.name == host]
    (of,) = (one for one in HOSTS if one.name == host)
    return sorted(name for _, name in reached(of, map(place_of, sections), folder))


def of_three_scopes(home: Path) -> list[Path]:
    """Write servers into all scopes of Claude Code, and return the files."""
    project, shop = home / "project", home / "shop"
    projects = {str(project): servers("local"), str(shop): servers("shop")}
    user = write(home / ".claude.json", {**servers("u", "v"), "projects": projects, "theme": "dark"})
    return [user, write(project / ".mcp.json", servers("p"))]


def test_each_scope_has_an_entry_of_its_own_so_that_all_servers_are_reached_in_every_folder(home: Path) -> None:
    of_three_scopes(home)
    folders = {home / "project": ["local", "p", "u", "v"], home / "shop": ["shop", "u", "v"], None: ["u", "v"]}
    assert {folder: reached_in(home, folder) for folder in folders} == folders
    init("--yes")
    changed = read(home / ".claude.json")
    assert list(changed["mcpServers"]) == ["toolfold"]
    assert [list(one["mcpServers"]) for one in changed["projects"].values()] == [
        ["toolfold-project-local"],
        ["toolfold-shop-local"],
    ]
    assert list(read(home / "project" / ".mcp.json")["mcpServers"]) == ["toolfold-project"]
    assert {folder: reached_in(home, folder) for folder in folders} == folders


def test_there_is_one_backup_of_a_file_and_an_undo_to_the_byte_adds_none(home: Path) -> None:
    written = of_three_scopes(home)
    before = [file.read_bytes() for file in written]
    for _ in range(2):
        init("--yes")
        init("--undo", "--yes")
        assert [file.read_bytes() for file in written] == before
        assert sorted(path.name for path in (*home.iterdir(), *written[1].parent.iterdir()) if path.is_file()) == [
            ".claude.json",
            ".claude.json.backup",
            ".mcp.json",
            ".mcp.json.backup",
        ]


@pytest.mark.parametrize(
    ("host", "user", "project"),
    [
        ("Cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
        ("Gemini CLI", ".gemini/settings.json", ".gemini/settings.json"),
        ("Qwen Code", ".qwen/settings.json", ".qwen/settings.json"),
        ("Claude Code", ".claude.json", ".mcp.json"),
    ],
)
def test_both_files_of_a_host_are_reached_once_each_has_an_entry(
    home: Path, host: str, user: str, project: str
) -> None:
    write(home / user, servers("a", "b"))
    write(home / "project" / project, servers("c"))
    init("--yes")
    assert list(read(home / user)["mcpServers"]) == ["toolfold"]
    assert list(read(home / "project" / project)["mcpServers"]) == ["toolfold-project"]
    assert reached_in(home, home / "project", host) == ["a", "b", "c"]


def test_a_server_that_another_hid_is_reached_too_which_is_said(home: Path) -> None:
    write(home / ".claude.json", servers("same", "u"))
    write(home / "project" / ".mcp.json", servers("same"))
    output = init("--yes")
    assert "More than one entry is called same: Claude Code used one of them here; now it has each." in output
    assert reached_in(home, home / "project") == ["same", "same", "u"]


def test_an_entry_of_the_name_in_another_file_is_not_hidden(home: Path) -> None:
    write(
        home / ".claude.json", {"mcpServers": {"toolfold-project": {**server("x"), "disabled": True}, "u": server("u")}}
    )
    write(home / "project" / ".mcp.json", servers("p"))
    init("--yes")
    assert list(read(home / "project" / ".mcp.json")["mcpServers"]) == ["toolfold-project-2"]


def test_where_a_client_would_reach_fewer_servers_its_files_are_left_as_they_are(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolfold_cli.moving._free_name", lambda file, taken: "toolfold")
    written = [*of_three_scopes(home), write(home / ".cursor" / "mcp.json", servers("c"))]
    before = [file.read_bytes() for file in written]
    result = invoke("init", "--yes")
    assert result.exit_code == 1
    assert "Claude Code would no longer reach" in result.stderr
    assert [file.read_bytes() for file in written[:2]] == before[:2]
    assert list(read(written[2])["mcpServers"]) == ["toolfold"]


def test_entries_that_a_client_merges_stay_where_they_are(home: Path) -> None:
    command = f"command = {json.dumps(sys.executable)}"
    user = write(home / ".codex" / "config.toml", f"[mcp_servers.a]\n{command}\n\n[mcp_servers.b]\n{command}\n")
    project = write(home / "project" / ".codex" / "config.toml", "[mcp_servers.a]\nenv = { TOKEN = 'x' }\n")
    before = project.read_bytes()
    output = " ".join(init("--yes").split())
    assert f"a stays: merged with that in {project}" in output
    assert f"a stays: merged with that in {user}" in output
    assert "[mcp_servers.a]" in user.read_text()
    assert "[mcp_servers.b]" not in user.read_text()
    assert project.read_bytes() == before


def test_an_entry_whose_secrets_are_in_another_file_stays(home: Path) -> None:
    folder = home / "project" / ".fast-agent"
    entry = f"      command: {sys.executable}\n"
    file = write(folder / "fast-agent.yaml", f"mcp:\n  servers:\n    a:\n{entry}    b:\n{entry}")
    secrets = write(folder / "fast-agent.secrets.yaml", "mcp:\n  servers:\n    a:\n      env:\n        TOKEN: s3cret\n")
    output = " ".join(init("--yes").split())
    assert f"a stays: merged with that in {secrets}" in output
    assert "Agents name their servers" in output
    assert list(read_table(file)["mcp"]["servers"]) == ["a", "toolfold-project"]


def test_the_user_is_told_that_a_client_asks_before_it_uses_what_is_new_in_a_project(home: Path) -> None:
    of_three_scopes(home)
    output = init("--yes")
    assert output.count("Claude Code asks before it first uses an entry of a project; until then it is pending.") == 1


def place(scope: Any, folder: str | None, *names: str) -> Place:
    entries = {name: frozenset({(f"{scope} {folder}", name)}) for name in names}
    return Place(scope, Path(folder) if folder else None, entries)


@pytest.mark.parametrize(
    ("host", "folder", "expected"),
    [
        ("Claude Code", "/w/p", {("local /w/p", "a"), ("local /w/p", "b"), ("user None", "u")}),
        ("Claude Code", "/w/p/deep", {("local /w/p", "a"), ("local /w/p", "b"), ("user None", "u")}),
        ("Claude Code", "/w", {("project /w", "a"), ("user None", "u")}),
        ("Claude Code", None, {("user None", "a"), ("user None", "u")}),
        ("Droid", "/w", {("user None", "a"), ("user None", "u")}),
    ],
)
def test_the_rows_say_whose_entry_counts(host: str, folder: str | None, expected: set[tuple[str, str]]) -> None:
    places = [
        place("user", None, "a", "u"),
        place("project", "/w", "a"),
        place("project", "/w/p", "a", "b"),
        place("local", "/w/p", "a", "b"),
    ]
    (of,) = (one for one in HOSTS if one.name == host)
    assert reached(of, places, Path(folder) if folder else None) == expected
