"""Wait until all other tasks wait for something, by looking after each turn of the event loop.

`anyio.wait_all_tasks_blocked` looks again after a tenth of a second, so that tests would mostly sleep.
"""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.lowlevel

_looking = set[asyncio.Task[Any]]()
"""Tasks that wait for all others, and not for each other."""


async def all_blocked() -> None:
    """Return once every other task of the event loop waits for something, a thread perhaps."""
    try:
        here = asyncio.current_task()
    except RuntimeError:  # on Trio, which knows when nothing is left to do
        await anyio.wait_all_tasks_blocked()
        return
    assert here is not None
    _looking.add(here)
    try:
        await anyio.lowlevel.checkpoint()
        while any(_is_ready(task) for task in asyncio.all_tasks() - _looking):
            await anyio.lowlevel.checkpoint()
    finally:
        _looking.discard(here)


def _is_ready(task: asyncio.Task[Any]) -> bool:
    waiter: asyncio.Future[Any] | None = getattr(task, "_fut_waiter")  # noqa: B009  # which has no public name
    return waiter is None or waiter.done()
