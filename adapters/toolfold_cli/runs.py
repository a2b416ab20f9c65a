"""Long runs: ending one early, and its progress on standard error.

A run ends at a time limit, on Ctrl-C or SIGTERM, even if the main thread is blocked for ever. This takes two steps.
First the main thread is interrupted, so that it closes its resources as usual. If it does not react in time, since it
is blocked where no exception is raised, another thread reports and ends the process.
"""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

import click
from attrs import frozen
from rich.console import Console
from rich.text import Text

from . import INTERRUPTED
from .logs import one_line

TERMINATED = 128 + signal.SIGTERM
UNDECIDED = 2
GRACE = 5.0
"""Seconds that the main thread has to react and to close its resources."""


class Ended(KeyboardInterrupt):
    """The run is ended: raised in the main thread, and caught only by the command itself."""

    def __init__(self, reason: str, status: int) -> None:
        self.reason = reason
        self.status = status
        super().__init__(reason)


class Watchdog:
    """Ends a run: made by `watched`."""

    def __init__(
        self, seconds: float, last: Callable[[Ended], None], grace: float, leave: Callable[[int], None]
    ) -> None:
        self._seconds = seconds
        self._last = last
        self._grace = grace
        self._leave = leave
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._reacted = False
        self.ended: Ended | None = None

    def watch(self) -> None:
        """Wait for the end of the run, and end it at the time limit."""
        if self._over.wait(self._seconds):
            return
        with self._lock:
            if self._over.is_set() or self.ended is not None:
                return
            self.ended = Ended(f"the limit of {self._seconds:g} seconds was reached", UNDECIDED)
            if sys.platform == "win32":
                _thread.interrupt_main(signal.SIGTERM)
            else:  # this interrupts a system call, too
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
        self._force()

    def interrupt(self, number: int, _: FrameType | None) -> NoReturn:
        """Raise `Ended` in the main thread: the handler of signals."""
        if self.ended is None:
            status = INTERRUPTED if number == signal.SIGINT else TERMINATED
            self.ended = Ended(f"it was ended by {signal.Signals(number).name}", status)
            threading.Thread(target=self._force, daemon=True, name="watchdog").start()
        raise self.ended

    def stop(self) -> None:
        """Record that the main thread has reacted; if the run was ended, only the process remains to be ended."""
        with self._lock:
            self._reacted = True
            if self.ended is None:
                self._over.set()

    def _force(self) -> None:
        """End the process unless it ends in time."""
        assert self.ended is not None
        time.sleep(self._grace)
        if not self._reacted:
            with suppress(BaseException):
                self._last(self.ended)
        self._leave(self.ended.status)


@contextmanager
def watched(
    seconds: float,
    last: Callable[[Ended], None],
    *,
    grace: float = GRACE,
    leave: Callable[[int], None] = os._exit,
) -> Generator[None]:
    """Raise `Ended` in the block, in the main thread, after a time, on Ctrl-C and on SIGTERM.

    Args:
        seconds: How long the block may take.
        last: Called before the process is ended from another thread, if the main thread does not react.
        grace: Seconds that the main thread has to react.
        leave: Ends the process with a status.
    """
    dog = Watchdog(seconds, last, grace, leave)
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, dog.interrupt) for number in signals]
    threading.Thread(target=dog.watch, daemon=True, name="watchdog").start()
    try:
        yield
    finally:
        dog.stop()
        for number, handler in zip(signals, before, strict=True):
            signal.signal(number, handler)


# -- progress ----------------------------------------------------------------------------------------------------------

INTERVAL = 15.0
"""Seconds between lines where there is no terminal."""


Timed = Callable[[str, float], str]


@frozen
class Progress:
    """Shows people what a run is doing, when it is called with a few words, and what it has found."""

    now: Callable[[str], None]
    print_line: Callable[[str], None] = lambda _: None
    """Prints a line that stays; where there is no terminal it prints nothing, since what was found is in the result."""

    def __call__(self, text: str) -> None:
        """Show what the run is doing now."""
        self.now(text)


@contextmanager
def show_progress(limit: float | None = None, clock: Callable[[], float] = time.monotonic) -> Generator[Progress]:
    """Yield what shows a short text on the progress, with the time passed and the limit, if there is one."""
    begun = clock()
    most = "" if limit is None else f" of at most {limit:g} s"

    def timed(text: str, now: float) -> str:
        return f"{one_line(text)} ({now - begun:.0f} s{most})"

    if not sys.stderr.isatty():
        yield Progress(_periodic_lines(begun, clock, timed))
        return
    with Console(stderr=True, highlight=False).status(Text("starting")) as status:
        yield Progress(
            lambda text: status.update(Text(timed(text, clock()))),
            lambda line: status.console.print(Text(one_line(line))),
        )


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
