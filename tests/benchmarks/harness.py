"""Rows, medians, and the catalogs that the benchmarks share."""

import gc
import json
import statistics
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter, process_time
from typing import Any

from attrs import asdict, define, field, frozen

from toolfold import ToolSet

GROUPS = 500
TOOLS_PER_GROUP = 10
SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Which one to work on."},
        "limit": {"type": "integer", "minimum": 1, "description": "How many to return at most."},
    },
    "required": ["path"],
}
SCALE = {"s": 1.0, "ms": 1e3, "µs": 1e6, "%": 100.0}


@frozen(kw_only=True)
class Row:
    """One line of the table: a measured value in seconds, bytes or as a ratio, and what it should be at most."""

    what: str
    value: float
    unit: str
    target: float | None = None
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Whether the target is met; `None` without one."""
        return None if self.target is None else self.value <= self.target

    def cells(self) -> tuple[str, str, str, str, str]:
        """Return the row as texts."""
        target = "" if self.target is None else f"≤ {self._shown(self.target)}"
        mark = {None: "", True: "pass", False: "FAIL"}[self.passed]
        return self.what, self._shown(self.value), target, mark, self.note

    def _shown(self, value: float) -> str:
        scaled = value * SCALE.get(self.unit, 1.0)
        return f"{scaled:,.0f} {self.unit}" if abs(scaled) >= 100 else f"{scaled:,.3g} {self.unit}"


@define
class Comparison:
    """What operations cost with each of some frameworks: seconds, bytes or ratios."""

    what: str
    costs: dict[str, dict[str, float]] = field(factory=dict)

    def add(self, operation: str, framework: str, cost: float) -> None:
        """Record a cost."""
        self.costs.setdefault(operation, {})[framework] = cost

    def rows(self) -> list[Row]:
        """Return the costs as lines of the table."""
        units = {"list": "µs", "call": "µs", "change": "µs", "memory": "bytes"}
        return [
            Row(what=f"{self.what}: {operation}, {framework}", value=cost, unit=units.get(operation, ""))
            for operation, costs in self.costs.items()
            for framework, cost in costs.items()
        ]


def rows_as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return rows for a program, values in seconds, bytes or as ratios."""
    return [{**asdict(row), "passed": row.passed} for row in rows]


def timed(job: Callable[[], Any]) -> float:
    """Return the seconds of processor time that one run of a job takes, garbage collection apart."""
    gc.collect()
    gc.disable()
    try:
        start = process_time()
        job()
        return process_time() - start
    finally:
        gc.enable()


def median(job: Callable[[], Any], *, runs: int, inner: int = 1) -> float:
    """Return the median seconds of a job over `runs` samples of `inner` runs each."""
    gc.collect()
    gc.disable()
    try:
        samples = []
        for _ in range(runs):
            start = perf_counter()
            for _ in range(inner):
                job()
            samples.append((perf_counter() - start) / inner)
    finally:
        gc.enable()
    return statistics.median(samples)


async def turn_by_turn(
    ways: Sequence[Callable[[], Awaitable[object]]],
    *,
    samples: int,
    inner: int = 1,
    clock: Callable[[], float] = perf_counter,
) -> list[float]:
    """Return the median seconds of each of some jobs, over samples of `inner` runs that begin with another job each."""
    times: list[list[float]] = [[] for _ in ways]
    gc.collect()
    gc.disable()
    try:
        for number in range(samples):
            for offset in range(len(ways)):
                which = (number + offset) % len(ways)
                start = clock()
                for _ in range(inner):
                    await ways[which]()
                times[which].append((clock() - start) / inner)
    finally:
        gc.enable()
    return [statistics.median(each) for each in times]


async def echo(arguments: dict[str, Any]) -> str:
    """The handler of every tool of the benchmarks."""
    return json.dumps(arguments)


def flat_forest() -> ToolSet:
    """Return 5,000 tools in 500 groups side by side, without control tools: one open group lists 10 tools."""
    tools = ToolSet("flat", control="none")
    for number in range(GROUPS):
        tools.register_group(f"g{number}", "A group")
        _fill(tools, f"g{number}")
    return tools


def deep_forest() -> ToolSet:
    """Return 5,000 tools in 500 groups under 10 roots, with relevant control tools: at first it lists 10."""
    tools = ToolSet("deep", control_visibility="relevant")
    paths: list[str] = []
    for number in range(GROUPS):
        parent = f"{paths[(number - 10) // 2]}." if number >= 10 else ""
        paths.append(f"{parent}g{number}")
        tools.register_group(paths[-1], "A group")
        _fill(tools, paths[-1])
    return tools


def _fill(tools: ToolSet, group: str) -> None:
    for number in range(TOOLS_PER_GROUP):
        tools.register(f"t{number}", echo, group=group, description="Works on one of the things.", input_schema=SCHEMA)


def in_own_process(section: str, *options: str) -> list[Row]:
    """Return the rows of a section, measured in a process of its own."""
    arguments = [sys.executable, "-m", "tests.benchmarks", "--section", section, *options]
    done = subprocess.run(arguments, check=True, stdout=subprocess.PIPE, text=True)
    return [Row(**{key: value for key, value in row.items() if key != "passed"}) for row in json.loads(done.stdout)]
