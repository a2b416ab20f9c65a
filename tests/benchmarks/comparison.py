"""Writes the tables of the comparison, on the pages that have some, from figures in `comparison.json` beside this file.

    python -m tests.benchmarks.comparison --servers FOLDER      measure everything, about ten minutes on two quiet cores
    python -m tests.benchmarks.comparison --part agents         measure one part
    python -m tests.benchmarks.comparison --write               measure nothing; write the tables from the figures
    python -m tests.benchmarks.comparison --check               the status is 1 unless the pages have the tables

FOLDER has LiveMCPBench, see search/task_sets.py. `TESTS_FASTMCP`, `TESTS_AGENTSCOPE`, `TESTS_LAZY_MCP` and
`TESTS_MCP_COMPRESSOR` name the interpreters of environments that have `fastmcp` with `py-key-value-aio[redis]`,
`agentscope`, `lazy-mcp` and `mcp-compressor`, and `TESTS_MCP_HUB` the program of mcp-hub; redis-server is on the path.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from .harness import Comparison
from .peers.servers import interpreter

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "docs" / name for name in ("comparison.md", "how-to/many.md", "how-to/replicas.md")]
FIGURES = Path(__file__).with_suffix(".json")
PARTS = ("agents", "mcp_servers", "registering", "stores", "gateways", "passing", "together", "evaluating")
ON_SERVERS = frozenset({"gateways"})
PACKAGES = {
    "Toolfold": ("toolfold", "toolfold"),
    "FastMCP": ("fastmcp", "fastmcp"),
    "py-key-value-aio": ("fastmcp", "py-key-value-aio"),
    "pydantic-ai": ("pydantic-ai", "pydantic-ai-slim"),
    "AgentScope": ("agentscope", "agentscope"),
    "MCP SDK": ("sdk", "mcp"),
    "redis-py": ("toolfold", "redis"),
    "lazy-mcp": ("lazy-mcp", "lazy-mcp"),
    "mcp-compressor": ("mcp-compressor", "mcp-compressor"),
}
"""The packages whose versions matter: the framework whose interpreter has it, and its name."""
MARKED = re.compile(r"(<!-- table: (\w+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)

Figures = dict[str, Any]


# -- measuring --------------------------------------------------------------------------------------------------------


def measured(part: str, folder: Path | None, *, quick: bool) -> Figures:
    """Return what a part costs, when it was measured, and the load of the machine before and after."""
    module = import_module(f".{part}", __package__)
    before = os.getloadavg()[0]
    if part == "stores":
        found = Comparison(part)
        for row in module.measure(quick=quick):
            found.add(row.what, "", row.value)
    else:
        found = module.compare(quick=quick, **({"folder": folder} if part in ON_SERVERS else {}))
    load = [round(before, 1), round(os.getloadavg()[0], 1)]
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "quick": quick, "load": load, "costs": found.costs}


def environment() -> Figures:
    """Return the machine, and the versions of what is there to be measured."""
    found: Figures = {
        "python": platform.python_version(),
        "machine": f"{platform.system()}, {platform.machine()}, {os.cpu_count()} processors",
        "versions": {shown: _version(*package) for shown, package in PACKAGES.items() if interpreter(package[0])},
    }
    if program := os.environ.get("TESTS_MCP_HUB"):
        package = json.loads((Path(program).parents[1] / "package.json").read_text(encoding="utf-8"))
        found["versions"]["mcp-hub"] = package["version"]
    if shutil.which("redis-server"):
        said = subprocess.run(["redis-server", "--version"], check=True, stdout=subprocess.PIPE, text=True).stdout
        found["redis"] = said.partition("v=")[2].split()[0]
    return found


def _version(framework: str, package: str) -> str:
    code = f"from importlib.metadata import version; print(version({package!r}))"
    command = [interpreter(framework) or sys.executable, "-c", code]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


# -- writing ----------------------------------------------------------------------------------------------------------


def seconds(value: float) -> str:
    """Return a time with two or three digits."""
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1:
            return f"{_digits(value * scale)} {unit}"
    return f"{_digits(value * 1e6)} µs"


def size(value: float) -> str:
    """Return a number of bytes with two or three digits."""
    for unit, scale in (("MB", 1e-6), ("kB", 1e-3)):
        if value * scale >= 1:
            return f"{_digits(value * scale)} {unit}"
    return f"{value:,.0f} bytes"


def ratio(value: float) -> str:
    """Return a ratio."""
    return f"× {_digits(value)}"


def number(value: float) -> str:
    """Return a number."""
    return f"{value:,.0f}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


Line = tuple[str, Sequence[tuple[str, str]], Callable[[float], str]]
"""A label, where the figure of each column is (operation, framework), and how it is shown."""


def table(figures: Figures, part: str, first: str, columns: Sequence[str], lines: Iterable[Line]) -> str:
    """Return a table of a part's figures; what was not measured is a dash."""
    costs: Mapping[str, Mapping[str, float]] = figures["parts"][part]["costs"]
    rows = [f"| {first} | {' | '.join(columns)} |", f"|---|{'--:|' * len(columns)}"]
    for label, cells, show in lines:
        found = [costs.get(operation, {}).get(framework) for operation, framework in cells]
        rows.append(f"| {label} | {' | '.join('–' if value is None else show(value) for value in found)} |")
    return "".join(f"{row}\n" for row in rows)


