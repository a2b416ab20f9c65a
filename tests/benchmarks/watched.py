"""What the live page and counters of use cost: lists, calls, transitions, and a process with many busy sessions.

While nobody watches, the page costs nothing that can be measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from time import process_time
from typing import Any

import anyio
from mcp import Client

from toolfold import Session, ToolSet
from toolfold._session.observers import Observers
from toolfold_adapters.mcp import build_server
from toolfold_diagrams import live

from .harness import Row, turn_by_turn

INNER = 50
SESSIONS, STEPS_A_SECOND = 300, 1.0


def measure(*, quick: bool) -> list[Row]:
    """Return what requests cost with and without the page and with and without counters, and the page's own share."""
    return [
        *anyio.run(_requests, 20 if quick else 100),
        anyio.run(_calls, 100 if quick else 600),
        anyio.run(_page, 3 if quick else 10),
    ]


async def _requests(samples: int) -> list[Row]:
    without, mounted, watched = _tools(), _tools(), _tools()
    pages = [live(mounted), live(watched)]
    async with (
        without.open_session() as one,
        mounted.open_session() as two,
        watched.open_session() as three,
    ):
        pages[1].recording.watch()
        ways = [partial(_used, session, count()) for session in (one, two, three)]
        never, nobody, somebody = await turn_by_turn(ways, samples=samples, inner=INNER, clock=process_time)
        assert [page.recording.runs for page in pages] == [False, True]
    return [
        Row(
            what="a list, a call and a transition, live page mounted against none",
            value=nobody / never,
            unit="×",
            target=1.05,
        ),
        Row(
            what="a list, a call and a transition while somebody watches",
            value=somebody,
            unit="µs",
            note=f"{never * 1e6:,.3g} µs without",
        ),
    ]


async def _calls(samples: int) -> Row:
    tools = _tools()
    async with Client(build_server(tools), mode="legacy") as client:
        observers, nobody = tools.runtime.observers, Observers()

        async def call(stream: Observers) -> None:
            tools.runtime.observers = stream
            await client.call_tool("ping", {})

        ways = [partial(call, stream) for stream in (observers, nobody)]
        counted, plain = await turn_by_turn(ways, samples=samples, inner=20, clock=process_time)
    return Row(
        what="a call over MCP in memory, counted against not",
        value=counted / plain,
        unit="×",
        target=1.03,
        note=f"{plain * 1e6:,.3g} µs without",
    )


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
    tools = ToolSet("watched")
    for name in ("one", "other"):
        tools.register_group(name, "A group")
        for number in range(30):
            tools.register(f"tool_{number}", lambda: "done", description="Do something useful", group=name)
    tools.register_exclusion("one", "other")
    tools.register("ping", lambda: "pong", description="Answer", run_in_thread=False)
    return tools


async def _used(session: Session, numbers: Iterator[int]) -> None:
    session.list_tools()
    await session.call("ping", {})
    await session.activate(("one", "other")[next(numbers) % 2])
