"""What a model reads to get a task done, from the first list to the last call, by a chooser that makes no mistakes.

    python -m tests.benchmarks.search.replay FOLDER --fastmcp PYTHON

The tasks are those of LiveMCPBench, on all of its servers at once. Counted are the instructions, the list, and each
answer that is about tools, once; not what tools answer, nor what the model writes. The chooser knows which tools a task
needs. It lists once, asks one query for each step until it has seen all of them, and asks for a tool that no step finds
by its name. Where an answer leaves out a schema, it calls with no arguments and reads the refusal.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
from attrs import define, field
from mcp import Client

from toolfold import ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_adapters.search import bm25
from toolfold_adapters.tokens import approximate_tokens

from .recall import answers, tool_set
from .task_sets import Task, TaskSet, live_mcp_bench

SHOWN = 5


@define
class Reader:
    """A model at a server of its own: what it has read, in tokens, and how many calls about tools it made."""

    client: Client
    read: int = 0
    calls: int = 0
    handle: dict[str, str] = field(factory=dict[str, str])
    seen: set[str] = field(factory=set[str])

    async def begin(self) -> None:
        """Read the instructions and the list."""
        listed = (await self.client.list_tools()).tools
        definitions = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed]
        self.read += approximate_tokens(self.client.instructions or "")
        self.read += sum(map(approximate_tokens, definitions))
        self.seen |= {tool.name for tool in listed}

    async def ask(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool of the library, and read the answer."""
        result = await self.client.call_tool(name, {**arguments, **self.handle})
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        change = (result.meta or {}).get("dev.toolfold/change", {})
        if "handle" in change:
            self.handle = {"handle": change["handle"]}
        self.read += approximate_tokens(text)
        self.calls += 1
        lines = text.splitlines()
        for line, schema in itertools.pairwise(lines):
            if line.startswith("- ") and schema.startswith("  {"):
                self.seen.add(line[2:].partition(":")[0])
        return text

    async def learn(self, name: str) -> None:
        """Read the schema of a tool that can be called, unless it was read already."""
        if name not in self.seen:
            await self.ask("call_tool", {"name": name, "arguments": {"no such argument": 1}})
            self.seen.add(name)


Strategy = Callable[[Reader, Task], Awaitable[None]]


async def everything(reader: Reader, task: Task) -> None:
    """All is in the list."""


async def by_server(reader: Reader, task: Task) -> None:
    """Open the group of each server that is needed."""
    for name in _needed(task):
        group = name.partition("__")[0]
        if group not in reader.seen:
            await reader.ask("open_group", {"group": group})
            reader.seen.add(group)
        await reader.learn(name)


async def search(reader: Reader, task: Task) -> None:
    """Search, then open the groups of what was found."""
    await _search(reader, task, {})
    await by_server(reader, task)


async def search_and_open(reader: Reader, task: Task) -> None:
    """Search and open in one."""
    await _search(reader, task, {"open": True})


async def _search(reader: Reader, task: Task, more: dict[str, Any]) -> None:
    for step in task.steps:
        if all(names & reader.seen for names in task.needs):
            return
        await reader.ask("find_tools", {"query": step, "limit": SHOWN, **more})
    for names in task.needs:
        if not names & reader.seen:
            await reader.ask("find_tools", {"query": min(names).replace("__", " "), "limit": SHOWN, **more})


def _needed(task: Task) -> list[str]:
    return [min(names) for names in task.needs]


async def replayed(tools: ToolSet, tasks: TaskSet, strategy: Strategy, active: Sequence[str] = ()) -> list[Reader]:
    """Return the reader of each task, at its end."""
    server = build_server(tools, handles="stored", active=active, selection=False)
    readers: list[Reader] = []
    for task in tasks.tasks:
        async with Client(server, mode="auto", cache=None) as client:
            reader = Reader(client)
            await reader.begin()
            await strategy(reader, task)
            readers.append(reader)
    return readers


def fastmcp_reads(python: str, tasks: TaskSet) -> tuple[list[int], int]:
    """Return what is read with FastMCP's search transform for each task, and how many tools are never found."""
    queries = [step for task in tasks.tasks for step in task.steps]
    names = [min(need).replace("__", " ") for task in tasks.tasks for need in task.needs]
    answered = answers(python, "with_fastmcp.py", tasks, [*queries, *names], SHOWN)
    first = sum(map(approximate_tokens, answered["lists"]))
    replies = list(zip(answered["rankings"], answered["texts"], strict=True))
    by_step, by_name = iter(replies[: len(queries)]), iter(replies[len(queries) :])
    reads: list[int] = []
    missed = 0
    for task in tasks.tasks:
        steps, named = [next(by_step) for _ in task.steps], [next(by_name) for _ in task.needs]
        read, seen = first, set[str]()
        for ranking, text in steps:
            if not all(need & seen for need in task.needs):
                read, seen = read + approximate_tokens(text), seen | set(ranking)
        for need, (ranking, text) in zip(task.needs, named, strict=True):
            if not need & seen:
                read, seen = read + approximate_tokens(text), seen | set(ranking)
        missed += sum(not need & seen for need in task.needs)
        reads.append(read)
    return reads, missed


def row(name: str, reads: Iterable[int], calls: str, missed: int) -> str:
    """Return one line of the table."""
    found = list(reads)
    middle, most = statistics.median(found), max(found)
    return f"{name:36}{statistics.mean(found):>9,.0f}{middle:>9,.0f}{most:>9,.0f}{calls:>8}{missed:>8}"


async def compare(tasks: TaskSet, fastmcp: str | None) -> None:
    """Print one table."""
    groups = [group.name for group in tasks.groups]
    closed = tool_set(tasks, bm25)
    plain = tool_set(tasks, None, control="none")
    cases: list[tuple[str, ToolSet, Strategy, Sequence[str]]] = [
        ("everything at once", plain, everything, groups),
        ("groups by server", tool_set(tasks, None), by_server, ()),
        ("search, then open", closed, search, ()),
        ("search that opens groups", closed, search_and_open, ()),
    ]
    print(f"{'tokens read':36}{'mean':>9}{'median':>9}{'most':>9}{'calls':>8}{'missed':>8}")
    for name, tools, strategy, active in cases:
        readers = await replayed(tools, tasks, strategy, active)
        missed = sum(
            not need & reader.seen for reader, task in zip(readers, tasks.tasks, strict=True) for need in task.needs
        )
        calls = f"{statistics.mean(reader.calls for reader in readers):.1f}"
        print(row(name, (reader.read for reader in readers), calls, missed), flush=True)
    if fastmcp:
        reads, missed = fastmcp_reads(fastmcp, tasks)
        print(row("FastMCP's search transform", reads, "", missed))


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="has LiveMCPBench, see task_sets.py")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="the interpreter of an environment with FastMCP")
    options = parser.parse_args()
    anyio.run(compare, live_mcp_bench(options.folder / "LiveMCPBench"), options.fastmcp)


if __name__ == "__main__":
    main()
