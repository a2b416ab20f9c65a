"""The progress of a long run, on standard error: a status line on a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.text import Text

from .failures import one_line

INTERVAL = 15.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def show_progress(clock: Callable[[], float] = time.monotonic) -> Generator[Callable[[str], None]]:
    """Yield a function that shows a few words on the progress."""
    if not sys.stderr.isatty():
        yield _periodic_lines(clock)
        return
    with Console(stderr=True, highlight=False).status(Text("starting")) as status:
        yield lambda text: status.update(Text(one_line(text)))


def _periodic_lines(clock: Callable[[], float]) -> Callable[[str], None]:
    """Return a function that prints no more than one line in each interval; in a short run it prints nothing."""
    last = clock()

    def show(text: str) -> None:
        nonlocal last
        now = clock()
        if now - last >= INTERVAL:
            last = now
            click.echo(f"toolfold: {one_line(text)}", err=True)

    return show
