"""What a trace costs a server, and how fast it is verified (SPEC TRC-1): processor time, traced and not in one run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import process_time

import anyio
from mcp import Client

from toolfold import Session, ToolfoldError, ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_adapters.observe.trace import Trace
from toolfold_specs.traces import verify

from .harness import Row, turn_by_turn

GROUPS, CALLS = 30, 8
SHARE = 0.02
A_MINUTE = 1_000_000
"""How many steps are to be verified in a minute."""


def measure(*, quick: bool) -> list[Row]:
    """Return what calls and transitions cost with a trace and without, and how fast a trace is verified."""
    with TemporaryDirectory() as folder:
        return [
            *anyio.run(_overhead, Path(folder), 20 if quick else 200),
            *anyio.run(_speed, Path(folder), 2_000 if quick else 20_000),
        ]


def _tools() -> ToolSet:
    tools = ToolSet("traced")
    tools.register("ping", lambda: "pong", description="Answer")
    for number in range(GROUPS):
        tools.register_group(f"g{number}", "A group")
        tools.register_group("inner", "A group in it", parent=f"g{number}")
        tools.register(f"t{number}", lambda: "done", description="Do something useful", group=f"g{number}")
    for number in range(0, GROUPS, 2):
        tools.register_exclusion(f"g{number}", f"g{number + 1}")
    return tools


async def _overhead(folder: Path, samples: int) -> list[Row]:
    plain, traced = _tools(), _tools()
    trace = Trace(folder / "overhead.jsonl")
    trace.listen(traced)
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(Client(build_server(tools), mode="legacy")) for tools in (plain, traced)
        ]
        called = await _compared([partial(_call, client) for client in clients], samples, 10)
        used = await _compared([partial(_use, client) for client in clients], samples, 1)
    async with plain.open_session() as one, traced.open_session() as two:
        inner = await _compared([partial(_toggle, session) for session in (one, two)], samples, 10)
    trace.close()
    return [
        _row("a call over MCP, traced", called, SHARE),
        _row(f"a group opened, {CALLS} calls, and the group closed, over MCP, traced", used, SHARE),
        _row("a group opened and closed, in process, traced", inner, None),
    ]


async def _compared(ways: list[Callable[[], Awaitable[object]]], samples: int, inner: int) -> tuple[float, float]:
    without, on = await turn_by_turn(ways, samples=samples, inner=inner, clock=process_time)
    return without, on


def _row(what: str, found: tuple[float, float], most: float | None) -> Row:
    without, on = found
    share = on / without - 1
    note = f"{without * 1e6:,.4g} µs without, {(on - without) * 1e6:,.3g} µs more"
    return Row(what=f"{what}: more processor time", value=share, unit="%", target=most, note=note)


async def _call(client: Client) -> None:
    await client.call_tool("ping", {})


async def _use(client: Client) -> None:
    await client.call_tool("g1__open", {})
    for _ in range(CALLS):
        await client.call_tool("g1__t1", {})
    await client.call_tool("g1__close", {})


async def _toggle(session: Session) -> None:
    await session.activate("g1")
    await session.deactivate("g1")


async def _speed(folder: Path, steps: int) -> list[Row]:
    tools, random = _tools(), Random(1)
    trace = Trace(folder / "speed.jsonl")
    trace.listen(tools)
    paths = [group.path for group in tools.catalog.groups]
    async with tools.open_session() as session:
        for _ in range(steps):
            opened, closed = random.sample(paths, 2), random.sample(paths, 2)
            try:
                await session.transition(activate=opened, deactivate=closed)
            except ToolfoldError:
                continue
    trace.close()
    began = process_time()
    outcome = verify([folder / "speed.jsonl"])
    took = process_time() - began
    assert outcome.problem is None
    bytes_of_a_step = (folder / "speed.jsonl").stat().st_size / outcome.steps
    return [
        Row(
            what="the time that a million steps take to verify",
            value=took / outcome.steps * A_MINUTE,
            unit="s",
            target=60.0,
            note=f"{outcome.steps:,} steps of random requests, no two of them alike; {GROUPS * 2} groups",
        ),
        Row(what="a step in a trace", value=bytes_of_a_step, unit="bytes"),
    ]
