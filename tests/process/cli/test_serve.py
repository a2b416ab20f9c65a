"""`toolfold serve` as a process: only the protocol on standard output, and an orderly shutdown."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal

import anyio
import pytest
from mcp import Client

from tests.adapters.gateway.support import is_running
from tests.cli.support import RAW, SECONDS, run, server, started
from tests.cli.test_servers import MARKED

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
HANGING = """
import os, sys
open("pid", "w").write(str(os.getpid()))
print("hanging", file=sys.stderr, flush=True)
sys.stdin.read()
"""
HOOKED = """
import anyio
from toolfold import ToolSet

async def wait():
    print("tearing down", flush=True)
    async with await anyio.open_file("proceed") as proceed:
        await proceed.readline()
    print("torn down", flush=True)

tools = ToolSet("hooked")
tools.register_group("g", on_deactivate=lambda: print("torn down"))
tools.register_group("slow", on_deactivate=wait)
"""
STATUS = {signal.SIGINT: 130, signal.SIGTERM: 0, signal.SIGHUP: 129}
"""The status of a server that a signal ends; SIGTERM is how a server is asked to end."""

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def pipe(stream: IO[str] | None) -> IO[str]:
    assert stream is not None
    return stream


def read_to(text: str, stream: IO[str] | None) -> None:
    assert any(text in line for line in pipe(stream)), f"it ended without {text!r}"


def ask(process: subprocess.Popen[str], request: dict[str, Any]) -> dict[str, Any]:
    """Send a request, and return the next message."""
    pipe(process.stdin).write(json.dumps({"jsonrpc": "2.0", "id": 2, **request}) + "\n")
    pipe(process.stdin).flush()
    message: dict[str, Any] = json.loads(pipe(process.stdout).readline())
    return message


def greet(process: subprocess.Popen[str]) -> None:
    ask(process, INITIALIZE)
    pipe(process.stdin).write(json.dumps(INITIALIZED) + "\n")


def end(process: subprocess.Popen[str], number: int) -> tuple[int, str, str]:
    """Send a signal, with standard input still open, and return status, output and errors."""
    process.send_signal(number)
    status = process.wait(SECONDS)
    return status, pipe(process.stdout).read(), pipe(process.stderr).read()


def hang_up(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Close standard input, as a client does that leaves, and return status, output and errors."""
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


@pytest.fixture
def hooked(shop: Path) -> Path:
    """A folder with a tool set whose groups say when they are torn down; `slow` waits for the pipe `proceed` then."""
    (shop / "hooked.py").write_text(HOOKED)
    os.mkfifo(shop / "proceed")
    return shop


@pytest.fixture
def proceed(hooked: Path) -> Iterator[int]:
    """The pipe that the hooks of `slow` wait for; it can be written to before anybody reads it."""
    descriptor = os.open(hooked / "proceed", os.O_RDWR)
    yield descriptor
    os.close(descriptor)


@pytest.mark.spec("DEL-10")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_tool_set_is_served_over_stdio_in_either_era(shop: Path, mode: Literal["legacy", "auto"]) -> None:
    with anyio.fail_after(SECONDS):
        async with Client(server("serve", "shop:tools", "--profile", "till", cwd=shop), mode=mode) as client:
            assert client.server_info is not None
            assert client.server_info.name == "shop"
            assert "orders__place" in {tool.name for tool in (await client.list_tools()).tools}
            result = await client.call_tool("orders__place", {"item": "tea", "count": 2})
            assert getattr(result.content[0], "text", "") == "2 of tea"


@pytest.mark.spec("INT-1")
async def test_an_existing_server_is_served_over_stdio_with_its_groups(shop: Path) -> None:
    (shop / "server.py").write_text(MARKED, encoding="utf-8")
    with anyio.fail_after(SECONDS):
        async with Client(server("serve", "server.py", cwd=shop)) as client:
            assert client.server_info is not None
            assert client.server_info.name == "mine"
            assert "- query: Query." in str((await client.call_tool("open_group", {"group": "database"})).content)


@pytest.mark.spec("DEL-10")
def test_standard_output_has_only_the_protocol_whatever_is_printed(shop: Path) -> None:
    (shop / "loud.py").write_text("import os\nprint('imported')\nos.system('echo a child')\nfrom shop import tools\n")
    with started("serve", "loud:tools", "--active", "orders", cwd=shop) as process:
        greet(process)
        call = {"method": "tools/call", "params": {"name": "orders__place", "arguments": {"item": "tea"}}}
        assert ask(process, call)["result"]["content"] == [{"type": "text", "text": "1 of tea"}]
        status, out, err = hang_up(process)
        assert (status, out) == (0, "")
        for printed in ("imported\n", "a child\n", "a handler prints\n"):
            assert printed in err


@pytest.mark.spec("HOOK-9", "SES-3", "SAF-5")
@pytest.mark.parametrize("number", STATUS)
def test_a_signal_ends_the_sessions_with_their_hooks_and_nothing_else_is_printed(
    hooked: Path, number: signal.Signals
) -> None:
    with started("serve", "hooked:tools", "--active", "g", cwd=hooked) as process:
        greet(process)
        assert "result" in ask(process, {"method": "tools/list"})
        status, out, err = end(process, number)
        assert (status, out) == (STATUS[number], "")
        assert err.splitlines()[1:] == ["torn down"]


