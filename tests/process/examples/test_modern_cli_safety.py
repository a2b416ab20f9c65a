"""Document E's tools in the hands of somebody who means harm: each test is an attack that once succeeded.

The attacks use the real programs where what these do is the point; `made` is the file that an attack makes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
import tracemalloc
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from examples.modern_cli import build
from examples.modern_cli.definitions import groups
from tests.examples.programs import fake
from toolfold import ConfigError, ToolResult, ToolSet

ANYTHING = {"container", "kubernetes", "system"}
"""The groups whose tools run what they are told to; no profile that has one is safe without a sandbox."""
TOOLS = {name: tool for group in groups().values() for name, tool in group.tools.items()}
GIVEN: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("modern_cli_arguments.toml").read_text(encoding="utf-8")
)
CALLS = "import sys\nopen({!r}, 'a').write(' '.join(sys.argv) + '\\n')"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A working folder, beside a secret."""
    (tmp_path / "secret.json").write_text('{"key": "secret"}\n')
    made = tmp_path / "work"
    made.mkdir()
    return made


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return tmp_path / "made"


@pytest.fixture
def repository(folder: Path) -> Path:
    """A working folder that is a repository with one commit, whose file has changed since."""
    return new_repository(folder)


def new_repository(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Ada")
    git(folder, "config", "user.email", "ada@example.org")
    (folder / "poem.txt").write_text("one\n")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=one")
    (folder / "poem.txt").write_text("two\n")
    return folder


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def tools_in(folder: Path, which: Callable[[str], str | None] = shutil.which) -> ToolSet:
    return build(which=which, folder=folder)


def called(tools: ToolSet, *calls: tuple[str, Mapping[str, Any]]) -> list[tuple[bool, str]]:
    """Return whether each call was an error, and its text; all groups are open."""

    async def call_all() -> list[ToolResult]:
        async with tools.open_session(active=[group.path for group in tools.groups()]) as session:
            return [await session.call(name, arguments) for name, arguments in calls]

    return [(result.is_error, result.text) for result in anyio.run(call_all)]


# -- values that a program would make something of --------------------------------------------------------------------


@pytest.mark.spec("PRO-4", "SAF-6")
@pytest.mark.parametrize(
    "item", ["x:=@../secret.json", "x:=5", "x:@../secret.json", "x@f", "x=@f", "x==@f", "x=1", "x;"]
)
def test_a_header_is_never_a_file_nor_a_part_of_the_body(item: str, folder: Path, made: Path) -> None:
    """HTTPie and xh send `x:=@FILE` as JSON from a file."""
    fake(folder.parent / "bin" / "http", CALLS.format(str(made)))
    tools = tools_in(folder, partial(shutil.which, path=str(folder.parent / "bin")))
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
def test_what_would_make_a_program_do_something_else_is_refused(
    name: str, arguments: dict[str, Any], folder: Path, made: Path
) -> None:
    for program in {program for tool in TOOLS.values() for program in tool.program}:
        fake(folder.parent / "bin" / program, CALLS.format(str(made)))
    tools = tools_in(folder, partial(shutil.which, path=str(folder.parent / "bin")))
    ((failed, _),) = called(tools, (name, arguments))
    assert failed
    assert not made.exists()


def test_only_groups_that_run_anything_have_tools_that_take_any_option() -> None:
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
def test_the_filter_for_answers_of_github_does_not_see_the_token(folder: Path) -> None:
    """`gh` gives its filters the environment; jq does so in the same words."""
    (template,) = [one for one in TOOLS["gh_api"].arguments if "jq_filter" in one]
    for filter in ("env.GH_TOKEN", "$ENV.GH_TOKEN", "def f: $ENV; f.GH_TOKEN", "null) | (env.GH_TOKEN"):
        program = template.removeprefix("--jq=").replace("{jq_filter}", filter)
        environment = {**os.environ, "GH_TOKEN": "secret"}
        command = ["jq", "--null-input", program]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert (run.returncode, run.stdout) == (0, "null\n")


# -- paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
def test_every_path_is_said_to_be_inside() -> None:
    paths = {
        "path",
        "paths",
        "file_a",
        "file_b",
        "source",
        "dest",
        "link",
        "left",
        "right",
        "files",
        "archive",
        "output",
    }
    for path in groups().keys() - ANYTHING - {"git"}:
        for name, tool in groups()[path].tools.items():
            if tool.program:
                assert paths & tool.input.keys() <= set(tool.inside), name


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    ("name", "parameter"), [(name, parameter) for name, tool in TOOLS.items() for parameter in tool.inside]
)
def test_no_program_is_given_a_path_out_of_the_folder_or_into_git(
    name: str, parameter: str, folder: Path, made: Path
) -> None:
    for program in {*TOOLS[name].program, "git"}:
        fake(folder.parent / "bin" / program, CALLS.format(str(made)))
    (folder / "link").symlink_to(folder.parent / "secret.json")
    (folder / "up").symlink_to(folder.parent)
    (folder / "meta").symlink_to(".git")
    tools = tools_in(folder, partial(shutil.which, path=str(folder.parent / "bin")))
    given = max((row["given"] for row in GIVEN[name]), key=len)
    for path in ("../secret.json", str(folder.parent), "link", "up/secret.json", ".git/config", "sub/.GIT", "meta/x"):
        value = [path] if isinstance(given.get(parameter), list) else path
        ((failed, text),) = called(tools, (name, {**given, parameter: value}))
        assert failed
        assert "is not in the working folder" in text or "is one of git's own files" in text
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_a_copy_replaces_a_link_and_not_what_it_leads_to(folder: Path) -> None:
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
def test_a_link_is_made_to_what_the_path_names_from_the_working_folder(folder: Path) -> None:
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
        file.truncate(40_000_000)  # one line of NULs, which takes no room on the disk
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
async def test_a_long_file_keeps_nobody_else_waiting(folder: Path) -> None:
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


