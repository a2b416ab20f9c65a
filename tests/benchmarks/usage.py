"""What counting use costs a call over MCP, and what the live page costs a process with many sessions that change."""

from __future__ import annotations

import gc
import statistics
from time import process_time
from typing import Any

import anyio
from mcp import Client

from toolfold import Session, ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_diagrams import live

from .harness import Row

INNER = 20
SESSIONS, STEPS_A_SECOND = 300, 1.0


def measure(*, quick: bool) -> list[Row]:
    """Return what a call costs with counters against without, and the page's share of a processor."""
    return [*anyio.run(_calls, 100 if quick else 600), anyio.run(_page, 3 if quick else 10)]


async def _calls(samples: int) -> list[Row]:
    tools = _tools()
    times: dict[bool, list[float]] = {True: [], False: []}
    async with Client(build_server(tools), mode="legacy") as client:
        usage = tools.runtime.usage
        gc.collect()
        gc.disable()
        try:
            for number in range(samples):
                for counted in (True, False) if number % 2 else (False, True):
                    tools.runtime.usage = usage if counted else None
                    start = process_time()
                    for _ in range(INNER):
                        await client.call_tool("ping", {})
                    times[counted].append((process_time() - start) / INNER)
        finally:
            gc.enable()
    with_counters, plain = (statistics.median(times[one]) for one in (True, False))
    return [
        Row(
            what="a call over MCP in memory, counted against not",
            value=with_counters / plain,
            unit="×",
            target=1.03,
            note=f"{plain * 1e6:,.3g} µs without",
        )
    ]


async def _page(seconds: int) -> Row:
    """Return the part of a processor that a page takes which watches sessions that each change once a second."""
    shares: list[float] = []
    for watched in (False, True):
        tools = _tools()
        app: Any = live(tools)
        sessions = [await tools.open_session().start() for _ in range(SESSIONS)]
        sent: list[int] = []

        async def take(event: dict[str, object], sent: list[int] = sent) -> None:
            body = event.get("body", b"")
            sent.append(len(body) if isinstance(body, bytes) else 0)

        async with anyio.create_task_group() as tasks:
            if watched:
                scope = {"type": "http", "method": "GET", "path": "/events", "client": ("127.0.0.1", 1)}
                headers = [(b"host", b"127.0.0.1:8000")]
                tasks.start_soon(app, {**scope, "headers": headers}, anyio.sleep_forever, take)
                await anyio.sleep(0.5)
            start, began = process_time(), anyio.current_time()
            await _move(sessions, seconds)
            elapsed = anyio.current_time() - began
            shares.append((process_time() - start) / elapsed)
            tasks.cancel_scope.cancel()
        for session in sessions:
            await session.close()
    return Row(
        what=f"{SESSIONS} sessions that change once a second, watched: more of a processor",
        value=shares[1] - shares[0],
        unit="",
        target=0.05,
        note=f"{shares[0]:.1%} without",
    )


async def _move(sessions: list[Session], seconds: int) -> None:
    pause = 1 / STEPS_A_SECOND / len(sessions)
    until = anyio.current_time()
    for number in range(seconds):
        for session in sessions:
            await session.activate(("one", "other")[number % 2])
            until += pause
            if (ahead := until - anyio.current_time()) > 0.01:
                await anyio.sleep(ahead)


def _tools() -> ToolSet:
    tools = ToolSet("used")
    for name in ("one", "other"):
        tools.register_group(name, "A group")
        for number in range(30):
            tools.register(f"tool_{number}", lambda: "done", description="Do something", group=name)
    tools.register_exclusion("one", "other")
    tools.register("ping", lambda: "pong", description="Answer", run_in_thread=False)
    return tools
