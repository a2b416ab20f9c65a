"""Plain JSON values: what they are, and how large (SPEC SAF-1)."""

from __future__ import annotations

from typing import Any, cast

from .limits import MAX_DEPTH, MAX_VALUES

_CONTAINERS = frozenset[type]((dict, list))


class TooLarge(ValueError):
    """A value is beyond a limit; the message says which, and follows the name of the value."""


def table(value: object) -> dict[str, Any] | None:
    """Return `value` if it is a JSON object, else `None`."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def array(value: object) -> list[Any] | None:
    """Return `value` if it is a JSON array, else `None`."""
    return cast("list[object]", value) if isinstance(value, list) else None


def walked(value: Any, values: int = MAX_VALUES, depth: int = MAX_DEPTH) -> tuple[int, list[Any]]:
    """Return how many values there are in a JSON value, itself included, and all arrays and objects among them.

    The time is linear in the size, up to the limits, and depth needs no stack.

    Raises:
        TooLarge: There are more than `values`, or they are more than `depth` levels deep.
    """
    if type(value) not in _CONTAINERS:
        return 1, []
    found, containers = 1, [value]
    for container in containers:
        found += len(container)
        if found > values:
            raise TooLarge(f"has more than {values:,} values")
        for item in container.values() if container.__class__ is dict else container:
            if type(item) in _CONTAINERS:
                containers.append(item)
    if len(containers) > depth and len(levels(value)) > depth + 1:
        raise TooLarge(f"is more than {depth} levels deep")
    return found, containers


def levels(value: Any) -> list[int]:
    """Return how many values each level of a JSON value has: one, then those inside of it, and so on."""
    level, found = [value], list[int]()
    while level:
        found.append(len(level))
        inside: list[Any] = [one.values() if type(one) is dict else one for one in level if type(one) in _CONTAINERS]
        level = [item for items in inside for item in items]
    return found
