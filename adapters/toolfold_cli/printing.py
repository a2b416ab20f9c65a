"""Tables, text and JSON on standard output."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console, RenderableType
from rich.style import StyleType
from rich.table import Table
from rich.text import Text

from .failures import escaped

UNLIMITED = 10_000
"""A width in characters at which nothing is cut off or wrapped."""


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


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns in `numbers` are flush right, and long cells are folded, never cut off."""
    made = _Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        if column in numbers:
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold")
    return made


def show(renderable: Table | Text | str, width: int = UNLIMITED) -> None:
    """Print for a person, without trailing spaces."""
    screen = console(width)
    printed = escaped(renderable) if isinstance(renderable, str) else renderable
    with screen.capture() as captured:
        screen.print(printed, soft_wrap=isinstance(renderable, str | Text))
    for line in captured.get().splitlines():
        screen.file.write(f"{line.rstrip()}\n")


def show_json(value: Any) -> None:
    """Print for a program, or for a person at a terminal."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo("".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text))
