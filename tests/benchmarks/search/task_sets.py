"""Task sets, most of them read from folders outside of the repository: tools in groups, and tasks with what they need.

LiveMCPBench  github.com/icip-cas/LiveMCPBench: 70 servers with 527 tools, and 95 tasks whose annotators wrote down the
              steps and the tools of each. The folder needs `tools/` and `annotated_data/all_annotations.json`.
MetaTool      github.com/HowieHwong/MetaTool: 199 plugins, 20,614 queries with the one that each needs, and 497 with
              two. The folder needs `dataset/`.
catalogs      any other servers, a JSON file with `tools` for each.
own.toml      what users might say, by us: over the built-in tools of the evaluation, and its fillers.
models.toml   what models write when they search, by us: over the same tools.
queries.toml  what users might say, by us: over the servers of LiveMCPBench and four catalogs.
"""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from toolfold_adapters.evaluation import OWN, World, load_tasks
from toolfold_adapters.evaluation.bench import Server, allowed, plain_definition, read_bench
from toolfold_adapters.manifests.catalogs import load_catalog

Definition = Mapping[str, Any]
Group = Server
EVERY = 20
"""Which of MetaTool's queries for one tool are used: there are many, and alike."""


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


def task_sets(folder: Path | None) -> list[TaskSet]:
    """Return our own task sets, and those that a folder has."""
    found = own()
    if folder is None:
        return found
    if (folder / "LiveMCPBench").is_dir():
        live = live_mcp_bench(folder / "LiveMCPBench")
        found += [live, whole_questions(folder / "LiveMCPBench")]
        found += as_users_speak([*live.groups, *catalogs(folder / "catalogs")])
    if (folder / "MetaTool").is_dir():
        found += meta_tool(folder / "MetaTool" / "dataset")
    return found


def live_mcp_bench(folder: Path) -> TaskSet:
    """Return the servers as groups, and the annotated tasks, without the few tools that no server has."""
    servers, tasks = read_bench(folder)
    return TaskSet("LiveMCPBench", servers, tuple(Task(task.steps, task.needs) for task in tasks))


def whole_questions(folder: Path) -> TaskSet:
    """Return LiveMCPBench with one query for each task: the question itself."""
    servers, tasks = read_bench(folder)
    return TaskSet("LiveMCPBench, one query", servers, tuple(Task((task.question,), task.needs) for task in tasks))


def own(*, held: bool = True) -> list[TaskSet]:
    """Return the queries over the built-in tools of the evaluation, of each kind, among 500 tools."""
    catalog = load_catalog(OWN / "catalog.toml").catalog
    chosen = World(catalog).choose(load_tasks(OWN / "tasks.toml", catalog)[0], 500)
    texts = {group.path: group.description for group in catalog.groups}
    members: dict[str, list[Definition]] = {}
    for tool in chosen:
        group = tool.group or ""
        members.setdefault(group, []).append({**tool.definition, "name": tool.name.removeprefix(f"{group}.")})
        texts.setdefault(group, tool.filler_of)
    groups = [Group(name, texts[name], tuple(tools)) for name, tools in members.items()]
    return [*_queries("own", "own.toml", groups, held=held), *_of_models(tuple(groups), held=held)]


def _of_models(groups: tuple[Group, ...], *, held: bool) -> list[TaskSet]:
    """Return the queries as models write them, halved by their tools, and more that no tool fits."""
    chosen = [*_models()["queries"].items()][held::2]
    tasks = tuple(Task((query,), (frozenset({tool}),)) for tool, queries in chosen for query in queries)
    return [TaskSet("own: models", groups, tasks), _without_tool("own", "nothing", groups, held=held)]


def _without_tool(name: str, key: str, groups: tuple[Group, ...], *, held: bool) -> TaskSet:
    missing = tuple(Task((query,), ()) for query in _models()["words"][key][held::2])
    return TaskSet(f"{name}: no tool", groups, missing)


def _models() -> Mapping[str, Any]:
    return tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))


def as_users_speak(groups: Iterable[Group], *, held: bool = True) -> list[TaskSet]:
    """Return the queries of each kind whose tools are all among those of `groups`.

    Every second one is held out: weights and thresholds are chosen by the others alone.
    """
    servers = tuple(groups)
    users = _queries("users", "queries.toml", servers, held=held)
    return [*users, _without_tool("users", "servers_nothing", servers, held=held)]


def _queries(name: str, file: str, groups: Iterable[Group], *, held: bool) -> list[TaskSet]:
    servers = tuple(groups)
    known = {f"{group.name}__{tool['name']}" for group in servers for tool in group.tools}
    by_kind: dict[str, list[Task]] = {}
    for query in tomllib.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))["query"]:
        needs = frozenset(query["tools"])
        if needs <= known:
            by_kind.setdefault(query["kind"], []).append(Task((query["text"],), (needs,) if needs else ()))
    return [TaskSet(f"{name}: {kind}", servers, tuple(tasks[held::2])) for kind, tasks in by_kind.items()]


def catalogs(folder: Path) -> list[Group]:
    """Return the servers whose answers to `tools/list` a folder has, if there is one: a JSON file for each."""
    found = ((path.stem, _json(path)) for path in sorted(folder.glob("*.json")))
    return [Group(name, "", tuple(plain_definition(tool) for tool in listed["tools"])) for name, listed in found]


def meta_tool(folder: Path) -> list[TaskSet]:
    """Return the queries for one plugin and those for two; each plugin is a tool, all of them in one group."""
    with (folder / "data/all_clean_data.csv").open(newline="") as file:
        single = [(row["Query"], [row["Tool"]]) for row in csv.DictReader(file)][::EVERY]
    double = [(entry["query"], entry["tool"]) for entry in _json(folder / "data/multi_tool_query_golden.json")]
    texts = {**_json(folder / "plugin_des.json"), **_json(folder / "big_tool_des.json")}
    used = sorted({name for _, names in (*single, *double) for name in names})
    tools = tuple(
        {"name": allowed(name), "description": texts[name], "inputSchema": {"type": "object"}} for name in used
    )
    groups = (Group("plugins", "", tools),)
    return [
        TaskSet(name, groups, tuple(Task((query,), _needs(names)) for query, names in pairs))
        for name, pairs in (("MetaTool, one tool", single), ("MetaTool, two tools", double))
    ]


def _needs(names: Iterable[str]) -> tuple[frozenset[str], ...]:
    return tuple(frozenset({f"plugins__{allowed(name)}"}) for name in names)


def _json(path: Path) -> Any:
    return json.loads(path.read_text())
