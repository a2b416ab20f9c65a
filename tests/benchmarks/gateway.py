"""The gateway as a process: its start with a warm cache, what a forwarded call costs, and large results in parallel.

`thirteen` is the case that users measure: 13 servers in one configuration, with 181 tools.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
from mcp import Client

from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.upstream.transports import Transports

from . import forwarding
from .harness import SCHEMA, Row
from .peers.gateways import gateways
from .processes import resident
from .search.gateways import gateway_to
from .search.replay import by_group, everything, replayed
from .search.task_sets import Group, Task, live_mcp_bench

UPSTREAMS = 13
TOOLS = 14
START_SECONDS = 0.3
BIG = 10_000_000
NEIGHBOUR_SECONDS = 0.5
MEMORY = 90_000_000
CLIENTS = 10

UPSTREAM = f"""
import json, sys
open(sys.argv[2], "a").write("started")
TOOLS = json.load(open(sys.argv[3]))
BIG = json.dumps({{"content": [{{"type": "text", "text": "x" * {BIG}}}]}})
SMALL = json.dumps({{"content": [{{"type": "text", "text": "yes"}}]}})
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    if asked["method"] == "initialize":
        result = json.dumps({{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}},
                             "serverInfo": {{"name": sys.argv[1], "version": "1"}}}})
    elif asked["method"] == "tools/list":
        result = json.dumps({{"tools": TOOLS}})
    elif asked["method"] == "tools/call":
        result = BIG if asked["params"]["arguments"].get("path") == "big" else SMALL
    else:
        result = ""
    answer = f'"result": {{result}}' if result else '"error": {{"code": -32601, "message": "Method not found"}}'
    sys.stdout.write(f'{{{{"jsonrpc": "2.0", "id": {{json.dumps(asked["id"])}}, {{answer}}}}}}\\n')
    sys.stdout.flush()
