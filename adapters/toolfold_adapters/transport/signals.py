"""Signals and standard streams of a program that serves."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import AbstractContextManager, contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from types import FrameType
from typing import NoReturn

from attrs import define

CHUNK = 65_536
if sys.platform == "win32":
    _HANGUP = signal.SIGBREAK
else:
    _HANGUP = signal.SIGHUP  # the signal of a terminal that is closed


@define
class Shutdown:
    """The signal that has requested the program to end; `None` if there was none."""

    signal: int | None = None

    def exit_if_signalled(self) -> None:
        """Raise `SystemExit` with the usual status for the signal, 128 plus its number, if there was one.

        SIGTERM asks a server to end: one that does has succeeded, with status 0.
        """
        if self.signal not in (None, signal.SIGTERM):
            raise SystemExit(128 + self.signal)

    def repeated_by(self, number: int) -> bool:
        """Return whether a signal only repeats the request to end.

        When a terminal is closed, SIGHUP comes twice, from its driver and from its shell; some supervisors send it
        together with SIGTERM.
        """
        return number == _HANGUP and self.signal is not None


_current: ContextVar[Shutdown | None] = ContextVar("toolfold_shutdown", default=None)
"""That of the program, if `cancelled_by_signals` runs it."""
Released = Callable[[], AbstractContextManager[None]]


@contextmanager
def stdout_reserved() -> Generator[Released]:
    """Redirect all output of the block, also of child processes, to standard error; standard output is reserved.

    Yields a function that returns a context manager in which standard output is available, for the transport.
    """
    sys.stdout.flush()
    stdout = sys.stdout
    with diverted(1, stderr()) as original:

        @contextmanager
        def released() -> Generator[None]:
            with diverted(1, os.dup(original)), redirect_stdout(stdout):
                yield

        with redirect_stdout(sys.stderr):
            yield released


@contextmanager
def cancelled_by_signals() -> Generator[Shutdown]:
    """Cancel the block on SIGTERM and SIGHUP as on Ctrl-C, so that everything is cleaned up."""
    shutdown = Shutdown()

    def cancel(number: int, _: FrameType | None) -> None:
        if shutdown.repeated_by(number):
            return
        shutdown.signal = number
        if number != _HANGUP:
            signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)

    token = _current.set(shutdown)
    try:
        with _handled(_termination_signals(), cancel, shutdown):
            yield shutdown
    except KeyboardInterrupt:
        shutdown.signal = shutdown.signal or signal.SIGINT
    finally:
        _current.reset(token)


@contextmanager
def ended_by_signals(end: Callable[[], object]) -> Generator[None]:
    """Have `end` called on SIGINT, SIGTERM or SIGHUP, for a graceful end; a second signal ends the process at once.

    Only the main thread handles signals; in others nothing is called.

    Raises:
        SystemExit: A signal has ended the block, and no `cancelled_by_signals` around it exits with that status.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    program = _current.get()
    shutdown = program or Shutdown()

    def handle(number: int, _: FrameType | None) -> None:
        if shutdown.repeated_by(number):
            return
        if shutdown.signal is not None:
            _exit_at_once(number)
        shutdown.signal = number
        end()

    with _handled([signal.SIGINT, *_termination_signals()], handle, shutdown):
        yield
    if program is None:
        shutdown.exit_if_signalled()


@contextmanager
def stdin_closed_by_signals() -> Generator[Callable[[], None]]:
    """Close standard input of the block on SIGINT, SIGTERM and SIGHUP, like a client that disconnects.

    This is for those who have a thread wait for input, which can't be cancelled; the end of the input wakes it, and a
    server then shuts down gracefully. So standard input is replaced by a pipe that a thread fills. Signals are handled
    as `ended_by_signals` does.

    Yields a function that closes standard input in the same way.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    source = os.dup(0)
    reading, writing = os.pipe()
    _redirect(0, reading)
    os.close(reading)

    def close_pipe() -> None:
        """Close the pipe but keep its descriptor in use, so that the thread can't write to another file."""
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, writing)
        os.close(devnull)

    with ended_by_signals(close_pipe):
        threading.Thread(target=_copy, args=(source, writing, close_pipe), daemon=True, name="toolfold stdin").start()
        yield close_pipe


def stderr() -> int:
    """Return a new descriptor of standard error, or of nothing where that is closed."""
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)


@contextmanager
def diverted(stream: int, file: int) -> Generator[int]:
    """Have a standard stream, by its descriptor, lead to a file for the block, and yield a descriptor of its own."""
    original = os.dup(stream)
    try:
        _redirect(stream, file)
        os.close(file)
        yield original
    finally:
        _redirect(stream, original)
        os.close(original)


def _redirect(stream: int, file: int) -> None:
    """Make a standard stream, by its descriptor, that of another file, also for child processes."""
    os.dup2(file, stream)
    if sys.platform == "win32":  # what is started there inherits a handle, not a descriptor
        from mcp.os.win32.utilities import rebind_std_handle_to_fd

        rebind_std_handle_to_fd(stream)


def _termination_signals() -> list[int]:
    """Return SIGTERM and SIGHUP; the latter only if it is not ignored, as after `nohup`."""
    if signal.getsignal(_HANGUP) == signal.SIG_IGN:
        return [signal.SIGTERM]
    return [signal.SIGTERM, _HANGUP]


@contextmanager
def _handled(
    numbers: Iterable[int], handler: Callable[[int, FrameType | None], None], shutdown: Shutdown
) -> Generator[None]:
    """Call `handler` for signals in the block, and restore the previous handlers afterwards.

    A program that ends because of a signal would be killed by a second SIGHUP, however late it comes: it is ignored.
    """
    previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            kills = before == signal.SIG_DFL and shutdown.repeated_by(number)
            signal.signal(number, signal.SIG_IGN if kills else before)


def _copy(source: int, sink: int, close: Callable[[], None]) -> None:
    with suppress(OSError):
        while data := os.read(source, CHUNK):
            while data:
                data = data[os.write(sink, data) :]
    close()


def _exit_at_once(number: int) -> NoReturn:
    os._exit(128 + number)
