"""The limits on what comes from outside, all in one place (SPEC SAF-1).

What a request costs is bounded by its size. These numbers are generous: no model and no person writes arguments that
come near them. Names have limits of their own (`names.MAX_NAME`), and so has a whole request, in its transport.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_DEPTH = 100
"""How many arrays and objects may be inside of one another, in arguments, in results that are checked, and in schemas;
and how many schemas may apply to one value by way of one another, `$ref` to `$ref` and so on."""

MAX_VALUES = 200_000
"""How many values the arguments of a call may have: texts, numbers, arrays, objects and so on, all counted."""

MAX_VISITS = 30_000_000
"""How many times validation may look at a value, over all values of the arguments. It does so some 50 million times
per second, while nothing else runs: validators hold the interpreter's lock, so that no thread would help."""

MAX_MODEL_VISITS = 1_000_000
"""The same for a recursive pydantic model, where each look takes longer."""

MAX_SCHEMA_VALUES = 20_000
"""How many values a part of a definition may have."""

MAX_DEFINITION = 1_000_000
"""How many bytes a part of a definition may have as JSON."""

MAX_URI = 8_192
"""How many characters the URI of a resource may have."""

MAX_VARIABLES = 10
"""How many variables a URI template may have."""

MAX_CURSOR = 16_384
"""How many characters a cursor may have: enough for any name and URI."""

MAX_PROBLEMS = 10
"""How many places an error names; it says how many more there are."""

MAX_QUOTE = 300
"""How many characters of a text of somebody else's an error quotes."""

_CONTAINERS = frozenset((dict, list))


class TooLarge(ValueError):
    """A value is beyond a limit; the message says which, to follow "it"."""


def walked(value: Any, values: int = MAX_VALUES, depth: int = MAX_DEPTH) -> tuple[int, list[Any]]:
    """Return how many values there are in a JSON value, itself included, and all arrays and objects among them.

    The time is linear in the size up to the limits, and depth needs no stack.

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
        for item in container.values() if type(container) is dict else container:
            if type(item) in _CONTAINERS:
                containers.append(item)
    if len(containers) > depth and len(levels(value)) > depth + 1:
        raise TooLarge(f"is more than {depth} levels deep")
    return found, containers


def levels(value: Any) -> list[int]:
    """Return how many values there are at each level of a JSON value that is not without end: itself, those in it, …"""
    level, found = [value], list[int]()
    while level:
        found.append(len(level))
        inside = [one.values() if type(one) is dict else one for one in level if type(one) in _CONTAINERS]
        level = [item for items in inside for item in items]
    return found


def quoted(text: str, most: int = MAX_QUOTE) -> str:
    """Return a text of somebody else's as an error quotes it: as it is, or its beginning if it is long."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def enumerated(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    shown = ", ".join(repr(quoted(name)) for name in names[:MAX_PROBLEMS])
    return shown + (f" and {len(names) - MAX_PROBLEMS:,} more" if len(names) > MAX_PROBLEMS else "")


def listed(problems: Mapping[str, str], more: int) -> str:
    """Return what is wrong, place by place, and in how many more places."""
    places: Iterable[str] = (f"{place}: {problem}" for place, problem in problems.items())
    return "; ".join([*places, *([f"and {more:,} more"] if more else [])])
