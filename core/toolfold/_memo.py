"""What is computed once for a value and shared by all that have it: typed, bounded, and gone with the value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

K = TypeVar("K")
T = TypeVar("T")


class Memo(Generic[K, T]):
    """One kind of result, by a key, that owners such as catalogs and snapshots hold in their `memo`.

    Make one for each kind of result, at module level: it holds nothing itself.

    Args:
        most: How many results an owner holds; one more, and it starts afresh.
    """

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        self._most = most

    def of(self, memory: Memory, key: K, make: Callable[[], T]) -> T:
        """Return the result that an owner's `memory` has for a key, or else what `make` does, which it then has."""
        try:
            found: T = memory[self][key]
        except KeyError:
            pass
        else:
            return found
        held: dict[K, T] = memory.setdefault(self, {})
        if len(held) >= self._most:
            held.clear()
        held[key] = made = make()
        return made


Memory = dict[Memo[Any, Any], Any]
"""What an owner holds."""
