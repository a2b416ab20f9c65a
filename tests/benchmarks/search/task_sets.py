"""Public task sets, read from folders outside of the repository: tools in groups, and tasks with what they need.

LiveMCPBench  github.com/icip-cas/LiveMCPBench: 70 servers with 527 tools, and 95 tasks whose annotators wrote down the
              steps and the tools of each. The folder needs `tools/` and `annotated_data/all_annotations.json`.
MetaTool      github.com/HowieHwong/MetaTool: 199 plugins, 20,614 queries with the one that each needs, and 497 with
              two. The folder needs `dataset/`.
catalogs      any other servers, a JSON file with `tools` for each.
queries.toml  what users might say, by us: over the servers of LiveMCPBench and four catalogs.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from toolfold import InvalidDefinition, ToolSet

Definition = Mapping[str, Any]
EVERY = 20
"""Which of MetaTool's queries for one tool are used: there are many, and alike."""


@frozen
class Group:
    """A server: its name, what it says of itself, and its tools."""

    name: str
    description: str
    tools: tuple[Definition, ...]


@frozen
class Task:
    """What a user wants: a query for each step, and for each tool needed the full names that would do."""

    steps: tuple[str, ...]
    needs: tuple[frozenset[str], ...]


@frozen
class TaskSet:
    """Groups of tools, and tasks."""

    name: str
    groups: tuple[Group, ...]
    tasks: tuple[Task, ...]

    def tools(self) -> Iterator[tuple[str, Definition]]:
        """Yield the full name and the definition of each tool, as a gateway to all servers has them."""
        for group in self.groups:
            for tool in group.tools:
                yield f"{group.name}__{tool['name']}", tool


def task_sets(folder: Path) -> list[TaskSet]:
    """Return the task sets that a folder has."""
    found: list[TaskSet] = []
    if (folder / "LiveMCPBench").is_dir():
        live = live_mcp_bench(folder / "LiveMCPBench")
        found += [live, whole_questions(folder / "LiveMCPBench", live)]
        found += as_users_speak([*live.groups, *catalogs(folder / "catalogs")])
    if (folder / "MetaTool").is_dir():
        found += meta_tool(folder / "MetaTool" / "dataset")
    return found


def live_mcp_bench(folder: Path) -> TaskSet:
    """Return the servers as groups, and the annotated tasks, without the few tools that no server has."""
    groups: dict[str, Group] = {}
    for entry in _json(folder / "tools/LiveMCPTool/tools.json"):
        for server, listed in entry["tools"].items():
            name = _allowed(server)
            tools = {tool["name"]: _plain(tool) for tool in listed["tools"]}
            groups[name] = Group(name, entry["description"], tuple(tools.values()))
    homes: dict[str, set[str]] = {}
    for group in groups.values():
        for tool in group.tools:
            homes.setdefault(tool["name"], set()).add(f"{group.name}__{tool['name']}")
    tasks: list[Task] = []
    for annotated in _json(folder / "annotated_data/all_annotations.json"):
        notes = annotated["Annotator Metadata"]
        needs = dict.fromkeys(frozenset(homes[name]) for name in _lines(notes["Tools"]) if name in homes)
        tasks.append(Task(tuple(_lines(notes["Steps"])), tuple(needs)))
    return TaskSet("LiveMCPBench", tuple(groups.values()), tuple(task for task in tasks if task.needs))


def whole_questions(folder: Path, by_step: TaskSet) -> TaskSet:
    """Return LiveMCPBench with one query for each task: the question itself."""
    notes = _json(folder / "annotated_data/all_annotations.json")
    questions = {tuple(_lines(note["Annotator Metadata"]["Steps"])): note["Question"] for note in notes}
    tasks = tuple(Task((questions[task.steps],), task.needs) for task in by_step.tasks)
    return TaskSet("LiveMCPBench, one query", by_step.groups, tasks)


def as_users_speak(groups: Iterable[Group], *, held: bool = True) -> list[TaskSet]:
    """Return the queries of each kind whose tools are all among those of `groups`.

    Every second one is held out: weights and thresholds are chosen by the others alone.
    """
    servers = tuple(groups)
    known = {f"{group.name}__{tool['name']}" for group in servers for tool in group.tools}
    by_kind: dict[str, list[Task]] = {}
    for query in tomllib.loads(Path(__file__).with_name("queries.toml").read_text())["query"]:
        needs = frozenset(query["tools"])
        if needs <= known:
            by_kind.setdefault(query["kind"], []).append(Task((query["text"],), (needs,) if needs else ()))
    return [TaskSet(f"users: {kind}", servers, tuple(tasks[held::2])) for kind, tasks in by_kind.items()]


def catalogs(folder: Path) -> list[Group]:
    """Return the servers whose answers to `tools/list` a folder has, if there is one: a JSON file for each."""
    found = ((path.stem, _json(path)) for path in sorted(folder.glob("*.json")))
    return [Group(name, "", tuple(_plain(tool) for tool in listed["tools"])) for name, listed in found]


def meta_tool(folder: Path) -> list[TaskSet]:
    """Return the queries for one plugin and those for two; each plugin is a tool, all of them in one group."""
    with (folder / "data/all_clean_data.csv").open(newline="") as file:
        single = [(row["Query"], [row["Tool"]]) for row in csv.DictReader(file)][::EVERY]
    double = [(entry["query"], entry["tool"]) for entry in _json(folder / "data/multi_tool_query_golden.json")]
    texts = {**_json(folder / "plugin_des.json"), **_json(folder / "big_tool_des.json")}
    used = sorted({name for _, names in (*single, *double) for name in names})
    tools = tuple(
        {"name": _allowed(name), "description": texts[name], "inputSchema": {"type": "object"}} for name in used
    )
    groups = (Group("plugins", "", tools),)
    return [
        TaskSet(name, groups, tuple(Task((query,), _needs(names)) for query, names in pairs))
        for name, pairs in (("MetaTool, one tool", single), ("MetaTool, two tools", double))
    ]


def _needs(names: Iterable[str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset({f"plugins__{_allowed(name)}"}) for name in names)


def _allowed(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def _plain(tool: Definition) -> Definition:
    """Return what matters of a definition; an invalid schema, which nothing would serve, accepts anything."""
    plain = {key: tool[key] for key in ("name", "description", "inputSchema") if tool.get(key) is not None}
    try:
        ToolSet("scratch").register("tool", _never, input_schema=plain["inputSchema"])
    except InvalidDefinition:
        plain["inputSchema"] = {"type": "object"}
    return plain


def _never(arguments: dict[str, Any]) -> None:
    raise NotImplementedError


def _lines(text: str) -> list[str]:
    """Return the lines of a numbered list, without the numbers."""
    return [line for part in text.splitlines() if (line := re.sub(r"^\s*\d+[.)]?\s*", "", part).strip())]


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
