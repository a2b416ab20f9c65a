"""LiveMCPBench as tasks, from a folder that the user has: github.com/icip-cas/LiveMCPBench (SPEC EVA-1).

Its annotators wrote down the steps and the tools of each task, and no arguments: any will do that fit the schema, and
so will any order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from toolfold import Catalog, ConfigError, InvalidDefinition, ToolSet
from toolfold.spi import frozen
from toolfold_adapters.names import WIRE_SEPARATOR

from .tasks import Expected, Task, sample

TOOLS, NOTES = "tools/LiveMCPTool/tools.json", "annotated_data/all_annotations.json"


@frozen
class Server:
    """A server: its name, its introduction, and its tools."""

    name: str
    description: str
    tools: tuple[Mapping[str, Any], ...]


@frozen
class Annotated:
    """A task: the question, the steps, and for each tool that it needs the wire names of those that would do."""

    question: str
    steps: tuple[str, ...]
    needs: tuple[frozenset[str], ...]


def read_bench(folder: Path) -> tuple[tuple[Server, ...], tuple[Annotated, ...]]:
    """Return the servers of a folder and the annotated tasks, without the few tools that no server has.

    Raises:
        ConfigError: The folder has none, or what it has can't be read.
    """
    try:
        return _read(*(json.loads((folder / name).read_text(encoding="utf-8")) for name in (TOOLS, NOTES)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{folder} has no LiveMCPBench that can be read, with {TOOLS} and {NOTES}: {error}"
        ) from error


def bench_tasks(folder: Path) -> tuple[Catalog, tuple[Task, ...]]:
    """Return LiveMCPBench as a catalog with a group for each server, and its tasks; raises `ConfigError`."""
    servers, annotated = read_bench(folder)
    tools = ToolSet("LiveMCPBench", control="none")
    for server in servers:
        tools.register_group(server.name, server.description)
        for tool in server.tools:
            schema, text = tool["inputSchema"], tool.get("description")
            tools.register(tool["name"], _never, description=text, input_schema=schema, group=server.name)
    return tools.catalog, tuple(_task(number, one, tools.catalog) for number, one in enumerate(annotated, 1))


def _task(number: int, one: Annotated, catalog: Catalog) -> Task:
    queries = one.steps if len(one.steps) == len(one.needs) else (one.question,) * len(one.needs)
    names = [sorted(name.replace(WIRE_SEPARATOR, ".", 1) for name in need) for need in one.needs]
    calls = [
        Expected.model_validate({"tool": need, "query": query, "free": sample(catalog.tools[need[0]].input_schema)})
        for need, query in zip(names, queries, strict=True)
    ]
    return Task(id=f"bench-{number}", ask=one.question, calls=tuple(calls), ordered=False)


def _read(listed: Any, notes: Any) -> tuple[tuple[Server, ...], tuple[Annotated, ...]]:
    servers: dict[str, Server] = {}
    for entry in listed:
        for server, answer in entry["tools"].items():
            tools = {tool["name"]: plain_definition(tool) for tool in answer["tools"]}
            servers[allowed(server)] = Server(allowed(server), entry["description"], tuple(tools.values()))
    homes: dict[str, set[str]] = {}
    for server in servers.values():
        for tool in server.tools:
            homes.setdefault(tool["name"], set()).add(f"{server.name}{WIRE_SEPARATOR}{tool['name']}")
    tasks: list[Annotated] = []
    for annotated in notes:
        own = annotated["Annotator Metadata"]
        needs = dict.fromkeys(frozenset(homes[name]) for name in _lines(own["Tools"]) if name in homes)
        tasks.append(Annotated(annotated["Question"], tuple(_lines(own["Steps"])), tuple(needs)))
    return tuple(servers.values()), tuple(task for task in tasks if task.needs)


def plain_definition(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what matters of a definition; an invalid schema, which nothing would serve, accepts anything."""
    plain = {key: tool[key] for key in ("name", "description", "inputSchema") if tool.get(key) is not None}
    try:
        ToolSet("scratch").register("tool", _never, input_schema=plain["inputSchema"])
    except InvalidDefinition:
        plain["inputSchema"] = {"type": "object"}
    return plain


def allowed(name: str) -> str:
    """Return a name with the characters that names may have."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


async def _never(arguments: dict[str, Any]) -> None:
    raise NotImplementedError


def _lines(text: str) -> list[str]:
    """Return the lines of a numbered list, without the numbers."""
    return [line for part in text.splitlines() if (line := re.sub(r"^\s*\d+[.)]?\s*", "", part).strip())]
