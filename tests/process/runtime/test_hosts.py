"""Hosts that start `toolfold connect FILE`: real relays, a real runtime, real servers behind it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest
import uvicorn
from attrs import frozen
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

import toolfold
from tests.adapters.gateway.inprocess import refuse
from tests.adapters.gateway.upstreams.tasks import TaskServer
from tests.adapters.mcp.support import names_of
from tests.process.ports import free_port
from tests.process.serving import ENVIRONMENT
from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.serving.tasks import EXTENSION
from toolfold_adapters.gateway.upstream.transports import Transports
from toolfold_adapters.gateway.upstream.wire import connect
from toolfold_adapters.runtime.left import start_of
from toolfold_adapters.runtime.place import FOLDER, LOG, STATE
from toolfold_adapters.runtime.relay import LOST, asked
from toolfold_cli.up import KEY

SECONDS = 180
ON_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a relay starts the next runtime")
UPSTREAM = str(Path(__file__).with_name("upstream.py"))
PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])


@frozen
class Machine:
    """A machine with a runtime of its own."""

    place: Path
    runtime: Path
    environment: Mapping[str, str]

    @property
    def config(self) -> Path:
        return self.place / "gateway.toml"

    @property
    def recorded(self) -> list[str]:
        path = self.place / "record"
        return path.read_text().split() if path.exists() else []

    def host(self, *more: str, folder: Path | None = None, **variables: str) -> StdioServerParameters:
        """Return what a host starts for a session."""
        return StdioServerParameters(
            command=sys.executable,
            args=["-m", "toolfold_cli", "connect", str(self.config), *more],
            env={**self.environment, **variables},
            cwd=folder or self.place,
        )

    def toolfold(self, *arguments: str, said: str = "") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "toolfold_cli", *arguments]
        how: dict[str, Any] = {"env": self.environment, "input": said, "text": True, "timeout": SECONDS}
        return subprocess.run(command, capture_output=True, check=False, **how)

    def look(self) -> None:
        """Let some time go by until the next look at what is recorded."""
        time.sleep(0.01)

    @property
    def process(self) -> int:
        """The process of the runtime."""
        return int(asked(str(self.runtime), "status")["process"])

    def kill(self) -> None:
        os.kill(self.process, signal.SIGKILL)


@pytest.fixture
def machine(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Generator[Machine]:
    runtime = tmp_path_factory.mktemp("r")
    runtime.chmod(0o700)
    own = {name: str(tmp_path / name.lower()) for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    found = Machine(tmp_path, runtime, {**ENVIRONMENT, **own, FOLDER: str(runtime)})
    command = json.dumps([sys.executable, UPSTREAM, str(tmp_path / "record")])
    found.config.write_text(
        f'[upstreams.own]\ncommand = {command}\nmode = "legacy"\n[upstreams.all]\ncommand = {command}\nshared = true\n'
    )
    yield found
    found.toolfold("down")


@asynccontextmanager
async def session(machine: Machine, era: str, *more: str, **how: Any) -> AsyncGenerator[Client]:
    """Yield a host's session, in which both servers are open."""
    async with Client(machine.host(*more, **how), mode=era) as client:
        for group in ("own", "all"):
            assert not (await client.call_tool("open_group", {"group": group})).is_error
        yield client


async def call(client: Client, name: str, /, **arguments: Any) -> Any:
    said = await client.call_tool("call_tool", {"name": name, "arguments": arguments})
    assert not said.is_error, said
    return said.structured_content["result"]


