"""Tables, text and JSON on standard output."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

import click
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from .failures import escaped

UNLIMITED = 10_000
"""A width in characters at which nothing is cut off or wrapped."""
GAP = 2
"""How many characters are between columns."""
NARROWEST = 20
"""How many characters of a text stand beside the names of a table at least; where there is less room it is below."""


class _Screen(Console):
    """A console that raises `BrokenPipeError`, for the program to handle, when its reader has gone."""

    def on_broken_pipe(self) -> None:
        raise


def console(width: int = UNLIMITED) -> Console:
    """Return a console as wide as the terminal, or `width` characters wide where there is none."""
    screen = _Screen(highlight=False, markup=False, emoji=False)
    if not screen.is_terminal:
        screen.width = width
    return screen


class _Table(Table):
    """A table whose texts are data: a cell can hold what a server says."""

    def add_row(self, *cells: RenderableType | None, style: StyleType | None = None, end_section: bool = False) -> None:
        safe = (escaped(cell) if isinstance(cell, str) else cell for cell in cells)
        super().add_row(*safe, style=style, end_section=end_section)


def table(*columns: str, numbers: tuple[str, ...] = (), texts: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns in `numbers` are flush right, those in `texts`, and the last one, can wrap."""
    made = _Table(box=None, pad_edge=False, header_style="bold", padding=(0, GAP, 0, 0))
    for column in columns:
        if column in numbers:
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold", no_wrap=column not in (*texts, columns[-1]))
    return made


def show(renderable: Table | Text | str, width: int = UNLIMITED) -> None:
    """Print for a person, without trailing spaces."""
    screen = console(width)
    printed = escaped(renderable) if isinstance(renderable, str) else renderable
    with screen.capture() as captured:
        if isinstance(printed, Table) and not _fits(printed, screen.width):
            screen.print(Text("\n").join(_stacked(printed, screen.width)), soft_wrap=True)
        else:
            screen.print(printed, soft_wrap=isinstance(renderable, str | Text))
    for line in captured.get().splitlines():
        screen.file.write(f"{line.rstrip()}\n")


def _fits(rows: Table, width: int) -> bool:
    """Whether no name in a table is broken at a width, and texts have room beside the names."""
    needed = 0
    for column in rows.columns:
        natural = max(_text(cell).cell_len for cell in (column.header, *column.cells))
        needed += GAP + (natural if column.no_wrap else min(natural, NARROWEST))
    return needed - GAP <= width


def _stacked(rows: Table, width: int) -> Iterator[Text]:
    """Yield the lines of a table that is too wide: the first cell of each row, and the others below it."""
    headers = [_text(column.header).plain for column in rows.columns]
    if not rows.columns[-1].no_wrap:
        headers[-1] = ""  # a sentence says itself what it is about
    for row, cells in zip(rows.rows, zip(*(column.cells for column in rows.columns), strict=True), strict=True):
        name, *others = map(_text, cells)
        name.stylize(row.style or "")
        yield name
        indent = " " * (len(name.plain) - len(name.plain.lstrip()) + GAP)
        said = [f"{header} {cell}".strip() for header, cell in zip(headers[1:], others, strict=True) if cell]
        for part in _filled(said, width - len(indent)):
            yield Text(f"{indent}{part}", style=row.style or "")


def _filled(parts: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines of parts, as many on a line as there is room for; a part that is longer is wrapped."""
    line = ""
    for part in parts:
        if line and cell_len(line) + GAP + cell_len(part) > width:
            yield from textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
            line = ""
        line += f"{' ' * GAP if line else ''}{part}"
    yield from textwrap.wrap(line, max(width, 1), break_long_words=False, break_on_hyphens=False)


def _text(cell: RenderableType) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


def show_json(value: Any) -> None:
    """Print for a program, or for a person at a terminal."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo("".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text))
