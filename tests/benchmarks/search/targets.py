"""What tools cost behind a gateway, against its targets: the first list, and finding and opening what one tool needs.

The servers are those of LiveMCPBench, and those of the catalogs, if there are any. Tokens are what a model reads; see
`replay`. A server whose tools have fewer tokens than a group may have is one group, and there is nothing to find.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
from attrs import frozen

from toolfold_adapters.gateway.config.settings import BudgetsConfig

from ..harness import Row
from .gateways import gateway_to
from .replay import Reader, by_group, everything, replayed, tokens_read
from .task_sets import Group, Task, catalogs, live_mcp_bench

FIRST_LIST = 0.03
MEDIAN = 0.12
WORST = 0.6
CALLS = 2
LARGE = 8_000
NOTHING = Task((), ())


@frozen
class Case:
    """What one gateway costs: all definitions, the first list, and for each tool what is read until it can be called.

    `relisted` is the same for a client that lists again, `calls` how many calls it takes at most to call a tool, by
    opening its group, and `longest` the longest answer.
    """

    whole: int
    first: int
    each: tuple[int, ...]
    relisted: tuple[int, ...]
    calls: int
    longest: int
    divided: bool

    @property
    def median(self) -> float:
        """What a random tool costs, as a part of all definitions."""
        return statistics.median(self.each) / self.whole

    @property
    def worst(self) -> float:
        """What the costliest tool costs, as a part of all definitions."""
        return max(self.each) / self.whole


def measure(*, quick: bool, folder: Path) -> list[Row]:
    """Return the rows."""
    return anyio.run(_measure, [*live_mcp_bench(folder / "LiveMCPBench").groups, *catalogs(folder / "catalogs")])


async def _measure(servers: Sequence[Group]) -> list[Row]:
    together = await _case(servers)
    apart = [await _case([server]) for server in servers]
    divided = [case for case in apart if case.divided]
    large = [case for case in divided if case.whole >= LARGE]
    smaller = [case for case in divided if case.whole < LARGE]
    row = partial(Row, unit="%")
    find = "first list and finding a random tool"
    apiece = "one gateway for each server"
    return [
        row(
            what="first list of all servers behind one gateway",
            value=together.first / together.whole,
            target=FIRST_LIST,
            note=f"{len(servers)} servers, {together.whole:,} tokens",
        ),
        row(what=f"{find}: all servers behind one gateway", value=together.median, target=MEDIAN, note="median"),
        _median(f"{find}: {apiece} of {LARGE:,} tokens or more", large, MEDIAN),
        _median(f"{find}: {apiece} of less that is divided", smaller, None),
        row(
            what=f"{find}: {apiece} that is divided, the worst",
            value=max(case.worst for case in divided),
            target=WORST,
            note=f"{len(divided)} servers",
        ),
        _median(
            f"the same for a client that lists again: {apiece} of {LARGE:,} tokens or more", large, MEDIAN, relists=True
        ),
        row(
            what=f"the same for a client that lists again: {apiece} that is divided, the worst",
            value=max(max(case.relisted) / case.whole for case in divided),
            target=WORST,
        ),
        row(
            what="the same for a client that lists again: all servers behind one gateway",
            value=statistics.median(together.relisted) / together.whole,
            target=MEDIAN,
            note="median",
        ),
        Row(what="calls to call any tool", value=float(max(one.calls for one in apart)), unit="calls", target=CALLS),
        Row(
            what="longest answer of the gateway itself",
            value=float(max(case.longest for case in (together, *apart))),
            unit="tokens",
            target=float(BudgetsConfig().answer_tokens),
        ),
    ]


def _median(what: str, cases: Sequence[Case], target: float | None, *, relists: bool = False) -> Row:
    value = statistics.median(
        statistics.median(case.relisted) / case.whole if relists else case.median for case in cases
    )
    return Row(what=what, value=value, unit="%", target=target, note=f"median of {len(cases)} servers")


async def _case(servers: Sequence[Group]) -> Case:
    tools = gateway_to(servers)
    named = {name: one.description for name, one in tools.catalog.tools.items() if one.control is None}
    tasks = [Task((_request(named[name]),), (frozenset({name}),)) for name in named]
    opened = await replayed(tools, tasks, by_group)
    found = await replayed(tools, tasks, _found)
    relisted = await replayed(tools, tasks, _found, relists=True)
    (first,) = await replayed(tools, [NOTHING], everything)
    assert not sum(reader.missed(task) for reader, task in zip(opened, tasks, strict=True)), (
        "each answer has all schemas"
    )
    return Case(
        whole=sum(tokens_read(definition) for server in servers for definition in server.tools),
        first=first.read,
        each=tuple(reader.read for reader in found),
        relisted=tuple(reader.read for reader in relisted),
        calls=1 + max(reader.calls for reader in opened),
        longest=max(reader.most for reader in (*opened, *found)),
        divided=len(tools.catalog.groups) > 1,
    )


def _request(description: str) -> str:
    """Return what somebody might ask for who needs a tool: the beginning of its description."""
    return " ".join(description.partition(". ")[0].split()[:12])


async def _found(reader: Reader, task: Task) -> None:
    (need,) = task.needs
    (name,) = need
    if name not in reader.seen:
        await reader.ask("find_tools", {"query": task.steps[0] or name, "open": True})
    if name not in reader.named:  # others fit the words better
        await reader.ask("find_tools", {"query": name, "limit": 1, "open": True})
    await reader.learn(name)