@ERAS
@pytest.mark.spec("GWY-14", "GWY-10")
async def test_sessions_have_one_runtime_and_share_the_servers_that_may_be_shared(era: str, machine: Machine) -> None:
    async with session(machine, era) as one, session(machine, era) as two:
        shared = [await call(client, "all__process") for client in (one, two)]
        own = [await call(client, "own__process") for client in (one, two)]
        assert shared[0] == shared[1]
        assert len({*own, *shared}) == 3
        said = machine.toolfold("status").stdout
        assert f"process {machine.process}, 2 relays" in said
        lines = [" ".join(line.split()) for line in said.splitlines()]
        assert [line.split()[0] for line in lines].count("relay") == 2
        (every,) = (line for line in lines if line.startswith("server all"))
        assert re.fullmatch(
            rf"server all running 1 process for 2 relays \({machine.place.name}\)(, \d+ MB)?; "
            "shared: its configuration says so",
            every,
        )
        (own_line,) = (line for line in lines if line.startswith("server own"))
        assert "2 processes for 2 relays" in own_line
        assert own_line.endswith("; not shared: it may keep something for a session")
        assert re.search(r"2 relays; 1 process( and \d+ MB)? less than with one of each server for each", said)


@pytest.mark.spec("GWY-14", "GWY-8")
async def test_a_server_runs_in_the_folder_and_the_environment_of_the_host_that_wants_it(machine: Machine) -> None:
    for name in ("a", "b"):
        (machine.place / name).mkdir()
    async with (
        session(machine, "legacy", folder=machine.place / "a", COLOUR="red") as one,
        session(machine, "legacy", folder=machine.place / "b", COLOUR="blue") as two,
    ):
        assert [await call(client, "own__folder") for client in (one, two)] == [
            str(machine.place / name) for name in ("a", "b")
        ]
        assert [await call(client, "own__variable", name="COLOUR") for client in (one, two)] == ["red", "blue"]
        assert await call(one, "own__variable", name=FOLDER) == ""


@ERAS
@pytest.mark.spec("GWY-15")
async def test_a_runtime_that_is_killed_costs_a_host_nothing_but_the_calls_that_may_have_run(
    era: str, machine: Machine
) -> None:
    async with session(machine, era) as client:
        listed = await names_of(client)
        first = machine.process
        ended: list[Any] = []

        async def lost() -> None:
            with pytest.raises(MCPError) as raised:
                await call(client, "own__record", word="once", go=str(machine.place / "never"))
            ended.append(str(raised.value))

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lost)
                while machine.recorded != ["once"]:
                    await anyio.to_thread.run_sync(machine.look)
                machine.kill()
            (machine.place / "never").touch()  # so that the server, which waits, ends
            assert ended == [LOST]
            assert await names_of(client) == listed
            assert await call(client, "own__record", word="twice") == "twice"
        assert machine.recorded == ["once", "twice"]
        assert machine.process != first


@asynccontextmanager
async def tasks_over_http() -> AsyncGenerator[tuple[TaskServer, str]]:
    """Serve tasks of the modern era over HTTP in this process, which outlive a runtime."""
    server, port = TaskServer(modern=True), free_port()
    how: dict[str, Any] = {"interface": "asgi3", "lifespan": "off", "log_level": "error", "ws": "none"}
    running = uvicorn.Server(uvicorn.Config(server.over_http, port=port, **how))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.serve)
        yield server, f"http://127.0.0.1:{port}/mcp"
        running.should_exit = running.force_exit = True  # a runtime listens on until it ends


@pytest.mark.spec("GWY-18", "GWY-15")
async def test_a_task_is_asked_for_after_the_runtime_that_began_it_was_killed(machine: Machine) -> None:
    able: dict[str, Any] = {"extensions": {EXTENSION: {}}}
    with anyio.fail_after(SECONDS):
        async with tasks_over_http() as (server, url):
            machine.config.write_text(f'[upstreams.long]\nurl = "{url}"\n[upstreams.other]\nurl = "{url}"\n')
            host = machine.host()
            config = UpstreamConfig(command=(host.command, *host.args), env=host.env or {}, environment="minimal")
            async with connect(Transports()(config), "auto", able, refuse, lambda *_: None) as client:
                begun = await client.request("tools/call", {"name": "long__long", "arguments": {}})
                first = machine.process
                machine.kill()
                server.tasks["t-1"].to("completed")
                ended = await client.request("tasks/get", {"taskId": begun["taskId"]})
                assert ended["status"] == "completed"
                assert ended["result"]["content"][0]["text"] == "did long {}"
                assert machine.process != first
    key = machine.runtime / STATE / KEY
    assert (len(key.read_bytes()), stat.S_IMODE(key.stat().st_mode)) == (32, 0o600)


