"""What a gateway costs beside FastMCP's proxy: the tokens of LiveMCPBench's tasks, start, memory and forwarded calls.

FastMCP's proxy lists all tools of all servers; with its search transform, two tools. Tokens are what a model reads of
lists and answers until it knows the definitions of the tools that a task needs, see `search.replay`.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio

from . import forwarding
from .gateway import Setting, client_of, thirteen_servers
from .harness import Comparison, Row
from .peers.servers import interpreter
from .processes import children, resident
from .search.gateways import gateway_to
from .search.replay import everything, fastmcp_reads, replayed, search_and_open, tokens_read
from .search.task_sets import Task, TaskSet, live_mcp_bench


def measure(*, quick: bool, folder: Path) -> list[Row]:
    """Return the rows."""
    return compare(quick=quick, folder=folder).rows()


def compare(*, quick: bool, folder: Path) -> Comparison:
    """Return the costs by operation and gateway."""
    return anyio.run(_compare, folder / "LiveMCPBench", 3 if quick else 5, 200 if quick else 1000)


async def _compare(source: Path, starts: int, calls: int) -> Comparison:
    found = Comparison("gateway")
    await _tokens(found, live_mcp_bench(source))
    with TemporaryDirectory() as name:
        setting = Setting(Path(name), {server.name: server.tools for server in thirteen_servers(source)})
        await _starts(found, setting, starts)
        costs = await forwarding.costs(Path(name), setting.command(), setting.environment, calls)
        for transport, added in costs.items():
            for gateway, seconds in added.items():
                found.add(f"call, {transport}", gateway, seconds)
    return found


async def _tokens(found: Comparison, tasks: TaskSet) -> None:
    whole = sum(tokens_read(definition) for _, definition in tasks.tools())
    tools = gateway_to(tasks.groups)
    (first,) = await replayed(tools, [Task((), ())], everything)
    readers = await replayed(tools, tasks.tasks, search_and_open)
    reads: dict[str, tuple[int, Sequence[int], int]] = {
        "toolfold": (
            first.read,
            [reader.read for reader in readers],
            sum(reader.missed(task) for reader, task in zip(readers, tasks.tasks, strict=True)),
        ),
        "fastmcp": (whole, [whole], 0),
    }
    if python := interpreter("fastmcp"):
        nothing, _ = fastmcp_reads(python, TaskSet(tasks.name, tasks.groups, (Task((), ()),)))
        reads["fastmcp, search"] = (nothing[0], *fastmcp_reads(python, tasks))
    for gateway, (at_first, each, missed) in reads.items():
        found.add("tokens, first list", gateway, at_first)
        found.add("tokens, median task", gateway, statistics.median(each))
        found.add("tokens, costliest task", gateway, max(each))
        found.add("tools not found", gateway, missed)


async def _starts(found: Comparison, setting: Setting, samples: int) -> None:
    """Measure the time to the first list of 13 servers, the servers started by then, and the memory of the gateway."""
    gateways: dict[str, tuple[Sequence[str], Mapping[str, str]]] = {
        "toolfold": (setting.command(setting.all), setting.environment)
    }
    if python := interpreter("fastmcp"):
        gateways["fastmcp"] = (
            forwarding.fastmcp_proxy(python, setting.all),
            forwarding.without_this({**os.environ, **setting.environment}),
        )
    seconds: dict[str, list[float]] = {name: [] for name in gateways}
    for sample in range(samples + 1):  # the first one fills the cache
        for name, (command, environment) in gateways.items():
            setting.started.write_text("")
            before = children()
            start = perf_counter()
            async with client_of(command, environment) as client:
                await client.list_tools()
                taken = perf_counter() - start
                if sample == 0:
                    continue
                seconds[name].append(taken)
                (process,) = children() - before
                found.add("servers started", name, float(setting.started.read_text().count("started")))
                found.add("memory", name, float(resident(process)))
    for name, each in seconds.items():
        found.add("ready", name, statistics.median(each))