"""


THIRTEEN = (
    *("basic-memory", "biomcp", "desktop-commander", "filesystem", "git", "hackernews", "memory", "playwright"),
    *("puppeteer", "time", "wikipedia", "word-document-server", "yahoo-finance"),
)
READY_SECONDS = 1.0
READY_TOKENS = 1_500
CALLS = 2


def measure(*, quick: bool) -> list[Row]:
    """Return the rows."""
    return anyio.run(_measure, 3 if quick else 7, 200 if quick else 1000)


def thirteen(*, quick: bool, folder: Path) -> list[Row]:
    """Return the rows on 13 servers of LiveMCPBench."""
    return anyio.run(_thirteen, 3 if quick else 7, folder / "LiveMCPBench")


def thirteen_servers(source: Path) -> list[Group]:
    """Return 13 servers that many have."""
    return [server for server in live_mcp_bench(source).groups if server.name in THIRTEEN]


async def _thirteen(starts: int, source: Path) -> list[Row]:
    servers = thirteen_servers(source)
    offered = {server.name: server.tools for server in servers}
    tools = gateway_to(servers)
    (first,) = await replayed(tools, [Task((), ())], everything)
    (whole,) = await replayed(
        gateway_to(servers, control="none", search="none"), [Task((), ())], everything, opened=True
    )
    tasks = [Task((), (frozenset({name}),)) for name, one in tools.catalog.tools.items() if one.control is None]
    readers = await replayed(tools, tasks, by_group)
    assert not sum(reader.missed(task) for reader, task in zip(readers, tasks, strict=True))
    with tempfile.TemporaryDirectory() as folder:
        base, taken, started = await _starts(Setting(Path(folder), offered), starts)
    what = f"{len(servers)} real servers, {len(tasks)} tools"
    return [
        Row(
            what=f"{what}: ready",
            value=taken,
            unit="s",
            target=READY_SECONDS,
            note=f"{base:.2f} s of it import the SDK",
        ),
        Row(what=f"{what}: servers started by then", value=started, unit="processes", target=0),
        Row(
            what=f"{what}: the first list",
            value=float(first.read),
            unit="tokens",
            target=READY_TOKENS,
            note=f"everything at once has {whole.read:,}",
        ),
        Row(
            what=f"{what}: calls to call any tool",
            value=float(1 + max(reader.calls for reader in readers)),
            unit="calls",
            target=CALLS,
        ),
    ]


async def _measure(starts: int, calls: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(Path(folder), {f"server{n}": _tools(f"server{n}") for n in range(UPSTREAMS)})
        return [
            *await _first_list(setting, starts),
            *await forwarding.measure(Path(folder), gateways(setting.environment), calls),
            await _neighbour(setting),
            *await _memory(setting),
        ]


def _tools(server: str) -> list[dict[str, Any]]:
    described = {"description": "Works on one of the things.", "inputSchema": SCHEMA}
    return [{"name": f"{server}_{n}", **described} for n in range(TOOLS)]


class Setting:
    """Upstreams with their tools, a configuration of them, one of the first, and a cache, in a folder."""

    def __init__(self, folder: Path, tools: Mapping[str, Sequence[Any]]) -> None:
        self.folder = folder
        self.started = folder / "started"
        script = folder / "upstream.py"
        script.write_text(UPSTREAM)
        servers: dict[str, Any] = {}
        for name, definitions in tools.items():
            offered = folder / f"{name}.json"
            offered.write_text(json.dumps(definitions))
            arguments = [str(script), name, str(self.started), str(offered)]
            servers[name] = {"command": sys.executable, "args": arguments}
        self.servers = servers
        self.all = self._configuration(folder / "all.json", servers)
        self.cache = folder / "cache"
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(self.cache)}
        self.names = tuple(servers)

    def _configuration(self, path: Path, servers: Mapping[str, Any]) -> str:
        path.write_text(json.dumps({"mcpServers": servers}))
        return str(path)

    def command(self, *options: str) -> list[str]:
        """Return how to start the gateway."""
        return [sys.executable, "-m", "toolfold_cli", "serve", *options]

    def client(self, *options: str) -> AbstractAsyncContextManager[Client]:
        """Return a client of a gateway of its own, over stdio."""
        return client_of(self.command(*options), self.environment)


@asynccontextmanager
async def client_of(command: Sequence[str], environment: Mapping[str, str]) -> AsyncGenerator[Client]:
    """Yield a client of a process, over stdio; the SDK's transport takes time in the square of a message's length."""
    upstream = UpstreamConfig(command=tuple(command), env=environment)
    async with Client(Transports()(upstream), mode="legacy") as client:
        yield client


async def _starts(setting: Setting, samples: int, *, cold: bool = False) -> tuple[float, float, float]:
    """Return the seconds to import the SDK, those to the first list, and how many upstreams that started."""
    async with setting.client(setting.all) as client:
        for name in setting.names:  # fills the cache: this waits for the server
            await client.call_tool("open_group", {"group": name})
    setting.started.write_text("")
    imports, lists = [], []
    for _ in range(samples):
        start = perf_counter()
        await anyio.run_process([sys.executable, "-c", "import mcp.server, mcp.client.client, uvicorn"])
        imports.append(perf_counter() - start)
        if cold:
            shutil.rmtree(setting.cache, ignore_errors=True)
        start = perf_counter()
        async with setting.client(setting.all) as client:
            await client.list_tools()
            lists.append(perf_counter() - start)
    started = float(setting.started.read_text().count("started"))
    return statistics.median(imports), statistics.median(lists), started


async def _first_list(setting: Setting, samples: int) -> list[Row]:
    cold_base, cold, _ = await _starts(setting, samples, cold=True)
    base, taken, started = await _starts(setting, samples)
    return [
        Row(
            what=f"first list of {UPSTREAMS} upstreams without a cache, beyond the import of the SDK",
            value=cold - cold_base,
            unit="s",
            target=START_SECONDS,
            note=f"{cold:.2f} s in all, {cold_base:.2f} s of it to import the SDK",
        ),
        Row(
            what=f"first list of {UPSTREAMS} upstreams from the cache, beyond the import of the SDK",
            value=taken - base,
            unit="s",
            target=START_SECONDS,
            note=f"{taken:.2f} s in all, {base:.2f} s of it to import the SDK",
        ),
        Row(
            what="upstreams started by then",
            value=started,
            unit="processes",
            target=0,
        ),
    ]


async def _neighbour(setting: Setting) -> Row:
    worst = 0.0
    async with setting.client(setting.all, "--active", "server0,server1") as client:
        for server in ("server0", "server1"):
            await client.call_tool(f"{server}__{server}_0", {"path": "x"})
        done = anyio.Event()

        async def big() -> None:
            result = await client.call_tool("server0__server0_0", {"path": "big"})
            assert len(result.content[0].text) == BIG  # type: ignore[union-attr]
            done.set()

        begun = perf_counter()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(big)
            while not done.is_set():
                start = perf_counter()
                await client.call_tool("server1__server1_0", {"path": "x"})
                worst = max(worst, perf_counter() - start)
        whole = perf_counter() - begun
    return Row(
        what="a call at another upstream while a result of 10 MB passes: the slowest",
        value=worst,
        unit="s",
        target=NEIGHBOUR_SECONDS,
        note=f"the client of the measurement included; the large result took {whole:.2f} s",
    )


async def _memory(setting: Setting) -> list[Row]:
    rows: list[Row] = []
    command = setting.command(setting.all, "--http", "--port", "0")
    async with await anyio.open_process(command, env=setting.environment, stdin=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        said = ""
        while "serving " not in said:
            said += (await process.stderr.receive()).decode()
        url = said.split("serving ")[1].split()[0]
        async with anyio.create_task_group() as tasks:
            for number in range(1, CLIENTS + 1):
                await tasks.start(_hold, url)
                if number in (1, CLIENTS):
                    target = MEMORY if number == CLIENTS else None
                    clients = "1 client" if number == 1 else f"{number} clients"
                    rows.append(
                        Row(
                            what=f"memory of the gateway with {clients}, upstreams not counted",
                            value=float(resident(process.pid)),
                            unit="bytes",
                            target=target,
                        )
                    )
            tasks.cancel_scope.cancel()
        process.terminate()
    return rows


async def _hold(url: str, *, task_status: Any) -> None:
    async with Client(url, mode="legacy") as client:
        await client.list_tools()
        opened = await client.call_tool("open_group", {"group": "server0"})
        assert not opened.is_error, opened
        await client.call_tool("server0__server0_0", {"path": "x"})
        task_status.started()
        await anyio.sleep_forever()
