"""Document E's tools in malicious repositories: git runs no program that a caller or a repository names (PRO-4)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from examples.modern_cli.definitions import groups
from tests.examples.programs import fake
from tests.process.examples.modern_cli import RECORDER, called, tools_in

COMMANDS: list[tuple[str, dict[str, Any]]] = [
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
def test_no_tool_can_write_a_configuration_that_makes_git_run_programs(
    calls: list[tuple[str, dict[str, Any]]], repository: Path, made: Path
) -> None:
    """Under the profile review, `.git/config` could be written, and `git_status` ran the programs named there."""
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
    called(tools, *filled, *COMMANDS, *[("git_status", {"path": path}) for path in ("x", "y")])
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
    """A repository that was unpacked, or set up by somebody else."""
    fake(made.parent / "bin" / "program", f"open({str(made)!r}, 'w')")
    received = {"made": made, "program": made.parent / "bin" / "program", "elsewhere": made.parent}
    git(repository, "config", name, value.format(**received))
    (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    for failed, text in called(tools_in(repository), *COMMANDS):
        assert failed
        assert f"sets {name.lower()}, which may make git run programs" in text
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_hooks_and_monitors_of_a_repository_are_not_run(repository: Path, made: Path) -> None:
    git(repository, "config", "core.fsmonitor", f"touch {made}; false")
    for hook in ("pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction"):
        fake(repository / ".git" / "hooks" / hook, f"open({str(made)!r}, 'w')")
    results = called(tools_in(repository), *COMMANDS)
    assert [text for failed, text in results if failed] == [
        "git failed: it ended with status 1.\nNo stash entries found."
    ]
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_a_repository_in_a_repository_is_checked_too(repository: Path, made: Path) -> None:
    inner = new_repository(repository / "inner")
    git(repository, "add", "inner")
    assert not called(tools_in(repository), ("git_status", {}))[0][0]
    git(inner, "config", "filter.evil.clean", f"touch {made}; cat")
    (inner / ".git" / "info" / "attributes").write_text("* filter=evil\n")
    more = [("git_add", {"files": ["inner"]}), *COMMANDS, ("git_status", {"path": "inner"})]
    for failed, text in called(tools_in(repository), *more):
        assert failed
        assert "sets filter.evil.clean" in text
    assert not made.exists()


@pytest.mark.spec("PRO-4")
def test_programs_that_run_git_are_run_only_where_git_is_safe(repository: Path, made: Path) -> None:
    programs = {group: {tool.program[0] for tool in groups()[group].tools.values()} for group in ("github", "gitlab")}
    for program in ("gh", "glab", "delta"):
        fake(made.parent / "bin" / program, RECORDER.format(str(made)))
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
def test_git_does_not_use_a_repository_around_the_folder(repository: Path) -> None:
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
def test_a_folder_that_only_looks_like_a_repository_is_not_used(repository: Path) -> None:
    """Anybody could write its configuration."""
    texts = {"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\tbare = false\n", "objects/x": "", "refs/x": ""}
    writing = [
        ("file_write", {"path": f"x/{path}", "content": text, "create_dirs": True}) for path, text in texts.items()
    ]
    *_, (failed, text) = called(tools_in(repository), *writing, ("git_status", {"path": "x"}))
    assert failed
    assert "cannot use bare repository" in text


@pytest.mark.spec("PRO-4")
def test_git_runs_in_a_repository_with_submodules_a_remote_and_branches(repository: Path, tmp_path: Path) -> None:
    other = new_repository(tmp_path / "other")
    git(repository, "-c", "protocol.file.allow=always", "submodule", "add", str(other), "sub")
    git(repository, "remote", "add", "origin", "https://example.org/poem.git")
    git(repository, "config", "branch.main.remote", "origin")
    git(repository, "config", "branch.main.merge", "refs/heads/main")
    for failed, text in called(tools_in(repository), ("git_status", {}), ("git_log", {}), ("git_diff", {})):
        assert not failed, text


@pytest.mark.spec("PRO-4")
def test_reading_a_repository_writes_nothing(repository: Path) -> None:
    index = repository / ".git" / "index"
    (repository / "poem.txt").write_text("one\n")  # the same content, with another time
    os.utime(repository / "poem.txt", (1, 1))
    before = index.read_bytes()
    results = called(tools_in(repository), ("git_status", {}), ("git_diff", {}), ("git_log", {}))
    assert not any(failed for failed, _ in results)
    assert index.read_bytes() == before
