"""Everything about search in one table: what is found first and among five, and what an answer costs.

    python -m tests.benchmarks.search.table [FOLDER] --fastmcp PYTHON --pydantic-ai PYTHON --tuning

Beside the queries of `recall` it asks "get a …" for each tool that is called so, and counts how often what is first
writes; and for each tool its own name with the first sentence of its description. Of queries that no tool fits, the
part that finds nothing is shown. Of all, `doubts` is the part of which the answer says that nothing fits, or not for
certain. Tokens are those of the median answer, and time is that of the processor, for a query.
There are rows by meaning where a model is installed.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from time import process_time

import anyio
import anyio.to_thread
from attrs import frozen

from toolfold import Ranker, ToolSet
from toolfold._view.search import writes
from toolfold_adapters.search import bm25, by_meaning
from toolfold_adapters.search.meaning import has_model
from toolfold_adapters.tokens import approximate_tokens

from .recall import Searcher, foreign_searcher, plain_fts5, recall, tool_set
from .task_sets import Task, TaskSet, as_users_speak, catalogs, live_mcp_bench, own

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_READS = frozenset({"get", "list"})
_DOUBT = re.compile("^No tool (matches|fits)", re.MULTILINE)


def sets_of(folder: Path | None, *, held: bool) -> list[TaskSet]:
    """Return our own queries, those of a folder's servers, and the queries that are derived from definitions."""
    sets = own(held=held)
    if folder is None:
        return [*sets, *derived(sets[0])]
    groups = [*live_mcp_bench(folder / "LiveMCPBench").groups, *catalogs(folder / "catalogs")]
    users = as_users_speak(groups, held=held)
    return [*sets, *derived(sets[0]), *users, *derived(users[0])]


def derived(tasks: TaskSet) -> Iterator[TaskSet]:
    """Yield queries that read, and queries in the tools' own words; tools of one name do for one another."""
    alike: dict[str, set[str]] = {}
    for full, tool in tasks.tools():
        alike.setdefault(tool["name"], set()).add(full)
    reading, wording = [], []
    for name, fulls in alike.items():
        need = (frozenset(fulls),)
        first, *others = _WORD.findall(name)
        if first.casefold() in _READS and others:
            reading.append(Task((f"get a {' '.join(others).casefold()}",), need))
    for full, tool in tasks.tools():
        sentence = re.split(r"(?<=[.!?])\s", tool.get("description", "").strip())[0]
        wording.append(Task((f"{tool['name']} {sentence}",), (frozenset({full}),)))
    where = tasks.name.partition(":")[0]
    yield TaskSet(f"{where}: get a …", tasks.groups, tuple(reading))
    yield TaskSet(f"{where}: own words", tasks.groups, tuple(wording))


@frozen
class Asked:
    """What `find_tools` finds, its answers, and the processor time of a query in milliseconds."""

    rankings: Sequence[Sequence[str]]
    texts: Sequence[str]
    spent: float

    @property
    def doubts(self) -> float:
        """The part of the answers that say that nothing fits, or not for certain."""
        return sum(_DOUBT.search(text) is not None for text in self.texts) / len(self.texts)

    @property
    def tokens(self) -> float:
        """The tokens of the median answer."""
        return statistics.median(map(approximate_tokens, self.texts))


async def asked(tools: ToolSet, queries: Sequence[str]) -> Asked:
    """Return what `find_tools` answers."""
    rankings: list[list[str]] = []
    texts: list[str] = []
    async with tools.open_session() as session:
        await session.call("find_tools", {"query": queries[0]})  # makes the index
        for thread in threading.enumerate():
            if thread.name == "toolfold-index":
                await anyio.to_thread.run_sync(thread.join)
        start = process_time()
        for query in queries:
            result = await session.call("find_tools", {"query": query})
            rankings.append([name.replace(".", "__") for name in result.structured["found"]])
            texts.append(result.text)
        spent = process_time() - start
    return Asked(rankings, texts, 1000 * spent / len(queries))


def lines(sets: Sequence[TaskSet], rankers: Mapping[str, Ranker], others: Mapping[str, Searcher]) -> Iterator[str]:
    """Yield the lines of the table, one for each set of queries and searcher."""
    yield f"{'queries':22}{'':24}{'number':>7}{'at 1':>8}{'at 5':>8}{'writes':>8}{'doubts':>8}{'tokens':>8}{'ms':>8}"
    made: dict[tuple[int, str], ToolSet] = {}
    for tasks in sets:
        queries = [step for task in tasks.tasks for step in task.steps]
        known = made.setdefault((id(tasks.groups), ""), tool_set(tasks, bm25))
        kinds = {name.replace(".", "__"): writes(one) for name, one in known.catalog.tools.items()}
        for name, searcher in others.items():
            yield _line(tasks, name, searcher(tasks, queries), kinds)
        for name, ranker in rankers.items():
            key = (id(tasks.groups), name)
            if key not in made:
                made[key] = tool_set(tasks, ranker)
            own = anyio.run(asked, made[key], queries)
            yield f"{_line(tasks, name, own.rankings, kinds)}{own.doubts:8.1%}{own.tokens:8.0f}{own.spent:8.1f}"


def _line(tasks: TaskSet, name: str, rankings: Sequence[Sequence[str]], kinds: Mapping[str, bool]) -> str:
    shown = "".join(f"{recall(tasks.tasks, rankings, number):8.1%}" for number in (1, 5))
    written = sum(bool(found) and kinds[found[0]] for found in rankings)
    return f"{tasks.name:22}{name:24}{len(tasks.tasks):7}{shown}{written:8}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="has the public task sets, see task_sets.py")
    parser.add_argument("--fastmcp", metavar="PYTHON", help="the interpreter of an environment with FastMCP")
    parser.add_argument("--pydantic-ai", metavar="PYTHON", default=sys.executable, help="the same with pydantic-ai")
    parser.add_argument("--alone", action="store_true", help="leave the others out")
    parser.add_argument("--vectors", type=Path, help="where the vectors of tools are stored, to start faster again")
    parser.add_argument("--kinds", default="", help="ask only the sets that have this in their names")
    parser.add_argument("--tuning", action="store_true", help="ask the queries that are there to tune by")
    options = parser.parse_args()
    others: dict[str, Searcher] = {}
    if not options.alone:
        others = {"plain FTS5": plain_fts5, "pydantic-ai": foreign_searcher(options.pydantic_ai, "with_pydantic_ai.py")}
        if options.fastmcp:
            others["FastMCP, BM25"] = foreign_searcher(options.fastmcp, "with_fastmcp.py")
    rankers: dict[str, Ranker] = {"toolfold, BM25": bm25}
    if has_model():
        rankers["toolfold, by meaning"] = by_meaning(options.vectors)
    sets = [one for one in sets_of(options.folder, held=not options.tuning) if options.kinds in one.name]
    for line in lines(sets, rankers, others):
        print(line, flush=True)


if __name__ == "__main__":
    main()
