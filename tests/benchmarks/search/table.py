"""Everything about search in one table: what is found first and among five, and what an answer costs.

    python -m tests.benchmarks.search.table [FOLDER] --fastmcp PYTHON --pydantic-ai PYTHON
    python -m tests.benchmarks.search.table FOLDER --fastmcp PYTHON --write     the table of docs/how-to/search.md
    python -m tests.benchmarks.search.table --check     whether our own queries are answered as that table says

Beside the queries of `recall` it asks "get a …" for each tool that is called so, and counts how often what is first
writes; and for each tool its own name with the first sentence of its description. Of queries that no tool fits, the
part that finds nothing is shown. Of all, `doubts` is the part of which the answer says that nothing fits, or not for
certain. Tokens are those of the median answer, and time is that of the processor, for a query.
There are rows by meaning where a model is installed. LiveMCPBench is asked in two ways: by the steps of each task, as
its annotators wrote them down, and by the task's question as one query.
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

from .recall import SHOWN, Rankings, Searcher, foreign_searcher, plain_fts5, recall, tool_set
from .task_sets import Task, TaskSet, as_users_speak, catalogs, live_mcp_bench, own, whole_questions

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_READS = frozenset({"get", "list"})
_DOUBT = re.compile("^No tool (matches|fits)", re.MULTILINE)


def sets_of(folder: Path | None, *, held: bool) -> list[TaskSet]:
    """Return our own queries, those of a folder's servers, and the queries that are derived from definitions."""
    sets = own(held=held)
    if folder is None:
        return [*sets, *derived(sets[0])]
    live = live_mcp_bench(folder / "LiveMCPBench")
    users = as_users_speak([*live.groups, *catalogs(folder / "catalogs")], held=held)
    return [*sets, *derived(sets[0]), *users, *derived(users[0]), live, whole_questions(folder / "LiveMCPBench")]


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
            texts.append(result.text)
        spent = process_time() - start
        for query in queries:
            result = await session.call("find_tools", {"query": query, "limit": SHOWN[-1]})
            rankings.append([name.replace(".", "__") for name in result.structured["found"]])
    return Asked(rankings, texts, 1000 * spent / len(queries))


@frozen
class Row:
    """What one searcher does for one set of queries; of those of others only rankings are known."""

    tasks: TaskSet
    searcher: str
    found: Mapping[int, float]
    writing: int
    own: Asked | None = None

    @property
    def line(self) -> str:
        """The row as it is printed."""
        shown = "".join(f"{part:8.1%}" for part in self.found.values())
        ours = f"{self.own.doubts:8.1%}{self.own.tokens:8.0f}{self.own.spent:8.1f}" if self.own else ""
        return f"{self.tasks.name:26}{self.searcher:20}{len(self.tasks.tasks):7}{shown}{self.writing:8}{ours}"


HEAD = f"{'queries':26}{'':20}{'number':>7}" + "".join(f"{f'at {shown}':>8}" for shown in SHOWN)
HEAD += f"{'writes':>8}{'doubts':>8}{'tokens':>8}{'ms':>8}"


def rows(sets: Sequence[TaskSet], rankers: Mapping[str, Ranker], others: Mapping[str, Searcher]) -> Iterator[Row]:
    """Yield the rows of the table, one for each set of queries and searcher."""
    made: dict[tuple[int, str], ToolSet] = {}
    for tasks in sets:
        queries = [step for task in tasks.tasks for step in task.steps]
        known = made.setdefault((id(tasks.groups), ""), tool_set(tasks, bm25))
        kinds = {name.replace(".", "__"): writes(one) for name, one in known.catalog.tools.items()}

        def row(
            name: str,
            rankings: Rankings,
            own: Asked | None = None,
            tasks: TaskSet = tasks,
            kinds: Mapping[str, bool] = kinds,
        ) -> Row:
            found = {shown: recall(tasks.tasks, rankings, shown) for shown in SHOWN}
            return Row(tasks, name, found, sum(bool(one) and kinds[one[0]] for one in rankings), own)

        for name, searcher in others.items():
            yield row(name, searcher(tasks, queries))
        for name, ranker in rankers.items():
            key = (id(tasks.groups), name)
            if key not in made:
                made[key] = tool_set(tasks, ranker)
            ours = anyio.run(asked, made[key], queries)
            yield row(name, ours.rankings, ours)


