"""How many of the tools that tasks need are among those that a search shows, side by side with others.

    python -m tests.benchmarks.search.recall [FOLDER] --fastmcp PYTHON --pydantic-ai PYTHON

One query is asked for each step of a task. A tool counts as found if it is among the first 1, 5, 10 or 20 of any of
them, so that all show equally many tools. Where a query needs no tool, the part is that of queries for which so few
are shown that none is. The other libraries run in environments of their own, on the same tools.
"""

from __future__ import annotations

import argparse
import json
import re
import sqlite3
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio

from toolfold import Ranker, ToolSet
from toolfold_adapters.search import bm25, embeddings, fused

from .task_sets import Task, TaskSet, as_users_speak, own, task_sets

SHOWN = (1, 5, 10, 20)
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
                annotations=tool.get("annotations"),
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


def plain_fts5(tasks: TaskSet, queries: Sequence[str]) -> Rankings:
    """Rank as SQLite's FTS5 does without any settings: by names and descriptions."""
    table = sqlite3.connect(":memory:")
    table.execute("CREATE VIRTUAL TABLE tools USING fts5 (full UNINDEXED, name, description)")
    rows = [(full, tool["name"], tool.get("description", "")) for full, tool in tasks.tools()]
    table.executemany("INSERT INTO tools VALUES (?, ?, ?)", rows)
    select = "SELECT full FROM tools WHERE tools MATCH ? ORDER BY rank LIMIT ?"
    terms = (" OR ".join(f'"{word}"' for word in re.findall(r"\w+", query)) for query in queries)
    rankings = [[name for (name,) in table.execute(select, (term, max(SHOWN)))] for term in terms]
    table.close()
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
        parts.append(sum(bool(names & seen) for names in task.needs) / len(task.needs) if task.needs else not seen)
    return sum(parts) / len(parts)


def rows(sets: Sequence[TaskSet], searchers: Mapping[str, Searcher]) -> Iterator[tuple[str, str, list[float]]]:
    """Yield the task set, the searcher, and the recall at each number of tools shown."""
    for tasks in sets:
        queries = [step for task in tasks.tasks for step in task.steps]
        for name, searcher in searchers.items():
            rankings = searcher(tasks, queries)
            yield tasks.name, name, [recall(tasks.tasks, rankings, shown) for shown in SHOWN]


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="has the public task sets, see task_sets.py")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="the interpreter of an environment with FastMCP")
    parser.add_argument("--pydantic-ai", metavar="PYTHON", help="the interpreter of an environment with pydantic-ai")
    parser.add_argument("--model", help="the folder or name of an embedding model in ONNX form")
    parser.add_argument("--tuning", action="store_true", help="ask the users' queries that are there to tune by")
    options = parser.parse_args()
    searchers: dict[str, Searcher] = {"plain FTS5": plain_fts5, "toolfold, BM25": toolfold_searcher(bm25)}
    if options.model:
        semantic = embeddings(options.model)
        searchers["toolfold, embeddings"] = toolfold_searcher(semantic)
        searchers["toolfold, BM25 and embeddings"] = toolfold_searcher(fused(bm25, semantic))
    if options.fastmcp:
        searchers["FastMCP, BM25"] = foreign_searcher(options.fastmcp, "with_fastmcp.py")
    if options.pydantic_ai:
        searchers["pydantic-ai"] = foreign_searcher(options.pydantic_ai, "with_pydantic_ai.py")
    sets = task_sets(options.folder)
    if options.tuning:
        users = [tasks.groups for tasks in sets if tasks.name.startswith("users")]
        sets = [*own(held=False), *(as_users_speak(users[0], held=False) if users else ())]
    print(f"{'':26}{'':32}" + "".join(f"{f'at {shown}':>8}" for shown in SHOWN))
    for tasks, name, found in rows(sets, searchers):
        print(f"{tasks:26}{name:32}" + "".join(f"{part:8.1%}" for part in found), flush=True)


if __name__ == "__main__":
    main()
