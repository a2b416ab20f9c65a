"""Why an upstream did not start, in words for its operator, and for models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import cast

from pydantic import ValidationError

from toolfold import ProtocolError

from ..config.settings import UpstreamConfig
from .wire import ConnectionLost, LoginFailed, MessageTooLarge, NotMcp

SHORTEST_SECRET = 6
"""Shorter values, such as 1 or debug, are no secrets, and parts of many words."""
_CREDENTIALS = re.compile(r"://[^/\s@]+@")


def reason_of(error: BaseException, config: UpstreamConfig, stray: int, stderr: str = "") -> str:
    """Return why a start failed, and what to do.

    Args:
        error: What ended the start.
        config: How the server is reached.
        stray: How many lines came that are no messages.
        stderr: The line of its stderr that says most likely why.
    """
    cause = first_cause(error)
    match cause:
        case FileNotFoundError() | NotADirectoryError() if config.cwd and not Path(config.cwd).is_dir():
            return f"there is no folder {config.cwd!r} to run it in; correct cwd."
        case FileNotFoundError():
            return not_installed(config)
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
        case MessageTooLarge():
            return f"{cause}; if it has to, raise its max_message_bytes."
        case ConnectionLost() if config.url is None:
            said = f" {stray_warning(stray)}" if stray else ""
            why = f" Its stderr says: {stderr}" if stderr else " It wrote nothing to stderr; try it on its own."
            return f"it ended before it answered.{said}{why}"
        case _:
            pass
    if config.url:
        return f"it can't be reached ({type(cause).__name__}: {cause}); check its address, and that it is running."
    return f"{type(cause).__name__}: {cause}."


def not_installed(config: UpstreamConfig) -> str:
    """Return what to do about a command whose program there is not."""
    return f"the program {(config.command or ('',))[0]} is not installed; install it, or give its full path."


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


def without_secrets(text: str, config: UpstreamConfig) -> str:
    """Return a text about a server without what only its operator may know, for models (SPEC GWY-4).

    That is what the server was given: its environment, headers and arguments, its address, and any credentials.
    """
    program, *arguments = config.command or ("",)
    arguments += program.split()[1:]  # a whole command may have been written where its program belongs
    given = [*config.env.values(), *config.headers.values(), *arguments, config.url or ""]
    values = {part for value in given for part in (value, *re.split(r"[\s=]+", value)) if len(part) >= SHORTEST_SECRET}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "…")
    return _CREDENTIALS.sub("://…@", text)


def first_cause(error: BaseException) -> BaseException:
    """Return the error itself, or the first of those that it groups."""
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error
