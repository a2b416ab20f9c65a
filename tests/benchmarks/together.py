"""Five sessions in two hosts with the same thirteen servers: processes, memory, the second session, and a call.

Without anything between, with Toolfold's relays and their runtime, and with gateways that each session starts. All
servers behave alike, keep nothing of a session, and are used once by each session; five of them are also measured as
shared while eight are not. Both hosts give what they start the same environment, as those do that pass on the least.

Memory is proportional: a page that several processes have is divided among them (Linux).
"""

from __future__ import annotations

import json
import os
import statistics
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any

import anyio
from anyio.abc import TaskStatus
from attrs import define, field, frozen
from mcp import Client, StdioServerParameters
from mcp_types import Implementation

from toolfold_adapters.runtime.place import FOLDER
from toolfold_adapters.runtime.relay import asked

from .forwarding import ARGUMENTS, STDIO, TOOL, Cost
from .harness import Comparison, Row
from .peers.gateways import Call, Gateway, gateways
from .processes import children, processor_seconds

SERVERS = [f"server{number}" for number in range(13)]
SHARED = SERVERS[:5]
SESSIONS = 5
HOSTS = ("one", "two", "one", "two", "one")
ROUNDS = 5
MEMORY_RATIO = 1.15
CALL_SECONDS, CALL_PROCESSOR_SECONDS = 0.6e-3, 0.35e-3


def measure(*, quick: bool) -> list[Row]:
    """Return the rows."""
    return _rows(compare(quick=quick))


def compare(*, quick: bool) -> Comparison:
    """Return the costs by operation and way."""
    return anyio.run(_compare, 200 if quick else 1000)


def _rows(found: Comparison) -> list[Row]:
    costs = found.costs
    own = costs["memory of five sessions"]["toolfold"]
    one, relays = costs["memory of one session"]["toolfold"], costs["memory of five relays"]["toolfold"]
    what = "five sessions, thirteen servers"
    targets: Mapping[str, float] = {
        "call, elapsed": CALL_SECONDS,
        "call, processor": CALL_PROCESSOR_SECONDS,
        "server processes": len(SERVERS),
    }
    units = {"memory": "bytes", "call": "ms", "second": "s", "first": "s"}
    rows = [
        Row(
            what=f"{what}: {operation}, {way}",
            value=cost,
            unit=units.get(operation.split(",")[0].split(" ")[0], ""),
            target=targets.get(operation) if way == "toolfold" else None,
        )
        for operation, by_way in costs.items()
        for way, cost in by_way.items()
    ]
    ratio = own / (one + relays)
    return [
        *rows,
        Row(
            what=f"{what}: memory against that of one session and five relays",
            value=ratio,
            unit="×",
            target=MEMORY_RATIO,
        ),
    ]


# -- ways -------------------------------------------------------------------------------------------------------------


@frozen
class Way:
    """How a session reaches the servers.

    Attributes:
        name: What it is called.
        commands: Returns the commands that a session starts.
        call: What is called for the tool of a server, on the connection to that server, or to all.
        opening: What is called before that, if anything is.
        runtime: The folder of the runtime, if there is one.
    """

    name: str
    commands: Sequence[Sequence[str]]
    environment: Mapping[str, str]
    call: Callable[[str, str, dict[str, Any]], Call]
    opening: Callable[[str], Call] | None = None
    runtime: Path | None = None


