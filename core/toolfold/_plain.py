"""Plain JSON values: what they are, and how large (SPEC SAF-1)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic_core import PydanticSerializationError, to_json, to_jsonable_python

from ._limits import MAX_DEPTH, MAX_VALUES, escaped

CHARACTERS_PER_TOKEN = 4

_CONTAINERS = frozenset[type]((dict, list))
_SCALARS = (str, int, float, bool, type(None))


def approximate_tokens(value: Any) -> int:
    """Return the approximate number of tokens of a string or a JSON value: a quarter of its characters, rounded up.

    A value other than a string is counted as JSON without white space, with non-ASCII characters unescaped.
    """
    text = value if isinstance(value, str) else to_json(value).decode()
    return -(-len(text) // CHARACTERS_PER_TOKEN)


class TooLarge(ValueError):
    """A value is beyond a limit; the message says which, and follows the name of the value."""


def table(value: object) -> dict[str, Any] | None:
    """Return `value` if it is a JSON object, else `None`."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def array(value: object) -> list[Any] | None:
    """Return `value` if it is a JSON array, else `None`."""
    return cast("list[object]", value) if isinstance(value, list) else None


def encodable(value: Any) -> Any:
    """Return a value that JSON in UTF-8 can encode: itself if it can be, else an escaped copy (see `_limits.escaped`).

    Models, dates and so on are converted to JSON by pydantic.

    Raises:
        TypeError: The value has no JSON form.
    """
    if value is None or _is_ascii_table(value):
        return value
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return _escaped(value)
    except (TypeError, ValueError, RecursionError):
        return as_json(value)[0]
    return value


def all_encodable(*values: Any) -> list[Any]:
    """Return each of some values as `encodable` does."""
    return [encodable(value) for value in values]


def as_json(value: Any) -> tuple[Any, str]:
    """Return a value as plain JSON and as a JSON text, both encodable in UTF-8.

    Raises:
        TypeError: The value has no JSON form.
    """
    try:
        try:
            plain = to_jsonable_python(value, by_alias=True, fallback=as_dict)
        except UnicodeEncodeError:  # by the name of a value; texts are let through
            plain = to_jsonable_python(_escaped(value), by_alias=True, fallback=as_dict)
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        if escaped(text) is not text:
            plain = _escaped(plain)
            text = json.dumps(plain, ensure_ascii=False, allow_nan=False)
    except (PydanticSerializationError, TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"a {type(value).__name__} has no JSON form here: {error}") from error
    return plain, text


def _is_ascii_table(value: Any) -> bool:
    """Return whether a value is an object of ASCII strings only, as most content blocks are."""
    given = table(value)
    return given is not None and all(type(text) is str and text.isascii() for item in given.items() for text in item)


def as_dict(value: Any) -> dict[Any, Any]:
    """Return a mapping as one that JSON has, or raise `TypeError` for what is none: for encoders that ask."""
    if isinstance(value, Mapping):
        return {**value}
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, Mapping):
        given: dict[Any, Any] = {**value}
        return {_escaped(key): _escaped(item) for key, item in given.items()}
    if isinstance(value, list | tuple):
        return [_escaped(item) for item in cast("list[Any]", value)]
    return value


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


def not_json(value: Any) -> str | None:
    """Return a description of the first part of a value that is not JSON, or `None` if all of it is."""
    if type(value) not in _CONTAINERS:
        return None if type(value) in _SCALARS else f"a value of type {type(value).__name__}"
    for container in walked(value)[1]:
        items: list[Any] = list(container)
        if container.__class__ is dict:
            if (key := next((key for key in items if not isinstance(key, str)), None)) is not None:
                return f"a name of type {type(key).__name__}"
            items = list(container.values())
        for item in items:
            if type(item) not in _CONTAINERS and type(item) not in _SCALARS:
                return f"a value of type {type(item).__name__}"
    return None


def levels(value: Any) -> list[int]:
    """Return how many values each level of a JSON value has: one, then those inside it, and so on."""
    level, found = [value], list[int]()
    while level:
        found.append(len(level))
        inside: list[Any] = [one.values() if type(one) is dict else one for one in level if type(one) in _CONTAINERS]
        level = [item for items in inside for item in items]
    return found
