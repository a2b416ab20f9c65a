"""`toolfold init`, in a home of its own."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

from tests.cli.initialising import SERVERS, init, read, write
from tests.cli.support import invoke
from toolfold_adapters.gateway import load_config
from toolfold_adapters.observe.stored_usage import usage_file, usage_url

pytestmark = pytest.mark.spec("GWY-2")


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
    assert entry[1]["args"][-2:] == ["connect", str(served)]
    assert f"What is used will be recorded in {usage_file()}, without arguments and results" in output
    assert read(served) == {"mcpServers": SERVERS}
    if sys.platform != "win32":
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


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(
    ("written", "then"),
    [
        (["serve", "--usage", "USAGE", "SERVED"], ["connect", "SERVED"]),
        (["serve", "SERVED"], ["connect", "--no-usage", "SERVED"]),
        (["serve", "--control", "per_group", "SERVED"], None),
        (["serve", "--usage", "sqlite:///elsewhere.db", "SERVED"], None),
        (["connect", "--agent", "mine", "SERVED"], None),
    ],
    ids=["as-written", "not-recorded", "with-options", "recorded-elsewhere", "a-relay-with-options"],
)
def test_an_entry_of_an_earlier_version_becomes_that_of_a_relay_unless_its_user_has_changed_it(
    written: list[str], then: list[str] | None, home: Path
) -> None:
    file = write(home / "mcp.json", {"mcpServers": SERVERS})
    init("--config", str(file), "--yes")
    served = str(file.with_name("mcp.toolfold.json"))

    def words(arguments: list[str]) -> list[str]:
        return [{"USAGE": usage_url(), "SERVED": served}.get(word, word) for word in arguments]

    entry = {"command": "/old/toolfold", "args": words(written), "env": {"A": "b"}}
    before = read(write(file, {"mcpServers": {"toolfold": entry}}))
    output = init("--config", str(file), "--yes")
    after = read(file)["mcpServers"]["toolfold"]
    if then is None:
        assert "There is nothing to change." in output
        assert read(file) == before
    else:
        assert "shares one runtime" in output
        assert after["args"][-len(then) :] == words(then)
        assert after["command"] != "/old/toolfold"
        assert after["env"] == {"A": "b"}
        assert "There is nothing to change." in init("--config", str(file), "--yes")
    init("--config", str(file), "--undo", "--yes")
    assert read(file) == {"mcpServers": SERVERS}


@pytest.mark.spec("GWY-14")
def test_an_entry_that_records_nothing_still_does_not_when_servers_join(home: Path) -> None:
    file = write(home / "mcp.json", {"mcpServers": SERVERS})
    init("--config", str(file), "--yes")
    (name, entry), *_ = read(file)["mcpServers"].items()
    entry["args"].insert(-1, "--no-usage")
    write(file, {"mcpServers": {name: entry, "new": SERVERS["files"]}})
    init("--config", str(file), "--yes")
    assert read(file)["mcpServers"][name]["args"] == entry["args"]


def test_a_client_whose_file_cannot_be_replaced_keeps_its_servers_and_can_be_changed_later(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(home / "mcp.json", {"mcpServers": SERVERS})
    before, replace = file.read_bytes(), Path.replace

    def refuse(path: Path, target: Path) -> Path:
        if target == file:
            raise PermissionError(13, "Permission denied")
        return replace(path, target)

    monkeypatch.setattr("toolfold_adapters.gateway.stored.PAUSES", ())
    with monkeypatch.context() as refusing:
        refusing.setattr(Path, "replace", refuse)
        result = invoke("init", "--config", str(file), "--yes")
    assert result.exit_code == 1
    assert "Nothing was changed; close the client if it is running, and try again." in " ".join(result.stderr.split())
    assert (file.read_bytes(), [path.name for path in home.iterdir() if path.is_file()]) == (before, ["mcp.json"])
    assert "Done: " in init("--config", str(file), "--yes")


def test_it_asks_first_and_changes_nothing_without_a_yes_or_in_a_dry_run(home: Path) -> None:
    file = write(home / "project" / ".mcp.json", {"mcpServers": SERVERS})
    before = file.read_bytes()
    assert "Nothing was changed." in init(answer="n\n")
    assert "Nothing was changed." in init("--dry-run")
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == [".mcp.json"]
    assert "Done: " in init(answer="y\n")


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


def test_a_file_that_is_wrong_is_reported_and_the_others_are_changed(home: Path) -> None:
    wrong = write(home / ".claude.json", "{")
    right = write(home / ".cursor" / "mcp.json", {"mcpServers": SERVERS})
    result = invoke("init", "--yes")
    assert result.exit_code == 1
    assert f"toolfold: {wrong}, line 1, column 2: it is not valid JSON: " in result.stderr
    assert list(read(right)["mcpServers"]) == ["toolfold"]


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


def test_servers_whose_file_is_gone_are_not_put_back_and_the_backup_is_named(home: Path) -> None:
    file = write(home / ".cursor" / "mcp.json", {"mcpServers": SERVERS})
    init("--yes")
    file.with_name("mcp.toolfold.json").unlink()
    before = file.read_bytes()
    result = invoke("init", "--undo", "--yes")
    assert result.exit_code == 1
    assert f"is not there, so that its servers can't be put back. See {file}.backup." in result.stderr
    assert file.read_bytes() == before


LINKED = [".mcp.json.backup", ".mcp.toolfold.json"]


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("name", LINKED)
def test_nothing_is_written_through_a_link_that_a_project_has(home: Path, name: str, exists: bool) -> None:
    target = home / "target.json"
    if exists:
        write(target, {"mcpServers": {}})
    before = target.read_bytes() if exists else None
    file = write(home / "project" / ".mcp.json", {"mcpServers": SERVERS})
    content = file.read_bytes()
    (file.parent / name).symlink_to(target)
    result = invoke("init", "--yes")
    assert (target.read_bytes() if target.exists() else None) == before
    if name == LINKED[0]:
        assert file.with_name(".mcp.json.backup-2").read_bytes() == content
    else:
        assert "is a link; remove it, since it would be written through." in result.stderr
        assert file.read_bytes() == content


@pytest.mark.spec("GWY-13")
def test_a_project_whose_file_leads_out_of_it_is_left_as_it_is(home: Path) -> None:
    target = write(home / "mine.json", {"mcpServers": SERVERS})
    before = target.read_bytes()
    (home / "project").mkdir(exist_ok=True)
    (home / "project" / ".mcp.json").symlink_to(target)
    result = invoke("init", "--yes")
    assert result.exit_code == 1
    assert "leads out of the project" in result.stderr
    assert target.read_bytes() == before


@pytest.mark.spec("GWY-13")
@pytest.mark.parametrize(
    ("name", "moment"),
    [
        ("mcp.json", "while it asks"),
        ("mcp.toolfold.json", "while it asks"),
        ("mcp.json", "just before the swap"),
    ],
)
def test_what_a_client_wrote_meanwhile_is_not_overwritten(
    home: Path, monkeypatch: pytest.MonkeyPatch, name: str, moment: str
) -> None:
    file = write(home / ".cursor" / "mcp.json", {"mcpServers": SERVERS})
    theirs = {"mcpServers": {"theirs": SERVERS["files"]}}

    def meanwhile(*_: object, **__: object) -> bool:
        write(file.with_name(name), theirs)
        return True

    if moment == "while it asks":
        monkeypatch.setattr("click.confirm", meanwhile)
    else:
        monkeypatch.setattr("shutil.copystat", meanwhile)
    result = invoke("init", *([] if moment == "while it asks" else ["--yes"]))
    assert result.exit_code == 1
    assert "was changed by another program meanwhile. Nothing was changed; try again." in result.stderr
    assert read(file.with_name(name)) == theirs
    assert not file.with_name("mcp.json.backup").exists()
    assert file.with_name("mcp.toolfold.json").exists() == (name == "mcp.toolfold.json")
