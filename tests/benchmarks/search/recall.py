"""How many of the tools that tasks need are among those that a search shows, side by side with others.

    python -m tests.benchmarks.search.recall FOLDER --fastmcp PYTHON --pydantic-ai PYTHON

One query is asked for each step of a task. A tool counts as found if it is among the first 5, 10 or 20 of any of them,
so that all show equally many tools. The other libraries run in environments of their own, on the same tools.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from toolfold import Ranker, ToolSet
from toolfold_adapters.search import bm25, embeddings, fused

from .task_sets import Task, TaskSet, task_sets

SHOWN = (5, 10, 20)
Rankings = Sequence[Sequence[str]]
Searcher = Callable[[TaskSet, Sequence[str]], Rankings]


def toolfold_searcher(ranker: Ranker) -> Searcher:
    """Return a searcher that calls `find_tools` of a tool set with one group for each server."""

    def searcher(tasks: TaskSet, queries: Sequence[str]) -> Rankings:
        return anyio.run(_ask, tool_set(tasks, ranker), queries)

    return searcher


def tool_set(tasks: TaskSet, ranker: Ranker) -> ToolSet:
    """Return the tools of a task set in one group for each server."""
    tools = ToolSet(tasks.name, control="open_group", on_hidden="hint", search=ranker)
    for group in tasks.groups:
        tools.register_group(group.name, group.description)
        for tool in group.tools:
            tools.register(
                tool["name"],
                _never,
                description=tool.get("description"),
                input_schema=tool["inputSchema"],
                group=group.name,
            )
    return tools


async def _never(arguments: dict[str, Any]) -> None:
    raise NotImplementedError


async def _ask(tools: ToolSet, queries: Sequence[str]) -> Rankings:
    rankings: list[list[str]] = []
    async with tools.open_session() as session:
        for query in queries:
            result = await session.call("find_tools", {"query": query, "limit": max(SHOWN)})
            rankings.append([name.replace(".", "__") for name in result.structured["found"]])
    return rankings


def foreign_searcher(python: str, script: str) -> Searcher:
    """Return a searcher that runs a script of this folder in another environment."""

    def searcher(tasks: TaskSet, queries: Sequence[str]) -> Rankings:
        rankings: Rankings = answers(python, script, tasks, queries, max(SHOWN))["rankings"]
        return rankings

    return searcher


def answers(python: str, script: str, tasks: TaskSet, queries: Sequence[str], limit: int) -> dict[str, Any]:
    """Return what a script of this folder answers in another environment."""
    asked = json.dumps({"tools": list(tasks.tools()), "queries": queries, "limit": limit})
    path = Path(__file__).with_name(script)
    done = subprocess.run([python, str(path)], input=asked, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def recall(tasks: Sequence[Task], rankings: Rankings, shown: int) -> float:
    """Return the mean part of the tools that a task needs that are among the first `shown` of any of its steps."""
    remaining = iter(rankings)
    parts: list[float] = []
    for task in tasks:
        seen = {name for _ in task.steps for name in next(remaining)[:shown]}
        parts.append(sum(bool(names & seen) for names in task.needs) / len(task.needs))
    return sum(parts) / len(parts)


def rows(sets: Sequence[TaskSet], searchers: Mapping[str, Searcher]) -> Iterator[tuple[str, str, list[float]]]:
    """Yield the task set, the searcher, and the recall at 5, 10 and 20 tools."""
    for tasks in sets:
        queries = [step for task in tasks.tasks for step in task.steps]
        for name, searcher in searchers.items():
            rankings = searcher(tasks, queries)
            yield tasks.name, name, [recall(tasks.tasks, rankings, shown) for shown in SHOWN]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="has the task sets, see task_sets.py")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="the interpreter of an environment with FastMCP")
    parser.add_argument("--pydantic-ai", metavar="PYTHON", help="the interpreter of an environment with pydantic-ai")
    parser.add_argument("--model", help="the folder or the name of an embedding model in ONNX form")
    options = parser.parse_args()
    searchers: dict[str, Searcher] = {"toolfold, BM25": toolfold_searcher(bm25)}
    if options.model:
        semantic = embeddings(options.model)
        searchers["toolfold, embeddings"] = toolfold_searcher(semantic)
        searchers["toolfold, BM25 and embeddings"] = toolfold_searcher(fused(bm25, semantic))
    if options.fastmcp:
        searchers["FastMCP, BM25"] = foreign_searcher(options.fastmcp, "with_fastmcp.py")
    if options.pydantic_ai:
        searchers["pydantic-ai"] = foreign_searcher(options.pydantic_ai, "with_pydantic_ai.py")
    print(f"{'':22}{'':32}" + "".join(f"{f'at {shown}':>8}" for shown in SHOWN))
    for tasks, name, found in rows(task_sets(options.folder), searchers):
        print(f"{tasks:22}{name:32}" + "".join(f"{part:8.1%}" for part in found), flush=True)


if __name__ == "__main__":
    main()
