"""What the calls of one server wait while another lists much, answers with much, or says over and over that it changed.

Both are processes behind one gateway, and are called in this one, so that what waits is the gateway alone; it looks for
garbage as `toolfold serve` does. What else a machine does makes calls wait, too; so two processor times are measured
beside that: of what holds the event loop longest, and of all that the gateway does, in threads too, while a call waits.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from statistics import quantiles
from time import perf_counter, process_time, thread_time
from typing import Any
from unittest import mock

import anyio
import anyio.lowlevel
from attrs import define, field

from toolfold import ProtocolError, Session, ToolSet
from toolfold.spi import Kind
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.gateway import Gateway
from toolfold_adapters.transport.garbage import program_serves

from .harness import Row

MOST_SECONDS = 0.2
MOST_COMPUTED = 0.2
"""How much the gateway may compute while a call waits."""
MOST_HELD = 0.05
"""How much processor time anything on the loop may take at a time."""
LISTED = {
    "4,000 tools": ("tool", 4_000),
    "16,000 tools": ("tool", 16_000),
    "16,000 prompts": ("prompt", 16_000),
    "16,000 resources": ("resource", 16_000),
    "16,000 resource templates": ("resource_template", 16_000),
    "17 tools whose schemas have 0.9 MB each": ("large", 17),
    "40,000 tools on one page": ("tool", 40_000),
}
"""What the large server lists: the kind, and how many."""
UNLISTED = ("resource", "resource_template", "tool")
KEPT = {"large": 16, "tool": 20_000}
"""How many of a kind are registered at most, since no more are kept of one server."""
CHANGING = 500
SECONDS = 10.0
"""How long a server says that its tools change."""
PAUSE = 0.005
ANSWERED = {"JSON": "application/json", "a stream of events": "text/event-stream"}
"""How a server answers over HTTP whose answers are large."""
ANSWERS = 3
"""How many of them are asked for at a time."""

SERVER = """
import json, sys
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
kind = sys.argv[1]
blocks = [{"type": "text", "text": "x" * 200, "annotations": {"audience": ["user"]}}] * 40_000
results = {
    "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "big", "version": "1"}},
    "tools/list": {"tools": [{"name": "much", "inputSchema": {"type": "object"}}]},
    "tools/call": {"content": blocks},
}
class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        body = b""
        if "id" in asked:
            result = results.get(asked["method"], {})
            body = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
            body = body if kind == "application/json" else b"data: " + body + b"\\n\\n"
        self.answer(200 if body else 202, body)
    def do_GET(self):
        self.answer(405, b"")
    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(OSError):  # it is not waited for any more
            self.wfile.write(body)
    def log_message(self, *_):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""

