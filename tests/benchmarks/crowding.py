"""What the calls of one server wait while another lists thousands of tools, or says over and over that they changed.

Both are processes behind one gateway, and are called in this one, so that what waits is the gateway alone. What else a
machine does makes calls wait, too; so the processor time of what holds the event loop longest is measured beside that.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from time import perf_counter, thread_time
from typing import Any
from unittest import mock

import anyio

from toolfold import ToolSet
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.gateway import Gateway

from .harness import Row

MOST_SECONDS = 0.2
MOST_HELD = 0.05
"""How much processor time anything on the loop may take at a time."""
TOOLS = (4_000, 16_000)
CHANGING = 500
SECONDS = 10.0
"""How long a server says that its tools change."""
PAUSE = 0.005

UPSTREAM = """
import json, sys, threading, time
count, changes = int(sys.argv[1]), float(sys.argv[2])
lock, turn = threading.Lock(), 0
def write(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
        sys.stdout.flush()
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
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}},
                  "serverInfo": {"name": "big", "version": "1"}}
    elif method == "tools/list":
        turn += 1
        result = {"tools": tools()}
        if turn == 1 and changes:
            threading.Thread(target=change, daemon=True).start()
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
    for count in TOOLS[:1] if quick else TOOLS:
        note = "of another server, every 5 ms until all are registered"
        rows += _rows(f"beside a server that lists {count:,} tools", note, anyio.run(_worst, count, 0.0))
    changing = f"beside a server whose {CHANGING} tools change all the time"
    note = f"for {SECONDS:g} seconds; it says so 50 times a second"
    return [*rows, *_rows(changing, note, anyio.run(_worst, CHANGING, SECONDS))]


def _rows(what: str, note: str, measured: tuple[float, float]) -> list[Row]:
    worst, held = measured
    return [
        Row(what=f"worst call {what}", value=worst, unit="s", target=MOST_SECONDS, note=note),
        Row(what=f"most that holds the loop {what}", value=held, unit="s", target=MOST_HELD, note="of processor time"),
    ]


@contextmanager
def _slices() -> Generator[list[float]]:
    """Yield a list that gets the processor time of each thing that the event loop runs meanwhile."""
    taken: list[float] = []
    run: Any = asyncio.Handle._run

    def timed(handle: asyncio.Handle) -> None:
        began = thread_time()
        run(handle)
        taken.append(thread_time() - began)

    with mock.patch.object(asyncio.Handle, "_run", timed):
        yield taken


def _config(count: int, changes: float) -> UpstreamConfig:
    return UpstreamConfig(command=(sys.executable, "-c", UPSTREAM, str(count), str(changes)), start_timeout=600)


async def _worst(count: int, changes: float) -> tuple[float, float]:
    """Return how long the slowest call of a small server takes while a large one is learned, and then changes.

    The other figure is the most processor time that anything took of the loop. A call counts from when it is due,
    since nothing is called while the loop is held.
    """
    gateway = open_gateway(GatewayConfig(upstreams={"small": _config(1, 0)}))
    async with gateway as tools, tools.open_session(active=["small"]) as session:
        await session.call("small__get_thing0")  # it has been started
        config = gateway.config.model_copy(
            update={"upstreams": {**gateway.config.upstreams, "big": _config(count, changes)}}
        )
        with _slices() as taken:
            await gateway.reconfigure(config)
            end = perf_counter() + changes
            done = _registered(gateway, tools, count)
            worst = 0.0
            while perf_counter() < end or not done():
                due = perf_counter() + PAUSE
                await anyio.sleep(PAUSE)
                await session.call("small__get_thing0")
                worst = max(worst, perf_counter() - due)
    return worst, max(taken)


def _registered(gateway: Gateway, tools: ToolSet, count: int) -> Callable[[], bool]:
    def done() -> bool:
        known = gateway.upstreams["big"].known
        return known is not None and sum(one == "big" for one in gateway.report.servers.values()) == count

    return done