def _ways(folder: Path, script: Path) -> list[Way]:
    servers = {name: {"command": sys.executable, "args": [str(script), name]} for name in SERVERS}
    environment = {
        name: os.environ[name] for name in ("HOME", "PATH", "PYTHONPATH", "VIRTUAL_ENV") if name in os.environ
    }
    environment |= {name: str(folder / name) for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")}
    direct = Way(
        "direct",
        [[str(one["command"]), *one["args"]] for one in servers.values()],
        environment,
        lambda _, tool, given: (tool, given),
    )
    ways = [direct, *(_relayed(folder, servers, environment, shared) for shared in (SERVERS, SHARED))]
    for one in gateways(environment):
        if one.name != "fastmcp, search":
            ways.append(_through(one, servers, folder, environment))
    return ways


def _relayed(folder: Path, servers: Mapping[str, Any], environment: Mapping[str, str], shared: Sequence[str]) -> Way:
    name = "toolfold" if shared == SERVERS else "toolfold, five shared"
    file, runtime = folder / f"{len(shared)}.toml", folder / f"r{len(shared)}"
    runtime.mkdir(mode=0o700)
    file.write_text(
        "".join(
            f"[upstreams.{one}]\ncommand = {json.dumps([entry['command'], *entry['args']])}\n"
            f"shared = {json.dumps(one in shared)}\n"
            for one, entry in servers.items()
        )
    )
    return Way(
        name,
        [[sys.executable, "-m", "toolfold_cli", "connect", str(file)]],
        {**environment, FOLDER: str(runtime)},
        lambda server, tool, given: (f"{server}__{tool}", given),
        lambda server: ("open_group", {"group": server}),
        runtime,
    )


def _through(gateway: Gateway, servers: Mapping[str, Any], folder: Path, environment: Mapping[str, str]) -> Way:
    def call(server: str, tool: str, given: dict[str, Any]) -> Call:
        if gateway.name == "mcp-compressor":  # of several servers, each has tools of its own
            name, arguments = gateway.call(server, tool, given)
            return f"{server}_{name}", arguments
        if gateway.name == "fastmcp":
            return f"{server}_{tool}", given
        return gateway.call(server, tool, given)

    name = "toolfold serve" if gateway.name == "toolfold" else gateway.name
    of_its_own = {**gateway.environment} if gateway.name != "toolfold" else environment
    return Way(name, [gateway.to(servers, folder)], of_its_own, call, gateway.opening)


# -- measuring --------------------------------------------------------------------------------------------------------


@define
class Session:
    """A session: its connections, one for all servers or one for each."""

    way: Way
    clients: list[Client] = field(factory=list[Client])

    async def use(self, server: str) -> None:
        """Call the tool of a server, opened before if it has to be."""
        client = self.clients[SERVERS.index(server) % len(self.clients)]
        if self.way.opening is not None:
            await client.call_tool(*self.way.opening(server))
        answer = await client.call_tool(*self.way.call(server, TOOL, ARGUMENTS))
        assert not answer.is_error, (self.way.name, answer)


@asynccontextmanager
async def _session(way: Way, host: str) -> AsyncGenerator[tuple[Session, float]]:
    """Open a session of a host, and yield it with the seconds until all its lists are there."""
    start, over = perf_counter(), anyio.Event()
    clients: dict[int, Client] = {}

    async def hold(number: int, command: Sequence[str], *, task_status: TaskStatus[None]) -> None:
        config = StdioServerParameters(command=command[0], args=[*command[1:]], env=dict(way.environment))
        async with Client(config, mode="legacy", client_info=Implementation(name=host, version="1")) as client:
            await client.list_tools()
            clients[number] = client
            task_status.started()
            await over.wait()

    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as starting:
            for number, command in enumerate(way.commands):
                starting.start_soon(tasks.start, hold, number, command)
        yield Session(way, [clients[number] for number in sorted(clients)]), perf_counter() - start
        over.set()


def processes_of(folder: Path) -> list[int]:
    """Return the processes whose command or environment names a folder, but not this one."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                said = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(folder).encode() in said:
                found.append(int(entry.name))
    return found


def proportional(processes: Sequence[int]) -> int:
    """Return the memory of some processes in bytes, each page divided among all that have it."""
    total = 0
    for one in processes:
        lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
        total += int(next(line.split()[1] for line in lines if line.startswith("Pss:"))) * 1024
    return total


def _of_servers(processes: Sequence[int], script: Path) -> list[int]:
    return [one for one in processes if str(script).encode() in _words(one)]


def _words(process: int) -> list[bytes]:
    return Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")


async def _compare(calls: int) -> Comparison:
    found = Comparison("together")
    with TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "server.py"
        script.write_text(STDIO)
        ways = _ways(folder, script)
        for way in ways:
            await _warmed(way)
        for way in ways:
            await _sessions(found, way, folder, script)
        await _calls(found, ways, calls)
        for way in ways:
            _ended(way)
    return found


async def _warmed(way: Way) -> None:
    """Have what is cached be there."""
    async with _session(way, "one") as (session, _):
        for server in SERVERS:
            await session.use(server)
    _ended(way)


def _ended(way: Way) -> None:
    if way.runtime is not None:
        try:
            asked(str(way.runtime), "end")
        except OSError:
            return


async def _sessions(found: Comparison, way: Way, folder: Path, script: Path) -> None:
    async with AsyncExitStack() as stack:
        sessions: list[Session] = []
        for number, host in enumerate(HOSTS):
            session, taken = await stack.enter_async_context(_session(way, host))
            sessions.append(session)
            for server in SERVERS:
                await session.use(server)
            if number < 2:
                found.add("first list" if number == 0 else "second session, first list", way.name, taken)
            if number == 0:
                found.add("memory of one session", way.name, float(proportional(processes_of(folder))))
        running = processes_of(folder)
        servers = _of_servers(running, script)
        found.add("processes", way.name, float(len(running)))
        found.add("server processes", way.name, float(len(servers)))
        found.add("memory of five sessions", way.name, float(proportional(running)))
        if way.runtime is not None:
            relays = [one for one in running if b"connect" in _words(one)]
            found.add("memory of five relays", way.name, float(proportional(relays)))
    _ended(way)


async def _calls(found: Comparison, ways: Sequence[Way], calls: int) -> None:
    """Measure what a call costs beyond a direct one: all ways take turns."""
    async with AsyncExitStack() as stack:
        turns: dict[str, list[Cost]] = {way.name: [] for way in ways}
        sessions: dict[str, tuple[Client, Call, list[int]]] = {}
        for way in ways:
            before = children()
            session, _ = await stack.enter_async_context(_session(way, "one"))
            await session.use(SERVERS[0])
            own = [] if way.name == "direct" else [*(children() - before)]
            if way.runtime is not None:
                own.append(int(asked(str(way.runtime), "status")["process"]))
            sessions[way.name] = session.clients[0], way.call(SERVERS[0], TOOL, ARGUMENTS), own
        for turn in range(ROUNDS + 1):
            for name, (client, call, own) in sessions.items():
                spent, start = process_time() + sum(map(processor_seconds, own)), perf_counter()
                for _ in range(calls // ROUNDS):
                    await client.call_tool(*call)
                elapsed = perf_counter() - start
                cost = process_time() + sum(map(processor_seconds, own)) - spent
                if turn:
                    turns[name].append(Cost(cost / (calls // ROUNDS), elapsed / (calls // ROUNDS)))
        for name, each in turns.items():
            if name != "direct":
                pairs = list(zip(each, turns["direct"], strict=True))
                found.add("call, processor", name, statistics.median(a.processor - b.processor for a, b in pairs))
                found.add("call, elapsed", name, statistics.median(a.elapsed - b.elapsed for a, b in pairs))
