"""What the calls of one server wait while another lists much, has large schemas, or says over and over that it changed.

Both are processes behind one gateway, and are called in this one, so that what waits is the gateway alone. What else a
machine does makes calls wait, too; so two processor times are measured beside that: of what holds the event loop
longest, and of all that the gateway does, in threads too, while one call waits.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from itertools import count
from threading import get_ident
from time import perf_counter, process_time, thread_time
from typing import Any
from unittest import mock

import anyio
import anyio.lowlevel
from attrs import evolve, frozen

from toolfold import ProtocolError, Session, ToolSet
from toolfold.spi import Kind
from toolfold_adapters.gateway import GatewayConfig, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.gateway import Gateway

from .harness import Row

MOST_SECONDS = 0.2
MOST_COMPUTED = 0.4
"""How much the gateway may compute while a call waits: Python parses a message, and collects garbage, at one go."""
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
FULL = 2
"""The generation of a full collection of garbage."""

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
        rows += _rows(f"beside a server that lists {what}", note, anyio.run(_worst, kind, number, 0.0))
    if not quick:
        for kind in UNLISTED:
            what = f"while resources are read that no list has, beside a server that lists 16,000 {kind}s"
            rows += _rows(what.replace("_", " "), f"for {SECONDS:g} seconds", anyio.run(_unlisted, kind))
    changing = f"beside a server whose {CHANGING} tools change all the time"
    note = f"for {SECONDS:g} seconds; it says so 50 times a second"
    return [*rows, *_rows(changing, note, anyio.run(_worst, "tool", CHANGING, SECONDS))]


@frozen
class Wait:
    """What a call waits for: seconds, and of these the processor time of this process.

    `held` is the most processor time that anything takes of the loop at a time.
    """

    seconds: float = 0.0
    computed: float = 0.0
    held: float = 0.0

    def worst(self, other: Wait) -> Wait:
        """Return the most of each."""
        return Wait(*(max(getattr(self, one), getattr(other, one)) for one in ("seconds", "computed", "held")))


def _rows(what: str, note: str, worst: Wait) -> list[Row]:
    of_processor = "of processor time"
    return [
        Row(what=f"worst call {what}", value=worst.seconds, unit="s", target=MOST_SECONDS, note=note),
        Row(
            what=f"most computed in a call {what}",
            value=worst.computed,
            unit="s",
            target=MOST_COMPUTED,
            note=of_processor,
        ),
        Row(what=f"most that holds the loop {what}", value=worst.held, unit="s", target=MOST_HELD, note=of_processor),
    ]


@contextmanager
def _slices() -> Generator[list[float]]:
    """Yield a list that gets the processor time of each thing that the event loop runs meanwhile.

    Full collections of garbage are left out: Python makes them in whatever thread, and all others wait.
    """
    taken: list[float] = []
    run: Any = asyncio.Handle._run
    loop, collected, began = get_ident(), 0.0, 0.0

    def collecting(phase: str, info: Mapping[str, int]) -> None:
        nonlocal collected, began
        if get_ident() == loop and info["generation"] == FULL:
            if phase == "start":
                began = thread_time()
            else:
                collected += thread_time() - began

    def timed(handle: asyncio.Handle) -> None:
        before = thread_time() - collected
        run(handle)
        taken.append(thread_time() - collected - before)

    gc.callbacks.append(collecting)
    try:
        with mock.patch.object(asyncio.Handle, "_run", timed):
            yield taken
    finally:
        gc.callbacks.remove(collecting)


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


async def _worst(kind: str, count: int, changes: float) -> Wait:
    """Return the most that a call of a small server waits for while a large one is learned, and then changes.

    A call counts from when it is due, since nothing is called while the loop is held.
    """
    worst = Wait()
    with _slices() as taken:
        async with _beside(kind, count, changes) as (_, session, done):
            end = perf_counter() + changes
            while perf_counter() < end or not done():
                worst = worst.worst(await _call(session))
    return evolve(worst, held=max(taken))


async def _unlisted(kind: str) -> Wait:
    """Return the same while resources are read, one after the other, that the large server has but does not list."""
    worst = Wait()
    async with _beside(kind, 16_000, 0.0) as (_, session, done), anyio.create_task_group() as tasks:
        while not done():
            await _call(session)

        async def read() -> None:
            for number in count():
                await anyio.lowlevel.checkpoint()
                with suppress(ProtocolError):  # of what lists no resources, none is read
                    await session.read(f"thing://shelf{number % 40}/unlisted/{number}")

        with _slices() as taken:
            tasks.start_soon(read)
            end = perf_counter() + SECONDS
            while perf_counter() < end:
                worst = worst.worst(await _call(session))
        worst = evolve(worst, held=max(taken))
        tasks.cancel_scope.cancel()
    return worst


async def _call(session: Session) -> Wait:
    """Return what a call waits for that is due in a moment."""
    due, computed = perf_counter() + PAUSE, process_time()
    await anyio.sleep(PAUSE)
    await session.call("small__get_thing0")
    return Wait(perf_counter() - due, process_time() - computed)


def _registered(gateway: Gateway, tools: ToolSet, kind: str, count: int) -> Callable[[], bool]:
    expected = min(count, KEPT.get(kind, count))
    of: Kind = "tool" if kind == "large" else kind  # type: ignore[assignment]

    def done() -> bool:
        known = gateway.upstreams["big"].known
        return known is not None and len(tools.catalog.components[of].by_name) >= expected

    return done
