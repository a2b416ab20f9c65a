"""A report as a page of Markdown: what is wrong, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from ..report import ClauseVerdict, Report, Violation
from . import trace
from .script import script
from .trace import plain

LONGEST = 2000
"""How many characters of each message the page has; the file of a violation has all."""


def markdown(report: Report, folder: Path | None = None) -> str:
    """Return the page: a summary, and each finding with what follows from it, to be filed as an issue (SPEC CNF-11).

    Args:
        report: The report.
        folder: Where its violations are written, as files to replay; None if nowhere.
    """
    return "\n".join(_lines(report, folder)) + "\n"


def _lines(report: Report, folder: Path | None) -> Iterator[str]:
    yield f"# {_inline(trace.title(report))}"
    yield from ("", _inline(trace.particulars(report)), "", _inline(trace.summary(report)), "")
    yield from (f"- {_inline(line)}" for line in trace.levels(report))
    files = {} if folder is None else {id(found): folder / name for name, found in trace.files(report)}
    for row, first, others in trace.violated(report):
        yield from finding(row, first)
        yield from (f"\n{_inline(line)}" for line in trace.also_found_by(others))
        if id(first) in files:
            yield from ("", "To replay it:", "", "```", trace.replay(report, files[id(first)]), "```")
        yield from _following(trace.hidden(report, row.clause.id))
    yield from _incomplete(report)
    yield from _stale(report)


def finding(row: ClauseVerdict, found: Violation, heading: str = "##", longest: int = LONGEST) -> Iterator[str]:
    """Yield the lines of a finding: what is wrong, what demands it, the messages that show it, and a script."""
    yield from ("", f"{heading} {row.clause.id} ({row.level}): {_inline(found.message)}", "")
    yield from (f"> {row.clause.text}", "", row.clause.demanded_by, "")
    yield from (f"{trace.label(row).capitalize()}; found by {_inline(trace.found_by(found))}:", "")
    yield from ("```text", *trace.steps(found), "```")
    if row.reason:
        yield from ("", f"Expected because: {_inline(row.reason)}")
    if found.exchange is not None:
        yield from ("", "The messages:", "", "```text", *trace.messages(found, longest), "```")
        yield from ("", trace.confirmation(found), "", "<details><summary>A script that sends them</summary>", "")
        yield from ("```python", script(found.exchange), "```", "", "</details>")


def _following(hidden: Iterable[tuple[ClauseVerdict, Violation]]) -> Iterator[str]:
    for number, (row, found) in enumerate(hidden):
        yield from () if number else ("", "What may follow from it, and is undecided:")
        yield from ("", f"- {row.clause.id} ({row.level}): {_inline(found.message)} ({_inline(trace.found_by(found))})")
        yield from ("", "  ```text", *(f"  {line}" for line in trace.steps(found)), "  ```")


def _incomplete(report: Report) -> Iterator[str]:
    incomplete = trace.incomplete(report)
    if incomplete:
        yield from ("", "## Incomplete checks", "")
    for status, setting, reason, checks in incomplete:
        line = f"{setting}: {status.value}: {reason} In the checks: {', '.join(checks)}"
        yield f"- {_inline(line)}"


def _stale(report: Report) -> Iterator[str]:
    if report.stale:
        yield from ("", "## Holds, so remove it from the expected failures", "")
    yield from (f"- {_inline(f'{expectation}: {expectation.reason}')}" for expectation in report.stale)


def _inline(text: str) -> str:
    """Return a text escaped for Markdown and HTML."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{one}" if one in "\\`*_[]|" else one for one in escaped)
