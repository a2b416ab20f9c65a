"""What `toolfold init` does to files that people wrote: comments and white space stay."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.initialising import init, write
from tests.cli.support import invoke
from toolfold_adapters.data import read_table

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