PAGE = Path(__file__).parents[3] / "docs/how-to/search.md"
BEGIN, END = "<!-- begin: python -m tests.benchmarks.search.table -->", "<!-- end -->"
WORDS, MEANING = "Toolfold by words", "and by meaning"
LABELS = {
    "own: names": "own tools: names",
    "own: english": "own tools: English",
    "own: synonyms": "own tools: synonyms",
    "own: languages": "own tools: other languages",
    "own: models": "own tools: as models ask",
    "own: no tool": "own tools: no tool fits",
    "users: english": "servers: English",
    "users: synonyms": "servers: synonyms",
    "users: languages": "servers: other languages",
    "users: no tool": "servers: no tool fits",
    "users: get a …": "servers: get a …",
    "users: own words": "servers: own words",
}
"""The sets of the table on the page, by what it calls them; those of LiveMCPBench have a table of their own."""


def cells(found: Sequence[Row]) -> Mapping[str, Mapping[str, str]]:
    """Return the cells of the table on the page, by its label of a set and its column."""
    made: dict[str, dict[str, str]] = {}
    for one in found:
        if (label := LABELS.get(one.tasks.name)) is not None:
            row = made.setdefault(f"{label} ({len(one.tasks.tasks)})", {})
            row[one.searcher] = f"{one.found[1]:.0%}, {one.found[5]:.0%}" if "no tool" not in label else "–"
            if one.own is not None:
                for column, value in (
                    ("writes first", str(one.writing)),
                    ("doubted", f"{one.own.doubts:.0%}"),
                    ("tokens", f"{one.own.tokens:.0f}"),
                ):
                    row[column] = f"{row[column]}, {value}" if column in row else value
    return made


def block(found: Sequence[Row]) -> str:
    """Return the tables as they are on the page."""
    by_set = cells(found)
    searchers = [*dict.fromkeys(one.searcher for one in found)]
    columns = [*searchers, "writes first", "doubted", "tokens"]
    lines = [f"| queries | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}"]
    lines += [f"| {label} | {' | '.join(row.get(one, '') for one in columns)} |" for label, row in by_set.items()]
    live = [one for one in found if one.tasks.name.startswith("LiveMCPBench")]
    lines += ["", f"| LiveMCPBench | {' | '.join(searchers)} |", f"|---|{'--:|' * len(searchers)}"]
    for name in dict.fromkeys(one.tasks.name for one in live):
        parts = [
            ", ".join(f"{part:.0%}" for part in one.found.values())
            for searcher in searchers
            for one in live
            if (one.tasks.name, one.searcher) == (name, searcher)
        ]
        label = "the question, one query" if "query" in name else "a query for each step"
        lines.append(f"| {label} | {' | '.join(parts)} |")
    return "\n".join((BEGIN, *lines, END))


def stale(page: str, found: Sequence[Row]) -> list[str]:
    """Return what the table of a page says in another way than some rows of words and meaning."""
    table = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    columns = [one.strip() for one in table[1].strip("|").split("|")] if len(table) > 1 else []
    said = {
        parts[0]: dict(zip(columns, parts, strict=True))
        for line in table
        if len(parts := [one.strip() for one in line.strip("|").split("|")]) == len(columns)
    }
    return [
        f"{label}, {column}: {row[column]}"
        for label, row in cells(found).items()
        for column in (WORDS, MEANING)
        if column in row and said.get(label, {}).get(column) != row[column]
    ]


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
    parser.add_argument("--write", action="store_true", help="write the table into the page")
    parser.add_argument("--check", action="store_true", help="compare what is found with the table on the page")
    options = parser.parse_args()
    others: dict[str, Searcher] = {}
    if not options.alone and not options.check:
        others = {"FTS5": plain_fts5}
        if options.fastmcp:
            others["FastMCP"] = foreign_searcher(options.fastmcp, "with_fastmcp.py")
        others["pydantic-ai"] = foreign_searcher(options.pydantic_ai, "with_pydantic_ai.py")
    rankers: dict[str, Ranker] = {WORDS: bm25}
    if has_model():
        rankers[MEANING] = by_meaning(options.vectors)
    sets = [one for one in sets_of(options.folder, held=not options.tuning) if options.kinds in one.name]
    found: list[Row] = []
    print(HEAD)
    for one in rows(sets, rankers, others):
        found.append(one)
        print(one.line, flush=True)
    page = PAGE.read_text(encoding="utf-8")
    if options.write:
        before, rest = page.split(BEGIN)
        PAGE.write_text(before + block(found) + rest.split(END, 1)[1], encoding="utf-8")
    if options.check and (old := stale(page, found)):
        sys.exit(f"{PAGE.name} says something else: {'; '.join(old)}")


if __name__ == "__main__":
    main()
