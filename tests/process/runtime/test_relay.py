"""The relay, between a host that a test plays and a runtime that a test plays."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from mcp_types.methods import SPEC_CLIENT_METHODS

from tests.process.serving import ENVIRONMENT
from toolfold_adapters.gateway.serving.extensions import RESOLVE
from toolfold_adapters.gateway.serving.tasks import LIST, METHODS
from toolfold_adapters.runtime import place
from toolfold_adapters.runtime.relay import (
    CLOSED,
    CONTROL,
    HANDSHAKES,
    LOST,
    MOST_REPEATS,
    SERVED,
    STANDING,
    Relay,
    parsed,
)

SECONDS = 60
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a-host", "version": "1"}}
INTRODUCTION = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}


class Side:
    """One side of the relay: what a test writes, and reads."""

    def __init__(self, source: Any, sink: Any) -> None:
        self._source, self._sink = source, sink

    def say(self, **message: Any) -> None:
        self._sink.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._sink.flush()

    def begin(self, line: bytes) -> None:
        self._sink.write(line)
        self._sink.flush()

    def hear(self) -> dict[str, Any]:
        line = self._source.readline()
        assert line, "the other side has gone"
        message: dict[str, Any] = json.loads(line)
        message.pop("jsonrpc", None)
        return message

    def leave(self) -> None:
        self._sink.close()


class RuntimePlayed:
    """The runtime of a folder, which takes one connection after the other."""

    def __init__(self, folder: Path) -> None:
        self.starts = 0
        self.is_slow = False
        self.ended: int | None = None
        self._started = threading.Semaphore(0)
        self._folder = str(folder)
        self._listener: socket.socket | None = None
        self._open = ExitStack()
        self._connections: list[socket.socket] = []

    def start(self) -> RuntimePlayed:
        self.starts += 1
        self.ended = None
        if not self.is_slow:
            self._listener, _ = place.listening(self._folder)
        self._started.release()
        return self

    def poll(self) -> int | None:
        """Say how it ended, as a process does."""
        return self.ended

    def wait_for_start(self) -> None:
        assert self._started.acquire(timeout=SECONDS)

    def taken(self) -> tuple[Side, dict[str, Any]]:
        """Return the relay that has started this, and what it says first."""
        self.wait_for_start()
        assert self._listener is not None
        self._listener.settimeout(SECONDS)
        connection, _ = self._listener.accept()
        connection.settimeout(SECONDS)
        self._connections.append(connection)
        self._open.callback(connection.close)
        source, sink = connection.makefile("rb"), connection.makefile("wb")
        self._open.callback(source.close)
        self._open.callback(sink.close)
        side = Side(source, sink)
        return side, side.hear()

    def end(self) -> None:
        """End, as by a signal that nobody can catch: what was connected is cut."""
        self.ended = -signal.SIGKILL
        assert self._listener is not None
        self._listener.close()
        for taken in self._connections:
            with suppress(OSError):
                taken.shutdown(socket.SHUT_RDWR)
        self._connections.clear()
        self._open.close()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("r")
    found.chmod(0o700)
    return found


@pytest.fixture
def runtime(folder: Path) -> RuntimePlayed:
    return RuntimePlayed(folder)


@contextmanager
def relaying(folder: Path, runtime: RuntimePlayed, target: str = "config.json", /, **said: object) -> Generator[Side]:
    """Yield the host of a relay, whose runtime is there."""
    (from_host, to_relay), (from_relay, to_host) = os.pipe(), os.pipe()
    hello = {"toolfold": "0", "relay": "a", "target": target, "environment": {}, **said}
    source = os.fdopen(from_host, "rb")
    relay = Relay(hello, str(folder), runtime.start, source, to_host, lambda _: None)
    thread = threading.Thread(target=relay.run, daemon=True)
    thread.start()
    ends = ExitStack()
    host = Side(ends.enter_context(os.fdopen(from_relay, "rb")), ends.enter_context(os.fdopen(to_relay, "wb")))
    ends.callback(os.close, to_host)
    ends.callback(source.close)
    with ends:
        try:
            yield host
        finally:
            host.leave()
            runtime.end()
            thread.join(SECONDS)
        assert not thread.is_alive()


def opened(host: Side, side: Side) -> None:
    """Have the host open a session."""
    host.say(id=1, method="initialize", params=INITIALIZE)
    assert side.hear()["method"] == "initialize"
    side.say(id=1, result=INTRODUCTION)
    assert host.hear() == {"id": 1, "result": INTRODUCTION}
    host.say(method="notifications/initialized")
    assert side.hear() == {"method": "notifications/initialized"}


@pytest.mark.spec("GWY-14")
def test_messages_pass_as_they_are_after_the_relay_has_said_who_it_is(folder: Path, runtime: RuntimePlayed) -> None:
    with relaying(folder, runtime) as host:
        side, hello = runtime.taken()
        assert (hello["relay"], hello["target"]) == ("a", "config.json")
        opened(host, side)
        host.say(id="x", method="tools/call", params={"name": "grüße", "arguments": {"n": 1e400 > 1}})
        assert side.hear() == {"id": "x", "method": "tools/call", "params": {"name": "grüße", "arguments": {"n": True}}}
        side.say(method="notifications/message", params={"data": "hello"})
        side.say(id="x", result={"content": []})
        assert host.hear() == {"method": "notifications/message", "params": {"data": "hello"}}
        assert host.hear() == {"id": "x", "result": {"content": []}}


@pytest.mark.spec("GWY-14")
def test_a_handshake_is_answered_as_it_was_the_last_time_before_there_is_a_runtime(
    folder: Path, runtime: RuntimePlayed
) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
    elsewhere = {"folder": "/another/project", "environment": {"A": "b"}, "agent": "reviewer"}
    with relaying(folder, runtime, **elsewhere) as host:
        host.say(id=7, method="initialize", params=INITIALIZE)
        assert host.hear() == {"id": 7, "result": INTRODUCTION}
        side, _ = runtime.taken()
        assert side.hear()["id"] == 7
        side.say(id=7, result={**INTRODUCTION, "instructions": "newer"})  # the host has its answer
        side.say(method="notifications/message")
        assert host.hear() == {"method": "notifications/message"}
    with relaying(folder, runtime) as host:
        host.say(id=1, method="initialize", params=INITIALIZE)
        assert host.hear()["result"]["instructions"] == "newer"
        runtime.taken()


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(
    "other",
    [
        {"params": {**INITIALIZE, "clientInfo": {"name": "another", "version": "1"}}},
        {"target": "other.json"},
    ],
    ids=["host", "configuration"],
)
def test_a_handshake_that_asks_something_else_waits_for_the_runtime(
    other: dict[str, Any], folder: Path, runtime: RuntimePlayed
) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
    with relaying(folder, runtime, other.get("target", "config.json")) as host:
        host.say(id=2, method="initialize", params=other.get("params", INITIALIZE))
        side, _ = runtime.taken()
        side.hear()
        side.say(id=2, result={"fresh": True})
        assert host.hear() == {"id": 2, "result": {"fresh": True}}


@pytest.mark.spec("GWY-15")
def test_after_the_end_of_a_runtime_the_session_is_opened_again_and_only_calls_that_may_have_run_get_an_error(
    folder: Path, runtime: RuntimePlayed
) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
        host.say(id=2, method="logging/setLevel", params={"level": "info"})
        side.hear()
        side.say(id=2, result={})
        assert host.hear() == {"id": 2, "result": {}}
        tools = [
            {"name": "reads", "annotations": {"readOnlyHint": True}},
            {"name": "sets", "annotations": {"idempotentHint": True}},
            {"name": "writes", "annotations": {"readOnlyHint": False}},
            {"name": "says_nothing"},
        ]
        host.say(id=3, method="tools/list")
        side.hear()
        side.say(id=3, result={"tools": tools})
        assert host.hear()["id"] == 3
        calls = {10: "reads", 11: "sets", 12: "writes", 13: "says_nothing", 14: "unknown"}
        for number, name in calls.items():
            host.say(id=number, method="tools/call", params={"name": name})
            side.hear()
        host.say(id=15, method="prompts/list")
        side.hear()

        runtime.end()
        side, hello = runtime.taken()
        assert hello["relay"] == "a"
        again = [side.hear() for _ in range(6)]
        assert [(one.get("id"), one["method"]) for one in again] == [
            (1, "initialize"),
            (None, "notifications/initialized"),
            (2, "logging/setLevel"),
            (10, "tools/call"),
            (11, "tools/call"),
            (15, "prompts/list"),
        ]
        errors = [host.hear() for _ in range(3)]
        assert errors == [{"id": number, "error": {"code": CLOSED, "message": LOST}} for number in (12, 13, 14)]
        for number in (1, 2, 10, 11, 15):
            side.say(id=number, result={"again": True})
        assert [host.hear()["id"] for _ in range(3)] == [10, 11, 15]


@pytest.mark.spec("GWY-15")
def test_what_may_not_be_repeated_is_answered_though_the_next_runtime_ends_before_it_is_told_of_anything(
    folder: Path, runtime: RuntimePlayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected, gone, other = place.connected, *socket.socketpair()
    other.close()
    connections = [gone]  # that of a runtime which is killed between the connection and the first line
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
        host.say(id=2, method="tools/call", params={"name": "writes"})
        side.hear()
        host.say(id=3, method="tools/list")
        side.hear()
        monkeypatch.setattr(
            place, "connected", lambda folder: (connections.pop(), "") if connections else connected(folder)
        )
        runtime.end()
        side, _ = runtime.taken()
        assert [side.hear().get("id") for _ in range(3)] == [1, None, 3]
        side.say(id=3, result={"tools": []})
        assert host.hear() == {"id": 2, "error": {"code": CLOSED, "message": LOST}}
        assert host.hear() == {"id": 3, "result": {"tools": []}}


@pytest.mark.spec("GWY-14", "GWY-15")
def test_a_handshake_that_a_runtime_ended_before_it_answered_keeps_no_relay_from_a_newer_one(
    folder: Path, runtime: RuntimePlayed
) -> None:
    discover: dict[str, Any] = {"method": "server/discover", "params": {}}
    with relaying(folder, runtime) as host:
        host.say(id=1, **discover)
        side, _ = runtime.taken()
        side.hear()
        side.say(id=1, result=INTRODUCTION)
        assert host.hear() == {"id": 1, "result": INTRODUCTION}
    with relaying(folder, runtime) as host:
        host.say(id=1, **discover)
        assert host.hear() == {"id": 1, "result": INTRODUCTION}
        side, _ = runtime.taken()
        side.hear()
        runtime.end()
        side, _ = runtime.taken()
        side.begin(CONTROL + b'{"leave": "2.0"}\n')
        with pytest.raises(AssertionError, match="the other side has gone"):
            side.hear()


@pytest.mark.spec("GWY-15")
def test_relays_that_lose_their_runtime_start_one_together_and_another_when_that_is_killed(
    folder: Path, runtime: RuntimePlayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = threading.Semaphore(0)
    locked = place.locked

    def watched(folder: str, name: str = place.LOCK) -> int | None:
        file = locked(folder, name)
        if file is None and name == place.TURN:
            waits.release()
        return file

    monkeypatch.setattr(place, "locked", watched)
    runtime.is_slow = True
    with relaying(folder, runtime), relaying(folder, runtime):
        runtime.wait_for_start()
        for _ in range(3):
            assert waits.acquire(timeout=SECONDS), "the other relay does not wait for its turn"
        assert runtime.starts == 1
        runtime.is_slow = False
        runtime.ended = -signal.SIGKILL
        runtime.taken()
        assert runtime.starts == 2


@pytest.mark.spec("GWY-15")
def test_an_answer_to_what_a_runtime_asked_that_has_ended_reaches_no_other_one(
    folder: Path, runtime: RuntimePlayed
) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
        side.say(id=0, method="elicitation/create", params={})
        asked = host.hear()
        assert asked["method"] == "elicitation/create"
        host.say(id=asked["id"], result={"action": "accept"})
        assert side.hear() == {"id": 0, "result": {"action": "accept"}}
        side.say(id=1, method="elicitation/create", params={})
        late = host.hear()["id"]

        runtime.end()
        side, _ = runtime.taken()
        assert [side.hear()["method"] for _ in range(2)] == ["initialize", "notifications/initialized"]
        side.say(id=1, method="roots/list")
        new = host.hear()["id"]
        assert new != late
        host.say(id=late, result={"action": "accept"})
        host.say(id=new, result={"roots": []})
        assert side.hear() == {"id": 1, "result": {"roots": []}}


@pytest.mark.spec("GWY-15")
def test_a_line_that_the_end_of_a_runtime_cuts_reaches_no_host(folder: Path, runtime: RuntimePlayed) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
        host.say(id=2, method="tools/list")
        side.hear()
        side.begin(b'{"jsonrpc": "2.0", "id": 2, "resu')
        runtime.end()
        side, _ = runtime.taken()
        assert [side.hear().get("id") for _ in range(3)] == [1, None, 2]
        side.say(id=2, result={"tools": []})
        assert host.hear() == {"id": 2, "result": {"tools": []}}


@pytest.mark.spec("GWY-15")
def test_a_call_is_repeated_by_what_was_known_of_its_tool_when_it_was_made(
    folder: Path, runtime: RuntimePlayed
) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
        host.say(id=2, method="tools/list")
        side.hear()
        side.say(id=2, result={"tools": [{"name": "reads", "annotations": {"readOnlyHint": True}}]})
        host.hear()
        for number in (3, 4):
            host.say(id=number, method="tools/call", params={"name": "reads"})
            side.hear()
        host.say(method="notifications/cancelled", params={"requestId": 3})
        side.hear()
        side.say(method="notifications/tools/list_changed")
        host.hear()
        host.say(id=5, method="tools/call", params={"name": "reads"})  # which may be another tool by now
        side.hear()

        runtime.end()
        side, _ = runtime.taken()
        assert host.hear() == {"id": 5, "error": {"code": CLOSED, "message": LOST}}
        host.say(id=6, method="ping")
        assert [side.hear().get("id") for _ in range(4)] == [1, None, 4, 6]


CHANGING = ("tasks/cancel", "tasks/update", "tools/call", "weather/at")
"""Requests that may do more each time, that of an extension among them."""


@pytest.mark.spec("GWY-15", "GWY-18")
def test_a_request_that_only_reads_is_made_again_and_no_other(folder: Path, runtime: RuntimePlayed) -> None:
    reading = sorted({*SPEC_CLIENT_METHODS, *METHODS, LIST, RESOLVE, "groups/get", "skills/get"} - {*CHANGING})
    reading = [method for method in reading if method not in (*HANDSHAKES, *STANDING)]
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
        for number, method in enumerate((*reading, *CHANGING), 2):
            host.say(id=number, method=method, params={})
            assert side.hear()["method"] == method
        runtime.end()
        side, _ = runtime.taken()
        assert [side.hear()["method"] for _ in range(2)] == ["initialize", "notifications/initialized"]
        assert [side.hear()["method"] for _ in reading] == reading
        lost = [host.hear() for _ in CHANGING]
        assert [one["id"] for one in lost] == [len(reading) + number for number in range(2, 2 + len(CHANGING))]
        assert {one["error"]["message"] for one in lost} == {LOST}


@pytest.mark.spec("GWY-15")
@pytest.mark.parametrize(("serves", "times"), [(True, MOST_REPEATS // SERVED), (False, MOST_REPEATS)])
def test_a_request_that_every_runtime_ends_of_is_given_up_and_later_where_none_had_begun_to_serve(
    serves: bool, times: int, folder: Path, runtime: RuntimePlayed
) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
        host.say(id=2, method="ping")
        side.hear()
        for _ in range(times):
            runtime.end()
            side, _ = runtime.taken()
            assert [side.hear().get("id") for _ in range(3)] == [1, None, 2]
            if serves:
                side.begin(CONTROL + b'{"serving": "1.0"}\n')
        runtime.end()
        runtime.taken()
        assert host.hear() == {"id": 2, "error": {"code": CLOSED, "message": LOST}}


@pytest.mark.spec("GWY-14")
def test_a_stored_answer_that_is_damaged_is_none(folder: Path, runtime: RuntimePlayed) -> None:
    with relaying(folder, runtime) as host:
        side, _ = runtime.taken()
        opened(host, side)
    (stored,) = (folder / place.ANSWERS).iterdir()
    stored.write_text("[" * 400_000)
    with relaying(folder, runtime) as host:
        host.say(id=2, method="initialize", params=INITIALIZE)
        side, _ = runtime.taken()
        assert side.hear()["id"] == 2
        side.say(id=2, result=INTRODUCTION)
        assert host.hear()["id"] == 2


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.json"], {"target": "a.json"}),
        (["--profile", "p", "a.json", "--groups=x,y"], {"target": "a.json", "profile": "p", "groups": "x,y"}),
        (["a.json", "--agent", "reviewer"], {"target": "a.json", "agent": "reviewer"}),
        (["--no-usage", "a.json"], {"target": "a.json", "usage": ""}),
        (["https://example.org/mcp"], None),
        (["a.json", "b.json"], None),
        (["a.json", "--profile"], None),
        (["a.json", "--header", "A=b"], None),
        (["--help"], None),
        ([], None),
    ],
)
def test_arguments_of_a_relay_are_read_and_all_others_left_to_the_command(
    arguments: list[str], said: dict[str, Any] | None
) -> None:
    assert parsed(arguments) == said


@pytest.mark.spec("GWY-14")
def test_a_relay_imports_the_standard_library_alone_and_little_of_it() -> None:
    code = "import sys; import toolfold_cli.connecting; print(*sorted(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=SECONDS, check=True
    ).stdout.split()
    ours = {name for name in said if name.partition(".")[0].startswith("toolfold")}
    assert ours == {
        "toolfold_adapters",
        "toolfold_adapters.runtime",
        "toolfold_adapters.runtime.place",
        "toolfold_adapters.runtime.relay",
        "toolfold_adapters.runtime.starts",
        "toolfold_cli",
        "toolfold_cli.connecting",
    }
    heavy = {
        "asyncio",
        "anyio",
        "attrs",
        "click",
        "mcp",
        "pathlib",
        "pydantic",
        "subprocess",
        "threading",
        "typing_extensions",
    }
    assert not heavy & set(said)


@pytest.mark.spec("GWY-14")
def test_a_folder_that_others_can_enter_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    with pytest.raises(place.Misplaced, match=f"chmod 700 {tmp_path}"):
        place.prepared(str(tmp_path))
    tmp_path.chmod(0o700)
    assert place.prepared(str(tmp_path)) == str(tmp_path)
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    with pytest.raises(place.Misplaced, match="no folder of its own"):
        place.prepared(str(link))
    with pytest.raises(place.Misplaced, match="too long"):
        place.prepared(str(tmp_path / ("x" * 120)))


@pytest.mark.spec("GWY-14")
def test_where_there_are_no_such_sockets_a_port_and_a_secret_are_in_the_folder(folder: Path) -> None:
    listener, secret = place.listening(str(folder), by_port=True)
    with listener:
        assert (folder / place.PORT).stat().st_mode & 0o077 == 0
        connection, known = place.connected(str(folder), by_port=True)
        connection.close()
        assert known == secret
        assert len(secret) >= 32


@pytest.mark.spec("GWY-14")
def test_one_process_at_a_time_has_the_lock_of_a_folder(folder: Path) -> None:
    assert not place.is_taken(str(folder))
    file = place.locked(str(folder))
    assert file is not None
    assert place.is_taken(str(folder))
    os.close(file)
    assert not place.is_taken(str(folder))


@pytest.mark.spec("GWY-15")
@pytest.mark.parametrize("kind", ["a file", "a folder", "a folder with a file", "a pipe"])
@pytest.mark.parametrize("name", [*place.FILES, *place.FOLDERS, place.SOCKET])
def test_what_stands_in_the_way_of_a_runtime_is_set_aside_and_said(
    name: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tmp_path.chmod(0o700)
    path = tmp_path / name
    if kind == "a file":
        path.write_text("")
    elif kind == "a pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    if kind == "a folder with a file":
        (path / "kept").write_text("")
        Path(f"{path}.damaged").write_text("an earlier one")
    before = os.lstat(path)
    assert place.prepared(str(tmp_path)) == str(tmp_path)
    is_right = {place.SOCKET: kind in ("a file", "a pipe")}.get(
        name, kind == "a file" if name in place.FILES else kind.startswith("a folder")
    )
    assert path.exists() is is_right
    said = capsys.readouterr().err
    if is_right:
        assert not said
        return
    new = Path(f"{path}-1.damaged" if kind == "a folder with a file" else f"{path}.damaged")
    assert os.path.samestat(os.lstat(new), before)
    assert f"{path} can't be used, so it is set aside as {new}" in said
