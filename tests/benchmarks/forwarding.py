"""What a forwarded call costs in processor time beyond a direct one, side by side with FastMCP's proxy.

`TESTS_FASTMCP` names the Python of an environment that has fastmcp; without it there is no comparison. FastMCP is
run as its users run it: `fastmcp run CONFIG`. The cost of a path is that of the client and of the proxy together, since
a proxy takes over work that a direct client has to do itself; upstreams are not counted. The paths take turns in one
run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from time import process_time
from typing import Any

import anyio
from attrs import define, frozen
from mcp import Client

from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.transports import transport_of

from .harness import Row
from .processes import children, processor_seconds

FORWARD_SECONDS = 1e-3
SHARE_OF_FASTMCP = 0.1
ROUNDS = 5
WARM_UP = 10
TOOL = "yes"

STDIO = """
import json, sys
INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "u", "version": "1"}}
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
RESULTS = {"initialize": INFO, "tools/list": {"tools": [{"name": "yes", "inputSchema": SCHEMA}]}, "ping": {},
           "tools/call": {"content": [{"type": "text", "text": "yes"}]}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": RESULTS[asked["method"]]}), flush=True)
"""
HTTP = """
import logging, socket, uvicorn
from mcp.server import MCPServer
server = MCPServer("u")
@server.tool()
def yes(path: str) -> str:
    return "yes"
listener = socket.create_server(("127.0.0.1", 0))
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


@define
class Route:
    """A client that is connected to an upstream directly, or through a proxy in a process of its own."""

    client: Client
    process: int | None
    spent: float = 0.0

    async def call(self, calls: int) -> None:
        """Make calls, and add up what they cost."""
        before = self._seconds()
        for _ in range(calls):
            result = await self.client.call_tool(TOOL, {"path": "x"})
            assert not result.is_error, result
        self.spent += self._seconds() - before

    def _seconds(self) -> float:
        return process_time() + (0.0 if self.process is None else processor_seconds(self.process))


async def measure(folder: Path, gateway: Sequence[str], environment: Mapping[str, str], calls: int) -> list[Row]:
    """Return the rows; see `costs` for the arguments."""
    rows: list[Row] = []
    for transport, added in (await costs(folder, gateway, environment, calls)).items():
        what = f"forwarded call over stdio to an upstream over {transport}, beyond a direct one"
        rows.append(Row(what=what, value=added["toolfold"], unit="ms", target=FORWARD_SECONDS, note="processor time"))
        if "fastmcp" in added:
            note = f"FastMCP's proxy adds {added['fastmcp'] * 1e3:.2f} ms"
            share = added["toolfold"] / added["fastmcp"]
            rows.append(
                Row(what=f"{what}: share of FastMCP's", value=share, unit="×", target=SHARE_OF_FASTMCP, note=note)
            )
    return rows


async def costs(
    folder: Path, gateway: Sequence[str], environment: Mapping[str, str], calls: int
) -> dict[str, dict[str, float]]:
    """Return the seconds that a forwarded call takes beyond a direct one, by the upstream's transport and the proxy.

    Args:
        folder: Where files can be put.
        gateway: The command that serves a configuration, whose name is appended.
        environment: The environment of the gateway.
        calls: How many calls are made on each route.
    """
    script = folder / "forwarded.py"
    script.write_text(STDIO)
    upstreams = [Upstream("stdio", {"command": sys.executable, "args": [str(script)]})]
    async with _http_upstream() as upstream:
        return {
            one.transport: await _compared(one, folder, gateway, environment, calls) for one in (*upstreams, upstream)
        }


def fastmcp_proxy(python: str, file: str) -> list[str]:
    """Return how FastMCP's proxy for a configuration is started."""
    return [python, "-m", "fastmcp.cli", "run", file, "--no-banner", "--log-level", "ERROR"]


def without_this(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a process of FastMCP's own environment: this project is not on its path."""
    return {name: value for name, value in environment.items() if name != "PYTHONPATH"}


async def _compared(
    upstream: Upstream, folder: Path, gateway: Sequence[str], environment: Mapping[str, str], calls: int
) -> dict[str, float]:
    file = folder / f"{upstream.transport}.json"
    file.write_text(json.dumps({"mcpServers": {"u": dict(upstream.settings)}}))
    fastmcp = os.environ.get("TESTS_FASTMCP")
    async with AsyncExitStack() as stack:
        routes = {"direct": Route(await stack.enter_async_context(_client(upstream.config())), None)}
        routes["toolfold"] = await _through(stack, [*gateway, str(file)], environment)
        if fastmcp:
            routes["fastmcp"] = await _through(stack, fastmcp_proxy(fastmcp, str(file)), without_this(environment))
        for route in routes.values():
            await route.call(WARM_UP)
            route.spent = 0.0
        for _ in range(ROUNDS):
            for route in routes.values():
                await route.call(calls // ROUNDS)
    direct = routes.pop("direct")
    made = calls // ROUNDS * ROUNDS
    return {name: (route.spent - direct.spent) / made for name, route in routes.items()}


def _client(config: UpstreamConfig) -> Client:
    return Client(transport_of(config), mode="legacy")


async def _through(stack: AsyncExitStack, command: Sequence[str], environment: Mapping[str, str]) -> Route:
    before = children()
    client = await stack.enter_async_context(_client(UpstreamConfig(command=tuple(command), env=environment)))
    (process,) = children() - before
    return Route(client, process)


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
