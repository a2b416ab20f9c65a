"""Document E's command line: profiles, what a client that starts the server is listed, and what is missing here."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from mcp import StdioServerParameters

from examples.modern_cli.definitions import groups
from tests.cli.support import PROGRAM, environment, run
from tests.examples.callers import connected
from tests.examples.document_e import PROFILES, TOOLS
from tests.examples.programs import fake

ROOT = Path(__file__).parents[3]
TARGET = "examples.modern_cli:tools"


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with git and rg alone."""
    for name in ("git", "rg"):
        fake(tmp_path / "bin" / name)
    return tmp_path / "bin"


@pytest.mark.spec("PRO-2", "PRO-4")
def test_the_command_line_lists_the_profiles(programs: Path) -> None:
    """Document E, CLI interface: `--list-profiles`."""
    for command in (("serve", TARGET, "--list-profiles"), ("profiles", TARGET)):
        done = run(*command, cwd=ROOT, PATH=str(programs))
        assert done.returncode == 0, done.stderr
        lines = [re.split("  +", line) for line in done.stdout.splitlines()[1:]]
        assert {line[0]: line[1].split(", ") for line in lines} == {
            name: active.split() for name, (active, _) in PROFILES.items()
        }
        assert [line[2].split(", ") for line in lines if line[2] not in ("*", "-")] == [
            virtual.split() for name, (_, virtual) in PROFILES.items() if virtual and name != "generator"
        ]


@pytest.mark.spec("PRO-2")
@pytest.mark.parametrize("command", ["serve", "inspect"])
def test_the_command_line_refuses_an_unknown_profile_with_the_list(command: str, programs: Path) -> None:
    """Document E, CLI interface: `--profile`."""
    done = run(command, TARGET, "--profile", "explorer", cwd=ROOT, PATH=str(programs))
    assert (done.returncode, done.stdout) == (1, "")
    assert f"There is no profile 'explorer'; the profiles are: {', '.join(sorted(PROFILES))}." in done.stderr


@pytest.mark.spec("PRO-2", "PRO-4")
@pytest.mark.parametrize("era", ["legacy", "auto"])
@pytest.mark.parametrize("profile", [None, "explore", "dev-deploy", "generator"])
async def test_a_server_that_a_client_starts_with_a_profile_lists_its_groups(
    profile: str | None, era: Literal["legacy", "auto"], programs: Path
) -> None:
    """Document E, MCP configuration example."""
    command, *rest = PROGRAM
    arguments = ["serve", TARGET, *([] if profile is None else ["--profile", profile])]
    server = StdioServerParameters(
        command=command, args=[*rest, *arguments], cwd=ROOT, env=environment(PATH=str(programs))
    )
    here = {
        None: [],
        "explore": ["git_diff", "git_log", "git_status", "permissions", "references", "rg", "symbols"],
        "dev-deploy": sorted(TOOLS["git"].split()),
        "generator": sorted(
            [*TOOLS["git"].split(), "references", "rg", "symbols", "system_info", *TOOLS["file_ops"].split()[:4]]
        ),
    }[profile]
    async with connected(server, era) as caller:
        assert await caller.names() == sorted(["expand_tools", *here])
        failed, text = await caller.call("expand_tools", {"group": "git"})
        assert not failed
        failed, text = await caller.call("git_log", {"format": "$(id); `id`", "count": 1})
        assert not failed, text
        assert json.loads(text)["argv"][-2:] == ["--format=$(id); `id`", "--"]
        failed, text = await caller.call("expand_tools", {"group": "mcp"})
        assert failed is (profile in ("explore", "dev-deploy"))


@pytest.mark.spec("PRO-4")
def test_inspect_says_which_tools_are_missing_and_which_program_each_needs(programs: Path) -> None:
    done = run("inspect", TARGET, cwd=ROOT, PATH=str(programs))
    assert done.returncode == 0, done.stderr
    received = {line.split()[0]: line for line in done.stdout.splitlines() if line.strip()}
    assert "Not installed here: fzf (fzf_filter), ddgr (web_search), ast-grep (ast_grep)" in received["search"]
    assert "Empty, since no program of it is installed here: ouch (ouch_compress, ouch_de" in received["archive"]
    assert "installed" not in received["git"]
    report = json.loads(run("inspect", TARGET, "--json", cwd=ROOT, PATH=str(programs)).stdout)
    for name, group in groups().items():
        entry = next(one for one in report["groups"] if one["path"] == name)
        offered = {tool["name"] for tool in entry["tools"]}
        for tool, data in group.tools.items():
            assert (tool in offered) is (not data.program or bool({"git", "rg"} & set(data.program)))
            if tool not in offered:
                assert all(re.search(rf"\b{re.escape(one)}\b", entry["description"]) for one in data.program)


@pytest.mark.spec("PRO-4")
def test_the_demonstration_says_what_is_here_and_runs_some_of_it(tmp_path: Path) -> None:
    for name in ("test", "env"):
        found = shutil.which(name)
        assert found
        (tmp_path / name).symlink_to(found)
    done = subprocess.run(
        [sys.executable, "-m", "examples.modern_cli"],
        cwd=ROOT,
        env=environment(PATH=os.pathsep.join((str(tmp_path), *os.get_exec_path()))),
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "\n> fs_exists " in done.stdout
    assert "It does not exist." in done.stdout
    assert "one argument | not a pipe `not run`" in done.stdout
    assert "[error] env failed: it was stopped, because it took longer than 1 s." in done.stdout
    assert "[error] There is no group 'kubernetes'." in done.stdout
