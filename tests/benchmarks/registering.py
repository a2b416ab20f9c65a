"""Registering 5,000 typed tools, beside other frameworks in the same run, and what is made when it is needed.

Those without an interpreter that has them are left out; see `peers.servers`.
"""

import statistics
import subprocess
from time import perf_counter
from typing import Any

import anyio

from .harness import Comparison, Row
from .peers.servers import Program, interpreter
from .peers.typed_tools import REGISTER, TOOLS_PER_GROUP, functions, toolfold

TOOLS = 5000


def measure(*, quick: bool) -> list[Row]:
    """Return what registering takes with each framework, and what the first list and call of a typed tool take."""
    rows = [
        Row(
            what=f"register {TOOLS:,} typed tools",
            value=seconds,
            unit="s",
            target=1.5 if framework == "toolfold" else None,
            note=f"{framework}; processor time",
        )
        for framework, seconds in compare(quick=quick).costs["register"].items()
    ]
    return [*rows, *anyio.run(_first_uses, 20 if quick else 100)]


def compare(*, quick: bool) -> Comparison:
    """Return the least processor time of registering by framework."""
    seconds: dict[str, list[float]] = {framework: [] for framework in REGISTER if interpreter(framework)}
    for _ in range(1 if quick else 2):
        for framework, each in seconds.items():
            each.append(_run(framework))
    found = Comparison("registering")
    for framework, each in seconds.items():
        found.add("register", framework, min(each))
    return found


def _run(framework: str) -> float:
    program = Program("typed_tools", framework)
    done = subprocess.run(program.command(str(TOOLS)), check=True, stdout=subprocess.PIPE, text=True, **program.options)
    return float(done.stdout)


async def _first_uses(groups: int) -> list[Row]:
    """Return what it takes to list a group of typed tools for the first time, and to call one of them."""
    tools: Any = toolfold(functions(groups * TOOLS_PER_GROUP))
    listing: list[float] = []
    calling: list[float] = []
    async with tools.open_session() as session:
        for number in range(groups):
            start = perf_counter()
            await session.activate(f"g{number}")
            assert len(session.list_tools().tools) >= TOOLS_PER_GROUP
            listing.append(perf_counter() - start)
            arguments = {"path": "x", "order": {"id": 1}}
            start = perf_counter()
            result = await session.call(f"g{number}.tool_{number * TOOLS_PER_GROUP}", arguments)
            calling.append(perf_counter() - start)
            assert not result.is_error
            await session.deactivate(f"g{number}")
    return [
        Row(
            what="open a group of typed tools and list it",
            value=statistics.median(listing),
            unit="µs",
            target=500e-6,
            note=f"{TOOLS_PER_GROUP} tools, listed for the first time",
        ),
        Row(
            what="first call of a typed tool",
            value=statistics.median(calling),
            unit="µs",
            note="with its model",
        ),
    ]
