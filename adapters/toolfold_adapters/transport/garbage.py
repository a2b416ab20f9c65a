"""When Python looks for garbage in a program that serves: not in what stays, and not while much is made (SPEC SAF-1).

A full collection looks at all that there is, at one go, while every call waits. Lists of servers are most of that. They
refer to nothing in a circle, and stay until others take their place; as they are made there would be one full
collection after the other. So these are postponed meanwhile, by a number of objects, and then lists are set apart.
Garbage that is set apart with them is looked for once there may be much of it. A program may have its process do so;
the library, which programs of others import, does not.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

from attrs import define, field

ALLOCATIONS = 5_000
"""After how many objects more young garbage is looked for: the SDK leaves 4 kB of it for a modern request."""
POSTPONED = 10_000_000
"""After how many objects more there is a full collection even while lists are made."""
LARGE = 1_000
"""Work on fewer definitions makes too few objects to set them apart; see `toolfold_adapters.gateway.beside.size_of`."""
GARBAGE = 200_000
"""How many of the objects that are set apart may be garbage: some 30 MB."""
SWITCH_SECONDS = 0.001
"""How long a thread holds up the event loop each time that this has something to do."""


@define
class _State:
    """Whether garbage is looked for so here, and what was set apart when it was last looked for in all.

    `making` is how many make lists now, `threshold` what holds otherwise, `sizes` how much work the lists of each owner
    are, `size` how much they were at most in all, and `objects` how many objects were set apart then.
    """

    on: bool = False
    making: int = 0
    threshold: tuple[int, int, int] = (0, 0, 0)
    sizes: WeakKeyDictionary[object, int] = field(factory=WeakKeyDictionary[object, int])
    size: int = 0
    objects: int = 0


_state = _State()


def program_serves() -> None:
    """Have garbage looked for as above from now on; what there is by now stays."""
    gc.freeze()
    gc.set_threshold(ALLOCATIONS)
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.enable()
    _state.on, _state.size, _state.objects = True, 0, gc.get_freeze_count()


@contextmanager
def postponed() -> Generator[None]:
    """Postpone full collections during the block, in which lists are made."""
    if not _state.on:
        yield
        return
    if not _state.making:
        _state.threshold = young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, POSTPONED // (young * middle))
    _state.making += 1
    try:
        yield
    finally:
        _state.making -= 1
        if not _state.making:
            gc.set_threshold(*_state.threshold)


def set_apart(owner: object, size: int) -> None:
    """Look for garbage no more in the lists that there are, given how much work those of their owner are.

    Where there are more objects than when there was as much work in them, garbage is looked for in all of them first.
    """
    if not _state.on:
        return
    _state.sizes[owner] = size
    if size < LARGE:
        return
    gc.freeze()
    now = sum(_state.sizes.values())
    if now < _state.size + LARGE:  # so what there is more of may be garbage
        if gc.get_freeze_count() <= _state.objects + GARBAGE:
            return
        gc.unfreeze()
        gc.collect()
        gc.freeze()
    _state.size, _state.objects = max(now, _state.size), gc.get_freeze_count()
