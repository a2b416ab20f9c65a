"""What the live page costs a list, a call and a step: nothing that can be measured while nobody watches."""

from __future__ import annotations

import gc
import statistics
from time import process_time

import anyio

from toolfold import Session, ToolSet
from toolfold_diagrams import live

from .harness import Row

INNER = 50


def measure(*, quick: bool) -> list[Row]:
    """Return what a list, a call and a step cost without the page, with it while nobody watches, and watched."""
    return anyio.run(_measure, 20 if quick else 100)


async def _measure(samples: int) -> list[Row]:
    without, mounted, watched = _tools(), _tools(), _tools()
    pages = [live(mounted), live(watched)]
    times: list[list[float]] = [[], [], []]
    async with (
        without.open_session() as one,
        mounted.open_session() as two,
        watched.open_session() as three,
    ):
        pages[1].recording.watch()
        gc.collect()
        gc.disable()
        try:
            for number in range(samples):
                places = [(0, one), (1, two), (2, three)]
                for place, session in places if number % 2 else reversed(places):
                    times[place].append(await _timed(session))
        finally:
            gc.enable()
        assert [page.recording.runs for page in pages] == [False, True]
    never, nobody, somebody = map(statistics.median, times)
    return [
        Row(
            what="a list, a call and a step, live page mounted against none",
            value=nobody / never,
            unit="×",
            target=1.05,
        ),
        Row(
            what="a list, a call and a step while somebody watches",
            value=somebody,
            unit="µs",
            note=f"{never * 1e6:,.3g} µs without",
        ),
    ]


def _tools() -> ToolSet:
    tools = ToolSet("watched")
    for name in ("one", "other"):
        tools.register_group(name, "A group")
        for number in range(30):
            tools.register(f"tool_{number}", lambda: "done", description="Do something useful", group=name)
    tools.register_exclusion("one", "other")
    tools.register("ping", lambda: "pong", description="Answer", run_in_thread=False)
    return tools


async def _timed(session: Session) -> float:
    start = process_time()
    for number in range(INNER):
        session.list_tools()
        await session.call("ping", {})
        await session.activate(("one", "other")[number % 2])
    return (process_time() - start) / INNER
