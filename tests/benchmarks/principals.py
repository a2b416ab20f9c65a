"""What calls cost over HTTP where many principals share a gateway, beside FastMCP's proxy (SPEC GWY-19).

    python -m tests.benchmarks.principals                    # 200 principals, 20 calls a second in sum, for 30 seconds
    python -m tests.benchmarks.principals --fastmcp PYTHON   # and FastMCP's proxy, with its verifier of static tokens

Each principal has a client of its own with a bearer token, which stays open. Calls begin at fixed times, one after the
other by each, whether or not those before have been answered; how long one takes is counted from then. The server
behind them is one process that all share. Gateways run one after the other, with the clients in this process.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio
import httpx2
import uvicorn
from attrs import frozen
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer

from tests.process.ports import free_port

START_SECONDS = 60.0
OPENING = 8
"""How many clients are opened side by side."""
FASTMCP = """
import json, sys
from fastmcp.server import create_proxy
from fastmcp.server.auth.providers.jwt import StaticTokenVerifier
upstream, port, file = sys.argv[1:]
tokens = {token: {"client_id": name, "scopes": []} for name, token in json.load(open(file)).items()}
proxy = create_proxy(upstream, name="proxy", auth=StaticTokenVerifier(tokens=tokens))
proxy.run(transport="http", host="127.0.0.1", port=int(port), show_banner=False, log_level="ERROR")
"""


@frozen
class Load:
    """How many principals call how often, and for how many seconds."""

    principals: int
    rate: float
    seconds: float

    @property
    def tokens(self) -> Mapping[str, str]:
        """The token of each."""
        return {f"person{number}": f"the-token-of-person-{number}" for number in range(self.principals)}


def serve_upstream(port: int) -> None:
    """Serve what is behind the gateways."""
    server = MCPServer("board", log_level="ERROR")

    @server.tool()
    async def add(one: int, other: int) -> int:
        """Return a sum."""
        return one + other

    uvicorn.run(server.streamable_http_app(), port=port, log_level="error", ws="none")


@contextmanager
def running(command: Sequence[str]) -> Generator[None]:
    """Have a process run meanwhile."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


async def answering(url: str) -> None:
    """Return once something listens there."""
    with anyio.fail_after(START_SECONDS):
        async with httpx2.AsyncClient() as http:
            while True:
                try:
                    await http.get(url)
                    return
                except httpx2.TransportError:
                    await anyio.sleep(0.1)


@asynccontextmanager
async def client_with(url: str, token: str) -> AsyncGenerator[Client]:
    """Yield a client with a bearer token."""
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=START_SECONDS) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield client


async def measured(url: str, load: Load, tool: str, group: str | None) -> tuple[list[float], int]:
    """Return how long calls took that were answered, in order, and how many failed."""
    took, failed, opening = list[float](), [0], anyio.CapacityLimiter(OPENING)
    clients = list[Client]()
    ready, ended = anyio.Event(), anyio.Event()

    async def hold(token: str) -> None:
        async with AsyncExitStack() as stack:
            async with opening:
                client = await stack.enter_async_context(client_with(url, token))
                if group is not None:
                    await client.call_tool("open_group", {"group": group})
                await client.call_tool(tool, {"one": 1, "other": 2})
            clients.append(client)
            if len(clients) == load.principals:
                ready.set()
            await ended.wait()

    async def call(client: Client, at: float) -> None:
        try:
            answer = await client.call_tool(tool, {"one": 1, "other": 2})
            failed[0] += bool(answer.is_error)
            took.append(perf_counter() - at)
        except Exception:
            failed[0] += 1

    async with anyio.create_task_group() as holding:
        for token in load.tokens.values():
            holding.start_soon(hold, token)
        await ready.wait()
        began = perf_counter()
        async with anyio.create_task_group() as calls:
            for number in range(round(load.rate * load.seconds)):
                at = began + number / load.rate
                await anyio.sleep(max(0.0, at - perf_counter()))
                calls.start_soon(call, clients[number % len(clients)], at)
        ended.set()
    return sorted(took), failed[0]


async def _main(load: Load, fastmcp: str | None) -> None:
    with TemporaryDirectory() as name:
        folder, behind = Path(name), free_port()
        upstream = f"http://127.0.0.1:{behind}/mcp"
        (folder / "tokens.json").write_text(json.dumps(load.tokens))
        lines = [f'{person} = "{token}"' for person, token in load.tokens.items()]
        (folder / "auth.toml").write_text("\n".join(["[tokens]", *lines]))
        (folder / "gateway.toml").write_text(f'[upstreams.board]\nurl = "{upstream}"\nauth = "shared"\n')
        (folder / "proxy.py").write_text(FASTMCP)
        serve = [sys.executable, "-m", "toolfold_cli", "serve", str(folder / "gateway.toml"), "--http"]
        options = ["--auth", str(folder / "auth.toml"), "--delivery", "principal", "--port"]
        gateways: dict[str, tuple[list[str], str, str | None]] = {}
        port = str(free_port())
        gateways[f"Toolfold {port}"] = [*serve, *options, port], "board__add", "board"
        if fastmcp is not None:
            port = str(free_port())
            proxy = [fastmcp, str(folder / "proxy.py"), upstream, port, str(folder / "tokens.json")]
            gateways[f"FastMCP {port}"] = proxy, "add", None
        with running([sys.executable, "-m", "tests.benchmarks.principals", "--upstream", str(behind)]):
            await answering(upstream)
            print(f"{load.principals} principals, {load.rate:g} calls a second in sum, {load.seconds:g} s")
            for named, (command, tool, group) in gateways.items():
                what, at = named.split()
                with running(command):
                    await answering(f"http://127.0.0.1:{at}/mcp")
                    took, failed = await measured(f"http://127.0.0.1:{at}/mcp", load, tool, group)
                shown = (f"{took[min(len(took) - 1, int(len(took) * part))] * 1e3:.0f} ms" for part in (0.5, 0.99))
                p50, p99 = shown if took else ("-", "-")
                print(f"{what}: {len(took)} answered, {failed} failed; p50 {p50}, p99 {p99}", flush=True)


def main() -> None:
    """Measure, and print a line for each gateway."""
    parser = argparse.ArgumentParser(description="Measure what calls of many principals take.")
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0, help="calls a second, in sum")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--fastmcp", help="the interpreter of an environment that has FastMCP")
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.upstream is not None:
        serve_upstream(given.upstream)
    else:
        anyio.run(_main, Load(given.principals, given.rate, given.seconds), given.fastmcp)


if __name__ == "__main__":
    main()
