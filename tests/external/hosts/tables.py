"""The tables of hosts in the reference: where they are, and whether their rows are those of the hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from tests.external.support import ROOT

from .cases import CASES
from .hosts import HOSTS, Host
from .long import KINDS

PAGE = ROOT / "docs" / "reference" / "servers.md"
LOAD = 10
"""How many programs compute beside a host."""
CONDITIONS = ("cold", "warm", f"at load {LOAD}", "runtime killed before each turn")


@frozen
class Table:
    """A table of the page.

    Attributes:
        name: What it is called by `--only`.
        head: The heads of its columns, the last of which is the date.
    """

    name: str
    head: Sequence[str]

    @property
    def begin(self) -> str:
        return f"<!-- hosts: python -m tests.external.hosts --only {self.name} -->"

    @property
    def end(self) -> str:
        return f"<!-- end of {self.name} -->"


TABLES = (
    Table(
        "cases",
        ("host", "revision", *(case.name for case in CASES), "characters sent", "of these not cached", "date"),
    ),
    Table("relay", ("host", *CONDITIONS, "date")),
    Table("long", ("host", *KINDS, "date")),
    Table("end", ("host", "starts it again", "of many tools, listed", "a search of its own", "date")),
)


def rows(page: str, table: Table) -> list[tuple[str, ...]]:
    """Return the rows of a table of the page."""
    lines = page.partition(table.begin)[2].partition(table.end)[0].strip().splitlines()[2:]
    return [tuple(cell.strip() for cell in line.strip("| ").split(" | ")) for line in lines]


def written(page: str, table: Table, host: Host, new: Sequence[Sequence[str]]) -> str:
    """Return the page with these rows of a host in the place of those that a table has."""
    known = {one.name: [row for row in rows(page, table) if _is_of(row, one)] for one in HOSTS} | {host.name: new}
    before, _, rest = page.partition(table.begin)
    after = rest.partition(table.end)[2]
    lines = [f"| {' | '.join(table.head)} |", f"|{'---|' * len(table.head)}"]
    lines += [f"| {' | '.join(row)} |" for one in HOSTS for row in known[one.name]]
    return "\n".join([f"{before}{table.begin}", "", *lines, "", f"{table.end}{after}"])


def _is_of(row: Sequence[str], host: Host) -> bool:
    return row[0].rpartition(" ")[0] == host.name


def problems(page: str) -> list[str]:
    """Return what is wrong with the tables: a row that is missing, of another version, or not as the hosts say."""
    return [problem for table in TABLES for host in HOSTS for problem in _problems(page, table, host)]


def _problems(page: str, table: Table, host: Host) -> Iterator[str]:
    own = [row for row in rows(page, table) if _is_of(row, host)]
    named = f"{host.name} {host.version}"
    if not own:
        yield f"{table.name}: there is no row of {named}"
    for row in own:
        if row[0] != named:
            yield f"{table.name}: {row[0]} was measured, and the hosts have {named}"
        if len(row) != len(table.head):
            yield f"{table.name}: the row of {named} has {len(row)} columns"
        if table.name == "end" and host.search not in row:
            yield f"{table.name}: of its own search, the hosts say of {named}: {host.search}"
