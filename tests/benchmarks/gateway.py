"""The gateway as a process: its start with a warm cache, what a forwarded call costs, and large results in parallel."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import anyio
from mcp import Client

from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.transports import transport_of

from .harness import Row

UPSTREAMS = 13
TOOLS = 14
START_SECONDS = 0.3
FORWARD_SECONDS = 1e-3
BIG = 10_000_000
NEIGHBOUR_SECONDS = 0.5
MEMORY = 90 * 1024 * 1024
CLIENTS = 10
HERTZ = os.sysconf("SC_CLK_TCK")

UPSTREAM = f"""
import json, sys
open(sys.argv[2], "a").write("started")
SCHEMA = {{"type": "object", "properties": {{"path": {{"type": "string", "description": "Which one to work on."}}}}}}
TOOLS = [{{"name": f"{{sys.argv[1]}}_{{n}}", "description": "Works on one of the things.", "inputSchema": SCHEMA}}
         for n in range({TOOLS})]
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
    else:
        result = BIG if asked["params"]["arguments"].get("path") == "big" else SMALL
    sys.stdout.write(f'{{{{"jsonrpc": "2.0", "id": {{json.dumps(asked["id"])}}, "result": {{result}}}}}}\\n')
    sys.stdout.flush()
"""


def measure(*, quick: bool) -> list[Row]:
    """Return the rows."""
    return anyio.run(_measure, 3 if quick else 7, 200 if quick else 1000)


async def _measure(starts: int, calls: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(Path(folder))
        return [
            *await _first_list(setting, starts),
            await _forwarded(setting, calls),
            await _neighbour(setting),
            *await _memory(setting),
        ]


class Setting:
    """Upstreams, a configuration of them, and a cache, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "upstream.py"
        self.started = folder / "started"
        self.script.write_text(UPSTREAM)
        self.all = self._configuration(folder / "all.json", UPSTREAMS)
        self.one = self._configuration(folder / "one.json", 1)
        self.environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}

    def _configuration(self, path: Path, number: int) -> str:
        names = [f"server{n}" for n in range(number)]
        arguments = {name: [str(self.script), name, str(self.started)] for name in names}
        servers = {name: {"command": sys.executable, "args": given} for name, given in arguments.items()}
        path.write_text(json.dumps({"mcpServers": servers}))
        return str(path)

    def command(self, *options: str) -> list[str]:
        """Return how to start the gateway."""
        return [sys.executable, "-m", "toolfold_cli", "serve", *options]

    @asynccontextmanager
    async def client(self, *options: str) -> AsyncGenerator[Client]:
        """Yield a client of a gateway of its own, over stdio."""
        # not the SDK's transport, which takes time in the square of the length of a message
        upstream = UpstreamConfig(command=tuple(self.command(*options)), env=self.environment)
        async with Client(transport_of(upstream), mode="legacy") as client:
            yield client


async def _first_list(setting: Setting, samples: int) -> list[Row]:
    async with setting.client(setting.all) as client:
        await client.list_tools()  # fills the cache
    setting.started.write_text("")
    imports, lists = [], []
    for _ in range(samples):
        start = perf_counter()
        await anyio.run_process([sys.executable, "-c", "import mcp.server, mcp.client.client, uvicorn"])
        imports.append(perf_counter() - start)
        start = perf_counter()
        async with setting.client(setting.all) as client:
            await client.list_tools()
            lists.append(perf_counter() - start)
    base, taken = statistics.median(imports), statistics.median(lists)
    return [
        Row(
            what=f"first list of {UPSTREAMS} upstreams from the cache, beyond the import of the SDK",
            value=taken - base,
            unit="s",
            target=START_SECONDS,
            note=f"{taken:.2f} s in all, {base:.2f} s of it to import the SDK",
        ),
        Row(
            what="upstreams started by then",
            value=float(setting.started.read_text().count("started")),
            unit="sessions",
            target=0,
        ),
    ]


async def _forwarded(setting: Setting, calls: int) -> Row:
    async with setting.client(setting.one) as client:
        gateway = _child("toolfold_cli")
        for _ in range(20):
            await client.call_tool("server0_0", {"path": "x"})
        before = _processor_seconds(gateway)
        for _ in range(calls):
            await client.call_tool("server0_0", {"path": "x"})
        spent = (_processor_seconds(gateway) - before) / calls
    return Row(
        what="forwarded call: processor time of the gateway, beyond a direct call",
        value=spent,
        unit="ms",
        target=FORWARD_SECONDS,
        note=f"over stdio on both sides, {calls} calls one after the other",
    )


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
                            value=float(_resident(process.pid)),
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


def _child(module: str) -> int:
    """Return the process that this one started to run a module."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == os.getpid() and module in (entry / "cmdline").read_text():
                    return int(entry.name)
            except (OSError, ValueError):
                continue
    raise LookupError(module)


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def _resident(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:"))) * 1024