def _by_framework(frameworks: Sequence[str]) -> Callable[[str, str, Callable[[float], str]], Line]:
    def line(label: str, operation: str, show: Callable[[float], str]) -> Line:
        return label, [(operation, framework) for framework in frameworks], show

    return line


def agents(figures: Figures) -> str:
    """Return the table of agents."""
    line = _by_framework(["toolfold", "pydantic-ai", "agentscope"])
    lines = [
        line("list of the open group, nothing changed", "list", seconds),
        line("call of a tool", "call", seconds),
        line("change of the open group, with the new list", "change", seconds),
        line("memory gained by each change", "growth", size),
        line("memory of another session", "memory", size),
    ]
    return table(figures, "agents", "500 tools in 50 groups", ["Toolfold", "pydantic-ai", "AgentScope"], lines)


def mcp_servers(figures: Figures) -> str:
    """Return the table of MCP servers."""
    line = _by_framework(["toolfold", "fastmcp", "sdk"])
    lines = [
        line("list: one open group (SDK: all 500 tools)", "list", seconds),
        line("call of a tool", "call", seconds),
        line("close a group, open another, list", "change", seconds),
        line("list after some hundred changes, against before", "growth", ratio),
        line("memory of another open session", "memory", size),
    ]
    return table(figures, "mcp_servers", "500 tools in 50 groups", ["Toolfold", "FastMCP", "MCP SDK"], lines)


def registering(figures: Figures) -> str:
    """Return the table of registration."""
    frameworks = ["toolfold", "pydantic-ai", "agentscope", "sdk", "fastmcp"]
    columns = ["Toolfold", "pydantic-ai", "AgentScope", "MCP SDK", "FastMCP"]
    line = _by_framework(frameworks)
    return table(figures, "registering", "", columns, [line("register 5,000 typed functions", "register", seconds)])


def steps(figures: Figures) -> str:
    """Return the table of transitions on each engine."""
    engines = ["no store", "memory", "SQLite", "Redis"]
    lines: list[Line] = [
        (label, [(f"a transition with a hook, {engine}: {part}", "") for engine in engines], seconds)
        for label, part in (("median", "p50"), ("slowest of a hundred", "p99"))
    ]
    return table(figures, "stores", "a transition with a hook", engines, lines)


def replicas(figures: Figures) -> str:
    """Return the table of sessions on replicas."""
    frameworks = ["Toolfold", "FastMCP", "Toolfold, legacy era"]
    kinds: list[tuple[str, str, Callable[[float], str]]] = [
        ("sessions", "sessions", number),
        ("errors", "errors", number),
        ("requests per second", "throughput", number),
        ("processor time of a request, server", "processor time of a request", seconds),
        ("a write (a transition with a hook; a value set): median", "a transition: p50", seconds),
        ("slowest of a hundred", "a transition: p99", seconds),
        ("a read (a call in the open group; a value read): median", "a call: p50", seconds),
        ("slowest of a hundred", "a call: p99", seconds),
    ]
    lines: list[Line] = [
        (label, [(f"3 replicas, {framework}: {kind}", "") for framework in frameworks], show)
        for label, kind, show in kinds
    ]
    return table(figures, "stores", "three replicas", frameworks, lines)


def round_trips(figures: Figures) -> str:
    """Return the table of round trips."""
    prefix = "round trips: "
    lines: list[Line] = [
        (what.removeprefix(prefix), [(what, "")], number)
        for what in figures["parts"]["stores"]["costs"]
        if what.startswith(prefix)
    ]
    return table(figures, "stores", "request", ["commands sent to Redis"], lines)


GATEWAYS = {
    "toolfold": "Toolfold",
    "fastmcp": "FastMCP proxy",
    "fastmcp, search": "FastMCP, BM25 search transform",
    "lazy-mcp": "lazy-mcp",
    "mcp-compressor": "mcp-compressor",
}


def gateways(figures: Figures) -> str:
    """Return the table of gateways."""
    line = _by_framework(list(GATEWAYS))
    lines = [
        line("tokens of the first list", "tokens, first list", number),
        line("tokens read for a task: median", "tokens, median task", number),
        line("tokens read for the costliest task", "tokens, costliest task", number),
        line("needed tools that were not found", "tools not found", number),
        line("first list of 13 servers: processor time, with what was started", "ready, processor", seconds),
        line("elapsed since the start", "ready", seconds),
        line("server processes started by then", "servers started", number),
        line("memory of the gateway then", "memory", size),
        line("a forwarded call beyond a direct one, stdio: processor time", "call, stdio", seconds),
        line("elapsed", "call, stdio, elapsed", seconds),
        line("a forwarded call beyond a direct one, HTTP: processor time", "call, HTTP", seconds),
        line("elapsed", "call, HTTP, elapsed", seconds),
    ]
    return table(figures, "gateways", "", list(GATEWAYS.values()), lines)