UPSTREAM = """
import json, sys, threading, time
kind, count, changes = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
lock, turn = threading.Lock(), 0
def write(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        sys.stdout.flush()
def one_of(kind, number):
    text = {"name": f"thing{number}", "description": "Works on a thing. " * 8}
    if kind == "resource":
        return {**text, "uri": f"thing://shelf{number % 40}/{number}"}
    if kind == "resource_template":
        return {**text, "uriTemplate": f"thing://shelf{number % 40}/{number}/{{page}}"}
    if kind == "prompt":
        return {**text, "arguments": [{"name": "which"}]}
    field = {"type": "string", "description": "Which of them, and how much of it is wanted. " * 2}
    nested = {"type": "object", "properties": {f"field{n}": field for n in range(8)}}
    return {**text, "inputSchema": {"type": "object", "properties": {f"part{n}": nested for n in range(710)}}}
def tools():
    schema = {"type": "object", "properties": {"path": {"type": "string", "description": "Which one."}}}
    return [
        {"name": f"{verb}_thing{number // 4}", "description": f"Works on a thing, {turn}. " * 8, "inputSchema": schema}
        for number in range(count) for verb in (("get", "list", "set", "drop")[number % 4],)
    ]
def change():
    until = time.monotonic() + changes
    while time.monotonic() < until:
        time.sleep(0.02)
        write({"method": "notifications/tools/list_changed"})
for line in sys.stdin:
    asked = json.loads(line)
    method = asked["method"]
    if "id" not in asked:
        continue
    if method == "initialize":
        able = {"tools": {"listChanged": True}, "prompts": {}, "resources": {}}
        result = {"protocolVersion": "2025-11-25", "capabilities": able,
                  "serverInfo": {"name": "big", "version": "1"}}
    elif method == "tools/list":
        turn += 1
        result = {"tools": [one_of(kind, number) for number in range(count)] if kind == "large" else
                  tools() if kind == "tool" else []}
        if turn == 1 and changes:
            threading.Thread(target=change, daemon=True).start()
    elif method in ("prompts/list", "resources/list", "resources/templates/list"):
        of = {"prompts/list": "prompt", "resources/list": "resource"}.get(method, "resource_template")
        key = {"prompt": "prompts", "resource": "resources"}.get(of, "resourceTemplates")
        result = {key: [one_of(kind, number) for number in range(count)] if of == kind else []}
    elif method == "resources/read":
        result = {"contents": [{"uri": asked["params"]["uri"], "text": "yes"}]}
    elif method == "tools/call":
        result = {"content": [{"type": "text", "text": "yes"}]}
    else:
        write({"id": asked["id"], "error": {"code": -32601, "message": "Method not found"}})
        continue
    write({"id": asked["id"], "result": result})
"""


def measure(*, quick: bool) -> list[Row]:
    """Return the rows."""
    rows: list[Row] = []
    note = "of another server, every 5 ms until all are registered"
    for what, (kind, number) in list(LISTED.items())[: 1 if quick else None]:
        rows += _rows(f"beside a server that lists {what}", note, _run(_listing, kind, number, 0.0))
    note = f"for {SECONDS:g} seconds"
    for what, kind in list(ANSWERED.items())[: 1 if quick else None]:
        rows += _rows(
            f"beside a server that answers {ANSWERS} calls at a time with 10 MB of {what}",
            note,
            _run(_answering, kind),
        )
    if not quick:
        for kind in UNLISTED:
            what = f"while resources are read that no list has, beside a server that lists 16,000 {kind}s"
            rows += _rows(what.replace("_", " "), note, _run(_unlisted, kind))
    changing = f"beside a server whose {CHANGING} tools change all the time"
    note = f"for {SECONDS:g} seconds; it says so 50 times a second"
    return [*rows, *_rows(changing, note, _run(_listing, "tool", CHANGING, SECONDS))]


def _run(of: Callable[..., Awaitable[Waits]], *arguments: object) -> Waits:
    """Return what it returns, in a process that has nothing of the measurement before, as of a program."""
    gc.unfreeze()
    gc.collect()
    program_serves()
    return anyio.run(of, *arguments)


@define
class Waits:
    """What calls wait for: seconds, and of these the processor time of this process.

    `held` has the processor time of each thing that the event loop runs.
    """

    seconds: list[float] = field(factory=list[float])
    computed: list[float] = field(factory=list[float])
    held: list[float] = field(factory=list[float])


def _rows(what: str, note: str, waits: Waits) -> list[Row]:
    computed, calls = quantiles(waits.computed, n=100), len(waits.computed)
    of = f"of processor time; half of {calls} calls within {computed[49]:.3f} s, 99 % within {computed[98]:.3f} s"
    return [
        Row(what=f"worst call {what}", value=max(waits.seconds), unit="s", target=MOST_SECONDS, note=note),
        Row(what=f"most computed in a call {what}", value=max(waits.computed), unit="s", target=MOST_COMPUTED, note=of),
        Row(
            what=f"most that holds the loop {what}",
            value=max(waits.held),
            unit="s",
            target=MOST_HELD,
            note="of processor time",
        ),
    ]


@contextmanager
def _held() -> Generator[list[float]]:
    """Yield a list that gets the processor time of each thing that the event loop runs meanwhile."""
    taken: list[float] = []
    run: Any = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        before = thread_time()
        run(handle)
        taken.append(thread_time() - before)

    with mock.patch.object(asyncio.Handle, "_run", timed):
        yield taken


