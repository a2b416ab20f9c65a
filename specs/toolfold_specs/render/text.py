"""A report for a terminal: what is violated first, then clause by clause, then what was left out."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

from toolfold.spi import extras_named

from ..report import Report, Row, Verdict, Violation
from .trace import (
    also_found_by,
    ended_badly,
    found_by,
    hidden,
    label,
    levels,
    not_applicable,
    particulars,
    plain,
    steps,
    summary,
    title,
    violated,
    why,
)

with extras_named():
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

WIDTH = 120
COLOURS = {
    Verdict.HELD: "green",
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
    """Print a report; colours are the console's business."""
    with console.capture() as printed:
        for part in _parts(report):
            console.print(part)
    console.file.write("".join(f"{line.rstrip()}\n" for line in printed.get().splitlines()))
    console.file.flush()  # before what is said on standard error


def _parts(report: Report) -> Iterator[RenderableType]:
    yield Text(title(report), style="bold")
    yield Text(f"{particulars(report)}\n", style="dim")
    for row, first, others in violated(report):
        yield _violation(row, first, others)
    yield from (_hidden(row, found) for row, found in hidden(report))
    yield from _ended_badly(report)
    yield from (_remove(str(stale), stale.reason) for stale in report.stale)
    yield _table(report)
    if told := not_applicable(report):
        yield Text(f"\n{told}", style="dim")
    yield from _left_out(report)
    yield from (Text(line) for line in levels(report))
    yield Text(summary(report), style="bold green" if report.exit_status == 0 else "bold red")


def _violation(row: Row, first: Violation, others: tuple[Violation, ...]) -> RenderableType:
    colour = COLOURS[row.verdict]
    said = Text.assemble((f"{label(row)}  {row.clause.id} ({row.level})", colour), f"  {found_by(first)}")
    said.append(f"\n  {row.clause.summary}", style="dim")
    said.append(f"\n  {plain(first.message)}\n", style="bold")
    for line in steps(first):
        style = {"expected": "green", "got": "red"}.get(line.strip().partition(" ")[0], "")
        said.append(f"  {line}\n", style=style)
    for line in also_found_by(others):
        said.append(f"  {line}\n", style="dim")
    if row.reason:
        said.append(f"  expected, because: {plain(row.reason)}\n")
    return said


def _hidden(row: Row, found: Violation) -> RenderableType:
    """Return what went wrong and is not blamed, because something else may be why."""
    said = Text.assemble((f"UNDECIDED  {row.clause.id} ({row.level})", COLOURS[row.verdict]), f"  {found_by(found)}")
    said.append(f"\n  {plain(found.message)}\n", style="bold")
    return said.append(f"  {plain(row.reason)}\n", style="dim")


def _ended_badly(report: Report) -> Iterator[RenderableType]:
    for status, setting, reason, checks in ended_badly(report):
        said = Text.assemble((status.value.upper(), "bold red"), f"  {plain(setting)}\n  {plain(reason)}\n")
        yield said.append(f"  in the checks: {plain(', '.join(checks))}\n", style="dim")


def _remove(expectation: str, reason: str) -> RenderableType:
    return Text.assemble(
        ("HOLDS AGAIN", "bold red"),
        f"  {plain(expectation)}\n  Remove it from the expected failures ({plain(reason)}).\n",
    )


def _table(report: Report) -> RenderableType:
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in ("CLAUSE", "LEVEL", "VERDICT"):
        made.add_column(column, no_wrap=True)
    made.add_column("SHOWN BY", overflow="fold")
    for row in report.rows:
        if row.verdict is not Verdict.NOT_APPLICABLE:
            verdict = Text(row.verdict.value, style=COLOURS[row.verdict])
            made.add_row(row.clause.id, row.level, verdict, Text(why(row)))
    return made


def _left_out(report: Report) -> Iterator[RenderableType]:
    if report.left_out:
        yield Text("\nLeft out", style="bold")
    for capability, reason in report.left_out.items():
        yield Text(f"  {plain(capability)}: {plain(reason)}", style="dim")
    yield Text()
