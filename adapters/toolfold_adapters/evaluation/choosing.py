"""Forced choice: which tool does a model name for a request, of what each arm would have it read? (SPEC EVA-1).

A model that is too weak to make calls still chooses. What it chooses from is shuffled, since a weak model has a place
that it likes; and beside it stands what no model is needed for: the first that a search finds.
"""

from __future__ import annotations

import math
import random
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from attrs import define, field
from pydantic import BaseModel, ConfigDict

from toolfold import ConfigError, ToolSet
from toolfold.spi import frozen, listed, table
from toolfold_adapters.tokens import approximate_tokens

from .runs import Plan, versions_of
from .scores import stopped_early
from .surfaces import Stopped, Why
from .world import Simulation, Tool, World

Way = Literal["everything", "search", "groups", "groups+search", "first found, no model"]
WAYS: Mapping[Way, str] = {
    "everything": "one of all tools",
    "search": "one of the five that a search finds",
    "groups": "one of all groups, and then one of its tools",
    "groups+search": "one of those that can be called once a search has opened groups; where it opens none, by groups",
    "first found, no model": "the first that the search finds",
}
NO_MODEL: Way = "first found, no model"
GROUP_ALONE = "groups: the group"
"""The row that counts the first half of a choice by groups."""
FOUND = 5
"""How many tools a search finds to choose from."""
CHOICE = "name"

Chooser = Callable[[str, Mapping[str, str]], Awaitable[str | None]]
"""Returns the name that is chosen for a request, among names with descriptions, or `None` if the answer has none.

It raises `Stopped` if there is no answer.
"""


class Choice(BaseModel):
    """One choice: a line of the file.

    It is for the call `number` of a task. `named` has what was named: a group and a tool of it, or a tool; `None` is
    none of what was offered. `why` and `problem` say what went wrong where there was no answer. `offered` counts what
    was chosen from, and `tokens` is what was read, by our count.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    task: str
    number: int
    size: int | None
    way: Way
    player: str
    seed: int
    tasks: str
    versions: Mapping[str, str]
    options: Mapping[str, Any] = {}
    request: str = ""
    wanted: tuple[str, ...] = ()
    named: tuple[str | None, ...] = ()
    right: bool = False
    right_group: bool = False
    why: Why | None = None
    problem: str = ""
    offered: int = 0
    tokens: int = 0
    seconds: float = 0

    @property
    def answered(self) -> bool:
        """Whether a model was asked, and has answered, be it with none of the names."""
        return self.way != NO_MODEL and (any(self.named) or (self.why is None and self.offered > 0))

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from other choices: the same is not asked twice."""
        given = (self.task, self.number, self.size, self.way, self.player, self.seed, self.tasks)
        return (*given, *sorted(self.versions.items()), *sorted(self.options.items()))


@frozen(kw_only=True)
class Choices:
    """How often a way to choose was right: in `right` of `asked` requests; in `silent` no name was chosen.

    `stopped` counts those that went wrong, by what ended them. `tokens` is how many were read for one request, as a
    mean and by our count.
    """

    player: str
    way: str
    size: int | None
    right: int
    asked: int
    silent: int = 0
    tokens: float = 0
    stopped: Counter[str] = field(factory=Counter[str])

    @property
    def remark(self) -> str | None:
        """What has to be said beside the row: what ended requests."""
        row = f"{self.way}, {self.cells()[1]} tools"
        return stopped_early(row, self.stopped) if self.stopped else None

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
            f"{self.tokens:,.0f}" if self.tokens else "–",
        )


CHOICE_COLUMNS = ("CHOSEN FROM", "TOOLS", "RIGHT", "SHARE", "95 %", "SILENT", "READ")


def wilson(right: int, asked: int, z: float = 1.96) -> tuple[float, float]:
    """Return the score interval of Wilson for a share: within 0 and 1, also for few requests."""
    if not asked:
        return 0.0, 1.0
    share, square = right / asked, z * z
    centre = share + square / (2 * asked)
    margin = z * math.sqrt(share * (1 - share) / asked + square / (4 * asked * asked))
    return max(0.0, (centre - margin) / (1 + square / asked)), min(1.0, (centre + margin) / (1 + square / asked))


async def choose(
    plan: Plan,
    chooser: Chooser | None = None,
    player: str = "no model",
    settings: Mapping[str, Any] | None = None,
    before: Iterable[Choice] = (),
) -> AsyncGenerator[Choice]:
    """Yield a choice for each call that the tasks of a plan need, in each way, of a model or of the search alone.

    All ways of a request are asked before the next one, so that a run that ends early compares them on the same
    requests. Those that `before` has already are not asked.

    Raises:
        ConfigError: The model can't be reached, or no tool is in a group.
    """
    known = {choice.key: choice for choice in before}
    world, ranker = plan.world, plan.ranker()
    tasks, versions = world.fingerprint(plan.tasks), versions_of(("pydantic-ai-slim",) if chooser else ())
    searched: dict[tuple[str, ...], ToolSet] = {}
    ways: list[Way] = [NO_MODEL] if chooser is None else [*WAYS]
    for size in plan.sizes:
        for task in plan.chosen():
            tools = world.choose(task, size)
            check_groups(tools)
            for number, expected in enumerate(task.calls):
                request = expected.query or task.ask
                found: tuple[list[str], list[str]] | None = None
                for way in ways:
                    choice = Choice(
                        task=task.id,
                        number=number,
                        size=size,
                        way=way,
                        player=player,
                        seed=world.seed,
                        tasks=tasks,
                        versions=versions,
                        options=settings or {},
                        request=request,
                        wanted=expected.tools,
                    )
                    if choice.key in known:
                        yield known[choice.key]
                        continue
                    if (names := tuple(tool.name for tool in tools)) not in searched:
                        searched = {names: world.tool_set(tools, Simulation(), grouped=True, search=ranker)}
                    found = found or await _found(searched[names], tools, request)
                    yield await _Asking(choice, world, tools, *found).choose(chooser)


