"""Failures of commands, which are printed as a paragraph on standard error without a traceback."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, cast

import click

_TRACEBACK = "toolfold.traceback"


class Failed(click.ClickException):
    """The command failed: exits with a paragraph on standard error, and status 1."""

    exit_code = 1

    def show(self, file: Any = None) -> None:
        """Print the paragraph."""
        click.echo(f"toolfold: {escaped(self.message)}", file=file or sys.stderr, err=file is None)


def run(job: Callable[[], Any]) -> Any:
    """Return the result of an async job; an error exits with status 1 and a paragraph."""
    import anyio

    with failing():
        return anyio.run(job)


@contextmanager
def failing(*expected: type[Exception], failure: type[Failed] = Failed) -> Generator[None]:
    """Convert errors into a failure of the command, with a traceback only on request.

    Args:
        expected: Errors whose messages explain themselves, besides those of Toolfold.
        failure: The exception to raise.
    """
    from toolfold import ToolfoldError
    from toolfold.spi import extras_named

    try:
        with extras_named():
            yield
    except (click.ClickException, click.exceptions.Exit):
        raise
    except Exception as error:
        leaves = list(_leaves(error))
        if isinstance(leaves[0], BrokenPipeError):  # the reader of the output has gone: click exits quietly
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


def escaped(text: str, *, allowed: str = "\n") -> str:
    """Return a text that a terminal shows unchanged: control characters are escaped, and those of direction.

    It may come from a server or a caller, and is data there (SPEC SAF-6).
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in allowed else repr(char)[1:-1] for char in text)
