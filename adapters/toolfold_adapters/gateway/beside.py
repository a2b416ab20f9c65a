"""Work on what may be large, so that no call of another server waits for it (SPEC SAF-1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextvars import Context
from functools import partial
from typing import Any, TypeVar, cast

import anyio.to_thread

from ..transport.garbage import postponed

LARGE = 200
"""Work on more definitions than this holds the loop for longer than a switch to a thread takes."""

_CHARACTERS = 1_000
"""How many characters of definitions are as much work as one that is small."""
_VALUE = 10
"""As how many characters a value counts, whatever it is."""

T = TypeVar("T")


def size_of(*lists: Iterable[Any]) -> int:
    """Return how much work definitions are: their number, or more where they are few and large.

    No more of them is looked at than it takes to know that they are large.
    """
    left = [one for given in lists for one in given]
    size, most = len(left), (LARGE + 1) * _CHARACTERS
    characters = 0 if size <= LARGE else most
    while left and characters < most:
        one = left.pop()
        characters += _VALUE + (len(one) if isinstance(one, str) else 0)
        if isinstance(one, Mapping):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list | tuple):
            left += cast("list[Any]", one)
    return max(size, characters // _CHARACTERS)


async def beside(size: int, function: Callable[..., T], *arguments: object) -> T:
    """Return what `function` returns, in a thread if it has many definitions to read, as `size` says.

    It changes nothing that others use. In the thread it has none of the context of whoever is called.
    """
    if size <= LARGE:
        return function(*arguments)
    work = partial(function, *arguments)
    with postponed():
        return await anyio.to_thread.run_sync(lambda: Context().run(work))
