"""Standard input and output while serving, and how Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, redirect_stdout, suppress
from types import FrameType
from typing import NoReturn

from attrs import define

CHUNK = 65_536
_HANGUP: int | None = getattr(signal, "SIGHUP", None)  # not every system has it


@define
class Ending:
    """Which signal has ended the program's work; `None` while none has."""

    signal: int | None = None

    def check(self) -> None:
        """Raise `SystemExit` with the usual status for the signal, 128 and its number, if there was one."""
        if self.signal is not None:
            raise SystemExit(128 + self.signal)

    def repeats(self, number: int) -> bool:
        """Return whether a signal only says again that the program is to end.

        A hangup comes twice when a terminal is closed, from its driver and from its shell, and beside SIGTERM from some
        supervisors.
        """
        return number == _HANGUP and self.signal is not None


Released = Callable[[], AbstractContextManager[None]]


@contextmanager
def output_reserved() -> Generator[Released]:
    """Send what is printed within to standard error, child processes included: standard output is the protocol's.

    Yields a function whose context manager gives standard output back for a while, to the transport.
    """
    sys.stdout.flush()
    kept, printed = os.dup(1), sys.stdout

    @contextmanager
    def released() -> Generator[None]:
        os.dup2(kept, 1)
        try:
            with redirect_stdout(printed):
                yield
        finally:
            os.dup2(2, 1)

    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield released
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def ended_by_signals() -> Generator[Ending]:
    """Have SIGTERM and SIGHUP end the work within as Ctrl-C does: by cancelling it, so that nothing is left behind."""
    ending = Ending()

    def end(number: int, _: FrameType | None) -> None:
        if ending.repeats(number):
            return
        ending.signal = number
        if number != _HANGUP:
            signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)

    try:
        with _handled(_requests_to_end(), end):
            yield ending
    except KeyboardInterrupt:
        ending.signal = ending.signal or signal.SIGINT


@contextmanager
def input_ended_by_signals(ending: Ending) -> Generator[None]:
    """Have SIGINT, SIGTERM and SIGHUP end standard input for what runs within, as if the client had left.

    A thread that waits for input can't be cancelled; the end of the input wakes it, and a server then ends by itself,
    in good order. So standard input is replaced by a pipe that a thread of ours fills. A second signal ends the process
    at once.
    """
    source = os.dup(0)
    reading, writing = os.pipe()
    os.dup2(reading, 0)
    os.close(reading)

    def end_input() -> None:
        """Close the pipe; its number stays taken, so that nothing else gets what the thread still writes."""
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, writing)
        os.close(nothing)

    def end(number: int, _: FrameType | None) -> None:
        if ending.repeats(number):
            return
        if ending.signal is not None:
            _end_at_once(number)
        ending.signal = number
        end_input()

    with _handled([signal.SIGINT, *_requests_to_end()], end):
        threading.Thread(target=_pump, args=(source, writing, end_input), daemon=True, name="toolfold input").start()
        yield


def _requests_to_end() -> list[int]:
    """Return SIGTERM and SIGHUP; the latter only if it is not ignored, as `nohup` has it."""
    if _HANGUP is None or signal.getsignal(_HANGUP) == signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, _HANGUP]


@contextmanager
def _handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Generator[None]:
    """Have `handler` called for signals, and what handled them before from then on."""
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def _pump(source: int, sink: int, end_input: Callable[[], None]) -> None:
    with suppress(OSError):
        while data := os.read(source, CHUNK):
            while data:
                data = data[os.write(sink, data) :]
    end_input()


def _end_at_once(number: int) -> NoReturn:
    os._exit(128 + number)
