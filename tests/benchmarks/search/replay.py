"""What a model reads to get a task done, from the first list to the last call, by a chooser that makes no mistakes.

    python -m tests.benchmarks.search.replay FOLDER --fastmcp PYTHON

The tasks are those of LiveMCPBench, on all of its servers at once, behind the gateway with its defaults. Counted are
the instructions, the list, and each answer that is about tools, once; not what tools answer, nor what the model writes.
Of a list a model reads names, descriptions and input schemas. The chooser knows which tools a task needs. It lists
once, asks one query for each step until it has seen all of them, and asks for a tool that no step finds by its name.
Where an answer leaves out the schema of a tool that is needed, it searches for the tool by its name.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from attrs import define, field
from mcp import Client

from toolfold import ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_adapters.names import allowed_names
from toolfold_adapters.tokens import approximate_tokens

from .gateways import gateway_to
from .recall import answers
from .task_sets import Task, TaskSet, live_mcp_bench

SHOWN = 5


@define
class Reader:
    """A model at a server of its own: what it has read, in tokens, and how many calls about tools it made.

    `homes` has the group of each tool. `named` are the tools that it has read of, and `seen` those with their schemas.
    One that `relists` reads what is new in the list whenever that has changed.
    """

    client: Client
    homes: Mapping[str, str | None]
    relists: bool = False
    read: int = 0
    calls: int = 0
    most: int = 0
    handle: dict[str, str] = field(factory=dict[str, str])
    named: set[str] = field(factory=set[str])
    seen: set[str] = field(factory=set[str])
    listed: set[str] = field(factory=set[str])
    opened: set[str | None] = field(factory=lambda: {None})

    async def begin(self) -> None:
        """Read the instructions and the list."""
        self.read += approximate_tokens(self.client.instructions or "")
        await self.list()

    async def list(self) -> None:
        """Read what is new in the list."""
        new = [tool for tool in (await self.client.list_tools()).tools if tool.name not in self.listed]
        self.read += sum(tokens_read(tool.model_dump(mode="json", by_alias=True, exclude_none=True)) for tool in new)
        self.listed |= {tool.name for tool in new}
        self.seen |= self.listed
        self.named |= self.listed

    async def ask(self, name: str, arguments: dict[str, Any]) -> str:
        """Call a tool of the library, and read the answer."""
        result = await self.client.call_tool(name, {**arguments, **self.handle})
        text = "\n".join(getattr(block, "text", "") for block in result.content)
        change = (result.meta or {}).get("dev.toolfold/change", {})
        if "handle" in change:
            self.handle = {"handle": change["handle"]}
        self.read += approximate_tokens(text)
        self.most = max(self.most, approximate_tokens(text))
        self.calls += 1
        for line, schema in itertools.pairwise([*text.splitlines(), ""]):
            if line.startswith("- "):
                name = line[2:].partition(":")[0]
                self.named.add(name)
                if schema.startswith("  {"):
                    self.seen.add(name)
        if self.relists and change.get("changed"):
            await self.list()
        return text

    async def open(self, name: str) -> None:
        """Open the group of a tool, unless it was opened already, so that the tool can be called."""
        if self.homes[name] not in self.opened:
            await self.ask("open_group", {"group": self.homes[name]})
            self.opened.add(self.homes[name])
        await self.learn(name)

    async def learn(self, name: str) -> None:
        """Read the schema of a tool, unless it was read already."""
        if name not in self.seen:
            await self.ask("find_tools", {"query": name, "limit": 1})

    def missed(self, task: Task) -> int:
        """Return how many tools that a task needs could not be called now."""
        return sum(not need & self.seen for need in served(task).needs)


def tokens_read(definition: Mapping[str, Any]) -> int:
    """Return the tokens that a model reads of a definition in a list: no title, hints or metadata."""
    return approximate_tokens({key: definition.get(key, "") for key in ("name", "description", "inputSchema")})


Strategy = Callable[[Reader, Task], Awaitable[None]]


async def everything(reader: Reader, task: Task) -> None:
    """All is in the list."""


async def by_group(reader: Reader, task: Task) -> None:
    """Open the group of each tool that is needed."""
    for need in task.needs:
        await reader.open(min(need))


async def search(reader: Reader, task: Task) -> None:
    """Search, then open the groups of what was found."""
    await _search(reader, task, {})
    for need in task.needs:
        await reader.open(min(need & reader.named or need))


async def search_and_open(reader: Reader, task: Task) -> None:
    """Search and open in one."""
    await _search(reader, task, {"open": True})
    for need in task.needs:
        await reader.learn(min(need & reader.seen or need & reader.named or need))


async def _search(reader: Reader, task: Task, more: dict[str, Any]) -> None:
    for step in task.steps:
        if all(names & reader.named for names in task.needs):
            return
        await reader.ask("find_tools", {"query": step, "limit": SHOWN, **more})
    for names in task.needs:
        if not names & reader.named:
            await reader.ask("find_tools", {"query": min(names).replace("__", " "), "limit": SHOWN, **more})


async def replayed(
    tools: ToolSet, tasks: Sequence[Task], strategy: Strategy, *, opened: bool = False, relists: bool = False
) -> list[Reader]:
    """Return the reader of each task, at its end; only in the legacy era is there a list that changes."""
    active = [group.path for group in tools.catalog.groups] if opened else ()
    homes = {name: one.group for name, one in tools.catalog.tools.items()}
    server = build_server(tools, handles="stored", active=active, selection=False)
    readers: list[Reader] = []
    for task in tasks:
        async with Client(server, mode="legacy" if relists else "auto", cache=None) as client:
            reader = Reader(client, homes, relists)
            await reader.begin()
            await strategy(reader, served(task))
            readers.append(reader)
    return readers


def served(task: Task) -> Task:
    """Return a task whose tools are called as the gateway calls them: long names are shorter there."""
    return Task(task.steps, tuple(frozenset(map(_served_name, need)) for need in task.needs))


def _served_name(name: str) -> str:
    server, separator, tool = name.partition("__")
    return allowed_names([tool], (), server)[tool] if separator else name


async def one_gateway_each(tasks: TaskSet) -> list[tuple[int, int, int]]:
    """Return what is read for each task, the calls, and what is missed, with a separate gateway for each server."""
    gateways = {group.name: gateway_to([group]) for group in tasks.groups}
    lists = [reader.read for tools in gateways.values() for reader in await replayed(tools, [Task((), ())], everything)]
    found: list[tuple[int, int, int]] = []
    for task in tasks.tasks:
        read, calls, missed = sum(lists), 0, 0
        for server, tools in gateways.items():
            own = [min(need).partition("__") for need in task.needs]
            needs = tuple(frozenset({name}) for prefix, _, name in own if prefix == server)
            if needs:
                (reader,) = await replayed(tools, [Task((), needs)], by_group)
                (before,) = await replayed(tools, [Task((), ())], everything)
                read += reader.read - before.read
                calls += reader.calls
                missed += reader.missed(Task((), needs))
        found.append((read, calls, missed))
    return found


def fastmcp_reads(python: str, tasks: TaskSet) -> tuple[list[int], int]:
    """Return what is read with FastMCP's search transform for each task, and how many tools are never found."""
    queries = [step for task in tasks.tasks for step in task.steps]
    names = [min(need).replace("__", " ") for task in tasks.tasks for need in task.needs]
    answered = answers(python, "with_fastmcp.py", tasks, [*queries, *names], SHOWN)
    first = sum(map(tokens_read, answered["lists"]))
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
    closed = gateway_to(tasks.groups)
    cases: list[tuple[str, ToolSet, Strategy]] = [
        ("everything at once", gateway_to(tasks.groups, control="none", search="none"), everything),
        ("groups by server", gateway_to(tasks.groups, search="none"), by_group),
        ("search, then open", closed, search),
        ("search that opens groups", closed, search_and_open),
        ("the same, list read again", closed, search_and_open),
    ]
    print(f"{'tokens read':36}{'mean':>9}{'median':>9}{'most':>9}{'calls':>8}{'missed':>8}")
    for name, tools, strategy in cases:
        again = name.endswith("again")
        readers = await replayed(tools, tasks.tasks, strategy, opened=strategy is everything, relists=again)
        missed = sum(reader.missed(task) for reader, task in zip(readers, tasks.tasks, strict=True))
        calls = f"{statistics.mean(reader.calls for reader in readers):.1f}"
        print(row(name, (reader.read for reader in readers), calls, missed), flush=True)
    apart = await one_gateway_each(tasks)
    calls = f"{statistics.mean(calls for _, calls, _ in apart):.1f}"
    print(row("one gateway each", (read for read, _, _ in apart), calls, sum(missed for *_, missed in apart)))
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
