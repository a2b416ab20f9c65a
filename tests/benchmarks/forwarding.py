"""What a forwarded call costs beyond a direct one, in processor time and in elapsed time, side by side with others.

Each gateway is run as its users run it, see `peers.gateways`. The processor time of a path is that of the client and of
the gateway together, since a gateway takes over work that a direct client has to do itself; upstreams are not counted.
The paths take turns in one run, and each is compared with the direct one of the same turn.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import anyio
from attrs import define, field, frozen
from mcp import Client

from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.upstream.transports import Transports

from .harness import Row
from .peers.gateways import Call, Gateway
from .processes import children, processor_seconds

FORWARD_SECONDS = 1e-3
SHARE_OF_FASTMCP = 0.1
ROUNDS = 5
WARM_UP = 10
SERVER = "u"
TOOL = "yes"
ARGUMENTS = {"path": "x"}

STDIO = """
import json, sys
INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "u", "version": "1"}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
RESULTS = {"initialize": INFO, "tools/list": {"tools": [{"name": "yes", "inputSchema": SCHEMA}]}, "ping": {},
           "tools/call": {"content": [{"type": "text", "text": "yes"}]}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        known = asked["method"] in RESULTS
        said = {"result": RESULTS[asked["method"]]} if known else {"error": {"code": -32601, "message": "Unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)
"""
HTTP = """
import logging, socket, uvicorn
from mcp.server import MCPServer
server = MCPServer("u")
@server.tool()
def yes(path: str) -> str:
    return "yes"
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen()
print(listener.getsockname()[1], flush=True)
app = server.streamable_http_app()
logging.disable()
uvicorn.Server(uvicorn.Config(app, ws="none", log_config=None)).run([listener])
"""


@frozen
class Upstream:
    """A server, by its transport, as a client's configuration has it."""

    transport: str
    settings: Mapping[str, Any]

    def config(self) -> UpstreamConfig:
        """Return how it is reached directly."""
        if "url" in self.settings:
            return UpstreamConfig(url=self.settings["url"], mode="legacy")
        return UpstreamConfig(command=(self.settings["command"], *self.settings["args"]))


@frozen
class Cost:
    """Seconds that a call takes: of processors, and elapsed."""

    processor: float
    elapsed: float


@define
class Route:
    """A client that is connected to an upstream directly, or through a gateway in a process of its own."""

    client: Client
    call: Call
    process: int | None
    turns: list[Cost] = field(factory=list[Cost])

    async def take_turn(self, calls: int) -> None:
        """Make calls, and record what one of them costs."""
        tool, arguments = self.call
        spent, start = self._seconds(), perf_counter()
        for _ in range(calls):
            result = await self.client.call_tool(tool, arguments)
            assert not result.is_error, result
        elapsed = perf_counter() - start
        self.turns.append(Cost((self._seconds() - spent) / calls, elapsed / calls))

    def beyond(self, direct: Route) -> Cost:
        """Return the medians of what a call costs more than on the direct route in the same turn."""
        pairs = list(zip(self.turns, direct.turns, strict=True))
        return Cost(
            statistics.median(one.processor - other.processor for one, other in pairs),
            statistics.median(one.elapsed - other.elapsed for one, other in pairs),
        )

    def _seconds(self) -> float:
        return process_time() + (0.0 if self.process is None else processor_seconds(self.process))


async def measure(folder: Path, gateways: Sequence[Gateway], calls: int) -> list[Row]:
    """Return the rows; see `costs` for the arguments."""
    rows: list[Row] = []
    for transport, added in (await costs(folder, gateways, calls)).items():
        what = f"forwarded call over stdio to an upstream over {transport}, beyond a direct one"
        own = added["toolfold"].processor
        rows.append(Row(what=what, value=own, unit="ms", target=FORWARD_SECONDS, note="processor time"))
        if "fastmcp" in added:
            other = added["fastmcp"].processor
            note = f"FastMCP's proxy adds {other * 1e3:.2f} ms"
            rows.append(
                Row(what=f"{what}: share of FastMCP's", value=own / other, unit="×", target=SHARE_OF_FASTMCP, note=note)
            )
    return rows


async def costs(folder: Path, gateways: Sequence[Gateway], calls: int) -> dict[str, dict[str, Cost]]:
    """Return what a forwarded call costs beyond a direct one, by the upstream's transport and the gateway.

    Args:
        folder: Where files can be put.
        gateways: What the calls pass through.
        calls: How many calls are made on each route.
    """
    script = folder / "forwarded.py"
    script.write_text(STDIO)
    upstreams = [Upstream("stdio", {"command": sys.executable, "args": [str(script)]})]
    async with _http_upstream() as upstream:
        return {one.transport: await _compared(one, folder, gateways, calls) for one in (*upstreams, upstream)}


async def _compared(upstream: Upstream, folder: Path, gateways: Sequence[Gateway], calls: int) -> dict[str, Cost]:
    others = [one for one in gateways if upstream.transport in one.transports]
    async with AsyncExitStack() as stack:
        direct = Route(await stack.enter_async_context(_client(upstream.config())), (TOOL, ARGUMENTS), None)
        routes = {one.name: await _through(stack, one, upstream, folder) for one in others}
        for route in (direct, *routes.values()):
            await route.take_turn(WARM_UP)
            route.turns.clear()
        for _ in range(ROUNDS):
            for route in (direct, *routes.values()):
                await route.take_turn(calls // ROUNDS)
    return {name: route.beyond(direct) for name, route in routes.items()}


def _client(config: UpstreamConfig) -> Client:
    return Client(Transports()(config), mode="legacy")


async def _through(stack: AsyncExitStack, gateway: Gateway, upstream: Upstream, folder: Path) -> Route:
    before = children()
    command = gateway.to({SERVER: upstream.settings}, folder)
    config = UpstreamConfig(command=tuple(command), env=gateway.environment)
    client = await stack.enter_async_context(_client(config))
    (process,) = children() - before
    await client.list_tools()  # until then some of them know no tool
    if gateway.opening is not None:
        await client.call_tool(*gateway.opening(SERVER))
    return Route(client, gateway.call(SERVER, TOOL, ARGUMENTS), process)


@asynccontextmanager
async def _http_upstream() -> AsyncGenerator[Upstream]:
    command = [sys.executable, "-c", HTTP]
    async with await anyio.open_process(command, stdin=subprocess.DEVNULL, stderr=None) as process:
        assert process.stdout is not None
        port = (await process.stdout.receive()).decode().strip()
        try:
            yield Upstream("HTTP", {"url": f"http://127.0.0.1:{port}/mcp"})
        finally:
            process.kill()
