"""What clients install the gateway from starts it with valid arguments, and the index for models leads to pages."""

from __future__ import annotations

import json
import re
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import pytest

from deploy import listing
from tests.benchmarks.installs import stale
from tests.deploy.test_listing import MANIFEST, PACKAGE, PROJECT, ROOT, SERVER
from toolfold_cli.program import Program
from toolfold_cli.targets import parse_target

PAGE = (ROOT / "docs/how-to/install.md").read_text(encoding="utf-8")
CLAUDE, CODEX = ROOT / ".claude-plugin/marketplace.json", ROOT / ".agents/plugins/marketplace.json"


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def link(label: str) -> tuple[str, dict[str, str]]:
    """Return where a link of the page leads to, and its parameters."""
    (url,) = re.findall(rf"\[{label}\]\((\S+)\)", PAGE)
    parts = urlsplit(url)
    query = {name: value for name, (value,) in parse_qs(parts.query, strict_parsing=True).items()}
    return f"{parts.scheme}://{parts.netloc}{parts.path}", query


def plugin(marketplace: Path) -> tuple[Path, dict[str, Any]]:
    """Return the folder of the plugin that a marketplace lists, and its manifest."""
    (listed,) = read(marketplace)["plugins"]
    source = listed["source"]
    folder = ROOT / (source if isinstance(source, str) else source["path"])
    (manifest,) = folder.glob(".*-plugin/plugin.json")
    return folder, read(manifest)


def of_vscode() -> dict[str, Any]:
    return dict(json.loads(link("Add to VS Code")[1]["config"]))


def of_cursor() -> dict[str, Any]:
    return dict(json.loads(b64decode(link("Add to Cursor")[1]["config"], validate=True)))


def of_claude_code() -> dict[str, Any]:
    return dict(plugin(CLAUDE)[1]["mcpServers"]["toolfold"])


def of_codex() -> dict[str, Any]:
    folder, manifest = plugin(CODEX)
    return dict(read(folder / manifest["mcpServers"])["mcpServers"]["toolfold"])


ENTRIES = {
    "VS Code": (of_vscode, "${input:configuration}"),
    "Cursor": (of_cursor, "~/toolfold.json"),
    "Claude Code": (of_claude_code, "${user_config.configuration}"),
    "Codex": (of_codex, "~/toolfold.json"),
}


def check(arguments: list[str]) -> None:
    """Parse the arguments of a command line of ours; raises `click.UsageError`."""
    name, *rest = arguments
    program = Program("toolfold")
    command = program.get_command(click.Context(program), name)
    if command is None:
        raise click.UsageError(f"There is no command {name}.")
    command.make_context(name, rest).close()


@pytest.mark.parametrize("client", ENTRIES)
def test_an_entry_starts_a_command_of_ours_with_arguments_that_it_has(client: str) -> None:
    read_entry, configuration = ENTRIES[client]
    entry = read_entry()
    assert entry.keys() == {"command", "args"}
    assert entry["command"] == PACKAGE["runtimeHint"] == "uvx"
    option, requirement, program, *arguments = entry["args"]
    assert (option, requirement) == ("--from", f"toolfold[cli,meaning]=={SERVER['version']}")
    assert program in PROJECT["scripts"]
    assert arguments == ["connect", configuration]
    check([*arguments[:-1], "mcp.json"])


def test_arguments_that_no_command_has_are_noticed() -> None:
    for wrong in (
        ["server", "mcp.json"],
        ["serve", "--no-such", "mcp.json"],
        ["serve", "--max-active", "0", "mcp.json"],
    ):
        with pytest.raises(click.UsageError):
            check(wrong)


def test_the_links_lead_to_what_installs_and_name_the_entry() -> None:
    to, query = link("Add to VS Code")
    assert (to, query["name"]) == ("https://insiders.vscode.dev/redirect/mcp/install", "toolfold")
    (asked,) = json.loads(query["inputs"])
    assert (asked["type"], asked["id"]) == ("promptString", "configuration")
    assert asked["description"] == PACKAGE["packageArguments"][1]["description"]
    to, query = link("Add to Cursor")
    assert (to, query["name"]) == ("https://cursor.com/en/install-mcp", "toolfold")


@pytest.mark.parametrize("marketplace", [CLAUDE, CODEX], ids=["Claude Code", "Codex"])
def test_a_marketplace_lists_the_plugin_of_this_version(marketplace: Path) -> None:
    (listed,) = read(marketplace)["plugins"]
    _, manifest = plugin(marketplace)
    assert listed["name"] == manifest["name"] == read(marketplace)["name"] == "toolfold"
    assert manifest["version"] == SERVER["version"]
    assert manifest["description"] == SERVER["description"]
    assert (manifest["author"], manifest["license"]) == (MANIFEST["author"], MANIFEST["license"])


def test_claude_code_asks_for_what_its_entry_names() -> None:
    (name, asked), *others = plugin(CLAUDE)[1]["userConfig"].items()
    assert not others
    assert of_claude_code()["args"][-1] == f"${{user_config.{name}}}"
    assert asked["type"] == "file"
    assert asked["required"] is True
    assert asked["title"]
    assert asked["description"]


def test_a_path_that_no_client_asks_for_is_found_and_on_the_page() -> None:
    assert parse_target(listing.HOME_FILE).text == str(Path.home() / "toolfold.json")
    assert f"`{listing.HOME_FILE}`" in PAGE


def test_the_index_for_models_leads_to_pages_and_leaves_out_none_that_is_for_users() -> None:
    text = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith(f"# {SERVER['title']}\n\n> {SERVER['description']}\n")
    linked = {target.partition("#")[0] for target in re.findall(r"^- \[[^\]]+\]\(([^)]+)\)", text, re.MULTILINE)}
    assert [target for target in linked if not (ROOT / target).is_file()] == []
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    indexes = {"docs/index.md", *listing.INDEXES}
    assert {page for page in pages - indexes - linked if not page.startswith("docs/decisions/")} == set()


def test_what_is_generated_is_as_it_would_be_written() -> None:
    assert listing.stale() == []


def test_a_new_version_makes_all_that_names_it_stale(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    for path, text in listing.generated().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8", newline="\n")
    server = (ROOT / "server.json").read_text(encoding="utf-8")
    (tmp_path / "server.json").write_text(server, encoding="utf-8")
    assert listing.stale(tmp_path) == []
    (tmp_path / "server.json").write_text(server.replace(SERVER["version"], "7.8.9"), encoding="utf-8")
    assert sorted(listing.stale(tmp_path)) == [
        "deploy/plugins/claude-code/.claude-plugin/plugin.json",
        "deploy/plugins/codex/.codex-plugin/plugin.json",
        "deploy/plugins/codex/.mcp.json",
        "docs/how-to/install.md",
    ]


def test_the_table_of_the_page_has_the_extras_and_how_many_packages_each_brings() -> None:
    assert stale(PAGE) == {}


def test_a_table_with_another_number_or_without_an_extra_is_stale() -> None:
    rows = PAGE.splitlines(keepends=True)
    without = "".join(row for row in rows if not row.startswith("| `toolfold[redis]`"))
    another = "".join(row.replace("| 34 |", "| 33 |") if row.startswith("| `toolfold[mcp]`") else row for row in rows)
    assert set(stale(without)) == {"redis"}
    assert set(stale(another)) == {"mcp"}