def processes_of(machine: Machine) -> tuple[int, list[int]]:
    """Return the process of the runtime, and those that it has started."""
    process = machine.process
    return process, [int(one) for one in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def name_of(process: int) -> str:
    """Return what a process is called, which may have ended."""
    with suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


def wait_until(comes: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not comes():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_there(process: int) -> bool:
    return start_of(process) is not None


@ON_LINUX
@pytest.mark.spec("GWY-15")
async def test_a_copy_that_waits_takes_the_place_of_a_runtime_that_is_killed_and_ends_with_one_that_ends(
    machine: Machine,
) -> None:
    async with session(machine, "legacy") as client:
        first, children = processes_of(machine)
        (copy,) = [one for one in children if name_of(one) == "toolfold-copy"]
        machine.kill()
        await names_of(client)  # a call before the next runtime is there may have run
        assert await call(client, "own__record", word="once") == "once"
        second, children = processes_of(machine)
        assert (second, is_there(first)) == (copy, False)
        (third,) = [one for one in children if name_of(one) == "toolfold-copy"]
        assert name_of(second) == "toolfold"
    assert machine.toolfold("down").stdout == "The runtime has ended.\n"
    wait_until(lambda: not is_there(second) and not is_there(third))


@ON_LINUX
@pytest.mark.spec("GWY-15")
async def test_a_server_that_outlives_a_runtime_that_was_killed_is_ended_by_the_next(machine: Machine) -> None:
    machine.config.write_text(machine.config.read_text().replace('record"]', 'record", "linger"]'))
    async with session(machine, "legacy") as client:
        before = await call(client, "own__process")
        machine.kill()
        await names_of(client)
        assert await call(client, "own__process") != before
        await anyio.to_thread.run_sync(wait_until, lambda: not is_there(before))
        now = await call(client, "own__process")
        assert is_there(now)


@pytest.mark.spec("GWY-14")
async def test_a_newer_version_takes_over_without_that_a_session_notices(machine: Machine, tmp_path: Path) -> None:
    newer = tmp_path / "newer"
    package = Path(toolfold.__file__).parent
    shutil.copytree(package, newer / "toolfold", ignore=shutil.ignore_patterns("__pycache__"))
    init = newer / "toolfold" / "__init__.py"
    init.write_text(init.read_text().replace(f'__version__ = "{toolfold.__version__}"', '__version__ = "99.0"'))
    path = f"{newer}{os.pathsep}{ENVIRONMENT['PYTHONPATH']}"
    go, answers = machine.place / "go", list[str]()
    async with session(machine, "legacy") as one, session(machine, "auto") as busy:
        listed = await names_of(one)
        assert asked(str(machine.runtime), "status")["version"] == toolfold.__version__
        first = machine.process

        async def record() -> None:
            answers.append(await call(busy, "own__record", word="once", go=str(go)))

        with anyio.fail_after(SECONDS):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(record)
                while machine.recorded != ["once"]:
                    await anyio.to_thread.run_sync(machine.look)
                async with Client(machine.host(PYTHONPATH=path), mode="legacy") as new:
                    await new.call_tool("open_group", {"group": "own"})
                    assert await call(new, "own__record", word="twice") == "twice"
                assert asked(str(machine.runtime), "status")["version"] == "99.0"
                assert machine.process != first
                assert await call(one, "own__record", word="thrice") == "thrice"
                assert await names_of(one) == listed
                assert not answers
                go.touch()
        assert answers == ["once"]
        assert await call(busy, "own__record", word="again") == "again"
        await anyio.to_thread.run_sync(wait_until, lambda: not is_running(first))
    assert machine.recorded == ["once", "twice", "thrice", "again"]


def is_running(process: int) -> bool:
    """Return whether there is a process of a number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return start_of(process) is not None or sys.platform != "linux"


@pytest.mark.spec("GWY-15", "ISO-3")
async def test_sessions_that_cannot_be_read_any_more_are_set_aside_and_begin_anew(machine: Machine) -> None:
    async with session(machine, "legacy") as client:
        machine.kill()
        for file in (machine.runtime / "state").iterdir():
            file.write_bytes(b"no database" * 1000)
        with anyio.fail_after(SECONDS):
            assert not (await client.call_tool("open_group", {"group": "own"})).is_error
            assert await call(client, "own__record", word="once") == "once"
        assert "the sessions begin anew" in (machine.runtime / LOG).read_text()


@pytest.mark.spec("GWY-16")
async def test_relays_of_one_host_can_have_views_of_their_own_over_the_same_servers(machine: Machine) -> None:
    child = '[profiles.child]\navailable = ["*"]\nwithin = "review"\n'
    machine.config.write_text(machine.config.read_text() + '[profiles.review]\navailable = ["all"]\n' + child)
    async with (
        Client(machine.host(), mode="legacy") as whole,
        Client(machine.host("--profile", "review", "--agent", "reviewer"), mode="legacy") as review,
        Client(machine.host("--profile", "child", "--agent", "reader"), mode="legacy") as reader,
    ):
        assert "own__process" not in await names_of(whole)
        for bounded in (review, reader):
            refused = await bounded.call_tool("open_group", {"group": "own"})
            assert refused.is_error
        await reader.call_tool("open_group", {"group": "all"})
        assert "all__process" in await names_of(reader)
        await review.call_tool("open_group", {"group": "all"})
        await whole.call_tool("open_group", {"group": "all"})
        assert await call(review, "all__process") == await call(whole, "all__process")
        assert "reviewer" in machine.toolfold("status").stdout
        async with Client(machine.host("--groups", "all"), mode="legacy") as opened:
            assert "all__process" in await names_of(opened)


@pytest.mark.spec("GWY-14")
@pytest.mark.parametrize(("options", "sessions"), [((), 1), (("--no-usage",), 0)], ids=["recorded", "not recorded"])
async def test_use_is_recorded_in_the_record_of_the_user_unless_the_relay_says_otherwise(
    options: tuple[str, ...], sessions: int, machine: Machine
) -> None:
    record = machine.place / "xdg_data_home" / "toolfold" / "usage.db"
    record.parent.mkdir(parents=True)
    async with session(machine, "legacy", *options, TOOLFOLD_MAX_ACTIVE="2") as client:
        await call(client, "own__record", word="once")
    machine.toolfold("down")
    if sessions == 0:
        assert not record.exists()
        return
    said = json.loads(machine.toolfold("report", str(record), "--format", "json").stdout)
    assert "own" in json.dumps(said)


@pytest.mark.spec("GWY-14")
def test_a_configuration_that_is_wrong_or_missing_ends_the_relay_with_a_sentence(machine: Machine) -> None:
    machine.config.write_text("[upstreams.a]\n")
    for name, said in (("gateway.toml", "[upstreams.a]"), ("missing.toml", "There is no file")):
        ended = machine.toolfold("connect", str(machine.place / name), said=PING)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr.startswith("toolfold: ")
        assert said in ended.stderr


@pytest.mark.spec("GWY-14")
async def test_the_runtime_ends_when_asked_and_a_relay_that_is_there_starts_another(machine: Machine) -> None:
    assert machine.toolfold("down").stdout == "There is no runtime.\n"
    async with session(machine, "legacy") as client:
        first = machine.process
        assert machine.toolfold("down").stdout == "The runtime has ended.\n"
        assert "own__process" in await names_of(client)
        assert machine.process != first
        busy = machine.toolfold("up")
        assert busy.returncode == 1
        assert "There is a runtime already" in busy.stderr
    assert "Traceback" not in (machine.runtime / LOG).read_text()
