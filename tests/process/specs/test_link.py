"""The line to a server: what it says of itself, its answers, and every way in which it can fail."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.process.ports import free_port
from tests.process.specs.support import fixture_command, served_fixture
from toolfold_specs.driver import TargetFailed
from toolfold_specs.drivers.connection import Connection
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.process import Command
from toolfold_specs.drivers.protocol import Era
from toolfold_specs.drivers.replies import TargetNotStarted, WireError

RAW = Path(__file__).with_name("targets") / "raw.py"
ERAS: tuple[Era, ...] = ("legacy", "modern")


def raw(fault: str = "none") -> Command:
    return Command([sys.executable, str(RAW), fault])


@contextmanager
def connected(target: Command | str, era: Era = "legacy", **options: Any) -> Generator[Connection]:
    with Link(target, era, **options) as link:
        yield link.connect()


def ask(connection: Connection, verb: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Send a request of the driver protocol, and return the result of the call."""
    return connection.call_tool("conformance_driver", {"verb": verb, "arguments": arguments})


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def has_ended(pid: int) -> bool:
    """Whether a process has ended; one that was killed does so only when it is scheduled for the last time."""
    limit = time.monotonic() + 60
    while is_running(pid):
        if time.monotonic() > limit:
            return False
        os.sched_yield()
    return True


@pytest.mark.spec("CNF-1")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_server_is_reached_over_both_transports_in_both_eras(transport: str, era: Era) -> None:
    with served_fixture(transport) as target, connected(target, era) as connection:
        assert connection.protocol_version == ("2025-11-25" if era == "legacy" else "2026-07-28")
        assert connection.server.startswith("fixture ")
        assert connection.capabilities["tools"] == {"listChanged": True}
        assert connection.list_all_tools() == connection.list_tools()["tools"]
        result = ask(connection, "observe", {"settled": True})
        assert result["structuredContent"] == {"hooks": [], "active": [], "blocked": [], "under_way": 0}
        with pytest.raises(WireError, match="Unknown tool: nothing") as refused:
            connection.call_tool("nothing")
        assert refused.value.code == -32602


@pytest.mark.spec("CNF-8")
def test_an_error_of_the_protocol_comes_as_the_server_sent_it() -> None:
    with connected(raw()) as connection:
        with pytest.raises(WireError) as refused:
            connection.call_tool("refuse")
        assert (refused.value.code, refused.value.message, refused.value.data) == (-32000, "no", {"why": 1})
        assert connection.call_tool("pid")["content"] == [{"type": "text", "text": "here"}]


def test_notices_that_come_before_an_answer_are_counted_with_it() -> None:
    with connected(raw("notices")) as connection:
        for calls in range(1, 20):
            connection.call_tool("pid")
            assert connection.changes == 3 * calls


def test_a_notice_that_is_late_can_be_waited_for() -> None:
    with connected(raw("notices")) as connection:
        pending = connection.start_call("pid")
        connection.wait_for_change(2, 10)
        assert connection.changes == 3
        assert pending.reply() is not None
        connection.wait_for_change(3, 0.01)
        assert connection.changes == 3


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("crash", "It ended with status 1 before it answered tools/call. Its stderr ends with: RuntimeError: the last"),
        ("close", "It closed the connection before it answered tools/call."),
        ("garbage", "It wrote something other than a message to its stdout: 'Now calling the tool!'"),
        ("wrong types", "Its answer to tools/call does not conform to the protocol: content"),
        ("hang", "It did not answer tools/call within 0.5 seconds."),
    ],
)
def test_a_server_that_fails_in_a_call_is_a_failed_target_in_one_sentence(fault: str, said: str) -> None:
    with connected(raw(fault), timeout=0.5 if fault == "hang" else 60.0) as connection:
        with pytest.raises(TargetFailed) as failed:
            connection.call_tool("pid")
        assert str(failed.value).startswith(said)
        assert "\n" not in str(failed.value)
        assert not isinstance(failed.value, TargetNotStarted)


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("wrong types", "Its answer to tools/list does not conform to the protocol: tools.0."),
        ("endless pages", "It answered tools/list with the same cursor again: its pages do not end."),
    ],
)
def test_a_list_that_can_not_be_read_is_a_failed_target(fault: str, said: str) -> None:
    with connected(raw(fault)) as connection, pytest.raises(TargetFailed) as failed:
        connection.list_all_tools()
    assert str(failed.value).startswith(said)


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (
            "crash at the start",
            "It ended with status 1 before it was ready. Its stderr ends with: no licence was found",
        ),
        ("garbage at the start", "It wrote something other than a message to its stdout: 'Welcome to the server!'"),
        ("wrong first answer", "Its first answer does not conform to the protocol: protocolVersion"),
        ("strange version", "It can't be started: RuntimeError: Unsupported protocol version from the server: 1999"),
        ("mute", "It closed the connection before it was ready."),
        ("silence", "It did not answer within 0.7 seconds."),
    ],
)
def test_a_server_that_is_never_ready_is_one_that_was_not_started(fault: str, said: str) -> None:
    seconds = 0.7 if fault == "silence" else 60.0
    with Link(raw(fault), start_timeout=seconds) as link, pytest.raises(TargetNotStarted) as failed:
        link.connect()
    assert str(failed.value).startswith(said)


