"""What calls cost over HTTP where many principals share a gateway, beside FastMCP's proxy (SPEC GWY-19).

    python -m tests.benchmarks.principals --fastmcp PYTHON           # 200 principals, 20 calls a second in sum
    python -m tests.benchmarks.principals --fastmcp PYTHON --write   # and write the table of the page

PYTHON is the interpreter of an environment that has FastMCP. Its proxy has its verifier of static tokens, ours a file
with the same tokens, and a row of rights.

Each principal has a client of its own with a bearer token, which stays open. Calls begin at fixed times, one after the
other by each, whether or not those before have been answered; how long one takes is counted from then. The server
behind them is one process that all share. Gateways take turns, with all clients of both open, in this process, which
takes processors from both alike: processor time is that of the gateway alone, and of the server behind it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio
import httpx2
import uvicorn
from attrs import define, field, frozen
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import MCPServer

from tests.benchmarks.processes import tree_seconds
from tests.process.ports import free_port

START_SECONDS = 60.0
ROUNDS = 3
"""How often gateways take turns."""
ARGUMENTS = {"one": 1, "other": 2}
PAGE = Path(__file__).parents[2] / "docs/how-to/people.md"
BEGIN, END = "<!-- table: principals -->", "<!-- end -->"
ROWS = (
    "calls that were answered",
    "calls that failed",
    "a call took: median",
    "slowest of a hundred",
    "processor time of a call, gateway",
    "server behind it",
)
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
def running(command: Sequence[str]) -> Generator[int]:
    """Have a process run meanwhile, and yield its id."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process.pid
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


@frozen
class Gateway:
    """How one is started and called.

    Attributes:
        name: What it is called.
        command: What starts it.
        url: Where it is then.
        tool: What is called.
        group: What is opened before that, if anything is.
    """

    name: str
    command: Sequence[str]
    url: str
    tool: str
    group: str | None = None


@define
class Outcome:
    """What calls took that were answered, how many were not, and the processor time of all, in seconds."""

    took: list[float] = field(factory=list[float])
    failed: int = 0
    gateway: float = 0.0
    behind: float = 0.0

    def cells(self) -> list[str]:
        """Return the cells of its column."""
        ordered = sorted(self.took) or [float("nan")]
        at = (ordered[min(len(ordered) - 1, int(len(ordered) * part))] for part in (0.5, 0.99))
        each = (seconds / max(1, len(self.took) + self.failed) for seconds in (self.gateway, self.behind))
        return [f"{len(self.took):,}", str(self.failed), *(f"{seconds * 1e3:.1f} ms" for seconds in (*at, *each))]


@asynccontextmanager
async def opened(gateway: Gateway, load: Load) -> AsyncGenerator[list[Client]]:
    """Yield the clients of all principals, each of which has called once."""
    clients, opening = list[Client](), anyio.CapacityLimiter(OPENING)
    ready, ended = anyio.Event(), anyio.Event()

    async def hold(token: str) -> None:
        async with AsyncExitStack() as stack:
            async with opening:
                client = await stack.enter_async_context(client_with(gateway.url, token))
                if gateway.group is not None:
                    await client.call_tool("open_group", {"group": gateway.group})
                await client.call_tool(gateway.tool, ARGUMENTS)
            clients.append(client)
            if len(clients) == load.principals:
                ready.set()
            await ended.wait()

    async with anyio.create_task_group() as holding:
        for token in load.tokens.values():
            holding.start_soon(hold, token)
        await ready.wait()
        try:
            yield clients
        finally:
            ended.set()


async def called(clients: Sequence[Client], tool: str, load: Load, seconds: float, outcome: Outcome) -> None:
    """Have calls begin for some seconds, and add what comes of them."""

    async def call(client: Client, at: float) -> None:
        try:
            answer = await client.call_tool(tool, ARGUMENTS)
        except Exception:
            outcome.failed += 1
            return
        if answer.is_error:
            outcome.failed += 1
        else:
            outcome.took.append(perf_counter() - at)

    began = perf_counter()
    async with anyio.create_task_group() as calls:
        for number in range(round(load.rate * seconds)):
            at = began + number / load.rate
            await anyio.sleep(max(0.0, at - perf_counter()))
            calls.start_soon(call, clients[number % len(clients)], at)


