"""Measures what the page of benchmarks says, and writes its tables.

    python -m tests.external.benchmarks --write            measure all, and write the page; half an hour
    python -m tests.external.benchmarks --record FILE      the same, going on where a run with this file was ended
    python -m tests.external.benchmarks --step 20          measure each twentieth task, and print the tables
    python -m tests.external.benchmarks --write --tables   measure nothing; write the tables from the figures

`TESTS_BENCHMARKS` names the Python of an environment with `inspect_evals[agentdojo]`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import anyio

from .figures import FIGURES, PAGE, TABLES, kept, measured, page
from .record import Record


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=1, help="play each so many-th task, with each so many-th attack")
    parser.add_argument(
        "--write", action="store_true", help="write the figures and the page, which are printed otherwise"
    )
    parser.add_argument("--tables", action="store_true", help="take the figures that are there, and measure none")
    parser.add_argument("--record", type=Path, metavar="FILE", help="record outcomes there, and play none that it has")
    asked = parser.parse_args()
    figures = kept() if asked.tables else anyio.run(measured, Record(asked.record), asked.step)
    if not asked.write:
        print(*(make(figures) for make in TABLES.values()), sep="\n")
        return
    FIGURES.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), figures), encoding="utf-8")


main()
