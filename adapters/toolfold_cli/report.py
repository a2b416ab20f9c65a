"""`toolfold report`: what was used, with advice (SPEC EXP-3)."""

from __future__ import annotations

from functools import partial

import click

from toolfold_adapters.observe.stored_usage import DAYS, usage_file
from toolfold_diagrams.usage_report import TABLES, cell, report, summary

from .failures import failing, run
from .kinds import is_url
from .options import Integer, OneOf, examples
from .printing import show, table
from .records import usage_in
from .status import DEFAULT, answered, asked, asked_without_record


@click.command(
    "report",
    epilog=examples(
        "toolfold report                                 of what `toolfold init` had clients start",
        "toolfold report http://localhost:8000 --format html > use.html",
        "toolfold report sqlite:///usage.db --days 7     as `toolfold serve --usage` records it",
    ),
)
@click.argument("source", required=False, metavar="[URL|FILE]")
@click.option("--format", "form", type=OneOf(["text", "json", "html"]), default="text", help="In which form.")
@click.option(
    "--days", type=Integer(1, DAYS), metavar="N", default=DAYS, show_default=True, help="Of how many days, of a store."
)
@click.option("--rows", type=Integer(1), metavar="N", default=10, show_default=True, help="Rows of a table of text.")
def report_command(source: str | None, form: str, days: int, rows: int) -> None:
    """Say what was used of a server, what that cost, and what to do about it.

    The server at a URL was started with --live; its operator's token is read from TOOLFOLD_OPERATOR_TOKEN. Otherwise it
    is a store that `toolfold serve --usage` writes to, or an SQLite file of such. Without either it is the record of
    the servers that clients start by `toolfold init`, or else the server on this machine. No arguments or results are
    in it.
    """
    where = source or (str(usage_file()) if usage_file().is_file() else DEFAULT)
    with failing():
        if source is None and where == DEFAULT:
            usage = answered(asked_without_record("usage"))
        else:
            usage = answered(asked(where, "usage")) if is_url(where) else run(partial(usage_in, where, days))
        found = report(usage)
    if source is None and form == "text":
        show(f"Of {where}:")
    if form != "text":
        click.echo(found.json if form == "json" else found.html)
        return
    for line in (*summary(found.data), *(f"- {advice}" for advice in found.data["advice"])):
        show(line)
    for key, (title, columns) in TABLES.items():
        if entries := found.data[key]:
            shown = table(title.upper(), *(column.upper() for column in columns[1:]))
            for row in entries[:rows]:
                shown.add_row(*(cell(column, row[column]) for column in columns))
            show(shown)
