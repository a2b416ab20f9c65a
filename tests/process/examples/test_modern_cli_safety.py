"""Document E's tools called with malicious values and paths: each test is an attack that once succeeded.

The attacks use the real programs where their behaviour is the point.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
import tracemalloc
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from examples.modern_cli import build
from examples.modern_cli.definitions import groups
from tests.examples.programs import fake
from tests.process.examples.modern_cli import RECORDER, TOOLS, called, found_in, tools_in
from toolfold import ConfigError

ANYTHING = {"container", "kubernetes", "system"}
"""The groups whose tools run any command; no profile with one of them is safe without a sandbox."""
GIVEN: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("modern_cli_arguments.toml").read_text(encoding="utf-8")
)


# -- values that a program would interpret ----------------------------------------------------------------------------


@pytest.mark.spec("PRO-4", "SAF-6")
@pytest.mark.parametrize(
    "item", ["x:=@../secret.json", "x:=5", "x:@../secret.json", "x@f", "x=@f", "x==@f", "x=1", "x;"]
)
def test_a_header_is_never_a_file_nor_a_part_of_the_body(item: str, folder: Path, made: Path) -> None:
    """HTTPie and xh send `x:=@FILE` as JSON from a file."""
    fake(folder.parent / "bin" / "http", RECORDER.format(str(made)))
    tools = tools_in(folder, found_in(folder.parent / "bin"))
    ((failed, text),) = called(tools, ("http", {"url": "https://example.org", "headers": [item]}))
    assert failed
    assert "arguments.headers[0]" in text
    assert not made.exists()
    ((failed, _),) = called(tools, ("http", {"url": "https://example.org", "headers": ["X:a=@b:=@c", "Y:"]}))
    assert not failed
    assert made.read_text().endswith(" X:a=@b:=@c Y:\n")


@pytest.mark.spec("PRO-4", "SAF-6")
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("http", {"url": "http+unix://%2Fvar%2Frun%2Fdocker.sock/info"}),
        ("http", {"url": "file:///etc/passwd"}),
        ("usql", {"url": "sqlite3:../other.db", "command": "select 1"}),
        ("usql", {"url": "mysql://host/name?allowAllFiles=true", "command": "select 1"}),
        ("usql", {"url": "postgres://host", "command": "\\! id"}),
        ("gh_api", {"endpoint": "https://example.org/"}),
        ("gh_repo", {"command": "clone", "repo": "a/b", "args": ["--", "--upload-pack=id"]}),
        ("gh_repo", {"command": "clone", "repo": "https://example.org/a/b.git"}),
        ("gh_issue", {"command": "list", "repo": "example.org/a/b"}),
        ("glab_issue", {"command": "list", "project": "example.org/a/b/c"}),
        ("glab_issue", {"command": "list", "project": "https://example.org/a/b"}),
        ("gh_repo", {"command": "view", "repo": "a/b", "args": ["--json=name", "--jq=env"]}),
        ("kubectl_get", {"resource": "pods", "output": "go-template-file=/etc/passwd"}),
        ("miller", {"verb": "put", "input": "", "args": ['$a = system("id")']}),
        ("miller", {"verb": "cat", "input": "", "args": ["then", "put", '$a = system("id")']}),
        ("miller", {"verb": "cat", "input": "", "args": ["a.csv", "--prepipe", "id"]}),
        ("miller", {"verb": "cat", "input": "", "args": ["/etc/passwd"]}),
        ("xsv", {"command": "select", "input": "", "args": ["1", "../other.csv"]}),
        ("xsv", {"command": "select", "input": "", "args": ["1", "--output=../made"]}),
        ("yq", {"expression": ".", "input": "", "input_format": "lua"}),
        ("sad", {"pattern": "a", "replace": "b", "files": ["a\n../secret.json"]}),
        ("web_search", {"query": "!w browser"}),
        ("tldr", {"command": "../../secret"}),
    ],
)
def test_values_that_change_what_a_program_does_are_refused(
    name: str, arguments: dict[str, Any], folder: Path, made: Path
) -> None:
    for program in {program for tool in TOOLS.values() for program in tool.program}:
        fake(folder.parent / "bin" / program, RECORDER.format(str(made)))
    tools = tools_in(folder, found_in(folder.parent / "bin"))
    ((failed, _),) = called(tools, (name, arguments))
    assert failed
    assert not made.exists()


def test_only_groups_that_run_any_command_have_tools_with_arbitrary_options() -> None:
    for path, group in groups().items():
        for name, tool in group.tools.items():
            if "{*" in str(tool.arguments) and path not in ANYTHING:
                assert "pattern" in tool.input["args"], name


@pytest.mark.spec("PRO-4")
@pytest.mark.skipif(shutil.which("jq") is None, reason="this machine has no program jq")
@pytest.mark.parametrize("before", ["", "# a comment\n"])
def test_a_jq_filter_reads_no_files(before: str, folder: Path) -> None:
    reading = f'{before}import "secret" as $found {{search: "{folder.parent}"}}; $found'
    (failed, text), good = called(
        tools_in(folder),
        ("jq", {"filter": reading, "input": "null"}),
        ("jq", {"filter": "def twice: . * 2; twice # so", "input": "4"}),
    )
    assert failed
    assert '"secret"' not in text.partition("syntax error")[0]
    assert good == (False, "8")


@pytest.mark.spec("PRO-4")
@pytest.mark.skipif(shutil.which("jq") is None, reason="this machine has no program jq")
def test_a_jq_filter_of_github_does_not_see_the_token(folder: Path) -> None:
    """`gh` passes its environment to filters; jq uses the same names for it."""
    (template,) = [one for one in TOOLS["gh_api"].arguments if "jq_filter" in one]
    for filter in ("env.GH_TOKEN", "$ENV.GH_TOKEN", "def f: $ENV; f.GH_TOKEN", "null) | (env.GH_TOKEN"):
        program = template.removeprefix("--jq=").replace("{jq_filter}", filter)
        environment = {**os.environ, "GH_TOKEN": "secret"}
        command = ["jq", "--null-input", program]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout) == (0, "null\n")


# -- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
def test_every_parameter_that_is_a_path_is_checked() -> None:
    paths = {
        *("path", "paths", "file_a", "file_b", "source", "dest", "link", "left", "right", "files", "archive", "output")
    }
    for path in groups().keys() - ANYTHING - {"git"}:
        for name, tool in groups()[path].tools.items():
            if tool.program:
                assert paths & tool.input.keys() <= set(tool.inside), name


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    ("name", "parameter"), [(name, parameter) for name, tool in TOOLS.items() for parameter in tool.inside]
)
def test_no_program_gets_a_path_outside_the_folder_or_in_git(
    name: str, parameter: str, folder: Path, made: Path
) -> None:
    for program in {*TOOLS[name].program, "git"}:
        fake(folder.parent / "bin" / program, RECORDER.format(str(made)))
    (folder / "link").symlink_to(folder.parent / "secret.json")
    (folder / "up").symlink_to(folder.parent)
    (folder / "meta").symlink_to(".git")
    tools = tools_in(folder, found_in(folder.parent / "bin"))
    given = max((row["given"] for row in GIVEN[name]), key=len)
    for path in ("../secret.json", str(folder.parent), "link", "up/secret.json", ".git/config", "sub/.GIT", "meta/x"):
        value = [path] if isinstance(given.get(parameter), list) else path
        ((failed, text),) = called(tools, (name, {**given, parameter: value}))
        assert failed
        assert "is not in the working folder" in text or "which only git may use" in text
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_a_copy_replaces_a_link_and_not_its_target(folder: Path) -> None:
    victim = folder.parent / "secret.json"
    for place in ("into", "deep/from"):
        (folder / place).mkdir(parents=True)
        (folder / place / "a").symlink_to(victim)
    (folder / "from").mkdir()
    (folder / "from" / "a").write_text("mine")
    tools = tools_in(folder)
    copied = called(
        tools,
        ("fs_copy", {"source": "from/a", "dest": "into"}),
        ("fs_copy", {"source": "from", "dest": "deep", "recursive": True}),
    )
    assert copied == [(False, "Done; nothing was printed.")] * 2
    assert "secret" in victim.read_text()
    assert (folder / "into" / "a").read_text() == (folder / "deep" / "from" / "a").read_text() == "mine"


@pytest.mark.spec("PRO-4")
def test_the_target_of_a_link_is_relative_to_the_working_folder(folder: Path) -> None:
    (folder / "a").mkdir()
    (folder / "poem.txt").write_text("one")
    linked, read = called(
        tools_in(folder), ("fs_symlink", {"target": "poem.txt", "link": "a/link"}), ("file_read", {"path": "a/link"})
    )
    assert not linked[0]
    assert read == (False, "one")


@pytest.mark.spec("PRO-4", "SAF-1")
def test_a_line_without_end_does_not_fill_the_memory(folder: Path) -> None:
    with (folder / "long").open("wb") as file:
        file.truncate(40_000_000)  # one line of NULs, in a sparse file
    tools = tools_in(folder)
    tracemalloc.start()
    try:
        ((failed, text),) = called(tools, ("file_read", {"path": "long"}))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert failed
    assert text == "These lines have more than 1,000,000 characters; read fewer."
    assert most < 20_000_000


@pytest.mark.spec("PRO-4", "SAF-1")
async def test_a_long_file_does_not_block_other_calls(folder: Path) -> None:
    with (folder / "long").open("wb") as file:
        file.truncate(300_000_000)
    ended: list[str] = []
    async with tools_in(folder).open_session(active=["file_ops", "mcp"]) as session, anyio.create_task_group() as tasks:

        async def call(name: str, **arguments: Any) -> None:
            await session.call(name, arguments)
            ended.append(name)

        tasks.start_soon(partial(call, "file_read", path="long", offset=1_000_000))
        tasks.start_soon(partial(call, "mcp_task_list"))
    assert ended == ["mcp_task_list", "file_read"]


def test_a_folder_that_contains_the_home_folder_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers could write the settings of programs there, such as `.gitconfig`."""
    for home in (folder, folder / "home"):
        monkeypatch.setenv("HOME", str(home))
        with pytest.raises(ConfigError, match="contains the home folder"):
            build(folder=folder)


# -- which programs run, and with what --------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
def test_a_program_that_a_caller_could_have_written_is_not_run(
    folder: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment in a project, on the path of the server."""
    (folder / ".venv").mkdir()
    fake(folder / ".venv" / "bin" / "http", RECORDER.format(str(made)))
    (folder.parent / "elsewhere").symlink_to(folder / ".venv" / "bin")
    for path in (folder / ".venv" / "bin", folder.parent / "elsewhere"):
        tools = tools_in(folder, found_in(path))
        assert "http" not in tools.catalog.tools
    fake(folder.parent / "bin" / "http", "print('the real one')")
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder / ".venv" / "bin"), str(folder.parent / "bin")]))
    assert called(build(folder=folder), ("http", {"url": "example.org"})) == [(False, "the real one")]
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_a_program_does_not_find_others_in_the_working_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    safe = folder.parent / "bin"
    fake(safe / "stat", "import os; print(os.environ['PATH'])")
    monkeypatch.setenv("PATH", os.pathsep.join([str(folder / "bin"), "bin", ".", "", str(safe)]))
    tools = tools_in(folder, found_in(safe))
    assert called(tools, ("fs_stat", {"path": "x"})) == [(False, str(safe))]
