"""A report for people and for programs (SPEC CNF-3).

    text.py      for a terminal        jsonl.py      JSON lines: everything, described by schema.json
    markdown.py  for a page            junit.py      for test dashboards
    badge.py     for a README          trace.py      what they share: a violation told step by step

The same `Report` gives the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..report import Report, Violation
from .badge import badge
from .jsonl import failure, jsonl
from .junit import junit
from .markdown import markdown
from .trace import by_weight

__all__ = ["badge", "failure", "jsonl", "junit", "markdown", "write_reports"]

_FAILURE = re.compile(r"failure(-[A-Z]+-[0-9]+(-[0-9]+)?)?\.json")


def write_reports(report: Report, folder: Path) -> tuple[Path, ...]:
    """Return the files that were written: the report in every form, and one file for each violation.

    `failure.json` has the violation that is shown first, `failure-CLAUSE.json` the first of that clause,
    `failure-CLAUSE-2.json` the next. Those of an earlier run are removed.

    Args:
        report: What to write.
        folder: Where; it is made if it does not exist.
    """
    from .text import text  # needs rich, the rest does not

    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.iterdir()):
        if _FAILURE.fullmatch(old.name):
            old.unlink()
    files = {
        "report.txt": text(report),
        "report.jsonl": jsonl(report),
        "report.md": markdown(report),
        "junit.xml": junit(report),
        "badge.json": badge(report),
        **{name: failure(report, violation) for name, violation in _failures(report)},
    }
    for name, content in files.items():
        (folder / name).write_bytes(content.encode("utf-8", "backslashreplace"))
    return tuple(folder / name for name in files)


def _failures(report: Report) -> Iterator[tuple[str, Violation]]:
    """Yield each violation with the name of its file."""
    seen: dict[str, int] = {}
    for number, violation in enumerate(by_weight(report)):
        if number == 0:
            yield "failure.json", violation
        seen[violation.clause] = count = seen.get(violation.clause, 0) + 1
        yield f"failure-{violation.clause}{f'-{count}' if count > 1 else ''}.json", violation
