"""Forced choice: which tool does a model name for a request, among all, by group, or among those found? (SPEC EVA-1).

A model that is too weak to make calls still chooses. What it chooses from is shuffled, since a weak model has a place
that it likes; and beside it stands what no model is needed for: the first that a search finds.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

from toolfold.spi import frozen, table
from toolfold_adapters.search import bm25

from .surfaces import EVERYTHING
from .tasks import Expected, Task
from .world import Simulation, Tool, World

Way = Literal["everything", "groups", "found", "first found, no model"]
WAYS: Mapping[Way, str] = {
    "everything": "one of all tools",
    "groups": "one of all groups, in which the tool is",
    "found": "one of the five that a search finds",
    "first found, no model": "the first that the search finds",
}
NO_MODEL: Way = "first found, no model"
FOUND = 5
"""How many tools a search finds to choose from."""
CHOICE = "name"

Chooser = Callable[[str, Mapping[str, str]], Awaitable[str | None]]
"""Returns the name that is chosen for a request, among names with descriptions, or `None` if there was no answer."""


@frozen(kw_only=True)
class Choices:
    """How often a way to choose was right: in `right` of `asked` requests; `silent` had no answer."""

    way: Way
    size: int | None
    right: int
    asked: int
    silent: int = 0

    @property
    def interval(self) -> tuple[float, float]:
        """The shares that are likely, with 95 %, by the score interval of Wilson."""
        return wilson(self.right, self.asked)

    def cells(self) -> tuple[str, ...]:
        """Return the cells under `CHOICE_COLUMNS`."""
        low, high = self.interval
        share = f"{100 * self.right / self.asked:.0f} %" if self.asked else "–"
        size = "all" if self.size is None else f"{self.size:,}"
        return (
            self.way,
            size,
            f"{self.right}/{self.asked}",
            share,
            f"{100 * low:.0f}–{100 * high:.0f}",
            str(self.silent),
        )


CHOICE_COLUMNS = ("CHOSEN FROM", "TOOLS", "RIGHT", "SHARE", "95 %", "SILENT")


def wilson(right: int, asked: int, z: float = 1.96) -> tuple[float, float]:
    """Return the score interval of Wilson for a share: within 0 and 1, also for few requests."""
    if not asked:
        return 0.0, 1.0
    share, square = right / asked, z * z
    centre = share + square / (2 * asked)
    margin = z * math.sqrt(share * (1 - share) / asked + square / (4 * asked * asked))
    return max(0.0, (centre - margin) / (1 + square / asked)), min(1.0, (centre + margin) / (1 + square / asked))


async def choices(world: World, tasks: Sequence[Task], size: int | None, chooser: Chooser | None) -> list[Choices]:
    """Return how often each way was right, for all calls that tasks need: of a model, and of the search alone."""
    ways: list[Way] = [NO_MODEL] if chooser is None else [*WAYS]
    right, silent, asked = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0), 0
    mixed = random.Random(world.seed)
    for task, expected in ((one, call) for one in tasks for call in one.calls):
        asked += 1
        chosen, text = world.choose(task, size), expected.query or task.ask
        found = await _found(world, chosen, text)
        right[NO_MODEL] += bool({*found[:1]} & {*expected.tools})
        for way in ways if chooser is not None else ():
            if way != NO_MODEL and chooser is not None:
                offered = [*_offered(way, world, chosen, found).items()]
                mixed.shuffle(offered)
                name = await chooser(text, dict(offered))
                silent[way] += name is None
                right[way] += name in _wanted(way, chosen, expected)
    return [Choices(way=way, size=size, right=right[way], asked=asked, silent=silent[way]) for way in ways]


async def _found(world: World, chosen: Sequence[Tool], query: str) -> list[str]:
    """Return the names that a search finds, the best first."""
    tools = world.tool_set(chosen, Simulation(), grouped=True, search=bm25)
    async with tools.open_session() as session:
        answer = await session.call("find_tools", {"query": query, "limit": FOUND})
    structured: Any = answer.structured
    return [str(name) for name in structured["found"]]


def _offered(way: Way, world: World, chosen: Sequence[Tool], found: Sequence[str]) -> dict[str, str]:
    if way == "groups":
        own = {group.path: group.description for group in world.catalog.groups}
        return {(path := tool.group or tool.name): own.get(path, tool.filler_of) for tool in chosen}
    return {
        tool.name: str(tool.definition.get("description", ""))
        for tool in chosen
        if way == EVERYTHING or tool.name in found
    }


def _wanted(way: Way, chosen: Sequence[Tool], expected: Expected) -> set[str]:
    needed = [tool for tool in chosen if tool.name in expected.tools]
    return {(tool.group or tool.name) if way == "groups" else tool.name for tool in needed}


def schema_of(names: Sequence[str]) -> dict[str, Any]:
    """Return the schema of an answer that names one of these."""
    return {
        "type": "object",
        "properties": {CHOICE: {"type": "string", "enum": list(names)}},
        "required": [CHOICE],
        "additionalProperties": False,
    }


def chosen_in(answer: Any, names: Mapping[str, str]) -> str | None:
    """Return the name in an answer, or `None` if it has none of these."""
    name = (table(answer) or {}).get(CHOICE)
    return name if name in names else None