def _config(kind: str, count: int, changes: float) -> UpstreamConfig:
    command = (sys.executable, "-c", UPSTREAM, kind, str(count), str(changes))
    return UpstreamConfig(command=command, start_timeout=600)


@asynccontextmanager
async def _beside(kind: str, count: int, changes: float) -> AsyncGenerator[tuple[Gateway, Session, Callable[[], bool]]]:
    """Yield a gateway of a small server to which a large one is being added, and whether that is done."""
    gateway = open_gateway(GatewayConfig(upstreams={"small": _config("tool", 1, 0)}))
    async with gateway as tools, tools.open_session(active=["small"]) as session:
        await session.call("small__get_thing0")  # it has been started
        config = gateway.config.model_copy(
            update={"upstreams": {**gateway.config.upstreams, "big": _config(kind, count, changes)}}
        )
        await gateway.reconfigure(config)
        yield gateway, session, _registered(gateway, tools, kind, count)


async def _listing(kind: str, count: int, changes: float) -> Waits:
    """Return what calls of a small server wait for while a large one is learned, and then changes."""
    waits = Waits()
    with _held() as waits.held:
        async with _beside(kind, count, changes) as (_, session, done):
            end = perf_counter() + changes
            while perf_counter() < end or not done():
                await _call(session, waits)
    return waits


async def _unlisted(kind: str) -> Waits:
    """Return the same while resources are read, one after the other, that the large server has but does not list."""
    waits = Waits()
    async with _beside(kind, 16_000, 0.0) as (_, session, done):
        while not done():
            await _call(session, Waits())

        async def read() -> None:
            for number in count():
                await anyio.lowlevel.checkpoint()
                with suppress(ProtocolError):  # of what lists no resources, none is read
                    await session.read(f"thing://shelf{number % 40}/unlisted/{number}")

        await _while(read, session, waits)
    return waits


async def _answering(kind: str) -> Waits:
    """Return the same while a server at a URL is called whose answers are large."""
    waits = Waits()
    command = (sys.executable, "-c", SERVER, kind)
    async with await anyio.open_process(command, stderr=None) as server:
        assert server.stdout is not None
        port = int(await server.stdout.receive())
        large = UpstreamConfig(url=f"http://127.0.0.1:{port}/mcp", mode="legacy")
        config = GatewayConfig(upstreams={"small": _config("tool", 1, 0), "large": large})
        async with open_gateway(config) as tools, tools.open_session(active=["small", "large"]) as session:
            await session.call("small__get_thing0")
            await session.call("large__much")

            async def call() -> None:
                while True:
                    await session.call("large__much")

            await _while(call, session, waits, ANSWERS)
        server.kill()
    return waits


async def _while(
    other: Callable[[], Coroutine[Any, Any, None]], session: Session, waits: Waits, number: int = 1
) -> None:
    """Take note of what calls wait for while something else is done so many times at a time."""
    with _held() as waits.held:
        async with anyio.create_task_group() as tasks:
            for _ in range(number):
                tasks.start_soon(other)
            end = perf_counter() + SECONDS
            while perf_counter() < end:
                await _call(session, waits)
            tasks.cancel_scope.cancel()


async def _call(session: Session, waits: Waits) -> None:
    """Take note of what a call waits for that is due in a moment; from then on, since the loop may be held."""
    due, computed = perf_counter() + PAUSE, process_time()
    await anyio.sleep(PAUSE)
    await session.call("small__get_thing0")
    waits.seconds.append(perf_counter() - due)
    waits.computed.append(process_time() - computed)


def _registered(gateway: Gateway, tools: ToolSet, kind: str, count: int) -> Callable[[], bool]:
    expected = min(count, KEPT.get(kind, count))
    of: Kind = "tool" if kind == "large" else kind  # type: ignore[assignment]

    def done() -> bool:
        known = gateway.upstreams["big"].known
        return known is not None and len(tools.catalog.components[of].by_name) >= expected

    return done