@pytest.mark.spec("HOOK-9", "SAF-5")
@pytest.mark.parametrize("first", [signal.SIGTERM, signal.SIGHUP])
def test_a_second_signal_does_not_cut_the_shutdown_short(hooked: Path, proceed: int, first: signal.Signals) -> None:
    with started("serve", "hooked:tools", "--active", "slow", cwd=hooked) as process:
        greet(process)
        assert "result" in ask(process, {"method": "tools/list"})
        process.send_signal(first)
        read_to("tearing down", process.stderr)
        process.send_signal(signal.SIGHUP)
        os.write(proceed, b"\n")
        assert process.wait(SECONDS) == STATUS[first]
        assert pipe(process.stderr).read().endswith("torn down\n")


@pytest.mark.spec("SAF-5")
def test_a_hangup_is_ignored_where_it_was_ignored_from_the_start(shop: Path) -> None:
    with started("serve", "shop:tools", cwd=shop, ignoring=signal.SIGHUP) as process:
        greet(process)
        process.send_signal(signal.SIGHUP)
        assert "result" in ask(process, {"method": "tools/list"})
        assert hang_up(process)[0] == 0


@pytest.mark.spec("GWY-1")
def test_a_command_is_served_and_a_signal_leaves_no_child(shop: Path) -> None:
    with started("serve", "--", *RAW, "words", "pid", cwd=shop) as process:
        greet(process)
        call = {"method": "tools/call", "params": {"name": "issue_get"}}  # this waits for the server
        message = ask(process, call)
        while "method" in message:
            message = json.loads(pipe(process.stdout).readline())
        assert "result" in message
        status, _, err = end(process, signal.SIGINT)
        assert status == 130
        assert "Traceback" not in err
        assert not is_running(shop / "pid")


def test_a_signal_while_a_server_starts_leaves_no_child(shop: Path) -> None:
    with started("serve", "--", sys.executable, "-c", HANGING, cwd=shop) as process:
        greet(process)
        read_to(": hanging\n", process.stderr)
        status, out, err = end(process, signal.SIGINT)
        assert (status, out, err) == (130, "", "")
        assert not is_running(shop / "pid")


@pytest.mark.spec("DEL-10")
@pytest.mark.parametrize("number", STATUS)
async def test_http_prints_its_real_address_and_ends_quietly(shop: Path, number: signal.Signals) -> None:
    with started("serve", "shop:tools", "--http", "--port", "0", cwd=shop) as process:
        line = pipe(process.stderr).readline()
        found = re.search(r"serving (http://127\.0\.0\.1:([1-9]\d*)/mcp)$", line)
        assert found
        with anyio.fail_after(SECONDS):
            async with Client(found[1], mode="legacy") as client:
                assert "hours" in {tool.name for tool in (await client.list_tools()).tools}
        status, out, err = end(process, number)
        assert (status, out, err) == (STATUS[number], "", "")


@pytest.mark.spec("EXP-3")
def test_what_was_used_is_in_the_store_when_the_server_has_ended(shop: Path) -> None:
    with started("serve", "shop:tools", "--usage", "sqlite:///usage.db", cwd=shop) as process:
        greet(process)
        assert "result" in ask(process, {"method": "tools/call", "params": {"name": "hours", "arguments": {}}})
        assert hang_up(process)[0] == 0
    found = json.loads(run("report", "usage.db", "--format", "json", cwd=shop).stdout)
    assert [(row["name"], row["calls"]) for row in found["tools"] if row["calls"]] == [("hours", 1)]
    assert [(row["name"], row["calls"]) for row in found["eras"]] == [("legacy", 1)]


@pytest.mark.spec("TRC-1")
def test_what_sessions_of_a_server_do_is_written_and_verified(shop: Path) -> None:
    with started("serve", "shop:tools", "--trace", "trace.jsonl", "--store", "sqlite:///state.db", cwd=shop) as process:
        greet(process)
        listed = ask(process, {"method": "tools/list", "params": {}})["result"]["tools"]
        opens = next(tool["name"] for tool in listed if tool["name"].endswith("__open"))
        ask(process, {"method": "tools/call", "params": {"name": opens, "arguments": {}}})
        assert hang_up(process)[0] == 0
    allowed = run("verify", "trace.jsonl", cwd=shop)
    assert "The specification allows what one process did" in allowed.stdout
    trace = shop / "trace.jsonl"
    lines = trace.read_text(encoding="utf-8").splitlines()
    place = next(number for number, line in enumerate(lines) if '"ended":"committed"' in line)
    lines[place] = (
        lines[place].replace('"after":"', '"after":"0', 1).replace('"ended":"committed"', '"ended":"aborted"')
    )
    trace.write_text("\n".join(lines), encoding="utf-8")
    found = run("verify", "trace.jsonl", cwd=shop)
    assert found.returncode == 1
    assert f"trace.jsonl, line {place + 1}: the specification does not allow this." in found.stdout
    assert run("verify", "shop.py", cwd=shop).returncode == 2
