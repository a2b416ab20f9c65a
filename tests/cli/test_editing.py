"""What `toolfold init` does to files that people wrote: comments and white space stay."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.initialising import SERVERS, init, read, write
from tests.cli.support import invoke
from toolfold_adapters.files import read_table

pytestmark = pytest.mark.spec("GWY-2")


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
""".replace('"PYTHON"', json.dumps(sys.executable))


def moved_and_back(home: Path, text: str) -> str:
    """Have Toolfold serve the servers of a file, check that nothing is lost, and return its text after an undo."""
    file, served = home / "mcp.json", home / "mcp.toolfold.json"
    file.write_bytes(text.encode())
    before = read_table(file)
    (section,) = {"mcpServers", "servers", "mcp"} & before.keys()
    init("--config", str(file), "--yes")
    assert read_table(served)[section] == before[section]
    assert {**read_table(file), section: before[section]} == before
    init("--config", str(file), "--undo", "--yes")
    return file.read_bytes().decode()


@pytest.mark.parametrize(
    "text",
    [
        COMMENTED,
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
    assert read_table(home / "mcp.json") == read_table(home / "before.json")


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
    assert list(read_table(file)["servers"]) == ["toolfold"]
    assert list(read_table(home / "mcp.toolfold.json")["servers"]) == ["a", "b"]
    assert "// new" in (home / "mcp.toolfold.json").read_text()


@pytest.mark.spec("GWY-13")
def test_a_file_that_cannot_be_edited_in_place_is_named_and_unchanged(home: Path) -> None:
    text = f"extensions: {{a: {{cmd: {sys.executable}, type: stdio}}}}\n"
    file = write(home / ".config/goose/config.yaml", text)
    result = invoke("init", "--yes")
    assert result.exit_code == 1
    assert "extensions is not written with each server on lines of its own; write it so." in result.stderr
    assert file.read_text() == text


INLINE = [
    pytest.param("mcp_servers = [{{name = 'v', transport = 'stdio', command = '{0}'}}]\n", id="one"),
    pytest.param(
        "x = 1 # kept\n\nmcp_servers = [\n  {{name = 'v', command = '{0}', env = {{A = '1'}}}},\n"
        "  {{name = 'off', command = 'x', disabled = true}},\n  {{name = 'w', command = '{0}'}}\n]\n\n[tools]\ny = 2\n",
        id="several",
    ),
]


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("edited", [False, True])
@pytest.mark.parametrize("text", INLINE)
def test_servers_in_an_array_on_a_line_move_and_are_put_back(home: Path, text: str, edited: bool) -> None:
    text = text.format(sys.executable)
    file = write(home / ".vibe/config.toml", text)
    before = read_table(file)
    init("--yes")
    moved = [one for one in before["mcp_servers"] if one["name"] != "off"]
    assert read_table(home / ".vibe/config.toolfold.toml") == {"mcp_servers": moved}
    left = read_table(file)["mcp_servers"]
    assert [one["name"] for one in left] == [*(["off"] if len(moved) == 2 else []), "toolfold"]
    if edited:
        file.write_text("# added\n" + file.read_text())
    init("--undo", "--yes")
    after = read_table(file)
    assert sorted(map(str, after.pop("mcp_servers"))) == sorted(map(str, before.pop("mcp_servers")))
    assert after == before
    assert edited or file.read_text() == text


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("inline", [False, True])
def test_a_server_written_in_another_form_than_those_that_are_served_joins_them(home: Path, inline: bool) -> None:
    header, braces = (
        "[[mcp_servers]]\nname = '{1}'\ncommand = '{0}'\n",
        "mcp_servers = [{{name = '{1}', command = '{0}'}}]\n",
    )
    first, second = (braces, header) if inline else (header, braces)
    file = write(home / ".vibe/config.toml", first.format(sys.executable, "a"))
    init("--yes")
    entry = read_table(file)["mcp_servers"][0]
    file.write_text(second.format(sys.executable, "b"))
    served = home / ".vibe/config.toolfold.toml"
    text = json.dumps(str(served))
    assert entry["args"][-1] == str(served)
    more = f"args = ['serve', {text}]"
    if inline:
        file.write_text(file.read_text() + f"[[mcp_servers]]\nname = 'toolfold'\ncommand = 'x'\n{more}\n")
    else:
        file.write_text(file.read_text().replace("}]", f"}}, {{name = 'toolfold', command = 'x', {more}}}]"))
    init("--yes")
    assert [one["name"] for one in read_table(served)["mcp_servers"]] == ["a", "b"]
    assert [one["name"] for one in read_table(file)["mcp_servers"]] == ["toolfold"]


def refuse_in(monkeypatch: pytest.MonkeyPatch, folder: Path, method: str) -> None:
    """Have a folder refuse what a method of paths does, as one of another user."""
    allowed = getattr(Path, method)

    def refuse(path: Path, *arguments: Any, **options: Any) -> Any:
        if path.parent == folder:
            raise PermissionError(13, "Permission denied")
        return allowed(path, *arguments, **options)

    monkeypatch.setattr(Path, method, refuse)


UNUSUAL = {
    "an editor that fails": (".codex/config.toml", f"[mcp_servers.a]\ncommand = '{sys.executable}'\n"),
    "a date that is none": (".continue/config.yaml", "on: 2024-13-45\nmcpServers:\n- name: a\n  command: x\n"),
    "no text": (".gemini/settings.json", "\x00"),
    "a folder that can't be read": (".copilot/mcp-config.json", "{}"),
    "what is served can't be read": (
        ".qwen/settings.json",
        '{"mcpServers": {"t": {"command": "x", "args": ["serve", "SERVED"]}}}',
    ),
}


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("undo", [False, True])
@pytest.mark.parametrize("kind", UNUSUAL)
def test_a_file_that_fails_is_reported_and_those_of_other_clients_are_changed(
    home: Path, monkeypatch: pytest.MonkeyPatch, kind: str, undo: bool
) -> None:
    right = write(home / ".cursor" / "mcp.json", {"mcpServers": SERVERS})
    if undo:
        init("--yes")
    name, text = UNUSUAL[kind]
    served = home / name.replace(".json", ".toolfold.json")
    file = write(home / name, text.replace('"SERVED"', json.dumps(str(served))))
    if kind == "an editor that fails":
        served = file.with_name("config.toolfold.toml")
        if undo:
            write(served, text)
            file.write_text(f"[mcp_servers.t]\ncommand = 'x'\nargs = ['serve', {json.dumps(str(served))}]\n")

        def fail(*_: object) -> None:
            raise ValueError("of its own")

        monkeypatch.setattr("toolfold_cli.editing.TomlFile.__init__", fail)
    if kind == "what is served can't be read":
        write(served, "{")
    if kind == "a folder that can't be read":
        for method in ("stat", "open"):
            refuse_in(monkeypatch, file.parent, method)
    result = invoke("init", "--yes", *(["--undo"] if undo else []))
    assert result.exit_code == 1, result.output
    assert "Nothing is changed." in result.stdout
    assert str(served if kind == "what is served can't be read" else file) in " ".join(result.stderr.split())
    assert (list(read(right)["mcpServers"]) == ["toolfold"]) is not undo
