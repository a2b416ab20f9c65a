"""Work on what may be large, so that no call of another server waits for it (SPEC SAF-1)."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from functools import partial
from typing import TypeVar

import anyio.to_thread

LARGE = 200
"""Work on more definitions than this holds the loop for longer than a switch to a thread takes."""

T = TypeVar("T")


async def beside(size: int, function: Callable[..., T], *arguments: object) -> T:
    """Return what `function` returns, in a thread if it has many definitions to read, as `size` says.

    It changes nothing that others use. In the thread it has none of the context of whoever is called.
    """
    if size <= LARGE:
        return function(*arguments)
    work = partial(function, *arguments)
    return await anyio.to_thread.run_sync(lambda: Context().run(work))
