"""Failures of commands, which are printed as a paragraph on standard error without a traceback, and logging."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import anyio
import click

from toolfold import ToolfoldError
from toolfold.spi import extras_named

MESSAGE_LENGTH = 2000
"""The maximum length of a logged message in characters."""

_TRACEBACK = "toolfold.traceback"


class Failed(click.ClickException):
    """The command failed: exits with a paragraph on standard error, and status 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the paragraph."""
        click.echo(f"toolfold: {self.message}", file=file or sys.stderr, err=file is None)


def run(job: Callable[[], Any]) -> Any:
    """Return the result of an async job; an error exits with status 1 and a paragraph."""
    with failing():
        return anyio.run(job)


@contextmanager
def failing(*expected: type[Exception], failure: type[Failed] = Failed) -> Generator[None]:
    """Convert errors into a failure of the command, with a traceback only on request.

    Args:
        expected: Errors whose messages explain themselves, besides those of Toolfold.
        failure: The exception to raise.
    """
    try:
        with extras_named():
            yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        leaves = list(_leaves(error))
        if isinstance(leaves[0], BrokenPipeError):  # whoever read the output has gone: click exits quietly
            raise leaves[0] from None
        if traceback_wanted():
            traceback.print_exception(error)
        known: tuple[type[Exception], ...] = (ToolfoldError, *expected)
        raise failure("\n".join(dict.fromkeys(_in_words(leaf, known) for leaf in leaves))) from error


def request_traceback(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    """Record whether the user requested tracebacks: the callback of the option."""
    ctx.meta[_TRACEBACK] = ctx.meta.get(_TRACEBACK, False) or value


def traceback_wanted() -> bool:
    """Return whether the user requested tracebacks."""
    ctx = click.get_current_context(silent=True)
    return (ctx is not None and ctx.meta.get(_TRACEBACK, False)) or debugging()


def debugging() -> bool:
    """Return whether `TOOLFOLD_DEBUG` is set."""
    return os.environ.get("TOOLFOLD_DEBUG", "") not in ("", "0")


def configure_logging() -> None:
    """Print warnings of this library and of the SDK on standard error, without tracebacks."""
    for name in ("toolfold", "mcp"):
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_BoundedFormatter(f"{name}: %(message)s"))
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False


class _BoundedFormatter(logging.Formatter):
    """Formats a message as one line of bounded length, without tracebacks unless they were requested.

    So texts of callers can neither fill a log nor forge a line in it (SPEC SAF-3, SAF-6).
    """

    def formatMessage(self, record: logging.LogRecord) -> str:
        return one_line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        if traceback_wanted():
            return super().formatException(ei)
        return "  " + one_line(f"{ei[0].__name__}: {ei[1]}".splitlines()[0])


def one_line(text: str) -> str:
    """Return a text cut to a bounded length, with control characters and line breaks escaped."""
    cut = text if len(text) <= MESSAGE_LENGTH else f"{text[:MESSAGE_LENGTH]}…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in cut)


def _leaves(error: Exception) -> Iterator[Exception]:
    """Yield the error itself, or those in an exception group."""
    if isinstance(error, ExceptionGroup):
        for inner in cast("ExceptionGroup[Exception]", error).exceptions:
            yield from _leaves(inner)
    else:
        yield error


def _in_words(error: Exception, known: tuple[type[Exception], ...]) -> str:
    if isinstance(error, known):
        return str(error)
    hint = "" if traceback_wanted() else " Use --traceback to see where."
    return f"{type(error).__name__}: {error}".rstrip(".: ") + f".{hint}"
