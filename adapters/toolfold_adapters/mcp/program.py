"""`run`: a program that serves a tool set, from its start to its end (SPEC DEL-10)."""

from __future__ import annotations

import sys
from asyncio import get_running_loop
from collections.abc import Mapping
from functools import partial
from threading import current_thread, main_thread
from typing import Any, Unpack

import anyio

from toolfold import ConfigError, ToolSet

from ..signals import cancelled_by_signals
from .options import ServerOptions
from .serve import Transport, serve

ELSEWHERE = "await toolfold_adapters.mcp.serve(tools)"


def run(tools: ToolSet, transport: Transport, bound: Mapping[str, Any], **options: Unpack[ServerOptions]) -> None:
    """Serve until the client disconnects or a signal asks the process to end, which then has the usual status.

    Args:
        tools: The tool set.
        transport: `"stdio"` or `"http"`.
        bound: `host`, `port` and `path` for HTTP; those that are `None` are not given.
        options: The options of `build_server`.

    Raises:
        ConfigError: A setting is wrong, the address can't be bound, or this is not the place for a program.
    """
    _check_place()
    given = {name: value for name, value in bound.items() if value is not None}
    if given and transport == "stdio":
        raise ConfigError(f'{next(iter(given))} is for HTTP: give transport="http" too, or leave it out.')
    with cancelled_by_signals() as shutdown:
        anyio.run(partial(serve, tools, transport=transport, on_ready=_announce, **given, **options))
    shutdown.exit_if_signalled()


def _check_place() -> None:
    """Raise `ConfigError` in a thread, or in an event loop."""
    try:
        get_running_loop()
    except RuntimeError:
        if current_thread() is main_thread():
            return
        raise ConfigError(f"run handles signals, which only the main thread can; in another, {ELSEWHERE}.") from None
    problem = 'run starts an event loop, and one is running: call it under if __name__ == "__main__", or'
    raise ConfigError(f"{problem} {ELSEWHERE}.")


def _announce(url: str) -> None:
    if url != "stdio":
        print(f"toolfold: serving {url}", file=sys.stderr, flush=True)
