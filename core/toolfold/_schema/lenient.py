"""What hosts and models write in the arguments of control tools, taken as meant where it has one meaning (SPEC GWY-20).

Some hosts give an object as JSON text, a number as text, or null for what they leave out, and no advice changes how a
host writes. It is read by the schema, as far as that says: what is inside an object without properties stays as it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from .._plain import array, table

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "integer": (int, float),
    "number": (int, float),
    "boolean": bool,
}
"""What JSON text can stand for: each type of a schema but texts."""


def read_leniently(schema: Mapping[str, Any], value: Any, place: str = "arguments") -> tuple[Any, dict[str, str]]:
    """Return a value as it is meant by a schema, and what is wrong with the JSON texts in it, by their places.

    What has no meaning, or more than one, comes back unchanged, to be judged by the schema.
    """
    unread: dict[str, str] = {}
    return _value(schema, value, place, unread), unread


def _value(schema: Mapping[str, Any], value: Any, place: str, unread: dict[str, str]) -> Any:
    kind: str = schema.get("type", "")
    if kind == "string":
        return _one_text(value, place, unread)
    if kind == "array":
        value = _listed(schema, value)
    if kind in _KINDS and isinstance(value, str):
        value = _read(value, kind, place, unread)
    if kind == "object" and (given := table(value)) is not None:
        return _members(schema, given, place, unread)
    if kind == "array" and (items := array(value)) is not None:
        inner = table(schema.get("items")) or {}
        return [_value(inner, item, f"{place}[{index}]", unread) for index, item in enumerate(items)]
    return value


def _members(schema: Mapping[str, Any], given: dict[str, Any], place: str, unread: dict[str, str]) -> dict[str, Any]:
    """Return an object with its properties as they are meant; null, "" and "null" stand for one that is left out."""
    properties: Mapping[str, Any] = schema.get("properties", {})
    optional = properties.keys() - schema.get("required", ())
    return {
        name: _value(properties[name], item, f"{place}.{name}", unread) if name in properties else item
        for name, item in given.items()
        if not (name in optional and _is_nothing(properties[name], item))
    }


def _is_nothing(schema: Mapping[str, Any], value: Any) -> bool:
    return value is None or value == "" or (value == "null" and "null" not in schema.get("enum", ()))


def _listed(schema: Mapping[str, Any], value: Any) -> Any:
    """Return a list of objects of which one is given by itself, or as JSON text."""
    if (table(schema.get("items")) or {}).get("type") != "object":
        return value
    if isinstance(value, str) and value.lstrip()[:1] == "{":
        try:
            value = _loads(value)
        except (ValueError, RecursionError):
            return value
    return [value] if isinstance(value, dict) else value


def _one_text(value: Any, place: str, unread: dict[str, str]) -> Any:
    """Return a text that is given as the only one of a list, or as JSON text of that or of itself.

    A text that looks like a list of several may be meant as it is.
    """
    read = _read_text(value)
    items = array(read)
    if items is None or not all(isinstance(one, str) for one in items):
        return read if isinstance(read, str) else value
    if len(items) == 1:
        return _one_text(items[0], place, unread)
    if items and not isinstance(value, str):
        unread[place] = f"it takes one, and {len(items)} are given: make a call for each of {', '.join(items)}"
    return value


def _read_text(value: Any) -> Any:
    """Return what a JSON text of a text or of a list stands for; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", '"'):
        try:
            return _read_text(_loads(value))
        except (ValueError, RecursionError):
            return value
    return value


def _read(text: str, kind: str, place: str, unread: dict[str, str]) -> Any:
    """Return what a JSON text stands for, or the text if it is none of that kind."""
    if kind == "object" and not text.strip():
        return {}
    try:
        value = _loads(text.lower() if kind == "boolean" else text)
    except (ValueError, RecursionError) as error:
        if text.lstrip()[:1] in ("{", "["):
            unread[place] = _damage(text, error)
        return text
    fits = isinstance(value, _KINDS[kind]) and (kind == "boolean" or not isinstance(value, bool))
    return value if fits else text


def _damage(text: str, error: Exception) -> str:
    """Return what is wrong with a text that begins like JSON, and what to write instead."""
    how = "is not valid JSON"
    if isinstance(error, json.JSONDecodeError):
        is_cut = error.pos >= len(text.rstrip()) or error.msg.startswith("Unterminated")
        how = f"ends too early, after {len(text)} characters" if is_cut else f"{how} at character {error.pos + 1}"
    return f"the JSON text {how}: write the whole of it again, up to the last bracket"


def _loads(text: str) -> Any:
    """Return what a text is as JSON that UTF-8 can carry, or raise `ValueError` or `RecursionError`."""
    value = json.loads(text, parse_constant=_refuse)
    json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