@pytest.mark.spec("CNF-8")
def test_a_slow_starter_is_waited_for_longer_than_for_any_other_answer(tmp_path: Path) -> None:
    gate = tmp_path / "file"
    os.mkfifo(gate)
    with Link(prepared(tmp_path, "open(file).read()"), timeout=0) as link, ThreadPoolExecutor(1) as pool:
        started = pool.submit(link.connect)
        with gate.open("w"):  # is open once the server runs
            assert not started.done()
        connection = started.result()
        with pytest.raises(TargetFailed, match="did not answer tools/list within 0 seconds"):
            connection.list_tools()


def test_a_link_can_be_closed_while_a_connection_is_opened(tmp_path: Path) -> None:
    gate = tmp_path / "file"
    os.mkfifo(gate)
    with Link(prepared(tmp_path, "open(file).read()")) as link, ThreadPoolExecutor(1) as pool:
        started = pool.submit(link.connect)
        with gate.open("w"):  # is open once the server runs
            link.close()
            with pytest.raises(TargetNotStarted):
                started.result()
        with pytest.raises(TargetNotStarted, match="The run is over"):
            link.connect()


def test_a_program_that_does_not_exist_is_named() -> None:
    with Link(Command(["no-such-program"])) as link, pytest.raises(TargetNotStarted, match="no-such-program"):
        link.connect()


def test_a_legacy_server_is_not_taken_for_a_modern_one() -> None:
    with Link(raw(), "modern") as link, pytest.raises(TargetNotStarted, match="It speaks MCP 2025-11-25, and not 2026"):
        link.connect()


@pytest.mark.parametrize("fault", ["none", "leaves a child behind", "will not end"])
def test_no_process_is_left_behind(fault: str) -> None:
    with connected(raw(fault)) as connection:
        pids = connection.call_tool("pid")["structuredContent"]["pids"]
        assert all(is_running(pid) for pid in pids)
    assert all(has_ended(pid) for pid in pids)


def test_no_process_is_left_behind_by_a_server_that_hangs() -> None:
    with Link(raw("hang"), timeout=0.2) as link:
        other = link.connect()
        with pytest.raises(TargetFailed):
            other.call_tool("pid")
        child = other.pid
        assert child is not None
        assert is_running(child)
    assert has_ended(child)


# -- servers that are started ahead ------------------------------------------------------------------------------------

MANY = 6
"""Connections, each in place of the one before."""


def prepared(tmp_path: Path, preparation: str) -> Command:
    """Return how to start the bare server after running some code, in which `file` is a path."""
    code = f"import runpy\nfile = {str(tmp_path / 'file')!r}\n{preparation}\nrunpy.run_path({str(RAW)!r})"
    return Command([sys.executable, "-c", code])


def ticks() -> int:
    """The time since the system was started, in the unit of `/proc`."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK"))


def begun(connection: Connection) -> int:
    """When the server of a connection was started, in the unit of `/proc`."""
    return int(Path(f"/proc/{connection.pid}/stat").read_text().rpartition(")")[2].split()[19])


def test_servers_are_started_ahead_where_they_can_run_side_by_side_and_none_is_left(tmp_path: Path) -> None:
    with Link(prepared(tmp_path, "import os\nopen(file, 'a').write(f'{os.getpid()}\\n')")) as link:
        asked = ticks()
        connection = link.connect()
        assert begun(connection) <= asked
        for number in range(MANY):
            asked = ticks()
            connection = link.replaced(connection)
            assert begun(connection) <= asked or not number
    pids = [int(line) for line in (tmp_path / "file").read_text().splitlines()]
    assert len(pids) in (MANY + 1, MANY + 2)  # the last of them may have ended before it began
    assert all(has_ended(pid) for pid in pids)


def test_a_server_of_which_only_one_can_run_is_not_started_ahead(tmp_path: Path) -> None:
    exclusive = "import fcntl\nlock = open(file, 'w')\nfcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with Link(prepared(tmp_path, exclusive)) as link:
        connection = link.connect()
        for _ in range(MANY):
            connection = link.replaced(connection)
            assert [tool["name"] for tool in connection.list_all_tools()] == ["pid"]


def test_a_server_that_ends_the_previous_one_is_not_started_ahead(tmp_path: Path) -> None:
    newest = """import os, pathlib, signal