def _gateways(folder: Path, upstream: str, load: Load, fastmcp: str | None) -> list[Gateway]:
    (folder / "tokens.json").write_text(json.dumps(load.tokens))
    lines = [f'{person} = "{token}"' for person, token in load.tokens.items()]
    (folder / "auth.toml").write_text("\n".join(["[tokens]", *lines]))
    rights = '[rights."*"]\naccess = "destructive"\n'
    (folder / "gateway.toml").write_text(f'[upstreams.board]\nurl = "{upstream}"\nauth = "shared"\n{rights}')
    (folder / "proxy.py").write_text(FASTMCP)
    ports = [str(free_port()) for _ in range(2)]
    serve = [sys.executable, "-m", "toolfold_cli", "serve", str(folder / "gateway.toml"), "--http", "--port", ports[0]]
    serve += ["--auth", str(folder / "auth.toml"), "--delivery", "principal"]
    found = [Gateway("Toolfold", serve, f"http://127.0.0.1:{ports[0]}/mcp", "board__add", "board")]
    if fastmcp is not None:
        proxy = [fastmcp, str(folder / "proxy.py"), upstream, ports[1], str(folder / "tokens.json")]
        found.append(Gateway("FastMCP's proxy", proxy, f"http://127.0.0.1:{ports[1]}/mcp", "add"))
    return found


async def compared(load: Load, fastmcp: str | None) -> dict[str, Outcome]:
    """Return what came of the calls through each gateway."""
    outcomes: dict[str, Outcome] = {}
    with TemporaryDirectory() as name, ExitStack() as processes:
        behind = free_port()
        upstream = f"http://127.0.0.1:{behind}/mcp"
        command = [sys.executable, "-m", "tests.benchmarks.principals", "--upstream", str(behind)]
        server = processes.enter_context(running(command))
        await answering(upstream)
        async with AsyncExitStack() as stack:
            turns: list[tuple[Gateway, int, list[Client]]] = []
            for gateway in _gateways(Path(name), upstream, load, fastmcp):
                process = processes.enter_context(running(gateway.command))
                await answering(gateway.url)
                turns.append((gateway, process, await stack.enter_async_context(opened(gateway, load))))
            for _ in range(ROUNDS):
                for gateway, process, clients in turns:
                    outcome = outcomes.setdefault(gateway.name, Outcome())
                    before = tree_seconds(process), tree_seconds(server)
                    await called(clients, gateway.tool, load, load.seconds / ROUNDS, outcome)
                    outcome.gateway += tree_seconds(process) - before[0]
                    outcome.behind += tree_seconds(server) - before[1]
    return outcomes


def table_of(outcomes: Mapping[str, Outcome], load: Load) -> str:
    """Return the table of the page, with its heading."""
    head = f"{load.principals} principals, {load.rate:g} calls a second in sum, {load.seconds:g} seconds"
    columns = [outcome.cells() for outcome in outcomes.values()]
    rows = [(what, *(column[number] for column in columns)) for number, what in enumerate(ROWS)]
    lines = [(head, *outcomes), ("---", *("--:" for _ in columns)), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def written(page: str, table: str) -> str:
    """Return a page with the table in its place."""
    before, rest = page.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table}\n{END}{rest.split(END, 1)[1]}"


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Measure what calls of many principals take.")
    parser.add_argument("--principals", type=int, default=200)
    parser.add_argument("--rate", type=float, default=20.0, help="calls a second, in sum")
    parser.add_argument("--seconds", type=float, default=30.0, help="for how long through each gateway")
    parser.add_argument("--fastmcp", help="the interpreter of an environment that has FastMCP")
    parser.add_argument("--write", action="store_true", help="write the table of the page, too")
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.upstream is not None:
        serve_upstream(given.upstream)
        return
    load = Load(given.principals, given.rate, given.seconds)
    table = table_of(anyio.run(compared, load, given.fastmcp), load)
    print(table, end="")
    if given.write:
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), table), encoding="utf-8")


if __name__ == "__main__":
    main()
