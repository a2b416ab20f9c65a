"""A report for people and for programs (SPEC CNF-3).

    text.py      for a terminal        jsonl.py      JSON lines: everything, described by schema.json
    markdown.py  for a page            junit.py      for test dashboards
    badge.py     for a README          script.py     the messages of a finding, as a program
    trace.py     what they share: the steps of a violation, and figures

The same `Report` gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock

from ..report import Report, Result
from . import trace
from .badge import badge
from .jsonl import failure, jsonl, jsonl_of
from .junit import junit
from .markdown import markdown
from .script import script

__all__ = ["badge", "failure", "journal", "jsonl", "junit", "markdown", "write_reports"]

TEXT, JSONL, MARKDOWN, JUNIT, BADGE = "report.txt", "report.jsonl", "report.md", "junit.xml", "badge.json"

_FORMS = (TEXT, JSONL, MARKDOWN, JUNIT, BADGE)
_FAILURE = re.compile(r"failure(-[A-Z]+-[0-9]+(-[0-9]+)?)?\.(json|py)")


@contextmanager
def journal(folder: Path) -> Generator[Callable[[Result], None]]:
    """Yield a function that appends a result to `report.jsonl` at once, so that it survives a run that is killed.

    Reports of an earlier run are removed first; `write_reports` replaces the file at the end.

    Args:
        folder: Where to write; it is created if it does not exist.
    """
    _emptied(folder)
    lock = Lock()
    with (folder / JSONL).open("w", encoding="utf-8") as file:

        def add(result: Result) -> None:
            with lock:
                file.write(jsonl_of(result))
                file.flush()

        yield add


def write_reports(report: Report, folder: Path) -> tuple[Path, ...]:
    """Return the files that were written: the report in every form, and one file for each violation.

    `failure.json` has the most important violation, `failure-CLAUSE.json` the first of that clause,
    `failure-CLAUSE-2.json` the next. A file that ends in `.py` is the script that sends its messages, if it is about
    MCP. Those of an earlier run are removed.

    Args:
        report: The report.
        folder: Where to write; it is created if it does not exist.
    """
    from .text import text  # needs rich, the rest does not

    _emptied(folder)
    files = {
        TEXT: text(report),
        JSONL: jsonl(report),
        MARKDOWN: markdown(report, folder),
        JUNIT: junit(report),
        BADGE: badge(report),
        **{name: failure(report, violation) for name, violation in trace.files(report)},
        **{
            name.replace(".json", ".py"): script(violation.exchange)
            for name, violation in trace.files(report)
            if violation.exchange is not None
        },
    }
    for name, content in files.items():
        (folder / name).write_bytes(content.encode("utf-8", "backslashreplace"))
    return tuple(folder / name for name in files)


def _emptied(folder: Path) -> None:
    """Create a folder, or remove the reports of an earlier run from it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.iterdir()):
        if old.name in _FORMS or _FAILURE.fullmatch(old.name):
            old.unlink()
