"""A report as a page of Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from ..report import Report, Row, Violation
from . import trace
from .trace import plain


def markdown(report: Report) -> str:
    """Return the page: summary, violations with their histories, and a table of clauses with a column per setting."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# {_inline(trace.title(report))}"
    yield from ("", _inline(trace.particulars(report)), "", _inline(trace.summary(report)))
    for row, first, others in trace.violated(report):
        yield from _violation(row, first, others)
    yield from ("", *(f"- {_inline(line)}" for line in trace.levels(report)))
    for row, found in trace.hidden(report):
        yield from _violation(row, found, ())
    yield from _incomplete(report)
    yield from _stale(report)
    yield from _table(report)
    if report.left_out:
        yield from ("", "## Left out", "")
        yield from (f"- {_inline(name)}: {_inline(reason)}" for name, reason in report.left_out.items())


def _violation(row: Row, first: Violation, others: tuple[Violation, ...]) -> Iterator[str]:
    yield from ("", f"## {row.clause.id} ({row.level}): {row.verdict.value}", "")
    yield from (row.clause.text, "", f"**{_inline(first.message)}** Found by {_inline(trace.found_by(first))}:", "")
    yield from ("```text", *trace.steps(first), "```")
    for line in trace.also_found_by(others):
        yield from ("", _inline(line))
    if row.reason:
        yield from ("", f"{'Undecided' if row.hidden else 'Expected'} because: {_inline(row.reason)}")


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


def _table(report: Report) -> Iterator[str]:
    settings = report.settings
    yield from ("", "## Clauses", "")
    yield _cells("clause", "level", *map(_inline, settings or ("verdict",)), "shown by")
    yield "|" + "-|" * (3 + len(settings or ("",)))
    by_setting = [report.rows_in(setting) for setting in settings] or [report.rows]
    for row, *there in zip(report.rows, *by_setting, strict=True):
        yield _cells(row.clause.id, row.level, *(one.verdict.value for one in there), _inline(trace.why(row)))


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _inline(text: str) -> str:
    """Return a text escaped for Markdown and HTML."""
    escaped = plain(text).replace("&", "&amp;").replace("<", "&lt;")
    return "".join(f"\\{one}" if one in "\\`*_[]|" else one for one in escaped)
