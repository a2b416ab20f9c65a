"""A report for a terminal: what to fix, then the violations, then each clause, then what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from toolfold_specs.extras import extras_named

from ..report import ClauseVerdict, Report, Verdict, Violation
from . import trace
from .trace import plain

with extras_named():
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

WIDTH = 120
LONGEST = 240
"""How many characters of each message are printed; the page of Markdown has all."""
COLOURS = {
    Verdict.HELD: "green",
    Verdict.PARTLY: "green",
    Verdict.VIOLATED: "bold red",
    Verdict.EXPECTED: "yellow",
    Verdict.FIXED: "bold red",
    Verdict.UNDECIDED: "bold red",
    Verdict.NOT_APPLICABLE: "dim",
}


def text(report: Report) -> str:
    """Return a report as plain text, without colours."""
    file = StringIO()
    show(report, Console(file=file, width=WIDTH, no_color=True, highlight=False, markup=False, emoji=False))
    return file.getvalue()


def show(report: Report, console: Console) -> None:
    """Print a report; the console decides about colours."""
    with console.capture() as printed:
        for part in _parts(report):
            console.print(part)
    console.file.write("".join(f"{line.rstrip()}\n" for line in printed.get().splitlines()))
    console.file.flush()  # before anything on standard error


def _parts(report: Report) -> Iterator[RenderableType]:
    for number, line in enumerate(trace.to_fix(report)):
        yield Text(line, style="" if number else "bold red")
    if trace.to_fix(report):
        yield Text()
    yield Text(trace.title(report), style="bold")
    yield Text(f"{trace.particulars(report)}\n", style="dim")
    for row, first, others in trace.violated(report):
        yield _violation(row, first, others)
        yield from (_hidden(hidden, found) for hidden, found in trace.hidden(report, row.clause.id))
    yield from _incomplete(report)
    yield from (_remove(str(stale), stale.reason) for stale in report.stale)
    yield _table(report)
    if line := trace.not_applicable(report):
        yield Text(f"\n{line}", style="dim")
    yield from _left_out(report)
    yield from (Text(line) for line in trace.levels(report))
    yield Text(trace.summary(report), style="bold green" if report.exit_status == 0 else "bold red")


def _violation(row: ClauseVerdict, first: Violation, others: tuple[Violation, ...]) -> RenderableType:
    colour = COLOURS[row.verdict]
    text = Text.assemble((f"{trace.label(row)}  {row.clause.id} ({row.level})", colour), f"  {trace.found_by(first)}")
    demanded = f" {row.clause.demanded_by}" if first.exchange is not None else ""
    text.append(f"\n  {row.clause.text}{demanded}", style="dim")
    text.append(f"\n  {plain(first.message)}\n", style="bold")
    for line in trace.steps(first):
        style = {"expected": "green", "got": "red"}.get(line.strip().partition(" ")[0], "")
        text.append(f"  {line}\n", style=style)
    for line in (*trace.messages(first, LONGEST), trace.confirmation(first), *trace.also_found_by(others)):
        text.append(f"  {line}\n" if line else "", style="dim")
    if row.reason:
        text.append(f"  expected because: {plain(row.reason)}\n")
    return text


def _hidden(row: ClauseVerdict, found: Violation) -> RenderableType:
    """Return a masked violation, which another one may explain."""
    heading = (f"UNDECIDED  {row.clause.id} ({row.level})", COLOURS[row.verdict])
    text = Text.assemble("  ", heading, f"  {trace.found_by(found)}")
    text.append(f"\n  {plain(found.message)}\n", style="bold")
    return text.append(f"  {plain(row.reason)}\n", style="dim")


def _incomplete(report: Report) -> Iterator[RenderableType]:
    for status, setting, reason, checks in trace.incomplete(report):
        text = Text.assemble((status.value.upper(), "bold red"), f"  {plain(setting)}\n  {plain(reason)}\n")
        yield text.append(f"  in the checks: {plain(', '.join(checks))}\n", style="dim")


def _remove(expectation: str, reason: str) -> RenderableType:
    return Text.assemble(
        ("HOLDS AGAIN", "bold red"),
        f"  {plain(expectation)}\n  Remove it from the expected failures ({plain(reason)}).\n",
    )


def _table(report: Report) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("CLAUSE", "LEVEL", "VERDICT"):
        table.add_column(column, no_wrap=True)
    table.add_column("SHOWN BY", overflow="fold")
    for row in report.rows:
        if row.verdict is not Verdict.NOT_APPLICABLE:
            verdict = Text(row.verdict.value, style=COLOURS[row.verdict])
            table.add_row(row.clause.id, row.level, verdict, Text(trace.why(row)))
    return table


def _left_out(report: Report) -> Iterator[RenderableType]:
    if report.left_out:
        yield Text("\nLeft out", style="bold")
    for names, reason in trace.left_out(report):
        yield Text(f"  {plain(names)}: {plain(reason)}", style="dim")
    yield Text()
