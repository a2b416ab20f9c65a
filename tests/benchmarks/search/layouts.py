"""How a gateway divides servers whose definitions a folder has: its groups, and the tokens of its first list (GWY-2).

Groups are counted for all servers behind one gateway. A name that ends in a number, or is `other`, says nothing; a
group of one or two tools costs a line and saves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

import anyio

from toolfold_adapters.gateway.config.settings import BudgetsConfig
from toolfold_adapters.tokens import approximate_tokens

from ..harness import Row
from .gateways import gateway_to
from .replay import everything, replayed
from .task_sets import Group, Task, catalogs, live_mcp_bench

SAYS_NOTHING = re.compile(r"(^|\.)other$|_\d+$")
FEW = 3


def measure(*, quick: bool, folder: Path) -> list[Row]:
    """Return the rows: for the catalogs, and for the servers of LiveMCPBench."""
    bench = folder / "LiveMCPBench"
    sets: dict[str, Sequence[Group]] = {"catalogs": catalogs(folder / "catalogs")}
    if bench.is_dir():
        sets["LiveMCPBench"] = live_mcp_bench(bench).groups
    return [row for name, servers in sets.items() if servers for row in _rows(name, servers)]


def _rows(name: str, servers: Sequence[Group]) -> list[Row]:
    tools, budget = gateway_to(servers), BudgetsConfig().group_tokens
    members: dict[str, list[int]] = {group.path: [] for group in tools.catalog.groups}
    for one in tools.catalog.tools.values():
        if one.control is None and one.group is not None:
            members[one.group].append(approximate_tokens(dict(one.definition)))
    named = {server.name for server in servers}
    (first,) = anyio.run(replayed, tools, [Task((), ())], everything)
    counts: dict[str, tuple[int, int | None]] = {
        "groups": (len(members), None),
        "names that end in a number, or are `other`": (sum(bool(SAYS_NOTHING.search(path)) for path in members), 0),
        "groups above the budget": (sum(len(own) > 1 and sum(own) > budget for own in members.values()), 0),
        "groups of one or two tools that others had room for": (_needless(members, named, budget), 0),
        "groups of one or two tools": (
            sum(0 < len(own) < FEW for path, own in members.items() if path not in named),
            None,
        ),
        "tokens of the first list": (first.read, None),
    }
    note = f"{name}: {len(servers)} servers, {sum(len(server.tools) for server in servers)} tools"
    return [
        Row(what=what, value=float(value), unit="", target=target, note=note)
        for what, (value, target) in counts.items()
    ]


def _needless(members: Mapping[str, Sequence[int]], servers: Set[str], budget: int) -> int:
    """Return how many groups of one or two tools inside a server could be one with another of the same server."""
    found = 0
    for path, own in members.items():
        siblings = [
            size for other, size in members.items() if size and other != path and _server(other) == _server(path)
        ]
        if path not in servers and 0 < len(own) < FEW and any(sum(own) + sum(size) <= budget for size in siblings):
            found += 1
    return found


def _server(path: str) -> str:
    return re.split(r"\.|__", path)[0]
