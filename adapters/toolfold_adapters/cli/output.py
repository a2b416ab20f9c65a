"""Tables and JSON on standard output."""

from __future__ import annotations

import json
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

WIDE = 10_000


class Screen(Console):
    """A console that leaves a reader who has gone to the program."""

    def on_broken_pipe(self) -> None:
        """Let the `BrokenPipeError` that is being handled through."""
        raise


def console() -> Console:
    """Return a console as wide as the terminal, or, where there is none, so wide that nothing is cut off or wrapped."""
    made = Screen(highlight=False, markup=False, emoji=False)
    if not made.is_terminal:
        made.width = WIDE
    return made


def table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    """Return an empty table; the columns in `numbers` are flush right, and long cells are folded, never cut off."""
    made = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        if column in numbers:
            made.add_column(column, justify="right", no_wrap=True)
        else:
            made.add_column(column, overflow="fold")
    return made


def show(renderable: Table | Text | str) -> None:
    """Print for a person, without blanks at the ends of lines."""
    screen = console()
    with screen.capture() as printed:
        screen.print(renderable, soft_wrap=isinstance(renderable, str | Text))
    for line in printed.get().splitlines():
        screen.file.write(f"{line.rstrip()}\n")


def show_json(value: Any) -> None:
    """Print for a program."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def about(tokens: int) -> str:
    """Return an approximate number, as people write it."""
    return f"~{tokens:,}"


def counted(number: int, thing: str) -> str:
    """Return a number with its noun, in the plural where that is right."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
