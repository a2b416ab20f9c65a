"""One tool set is used from many threads at once, each with an event loop and sessions of its own (SPEC SES-1, INT-4).

Where threads take turns at a lock of the interpreter, this would show little, so it needs an interpreter without one.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from toolfold import ToolSet

THREADS = 8
ROUNDS = 100
GROUPS = ("read", "write", "vault", "logs")

pytestmark = [
    pytest.mark.spec("SES-1", "INT-4"),
    pytest.mark.skipif(
        getattr(sys, "_is_gil_enabled", lambda: True)(), reason="needs a free-threaded interpreter, such as python3.14t"
    ),
]


def saying(text: str) -> Callable[[], str]:
    def run() -> str:
        return text

    return run


def shared() -> ToolSet:
    tools = ToolSet("desk", control="none")
    for name in GROUPS:
        tools.register_group(name)
        tools.register("run", saying(name), group=name, run_in_thread=False)
    tools.register_exclusion("write", "vault")
    return tools


def test_sessions_in_threads_are_apart() -> None:
    tools, begin = shared(), Barrier(THREADS)

    async def work(number: int) -> None:
        async with tools.open_session() as session:
            for turn in range(ROUNDS):
                group = GROUPS[(number + turn) % len(GROUPS)]
                await session.activate(group)
                assert session.active == (group,)
                assert session.list_tools().names == (f"{group}.run",)
                assert (await session.call(f"{group}.run", {})).text == group
                await session.deactivate(group)

    def run(number: int) -> None:
        begin.wait()
        asyncio.run(work(number))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(run, range(THREADS)))


def test_tools_are_registered_in_threads_while_others_list_and_none_is_lost() -> None:
    tools, begin = shared(), Barrier(THREADS)

    async def look() -> None:
        async with tools.open_session(active=["read"]) as session:
            for _ in range(ROUNDS):
                assert "read.run" in session.list_tools().names

    def run(number: int) -> None:
        begin.wait()
        if number % 2:
            asyncio.run(look())
        else:
            for turn in range(ROUNDS):
                tools.register(f"tool_{number}_{turn}", saying("done"))

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(run, range(THREADS)))
    expected = {f"tool_{number}_{turn}" for number in range(0, THREADS, 2) for turn in range(ROUNDS)}
    assert expected <= set(tools.list_tools().names)
