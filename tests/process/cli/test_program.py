"""The program as a process: how it starts, how it exits, and what it says if a package is missing."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.support import SECONDS, environment, run
from tests.preloaded import forked_toolfold
from toolfold import __version__

WITHOUT = "import sys; sys.modules[{package!r}] = None; from toolfold_cli import main; main()"


def without(package: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the program as if a package were not installed."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(package=package), *arguments],
        cwd=cwd,
        env=environment(),
        capture_output=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize(
    ("package", "arguments", "extra"),
    [
        ("click", ("--version",), "cli"),
        ("rich", ("inspect", "shop:tools"), "cli"),
        ("mcp", ("serve", "shop:tools"), "mcp"),
        ("mcp", ("inspect", "--", "server"), "mcp"),
        ("mcp", ("conform", "shop:tools", "--transport", "stdio", "--era", "legacy"), "mcp"),
    ],
)
def test_a_missing_extra_is_named_with_the_command_that_installs_it(
    shop: Path, package: str, arguments: tuple[str, ...], extra: str
) -> None:
    done = without(package, *arguments, cwd=shop)
    assert (done.returncode, done.stdout) == (2 if arguments[0] == "conform" else 1, "")
    assert done.stderr == (
        f"toolfold: '{package}' is not installed. Install it with: pip install \"toolfold[{extra}]\"\n"
    )


def test_without_mcp_a_tool_set_can_be_inspected(shop: Path) -> None:
    assert without("mcp", "inspect", "shop:tools", cwd=shop).returncode == 0


def test_a_missing_package_of_no_extra_is_another_error(shop: Path) -> None:
    done = without("toolfold_adapters.tokens", "inspect", "shop:tools", cwd=shop)
    assert "Traceback" in done.stderr
    assert "pip install" not in done.stderr


def test_the_module_and_the_entry_point_are_one_program(shop: Path) -> None:
    command = [sys.executable, "-m", "toolfold_cli", "--version"]
    done = subprocess.run(command, cwd=shop, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout == f"toolfold {__version__}\n"


def test_the_output_of_a_child_process_stays_out_of_the_output(shop: Path) -> None:
    (shop / "loud.py").write_text("import os\nos.system('echo loud')\nfrom shop import tools\n")
    done = run("profiles", "loud:tools", cwd=shop)
    assert "loud" not in done.stdout
    assert done.stderr == "loud\n"


def test_a_reader_that_closes_the_pipe_ends_the_program_quietly(shop: Path) -> None:
    (shop / "many.py").write_text(
        "from toolfold import ToolSet\ntools = ToolSet('many')\n"
        "for n in range(3000):\n    tools.register_group(f'g{n}')\n"
    )
    with subprocess.Popen(
        [*forked_toolfold(), "inspect", "many:tools"],
        cwd=shop,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(SECONDS) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize(
    "arguments", ["--version", "demo --fast", "demo --json", "inspect shop:tools", "inspect shop:tools --json", "man"]
)
def test_output_that_can_not_be_written_is_one_sentence(shop: Path, arguments: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*forked_toolfold(), *arguments.split()],
            cwd=shop,
            env=environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "toolfold: The output can't be written: No space left on device.\n",
    )


@pytest.mark.spec("DIA-1", "DIA-3")
def test_a_terminal_is_shown_a_tree_with_the_state_of_each_group(shop: Path) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb") as screen:
        done = subprocess.run(
            [*forked_toolfold(), "diagram", "shop:tools", "--active", "orders"],
            cwd=shop,
            env=environment(COLUMNS="40"),
            stdout=theirs,
            check=False,
            timeout=SECONDS,
        )
        os.close(theirs)
        assert done.returncode == 0
        lines = screen.read1().decode().splitlines()
    assert lines[1:4] == [
        "├─ ○ cellar · 1 tool · excludes orders…",
        "└─ ● orders · open · 1 tool · excludes…",
        "   └─ ○ returns · 1 tool · Take goods b…",
    ]


@pytest.mark.spec("DEL-10")
@pytest.mark.parametrize("command", [("serve", "shop:tools"), ("connect", "gateway.json")], ids=["serve", "connect"])
def test_a_server_in_a_terminal_says_that_it_waits_for_a_client_and_how_to_end_it(
    shop: Path, command: tuple[str, str]
) -> None:
    (shop / "gateway.json").write_text('{"mcpServers": {}}')
    ours, theirs = pty.openpty()
    with (
        os.fdopen(ours, "wb"),
        subprocess.Popen(
            [*forked_toolfold(), *command],
            cwd=shop,
            env=environment(),
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        ) as server,
    ):
        os.close(theirs)
        assert server.stderr is not None
        assert "waiting for a client on standard input" in server.stderr.readline()
        server.send_signal(signal.SIGINT)
        assert server.wait(SECONDS) is not None


def test_a_tool_of_another_server_is_called_by_the_command_that_starts_it(tmp_path: Path) -> None:
    server = Path(__file__).parents[1] / "docs" / "upstream.py"
    words = ("owner=o", "repo=r", "issue_number=1")
    done = run("call", "get_issue", *words, "--", sys.executable, str(server), cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "get_issue\n"), done.stderr


def test_the_shell_completes_commands_and_options(tmp_path: Path) -> None:
    for words, completed in (("toolfold ins", "inspect"), ("toolfold inspect --max-g", "--max-group-tokens")):
        variables = {"COMP_WORDS": words, "COMP_CWORD": str(words.count(" ")), "_TOOLFOLD_COMPLETE": "bash_complete"}
        assert run(cwd=tmp_path, **variables).stdout == f"plain,{completed}\n"
