"""What a gateway costs beside others: the tokens of LiveMCPBench's tasks, start, memory and forwarded calls.

Tokens are what a model reads of lists and answers until it knows the definitions of the tools that a task needs, see
`search.replay`. FastMCP's proxy lists all tools of all servers. With its search transform a model searches, as it does
in Toolfold; with lazy-mcp and mcp-compressor it knows the server of each tool that it needs, and asks for that by name.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import anyio
from mcp import Client

from toolfold_adapters.tokens import approximate_tokens

from . import forwarding
from .gateway import Setting, client_of, thirteen_servers
from .harness import Comparison, Row
from .peers.gateways import Call, Gateway, gateways
from .peers.servers import interpreter
from .processes import children, resident, tree_seconds
from .search.gateways import gateway_to
from .search.replay import everything, fastmcp_reads, replayed, search_and_open, tokens_read
from .search.task_sets import Task, TaskSet, live_mcp_bench

BY_NAME = ("lazy-mcp", "mcp-compressor")


def measure(*, quick: bool, folder: Path) -> list[Row]:
    """Return the rows."""
    return compare(quick=quick, folder=folder).rows()


def compare(*, quick: bool, folder: Path) -> Comparison:
    """Return the costs by operation and gateway."""
    return anyio.run(_compare, folder / "LiveMCPBench", 3 if quick else 5, 200 if quick else 1000)


async def _compare(source: Path, starts: int, calls: int) -> Comparison:
    found = Comparison("gateway")
    tasks = live_mcp_bench(source)
    await _tokens(found, tasks)
    with TemporaryDirectory() as name:
        await _tokens_by_name(found, Path(name), tasks)
    with TemporaryDirectory() as name:
        setting = Setting(Path(name), {server.name: server.tools for server in thirteen_servers(source)})
        others = gateways(setting.environment)
        await _starts(found, setting, others, starts)
        for transport, added in (await forwarding.costs(Path(name), others, calls)).items():
            for gateway, cost in added.items():
                found.add(f"call, {transport}", gateway, cost.processor)
                found.add(f"call, {transport}, elapsed", gateway, cost.elapsed)
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


async def _tokens_by_name(found: Comparison, folder: Path, tasks: TaskSet) -> None:
    """Measure the tokens of gateways by which a model asks for the definition of a tool that it knows by its name."""
    setting = Setting(folder, {group.name: group.tools for group in tasks.groups})
    about = {group.name: group.description for group in tasks.groups}
    servers = {name: {**entry, "description": about[name]} for name, entry in setting.servers.items()}
    for gateway in gateways(setting.environment):
        if gateway.name not in BY_NAME:
            continue
        async with client_of(gateway.to(servers, folder), gateway.environment) as client:
            answers: dict[str, int] = {}

            async def asked(call: Call, client: Client = client, answers: dict[str, int] = answers) -> int:
                key = json.dumps(call)
                if key not in answers:
                    answer = await client.call_tool(*call)
                    assert not answer.is_error, answer
                    answers[key] = sum(approximate_tokens(getattr(block, "text", "")) for block in answer.content)
                return answers[key]

            listed = (await client.list_tools()).tools
            first = approximate_tokens(client.instructions or "") + sum(
                tokens_read(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in listed
            )
            each = [first + sum([await asked(call) for call in _asked_by_name(gateway, task)]) for task in tasks.tasks]
        found.add("tokens, first list", gateway.name, first)
        found.add("tokens, median task", gateway.name, statistics.median(each))
        found.add("tokens, costliest task", gateway.name, max(each))


def _asked_by_name(gateway: Gateway, task: Task) -> list[Call]:
    """Return what a model asks for a task; it reads what servers and tools there are where the list does not say so."""
    assert gateway.definition is not None
    tools = [(server, tool) for server, _, tool in sorted({min(need).partition("__") for need in task.needs})]
    definitions = [(server, *gateway.definition(server, tool)) for server, tool in tools]
    if gateway.name == "mcp-compressor":  # of several servers, each has tools of its own
        return [(f"{server}_{name}", arguments) for server, name, arguments in definitions]
    listed = [("list_commands", {"server": server}) for server in sorted({server for server, _ in tools})]
    return [("list_servers", {}), *listed, *((name, arguments) for _, name, arguments in definitions)]


async def _starts(found: Comparison, setting: Setting, others: Sequence[Gateway], samples: int) -> None:
    """Measure the time to the first list of 13 servers, the servers started by then, and the memory of the gateway."""
    measured: dict[tuple[str, str], list[float]] = {}
    for sample in range(samples + 1):  # the first one fills the cache
        for gateway in others:
            setting.started.write_text("")
            command = gateway.to(setting.servers, setting.folder)
            before = children()
            start = perf_counter()
            async with client_of(command, gateway.environment) as client:
                await client.list_tools()
                taken = perf_counter() - start
                (process,) = children() - before
                costs = {
                    "ready": taken,
                    "ready, processor": tree_seconds(process),
                    "servers started": float(setting.started.read_text().count("started")),
                    "memory": float(resident(process)),
                }
                if gateway.name == "toolfold" and sample == 0:
                    for name in setting.names:  # this waits for the server
                        await client.call_tool("open_group", {"group": name})
            if sample:
                for what, cost in costs.items():
                    measured.setdefault((what, gateway.name), []).append(cost)
    for (what, name), each in measured.items():
        found.add(what, name, statistics.median(each))
