"""Measure, and print one table.

Each section runs in a process of its own; values that are compared are measured in the same run, alternately. The
status is 0 whether or not targets are met.
"""

import argparse
import json
import platform
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

from .harness import Row, in_own_process, rows_as_json

SECTIONS: Mapping[str, tuple[str, str]] = {
    "catalogs": ("catalogs", "measure"),
    "registering": ("registering", "measure"),
    "resident": ("sessions", "resident"),
    "traced": ("sessions", "traced"),
    "traced-counted": ("sessions", "traced_counted"),
    "growth": ("sessions", "growth"),
    "traced-growth": ("sessions", "traced_growth"),
    "telemetry": ("telemetry", "measure"),
    "observed": ("observed", "measure"),
    "traces": ("tracing", "measure"),
    "watched": ("watched", "measure"),
    "loading": ("loading", "measure"),
    "drawing": ("drawing", "measure"),
    "wire": ("wire", "measure"),
    "serving": ("serving", "measure"),
    "stores": ("stores", "measure"),
    "mcp": ("mcp_servers", "measure"),
    "several": ("several", "measure"),
    "agents": ("agents", "measure"),
    "imports": ("imports", "measure"),
    "gateway": ("gateway", "measure"),
    "crowding": ("crowding", "measure"),
    "together": ("together", "measure"),
}
"""The sections: a module, imported only in the process of its section, and its function."""
ON_SERVERS: Mapping[str, tuple[str, str]] = {
    "lists": ("search.targets", "measure"),
    "layouts": ("search.layouts", "measure"),
    "thirteen": ("gateway", "thirteen"),
    "gateways": ("gateways", "measure"),
}
"""Those that need the definitions of real servers."""


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON: seconds, bytes and ratios")
    parser.add_argument("--quick", action="store_true", help="fewer runs, smaller numbers")
    parser.add_argument(
        "--servers", metavar="FOLDER", type=Path, help="definitions of real servers: search/task_sets.py"
    )
    parser.add_argument(
        "--section", choices=[*SECTIONS, *ON_SERVERS], help="run one section, in this process, and print JSON"
    )
    options = parser.parse_args()
    if options.section:
        module, function = {**SECTIONS, **ON_SERVERS}[options.section]
        measure: Callable[..., list[Row]] = getattr(import_module(f".{module}", __package__), function)
        more = {"folder": options.servers} if options.section in ON_SERVERS else {}
        print(json.dumps(rows_as_json(measure(quick=options.quick, **more))))
        return
    sections = [*SECTIONS, *(ON_SERVERS if options.servers else ())]
    passed = [
        *(["--quick"] if options.quick else []),
        *(["--servers", str(options.servers)] if options.servers else []),
    ]
    rows = [row for section in sections for row in in_own_process(section, *passed)]
    print(json.dumps(rows_as_json(rows), indent=2, ensure_ascii=False) if options.json else _table(rows))


def _table(rows: list[Row]) -> str:
    cells = [("", "MEASURED", "TARGET", "", "NOTE"), *(row.cells() for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(5)]
    lines = ["   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in cells]
    where = f"Python {platform.python_version()}, {platform.machine()}, mcp {version('mcp')}; medians"
    return "\n".join([*(line.rstrip() for line in lines), "", where])


if __name__ == "__main__":
    main()
