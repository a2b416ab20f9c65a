"""The tools that tasks are played on: those of a catalog and as many fillers as it takes, with simulated results.

The fillers are the same for the same seed. They have subjects of their own, so that no task needs one.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from hashlib import sha256
from typing import Any, Literal

from attrs import define, field

from toolfold import Catalog, Component, Loader, Ranker, ToolSet
from toolfold.spi import ancestors, frozen
from toolfold_adapters.names import wire_name

from .tasks import ObservedCall, Task

OF = (
    "aquarium",
    "bakery",
    "cinema",
    "clinic",
    "farm",
    "garage",
    "gym",
    "laboratory",
    "library",
    "museum",
    "school",
    "zoo",
)
WHAT = ("badges", "complaints", "donations", "exhibits", "keys", "lockers", "machines", "members", "permits", "shifts",
        "suppliers", "tours")  # fmt: skip
DO = {
    "list": "List all {} of the {}",
    "count": "Count the {} of the {}",
    "export": "Write the {} of the {} into a table",
    "add": "Enter one more of the {} of the {}",
    "label": "Print labels for {} of the {}",
    "inspect": "Record an inspection of {} of the {}",
    "merge": "Make one of two equal {} of the {}",
    "retire": "Take {} of the {} out of service",
}


Rule = Literal["asked", "excluded", "read only", "withdrawn"]
"""What forbids a call: what is asked alone, or, in groups, an exclusion or a profile, or that the tool is gone."""


@frozen
class Tool:
    """A tool of the world: its full name, group and definition, and for a filler the description of its group."""

    name: str
    group: str | None
    definition: Mapping[str, Any]
    filler_of: str = ""


@define
class Simulation:
    """What the handlers of a tool set do: they answer as the task says, and note the calls that reach them."""

    task: Task | None = None
    made: list[ObservedCall] = field(factory=list[ObservedCall])
    withdraw: Callable[[], None] | None = None

    def begin(self, task: Task) -> None:
        """Forget the calls of the task before, and answer as this one says."""
        self.task, self.made = task, []

    def handler(self, tool: str) -> Callable[[dict[str, Any]], Any]:
        """Return the handler of a tool."""

        async def handle(arguments: dict[str, Any]) -> Any:
            assert self.task is not None, "a task has begun"
            seen = sum(call.tool == tool for call in self.made)
            self.made.append(ObservedCall(tool=tool, arguments=arguments, reached=True))
            if self.withdraw is not None and len(self.made) == 1:
                self.withdraw()
            fitting = [expected.result for expected in self.task.calls if expected.fits(tool, arguments)]
            return fitting[min(seen, len(fitting) - 1)] if fitting else "There is nothing for these arguments."

        return handle


@frozen
class World:
    """The tools that there are to choose from: those of a catalog, and fillers by a seed."""

    catalog: Catalog
    seed: int = 0

    def own(self) -> list[Tool]:
        """Return the tools of the catalog, without what the library adds."""
        found = (one for one in self.catalog.tools.values() if one.control is None and not one.never_listed)
        return [Tool(one.name, one.group, one.definition) for one in found]

    def choose(self, task: Task, size: int | None) -> tuple[Tool, ...]:
        """Return as many tools as `size` says, those of the task among them; by default all of the catalog.

        What it names comes first, then what is in the same groups, then other groups, then fillers. A task that names
        more than `size` tools gets them all.
        """
        own = self.own()
        if size is None:
            return tuple(own)
        named = {tool.name for tool in own if any(fnmatchcase(tool.name, one) for one in task.named)}
        near = {tool.group for tool in own if tool.name in named}
        mixed = sorted(own, key=lambda tool: self._number(tool.group or tool.name))
        ranked = sorted(mixed, key=lambda tool: (tool.name not in named, tool.group not in near))
        kept = {tool.name for tool in ranked[: max(size, len(named))]}
        missing = max(size - len(kept), 0)
        return (*(tool for tool in own if tool.name in kept), *itertools.islice(fillers(self.seed), missing))

    def rule(self, task: Task, tool: str) -> Rule:
        """Return what should keep a task from a tool that it forbids.

        SPEC EVA-1.
        """
        if tool in task.withdrawn:
            return "withdrawn"
        component = self.catalog.tools.get(tool)
        profile = self.catalog.profiles.get(task.profile or "")
        if component is None:
            return "asked"
        if profile is not None and not hints(component).get("readOnlyHint") and not profile.keeps(False):
            return "read only"
        used = {self.catalog.tools[name].group for call in task.calls for name in call.tools}
        excluded = (members for members in self.catalog.exclusions if component.group in members)
        if component.group not in used and any(members & used for members in excluded):
            return "excluded"
        return "asked"

    def fingerprint(self, tasks: Sequence[Task]) -> str:
        """Return what tells these tools and tasks from others: a run of others is not continued."""
        content = [[dict(tool.definition) for tool in self.own()], [task.model_dump(mode="json") for task in tasks]]
        return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:12]

    def _number(self, text: str) -> bytes:
        return sha256(f"{self.seed} {text}".encode()).digest()

    def tool_set(
        self,
        chosen: Sequence[Tool],
        simulation: Simulation,
        *,
        grouped: bool,
        search: Ranker | None,
        directory: bool = True,
    ) -> ToolSet:
        """Return the chosen tools as a tool set: in their groups, or all of them in none.

        Without a directory searches alone open groups: no list has what opens them by name.
        """
        if not grouped:
            tools = ToolSet(self.catalog.name, control="none")
            for tool in chosen:
                self._register(tools, tool, wire_name(tool.name), simulation)
            return tools
        control = Loader(name="open_group", closer="close_group", needs_groups=True, hidden=not directory)
        tools = ToolSet(self.catalog.name, control=control, on_hidden="hint", search=search)
        used = {path for tool in chosen if tool.group for path in (*ancestors(tool.group), tool.group)}
        for group in self.catalog.groups:
            if group.path in used:
                tools.register_group(group.path, group.description, title=group.title, pinned=group.pinned)
        for path, text in {tool.group: tool.filler_of for tool in chosen if tool.filler_of}.items():
            tools.register_group(str(path), text)
        for tool in chosen:
            base = tool.name.removeprefix(f"{tool.group}.")
            self._register(tools, tool, base, simulation, group=tool.group, flat=base == tool.name or None)
        for members in self.catalog.exclusions:
            if len(members & used) > 1:
                tools.register_exclusion(*sorted(members & used))
        gone = {group.path for group in self.catalog.groups} - used
        for profile in self.catalog.profiles.values():
            tools.register_profile(profile.without(gone))
        return tools

    def _register(self, tools: ToolSet, tool: Tool, name: str, simulation: Simulation, **place: Any) -> None:
        given = tool.definition
        tools.register(
            name,
            simulation.handler(tool.name),
            description=given.get("description"),
            input_schema=given["inputSchema"],
            annotations=given.get("annotations"),
            **place,
        )


def hints(component: Component) -> Mapping[str, Any]:
    """Return the annotations of a tool."""
    return component.definition.get("annotations") or {}


def fillers(seed: int) -> Iterator[Tool]:
    """Yield tools that no task needs, in groups of eight; there are 1,152 of them."""
    subjects = list(itertools.product(OF, WHAT))
    random.Random(seed).shuffle(subjects)
    schema = {"type": "object", "properties": {"filter": {"type": "string"}}, "required": ["filter"]}
    for place, things in subjects:
        group = f"{place}_{things}"
        for verb, text in DO.items():
            definition = {
                "description": text.format(things, place),
                "inputSchema": schema,
                "annotations": {"readOnlyHint": verb in ("list", "count")},
            }
            yield Tool(f"{group}.{verb}_{things}", group, definition, f"The {things} of the {place}")
