"""Document E's tools run programs: arguments stay what they are, and a program that misbehaves harms nothing else."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import SocketStream

from examples.modern_cli import build
from examples.modern_cli.programs import Limits
from tests.examples.callers import UNKNOWN, WAYS
from tests.examples.programs import PRINT_INPUT, fake
from toolfold import ToolSet
from toolfold_adapters.transport.processes import GRACE_SECONDS

PATIENCE = 120
METACHARACTERS = (
    *("; rm -rf ~", "$(touch made)", "`touch made`", "${HOME}", "one\ntouch made\n", "a | b & c && d || e"),
    *("a > made", "< made", "'single' \"double\"", "*", "~", "\\", "%PATH%", "!history", "{a,b}", "# comment"),
    *(" blanks ", "tab\there", "", "naïve ☃", "--", "--help", "-rf"),
)
"""What a shell would make something of, or a program."""

# What `stat` does here, by the path that it is given.
MISHAPS = r"""
import os, signal, sys
what = sys.argv[-1]
if what == "hang":
    print("so far", flush=True)
    signal.pause()
elif what in ("flood", "flood of errors"):
    out = sys.stdout if what == "flood" else sys.stderr
    while True:
        out.write("0123456789")
elif what == "signal":
    print("so far", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
elif what == "bytes":
    sys.stdout.buffer.write(b"a\xff\xfeb \xc3\xa9")
elif what == "status":
    print("so far", flush=True)
    sys.exit("no such thing")
elif what == "closes":
    os.close(1); os.close(2)
    signal.pause()
else:
    print("well")
"""

# A program and a child of it, neither of which ends when asked to; both hold a connection for as long as they live.
FAMILY = r"""
import signal, socket, subprocess, sys
port, is_child = sys.argv[2], sys.argv[3:] == ["child"]
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if not is_child:
    subprocess.Popen([sys.executable, "-IS", sys.argv[0], "--", port, "child"])
connection = socket.create_connection(("127.0.0.1", int(port)))
connection.send(b"x")
if not is_child:
    print("so far", flush=True)
connection.recv(1)  # the test ends them if nothing else does
"""


def with_programs(folder: Path, limits: Limits | None = None, **scripts: str) -> ToolSet:
    """Tools whose programs are scripts in `bin`, and that work in `work`; there are no others."""
    for name, script in scripts.items():
        fake(folder / "bin" / name, script)
    (folder / "work").mkdir(exist_ok=True)
    return build(which=partial(shutil.which, path=str(folder / "bin")), folder=folder / "work", limits=limits)


# -- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize("way", WAYS)
async def test_every_value_arrives_as_one_argument_and_nothing_else_is_run(way: str, tmp_path: Path) -> None:
    """Document E, command executor: an argument list, and never a shell."""
    tools = with_programs(tmp_path, stat=PRINT_INPUT, git=PRINT_INPUT, env=PRINT_INPUT, jq=PRINT_INPUT)
    calls: list[tuple[str, dict[str, Any], list[str]]] = [
        *(("fs_stat", {"path": value}, ["--", value]) for value in METACHARACTERS),
        ("git_add", {"files": list(METACHARACTERS)}, ["--no-pager", "add", "--", *METACHARACTERS]),
        (
            *("shell_exec", {"command": ["echo", *METACHARACTERS], "env": [f"A={value}" for value in METACHARACTERS]}),
            ["--", *(f"A={value}" for value in METACHARACTERS), "echo", *METACHARACTERS],
        ),
        (
            *("git_commit", {"message": "\n".join(METACHARACTERS)}),
            ["--no-pager", "commit", "--message=" + "\n".join(METACHARACTERS)],
        ),
    ]
    async with WAYS[way](tools, active=["filesystem", "git", "system", "text"]) as caller:
        for name, arguments, argv in calls:
            failed, text = await caller.call(name, arguments)
            assert not failed, text
            assert json.loads(text)["argv"] == argv
        failed, text = await caller.call("jq", {"filter": ".", "input": "".join(METACHARACTERS)})
        assert json.loads(text)["stdin"] == "".join(METACHARACTERS)
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    ("name", "arguments", "parameter"),
    [
        ("pup", {"selector": "-f", "input": ""}, "selector"),
        ("git_diff", {"commit": "--output=made"}, "commit"),
        ("git_diff", {"range": "--ext-diff"}, "range"),
        ("git_checkout", {"target": "--detach"}, "target"),
        ("git_status", {"path": "-x"}, "path"),
        ("shell_exec", {"command": ["ls"], "working_dir": "-S"}, "working_dir"),
        ("bats", {"path": "-x"}, "path"),
        ("kubectl_exec", {"pod": "-it", "command": ["ls"]}, "pod"),
        ("gh_repo", {"command": "view", "repo": "-w"}, "repo"),
        ("nix_shell_exec", {"command": ["ls"], "flake": "--impure"}, "flake"),
        ("trash_restore", {"target": "--decompose"}, "target"),
    ],
)
async def test_a_value_that_would_become_an_option_is_refused_and_nothing_is_run(
    name: str, arguments: dict[str, Any], parameter: str, tmp_path: Path
) -> None:
    ran = "open('made', 'w')"
    tools = with_programs(tmp_path, None, pup=ran, git=ran, env=ran, bats=ran, kubectl=ran, gh=ran, nix=ran, rip=ran)
    group = tools.catalog.tools[name].group
    async with tools.open_session(active=[group or ""]) as session:
        result = await session.call(name, arguments)
        assert result.is_error
        assert result.text.startswith(f"{parameter} can't begin with '-', since '-")
    assert not list((tmp_path / "work").iterdir())


@pytest.mark.spec("PRO-4")
async def test_characters_that_arguments_cannot_contain_are_refused(tmp_path: Path) -> None:
    tools = with_programs(tmp_path, stat=PRINT_INPUT, git=PRINT_INPUT)
    async with tools.open_session(active=["filesystem", "git"]) as session:
        for message in ("a\0b", "\ud800"):
            result = await session.call("git_commit", {"message": message})
            assert result.is_error
            assert "which arguments of programs can't contain" in result.text
        result = await session.call("fs_stat", {"path": "x" * 5_000_000})
        assert result.is_error
        assert result.text == "stat can't be started: Argument list too long."
        assert not (await session.call("fs_stat", {"path": "x"})).is_error


@pytest.mark.spec("PRO-4")
async def test_programs_get_a_small_environment_and_the_variables_of_their_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PASSWORD", "GH_TOKEN", "KUBECONFIG", "RIPGREP_CONFIG_PATH"):
        monkeypatch.setenv(name, "secret")
    tools = with_programs(tmp_path, rg=PRINT_INPUT, gh=PRINT_INPUT, mlr=PRINT_INPUT)
    async with tools.open_session(active=["search", "github", "text"]) as session:
        found = json.loads((await session.call("rg", {"pattern": "x"})).text)["environment"]
        assert "secret" not in found.values()
        assert found["NO_COLOR"] == "1"
        found = json.loads((await session.call("gh_auth_status", {})).text)["environment"]
        assert [name for name, value in found.items() if value == "secret"] == ["GH_TOKEN"]
        settings = {
            found[f"GIT_CONFIG_KEY_{n}"]: found[f"GIT_CONFIG_VALUE_{n}"] for n in range(int(found["GIT_CONFIG_COUNT"]))
        }
        assert (settings["gc.auto"], settings["maintenance.auto"]) == ("0", "false")  # nothing goes on afterwards
        found = json.loads((await session.call("miller", {"verb": "cat", "input": ""})).text)["environment"]
        assert found["MLRRC"] == "__none__"  # and it reads no settings from the working folder


# -- mishaps ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize("way", WAYS)
async def test_a_program_that_misbehaves_is_a_clear_error_and_affects_nothing_else(way: str, tmp_path: Path) -> None:
    """Document E, command executor."""
    tools = with_programs(tmp_path, Limits(seconds=2, bytes=5000), stat=MISHAPS, cp=PRINT_INPUT)
    (tmp_path / "bin" / "cp").unlink()
    (tmp_path / "bin" / "mv").write_text("neither a script nor a program")
    expected = {
        "hang": "stat failed: it was stopped, because it took longer than 2 s.\nso far",
        "closes": "stat failed: it was stopped, because it took longer than 2 s.",
        "flood": "stat failed: it was stopped, because it printed more than 5,000 bytes; ask for less.\n"
        + "0123456789" * 500,
        "flood of errors": "stat failed: it was stopped, because it printed more than 5,000 bytes; ask for less.\n"
        + "0123456789" * 500,
        "signal": "stat failed: it was ended by the signal SIGSEGV.\nso far",
        "status": "stat failed: it ended with status 1.\nso far\nno such thing",
    }
    async with WAYS[way](tools, active=["filesystem"]) as caller:
        before = await caller.listed()
        for path, received in expected.items():
            with anyio.fail_after(PATIENCE):
                assert await caller.call("fs_stat", {"path": path}) == (True, received)
            assert await caller.listed() == before
            assert await caller.call("fs_stat", {"path": "x"}) == (False, "well")
        assert await caller.call("fs_stat", {"path": "bytes"}) == (False, "a\\xff\\xfeb é")
        assert await caller.call("fs_copy", {"source": "a", "dest": "b"}) == (
            *(True, "cp can't be started: No such file or directory."),
        )
        assert await caller.call("fs_move", {}) == (True, UNKNOWN)
        assert await caller.call("fs_stat", {"path": "x"}) == (False, "well")
        assert not (await caller.call("expand_tools", {"group": "mcp"}))[0]


@pytest.mark.spec("PRO-4")
async def test_a_program_that_floods_is_stopped_long_before_its_time_is_over(tmp_path: Path) -> None:
    """Document E, command executor: an output limit."""
    tools = with_programs(tmp_path, Limits(seconds=600), stat=MISHAPS)
    async with tools.open_session(active=["filesystem"]) as session:
        for path in ("flood", "flood of errors"):
            with anyio.fail_after(PATIENCE):
                result = await session.call("fs_stat", {"path": path})
            assert result.is_error
            assert "it printed more than 200,000 bytes" in result.text
            assert len(result.text) < 200_200


@pytest.mark.spec("PRO-4")
async def test_concurrent_calls_do_not_wait_for_one_that_hangs(tmp_path: Path) -> None:
    tools = with_programs(tmp_path, Limits(seconds=PATIENCE), stat=MISHAPS)
    async with tools.open_session(active=["filesystem"]) as session, anyio.create_task_group() as tasks:
        tasks.start_soon(session.call, "fs_stat", {"path": "hang"})
        for _ in range(3):
            assert (await session.call("fs_stat", {"path": "x"})).text == "well"
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def family(listener: Any) -> AsyncGenerator[list[SocketStream]]:
    """The connections of the program and its child, once both are there."""
    met: list[SocketStream] = []
    with anyio.fail_after(PATIENCE):
        while len(met) < 2:
            connection = await listener.accept()
            assert await connection.receive(1) == b"x"
            met.append(connection)
    try:
        yield met
    finally:
        with anyio.CancelScope(shield=True):
            for connection in met:
                await connection.aclose()


async def all_dead(connections: list[SocketStream]) -> None:
    """Wait until whoever held the other ends has ended, which must be soon."""
    with anyio.fail_after(PATIENCE):
        for connection in connections:
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await connection.receive(1)


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize("how", ["limit", "cancelled"])
async def test_a_program_is_ended_with_its_child_processes(how: str, tmp_path: Path) -> None:
    """Document E, command executor: a time limit, and calls that are cancelled."""
    tools = with_programs(tmp_path, Limits(seconds=3 if how == "limit" else 600), stat=FAMILY)
    listener = (await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=0)).listeners[0]
    port = str(listener.extra(anyio.abc.SocketAttribute.local_port))
    results: list[Any] = []
    async with listener, tools.open_session(active=["filesystem"]) as session:

        async def call() -> None:
            results.append(await session.call("fs_stat", {"path": port}))

        with anyio.fail_after(PATIENCE + GRACE_SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(call)
                async with family(listener) as connections:
                    if how == "cancelled":
                        tasks.cancel_scope.cancel()
                    with anyio.CancelScope(shield=True):
                        await all_dead(connections)
        assert [result.text for result in results] == (
            ["stat failed: it was stopped, because it took longer than 3 s.\nso far"] if how == "limit" else []
        )
        assert "fs_stat" in session.list_tools().names


@pytest.mark.spec("PRO-4")
async def test_a_time_limit_can_be_given_with_a_call(tmp_path: Path) -> None:
    tools = with_programs(tmp_path, env=MISHAPS)
    async with tools.open_session(active=["system"]) as session:
        with anyio.fail_after(PATIENCE):
            result = await session.call("shell_exec", {"command": ["hang"], "timeout": 2})
        assert result.text == "env failed: it was stopped, because it took longer than 2 s.\nso far"
        assert (await session.call("shell_exec", {"command": ["hang"], "timeout": 601})).is_error


@pytest.mark.spec("PRO-4")
async def test_a_program_need_not_read_its_input(tmp_path: Path) -> None:
    tools = with_programs(tmp_path, jq="print('done')")
    async with tools.open_session(active=["text"]) as session:
        result = await session.call("jq", {"filter": ".", "input": "x" * 3_000_000})
        assert (result.is_error, result.text) == (False, "done")


@pytest.mark.spec("PRO-4")
@pytest.mark.parametrize(
    ("name", "arguments", "status", "expected"),
    [
        ("fs_exists", {"path": "x"}, 0, (False, "It exists.")),
        ("fs_exists", {"path": "x"}, 1, (False, "It does not exist.")),
        ("fs_exists", {"path": "x"}, 2, (True, "test failed: it ended with status 2.")),
        ("rg", {"pattern": "x"}, 1, (False, "Nothing matches.")),
        ("rg", {"pattern": "x"}, 0, (False, "Done; nothing was printed.")),
        ("delta", {"file_a": "a", "file_b": "b"}, 1, (False, "They differ.")),
    ],
)
async def test_a_status_that_is_an_answer_is_not_an_error(
    name: str, arguments: dict[str, Any], status: int, expected: tuple[bool, str], tmp_path: Path
) -> None:
    script = f"raise SystemExit({status})"
    tools = with_programs(tmp_path, test=script, rg=script, delta=script)
    async with tools.open_session(active=["filesystem", "search", "diff"]) as session:
        result = await session.call(name, arguments)
        assert (result.is_error, result.text) == expected
