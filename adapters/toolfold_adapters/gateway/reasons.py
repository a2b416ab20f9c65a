"""Why an upstream did not start, in words for its operator."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pydantic import ValidationError

from toolfold import ProtocolError

from .config import UpstreamConfig
from .wire import ConnectionLost, LoginFailed, NotMcp


def reason_of(error: BaseException, config: UpstreamConfig, stray: int) -> str:
    """Return why a start failed, and what to do; `stray` is how many lines came that are no messages."""
    cause = first_cause(error)
    match cause:
        case FileNotFoundError() | NotADirectoryError() if config.cwd and not Path(config.cwd).is_dir():
            return f"there is no folder {config.cwd!r} to run it in; correct cwd."
        case FileNotFoundError():
            return "there is no such program; install it, or give its full path."
        case PermissionError():
            return "the program may not be executed; check its permissions."
        case ProtocolError():
            return f"it answered with the error {cause.code} ({cause.message}); check that it is an MCP server."
        case LoginFailed():
            return f"{cause}."
        case NotMcp():
            return f"{cause}; check that it is an MCP server."
        case ValidationError():
            return "its first answer is not one of the protocol; check that it is an MCP server."
        case ConnectionLost() if config.url is None:
            said = f" {stray_warning(stray)}" if stray else ""
            return f"it ended before it answered.{said} What it wrote to stderr says why; try it on its own."
        case _:
            pass
    if config.url:
        return f"it can't be reached ({type(cause).__name__}: {cause}); check its address, and that it is running."
    return f"{type(cause).__name__}: {cause}."


def too_slow(config: UpstreamConfig, stray: int) -> str:
    """Return what to do about a server that does not answer in time."""
    said = f" {stray_warning(stray)}" if stray else ""
    return (
        f"it did not answer within {config.start_timeout:g} seconds, so it was stopped.{said} Check that it is an MCP "
        "server, or give it more time by start_timeout."
    )


def stray_warning(stray: int) -> str:
    """Return a sentence on what a server has written that is no message."""
    return f"It wrote {stray} line(s) to its stdout that are no messages of the protocol."


def first_cause(error: BaseException) -> BaseException:
    """Return the error itself, or the first of those that it groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
