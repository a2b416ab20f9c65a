"""The progress of a long run, on standard error: a status line on a terminal, otherwise an occasional line."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import click
from rich.console import Console
from rich.text import Text

from .logs import one_line

INTERVAL = 15.0
"""Seconds between lines where there is no terminal."""


Timed = Callable[[str, float], str]


@contextmanager
def show_progress(
    limit: float | None = None, clock: Callable[[], float] = time.monotonic
) -> Generator[Callable[[str], None]]:
    """Yield a function that shows a short text on the progress, with the time passed and the limit, if there is one."""
    begun = clock()
    most = "" if limit is None else f" of at most {limit:g} s"

    def timed(text: str, now: float) -> str:
        return f"{one_line(text)} ({now - begun:.0f} s{most})"

    if not sys.stderr.isatty():
        yield _periodic_lines(begun, clock, timed)
        return
    with Console(stderr=True, highlight=False).status(Text("starting")) as status:
        yield lambda text: status.update(Text(timed(text, clock())))


def _periodic_lines(begun: float, clock: Callable[[], float], timed: Timed) -> Callable[[str], None]:
    """Return a function that prints at most one line in each interval, and so nothing in a short run."""
    last = begun

    def show(text: str) -> None:
        nonlocal last
        now = clock()
        if now - last >= INTERVAL:
            last = now
            click.echo(f"toolfold: {timed(text, now)}", err=True)

    return show
