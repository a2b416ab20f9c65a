"""How far a run has come, on standard error: a moving line on a terminal, otherwise a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from toolfold.spi import extras_named

from .render.story import plain
from .trial import Progress

EVERY = 15.0
"""Seconds between lines where there is no terminal."""


@contextmanager
def shown_progress(clock: Callable[[], float] = time.monotonic) -> Generator[Progress]:
    """Yield what tells the user how far it has come."""
    if not sys.stderr.isatty():
        yield _Lines(clock).tell
        return
    with extras_named():
        from rich.console import Console
        from rich.text import Text

    with Console(stderr=True, highlight=False).status(Text("starting")) as status:
        yield lambda text: status.update(Text(plain(text)))


class _Lines:
    """Prints what it is told at most every so often; a short run prints nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()

    def tell(self, text: str) -> None:
        now = self._clock()
        if now - self._last >= EVERY:
            self._last = now
            print(f"toolfold: {plain(text)}", file=sys.stderr, flush=True)