def test_a_folder_that_holds_the_home_folder_is_not_served(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Callers would write the settings of programs, such as `.gitconfig`."""
    for home in (folder, folder / "home"):
        monkeypatch.setenv("HOME", str(home))
        with pytest.raises(ConfigError, match="holds the home folder"):
            build(folder=folder)


# -- which programs run, and with what --------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
def test_a_program_that_a_caller_could_have_written_is_not_run(
    folder: Path, made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A virtual environment in a project, on the path of the server."""
    (folder / ".venv").mkdir()
    fake(folder / ".venv" / "bin" / "http", CALLS.format(str(made)))
    (folder.parent / "elsewhere").symlink_to(folder / ".venv" / "bin")
    for path in (folder / ".venv" / "bin", folder.parent / "elsewhere"):
        tools = tools_in(folder, partial(shutil.which, path=str(path)))
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
    tools = tools_in(folder, partial(shutil.which, path=str(safe)))
    assert called(tools, ("fs_stat", {"path": "x"})) == [(False, str(safe))]


# -- git --------------------------------------------------------------------------------------------------------------

CALLS_OF_GIT: list[tuple[str, dict[str, Any]]] = [
    ("git_status", {}),
    ("git_diff", {}),
    ("git_log", {"format": "%G? %s"}),
    ("git_add", {"files": ["poem.txt"]}),
    ("git_commit", {"message": "two", "all": True}),
    ("git_checkout", {"target": "topic", "create": True}),
    ("git_stash", {"command": "push"}),
    ("git_stash", {"command": "pop"}),
    ("git_branch", {"command": "list"}),
]


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    "calls",
    [
        [("file_write", {"path": ".git/config", "content": "{config}"})],
        [("file_append", {"path": ".git/config", "content": "{config}"})],
        [("file_write", {"path": ".git/hooks/pre-commit", "content": "{script}"})],
        [("file_write", {"path": "x", "content": "{config}"}), ("fs_copy", {"source": "x", "dest": ".git/config"})],
        [("file_write", {"path": "x", "content": "{config}"}), ("fs_move", {"source": "x", "dest": ".git/config"})],
        [
            *[("fs_hardlink", {"source": ".git/config", "link": "x"}), ("fs_symlink", {"target": ".git", "link": "y"})],
            *[("file_write", {"path": path, "content": "{config}"}) for path in ("x", "y/config")],
        ],
        [
            *[
                ("fs_move", {"source": ".git", "dest": "x"}),
                ("file_write", {"path": "x/config", "content": "{config}"}),
            ],
            ("fs_move", {"source": "x", "dest": ".git"}),
        ],
        [
            *[("file_write", {"path": "x/HEAD", "content": "ref: refs/heads/main\n", "create_dirs": True})],
            *[("fs_mkdir", {"path": path}) for path in ("x/objects", "x/refs", "y")],
            ("file_write", {"path": "x/config", "content": "{config}"}),
            ("file_write", {"path": "y/.git", "content": "gitdir: ../x\n"}),
        ],
    ],
)
def test_nobody_can_write_a_configuration_that_git_then_runs(
    calls: list[tuple[str, dict[str, Any]]], repository: Path, made: Path
) -> None:
    """Under the profile review, `.git/config` was written, and `git_status` ran what it named."""
    script = f"#!/bin/sh\ntouch {made}\n"
    config = (repository / ".git" / "config").read_text() + (
        f'[core]\n\tbare = false\n\tworktree = ..\n\tfsmonitor = "touch {made}; false"\n'
        f'[filter "evil"]\n\tclean = "touch {made}; cat"\n'
    )
    texts = {"{config}": config, "{script}": script}
    filled = [(name, {key: texts.get(value, value) for key, value in given.items()}) for name, given in calls]
    fake(repository / ".git" / "hooks" / "pre-commit", "")
    (repository / ".gitattributes").write_text("* filter=evil\n")
    tools = tools_in(repository)
    called(tools, *filled, *CALLS_OF_GIT, *[("git_status", {"path": path}) for path in ("x", "y")])
    assert not made.exists()
    assert "evil" not in (repository / ".git" / "config").read_text()


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("filter.evil.clean", "touch {made}; cat"),
        ("filter.evil.process", "touch {made}"),
        ("diff.external", "touch {made}; true"),
        ("diff.evil.textconv", "touch {made}; cat"),
        ("merge.evil.driver", "touch {made}"),
        ("gpg.program", "{program}"),
        ("core.sshCommand", "touch {made}"),
        ("core.editor", "touch {made}"),
        ("core.worktree", "{elsewhere}"),
        ("include.path", "../included"),
        ("hook.evil.command", "touch {made}"),
        ("credential.helper", "!touch {made}"),
        ("remote.origin.uploadpack", "touch {made};"),
    ],
)
def test_git_is_not_run_where_a_configuration_may_make_it_run_programs(
    name: str, value: str, repository: Path, made: Path
) -> None:
    """A repository that was unpacked, or that somebody else has set up."""
    fake(made.parent / "bin" / "program", f"open({str(made)!r}, 'w')")
    received = {"made": made, "program": made.parent / "bin" / "program", "elsewhere": made.parent}
    git(repository, "config", name, value.format(**received))
    (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for failed, text in called(tools_in(repository), *CALLS_OF_GIT):
        assert failed
        assert f"sets {name.lower()}, which may make git run programs" in text
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_hooks_and_monitors_of_a_repository_are_not_run(repository: Path, made: Path) -> None:
    git(repository, "config", "core.fsmonitor", f"touch {made}; false")
    for hook in ("pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction"):
        fake(repository / ".git" / "hooks" / hook, f"open({str(made)!r}, 'w')")
    results = called(tools_in(repository), *CALLS_OF_GIT)
    assert [text for failed, text in results if failed] == [
        "git failed: it ended with status 1.\nNo stash entries found."
    ]
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_a_repository_in_a_repository_is_looked_at_as_well(repository: Path, made: Path) -> None:
    inner = new_repository(repository / "inner")
    git(repository, "add", "inner")
    assert not called(tools_in(repository), ("git_status", {}))[0][0]
    git(inner, "config", "filter.evil.clean", f"touch {made}; cat")
    (inner / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    more = [("git_add", {"files": ["inner"]}), *CALLS_OF_GIT, ("git_status", {"path": "inner"})]
    for failed, text in called(tools_in(repository), *more):
        assert failed
        assert "sets filter.evil.clean" in text
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_programs_that_run_git_do_so_only_where_it_is_safe(repository: Path, made: Path) -> None:
    programs = {group: {tool.program[0] for tool in groups()[group].tools.values()} for group in ("github", "gitlab")}
    for program in ("gh", "glab", "delta"):
        fake(made.parent / "bin" / program, CALLS.format(str(made)))
    assert programs == {"github": {"gh"}, "gitlab": {"glab"}}
    git(repository, "config", "core.sshCommand", f"touch {made}")
    tools = tools_in(repository, lambda name: shutil.which(name, path=str(made.parent / "bin")) or shutil.which(name))
    for failed, text in called(
        tools,
        ("gh_pr", {"command": "checkout", "number": 1}),
        ("glab_mr", {"command": "list"}),
        ("delta", {"file_a": "poem.txt", "file_b": "poem.txt"}),
    ):
        assert failed
        assert "sets core.sshcommand" in text
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_git_does_not_work_on_a_repository_that_is_larger_than_the_folder(repository: Path) -> None:
    inside = repository / "inside"
    inside.mkdir()
    (status, checkout) = called(
        tools_in(inside), ("git_status", {}), ("git_checkout", {"target": "HEAD", "files": [":/poem.txt"]})
    )
    assert status[0]
    assert "not a git repository" in status[1]
    assert checkout[0]
    assert (repository / "poem.txt").read_text() == "two\n"


@pytest.mark.spec("PRO-4")
def test_a_folder_that_only_looks_like_a_repository_is_none(repository: Path) -> None:
    """Its configuration would be anybody's to write."""
    texts = {"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tbare = false\n", "objects/x": "", "refs/x": ""}
    writing = [
        ("file_write", {"path": f"x/{path}", "content": text, "create_dirs": True}) for path, text in texts.items()
    ]
    *_, (failed, text) = called(tools_in(repository), *writing, ("git_status", {"path": "x"}))
    assert failed
    assert "cannot use bare repository" in text


@pytest.mark.spec("PRO-4")
def test_git_is_run_in_a_repository_with_submodules_a_remote_and_branches(repository: Path, tmp_path: Path) -> None:
    other = new_repository(tmp_path / "other")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", str(other), "sub")
    git(repository, "remote", "add", "origin", "https://example.org/poem.git")
    git(repository, "config", "branch.main.remote", "origin")
    git(repository, "config", "branch.main.merge", "refs/heads/main")
    for failed, text in called(tools_in(repository), ("git_status", {}), ("git_log", {}), ("git_diff", {})):
        assert not failed, text


@pytest.mark.spec("PRO-4")
def test_looking_at_a_repository_writes_nothing(repository: Path) -> None:
    index = repository / ".git" / "index"
    (repository / "poem.txt").write_text("one\n")  # as it was, but at another time
    os.utime(repository / "poem.txt", (1, 1))
    before = index.read_bytes()
    results = called(tools_in(repository), ("git_status", {}), ("git_diff", {}), ("git_log", {}))
    assert not any(failed for failed, _ in results)
    assert index.read_bytes() == before