begun = pathlib.Path(file)
if begun.exists():
    os.kill(int(begun.read_text().split()[-1]), signal.SIGKILL)
begun.open("a").write(f"{os.getpid()}\\n")"""
    with Link(prepared(tmp_path, newest)) as link:
        connection = link.connect()
        for _ in range(MANY):
            connection = link.connect()
            assert [tool["name"] for tool in connection.list_all_tools()] == ["pid"]
        assert (tmp_path / "file").read_text().split()[-1] == str(connection.pid)
    assert len((tmp_path / "file").read_text().split()) == MANY + 1


def test_operations_after_a_failure_fail_at_once() -> None:
    with connected(raw("crash")) as connection:
        with pytest.raises(TargetFailed, match="ended with status 1"):
            connection.call_tool("pid")
        with pytest.raises(TargetFailed, match="ended with status 1"):  # not that it did not answer in time
            connection.call_tool("pid")


def test_requests_of_several_connections_run_concurrently_and_can_be_cancelled() -> None:
    with Link(fixture_command()) as link:
        one, two = link.connect(), link.connect()
        hook = {"group": "a", "phase": "on_activate"}
        for connection in (one, two):
            setup = {"groups": [{"path": "a", "hooks": ["on_activate"]}]}
            ask(connection, "configure", {"setup": setup})
            ask(connection, "script", {**hook, "outcome": "block"})
        pending = [connection.start_call("a.activate") for connection in (one, two)]
        for connection in (one, two):
            seen = ask(connection, "observe", {"settled": True})["structuredContent"]
            assert (seen["blocked"], seen["under_way"]) == ([["on_activate", "a"]], 1)
        assert not any(request.done for request in pending)
        pending[0].cancel()
        ask(two, "release", {**hook, "fail": False})
        assert pending[0].reply() is None
        opened = pending[1].reply()
        assert opened is not None
        assert opened.change["active"] == ["a"]
        assert ask(one, "observe", {"settled": True})["structuredContent"]["blocked"] == []


# -- over HTTP --------------------------------------------------------------------------------------------------------


@contextmanager
def http_server(respond: Any) -> Generator[str]:
    """Serve each POST by `respond(handler)`."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            respond(self)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def reply(handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str = "application/json") -> None:
    handler.send_response(status)
    handler.send_header("content-type", kind)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize("era", ERAS)
def test_a_url_where_nothing_listens_is_a_target_that_was_not_started(era: Era) -> None:
    url = f"http://127.0.0.1:{free_port()}/mcp"
    with Link(url, era) as link, pytest.raises(TargetNotStarted) as failed:
        link.connect()
    assert str(failed.value).startswith(f"{url} can't be reached: ConnectError")


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize("era", ERAS)
def test_a_page_that_is_not_an_mcp_endpoint_is_a_target_that_was_not_started(era: Era) -> None:
    for status, body, kind in ((404, b"<p>no</p>", "text/html"), (200, b"<p>yes</p>", "text/html"), (500, b"", "x/y")):
        with (
            http_server(lambda handler, answer=(status, body, kind): reply(handler, *answer)) as url,
            Link(url, era, start_timeout=5) as link,
            pytest.raises(TargetNotStarted, match=r"refused the first request|closed the connection"),
        ):
            link.connect()


@pytest.mark.spec("CNF-8")
def test_a_url_that_never_answers_is_given_up() -> None:
    silence = threading.Event()
    with (
        http_server(lambda handler: silence.wait(60) and None) as url,
        Link(url, start_timeout=0.5) as link,
    ):
        with pytest.raises(TargetNotStarted, match=r"did not answer within 0\.5 seconds"):
            link.connect()
        silence.set()


@pytest.mark.spec("CNF-8")
@pytest.mark.parametrize("era", ERAS)
def test_a_server_over_http_that_goes_away_is_a_failed_target(era: Era) -> None:
    with served_fixture("http") as target, Link(target, era, timeout=5) as link:
        connection = link.connect()
        connection.list_tools()
        target.stop()
        for _ in range(2):
            with pytest.raises(TargetFailed):
                connection.list_tools()