def passing(figures: Figures) -> str:
    """Return the table of what passes through gateways."""
    shown = {**GATEWAYS, "mcp-hub": "mcp-hub"}
    line = _by_framework(list(shown))
    costs = figures["parts"]["passing"]["costs"]
    lines = [line(what, what, lambda passed: "yes" if passed else "**no**") for what in costs]
    return table(figures, "passing", "", list(shown.values()), lines)


def together(figures: Figures) -> str:
    """Return the table of five sessions with the same servers."""
    ways = {
        "direct": "no gateway",
        "toolfold": "relays, all shared",
        "toolfold, five shared": "relays, five shared",
        "toolfold serve": "`toolfold serve`",
        "fastmcp": "FastMCP proxy",
        "lazy-mcp": "lazy-mcp",
        "mcp-compressor": "mcp-compressor",
    }
    line = _by_framework(list(ways))
    lines = [
        line("processes", "processes", number),
        line("of servers", "server processes", number),
        line("memory", "memory of five sessions", size),
        line("memory of the first session alone", "memory of one session", size),
        line("first list of the first session", "first list", seconds),
        line("of the second", "second session, first list", seconds),
        line("a call beyond a direct one: processor time", "call, processor", seconds),
        line("elapsed", "call, elapsed", seconds),
    ]
    return table(figures, "together", "five sessions, 13 servers", list(ways.values()), lines)


def evaluating(figures: Figures) -> str:
    """Return the table of tasks that get done, by scripts."""
    arms = {
        "everything": "all listed",
        "search": "search",
        "groups": "groups",
        "groups+search": "both",
        "native": "late, Anthropic",
        "native-openai": "late, OpenAI",
        "code": "programs",
    }

    def line(label: str, operation: str, show: Callable[[float], str]) -> Iterator[Line]:
        for size in (100, 1_000):
            cells = [(operation.format(size), arm) for arm in arms]
            yield f"{label}, {size:,} tools", cells, show

    lines = [
        *line("done by a perfect chooser", "perfect, {}: done", number),
        *line("its requests for a task: mean", "perfect, {}: requests", _digits),
        *line("tokens that it reads in all of them: median", "perfect, {}: read", number),
        *line("done by one that sees what Codex shows", "codex, {}: done", number),
        *line("done by one that searches by the task's own words", "task-words, {}: done", number),
        *line("done by one that forgets handles", "forgets-handles, {}: done", number),
        *line("calls that a rule of groups forbids and that reach a tool", "reckless, {}: reached", number),
    ]
    return table(figures, "evaluating", "of 70 tasks", list(arms.values()), lines)


def versions(figures: Figures) -> str:
    """Return what was measured, when and where."""
    found = figures["environment"]
    names = {**found["versions"], "Python": found["python"], "Redis": found["redis"]}
    measured = []
    for part in PARTS:
        one = figures["parts"][part]
        before, after = one["load"]
        small = "; small sizes" if one["quick"] else ""
        measured.append(f"{part.replace('_', ' ')} {one['date']} ({before:.1f}, {after:.1f}{small})")
    listed = ", ".join(f"{name} {version}" for name, version in names.items())
    return f"{listed}; {found['machine']}. Measured, with the load before and after: {', '.join(measured)}.\n"


TABLES: Mapping[str, Callable[[Figures], str]] = {
    "versions": versions,
    "agents": agents,
    "mcp_servers": mcp_servers,
    "registering": registering,
    "steps": steps,
    "replicas": replicas,
    "round_trips": round_trips,
    "gateways": gateways,
    "passing": passing,
    "together": together,
    "evaluating": evaluating,
}


def with_tables(page: str, figures: Figures) -> str:
    """Return the page with its tables made anew."""
    return MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found[2]](figures)}\n{found[4]}", page)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and write or check the pages; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.comparison", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--servers", metavar="FOLDER", type=Path, help="has LiveMCPBench; without it, no gateways")
    parser.add_argument("--part", choices=PARTS, action="append", help="measure this part only")
    parser.add_argument("--quick", action="store_true", help="fewer runs, smaller numbers")
    parser.add_argument("--write", action="store_true", help="measure nothing; write the tables")
    parser.add_argument("--check", action="store_true", help="measure and write nothing; say which pages are stale")
    options = parser.parse_args(arguments)
    figures: Figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {"parts": {}}
    if options.check:
        stale = [page for page in PAGES if with_tables(text := page.read_text(encoding="utf-8"), figures) != text]
        for page in stale:
            print(f"{page} is stale: run python -m tests.benchmarks.comparison --write", file=sys.stderr)
        return int(bool(stale))
    if not options.write:
        known = figures.get("environment", {"versions": {}})
        figures["environment"] = found = {**known, **environment()}
        found["versions"] = known["versions"] | found["versions"]
        for part in options.part or PARTS:
            if part not in ON_SERVERS or options.servers:
                figures["parts"][part] = measured(part, options.servers, quick=options.quick)
                FIGURES.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    for page in PAGES:
        page.write_text(with_tables(page.read_text(encoding="utf-8"), figures), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