def check_groups(tools: Iterable[Tool]) -> None:
    """Raise `ConfigError` if no tool is in a group."""
    if not any(tool.group for tool in tools):
        raise ConfigError(
            "These tools are in no groups: all are listed, and nothing is opened or searched. For another server, "
            "--groups names a file that groups them."
        )


def choices(made: Iterable[Choice]) -> list[Choices]:
    """Return how often each way was right, by player and number of tools, in the order in which they were asked."""
    together: dict[tuple[str, int | None, str], list[Choice]] = {}
    for one in made:
        together.setdefault((one.player, one.size, one.way), []).append(one)
    rows: list[Choices] = []
    for (player, size, way), several in together.items():
        silent, tokens = sum(None in one.named for one in several), sum(one.tokens for one in several) / len(several)
        row = Choices(
            player=player,
            way=way,
            size=size,
            right=sum(one.right for one in several),
            asked=len(several),
            silent=silent,
            tokens=tokens,
            stopped=Counter(one.why for one in several if one.why),
        )
        rows.append(row)
        if way == "groups":
            right, silent = sum(one.right_group for one in several), sum(one.named[0] is None for one in several)
            alone = Choices(player=player, way=GROUP_ALONE, size=size, right=right, asked=len(several), silent=silent)
            rows.append(alone)
    return rows


@define
class _Asking:
    """One choice that is being made among tools; `found` is what a search found, `opened` what can be called then."""

    choice: Choice
    world: World
    tools: Sequence[Tool]
    found: Sequence[str]
    opened: Sequence[str]
    tokens: int = 0
    offered: int = 0
    named: list[str | None] = field(factory=list[str | None])
    stopped: Stopped | None = None

    async def choose(self, chooser: Chooser | None) -> Choice:
        """Return the choice as it was made."""
        begun, wanted = time.perf_counter(), {*self.choice.wanted}
        homes = {tool.group or tool.name for tool in self.tools if tool.name in wanted}
        if self.choice.way == NO_MODEL or chooser is None:
            self.named = [*self.found[:1]] or [None]
        elif self.choice.way == "groups" or (self.choice.way == "groups+search" and not self.opened):
            own = {group.path: group.description for group in self.world.catalog.groups}
            paths = {tool.group or tool.name: own.get(tool.group or "", tool.filler_of) for tool in self.tools}
            group = await self.ask(chooser, paths)
            if group is not None:
                await self.ask(chooser, self.described(tool for tool in self.tools if group in (tool.group, tool.name)))
        else:
            within = {"search": self.found, "groups+search": self.opened}.get(self.choice.way)
            await self.ask(chooser, self.described(t for t in self.tools if within is None or t.name in within))
        found = {
            "named": tuple(self.named),
            "right": self.named[-1] in wanted,
            "right_group": self.named[0] in homes,
            "why": self.stopped.why if self.stopped else None,
            "problem": self.stopped.said if self.stopped else "",
            "offered": self.offered,
            "tokens": self.tokens,
            "seconds": round(time.perf_counter() - begun, 2),
        }
        return self.choice.model_copy(update=found)

    def described(self, tools: Iterable[Tool]) -> dict[str, str]:
        """Return the descriptions of tools by their names."""
        return {tool.name: str(tool.definition.get("description", "")) for tool in tools}

    async def ask(self, chooser: Chooser, offered: Mapping[str, str]) -> str | None:
        """Return what a model names, and note it, and what went wrong; where nothing is offered it is not asked."""
        several, step = [*offered.items()], len(self.named)
        random.Random(f"{self.choice.seed} {self.choice.task} {self.choice.number} {step}").shuffle(several)
        self.offered += len(several)
        self.tokens += approximate_tokens(self.choice.request) + approximate_tokens(lines_of(dict(several)))
        name: str | None = ""
        if several:
            try:
                name = await chooser(self.choice.request, dict(several))
            except Stopped as error:
                name, self.stopped = None, error
        self.named.append(name)
        return name


async def _found(made: ToolSet, tools: Sequence[Tool], query: str) -> tuple[list[str], list[str]]:
    """Return the names that a search finds, the best first, and those that can be called once it has opened groups."""
    own = {tool.name for tool in tools}
    async with made.open_session() as session:
        answer: Any = (await session.call("find_tools", {"query": query, "limit": FOUND, "open": True})).structured
        found = [str(name) for name in answer["found"]]
        return found, [one.name for one in listed(session.view(), "tool") if one.name in own and answer.get("active")]


def lines_of(offered: Mapping[str, str]) -> str:
    """Return what is chosen from as a model reads it: a line for each name."""
    return "\n".join(f"- {name}: {' '.join(text.split())}" for name, text in offered.items())


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
