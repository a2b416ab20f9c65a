"""Definitions of tools without what makes clients refuse the whole list (SPEC GWY-7).

Clients check the shape of a definition, not what its schemas mean: one wrong field of one tool, and they have no tools.
Everything else passes on, understood or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from toolfold.spi import array, table

Table = Mapping[str, Any]
_OBJECT: Table = {"type": "object"}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


def repaired(definition: Table) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the definition of a tool that no client refuses, and the fields that had to be changed or left out."""
    given = _without_nulls(definition)
    if (annotations := table(given.get("annotations"))) is not None:
        given["annotations"] = _without_nulls(annotations)
    made = {**given, "inputSchema": _input_schema(given.get("inputSchema"))}
    for key, check in _CHECKS.items():
        if key in made and (value := check(made.pop(key))) is not None:
            made[key] = value
    changed = (key for key in ("inputSchema", *_CHECKS) if made.get(key) != given.get(key))
    return made, tuple(changed)


def _without_nulls(given: Table) -> dict[str, Any]:
    """Return what says anything: many servers write null for what they have not."""
    return {key: value for key, value in given.items() if value is not None}


def _input_schema(given: Any) -> Table:
    """Return an input schema whose root is of type object, and whose properties and required names have their form."""
    schema = table(given)
    if schema is None:
        return _OBJECT
    made = {**schema, **_OBJECT}
    if "properties" in made:
        properties = table(made["properties"]) or {}
        made["properties"] = {name: _property(one) for name, one in properties.items()}
    if "required" in made:
        made["required"] = [name for name in array(made["required"]) or () if isinstance(name, str)]
    return made


def _property(schema: Any) -> Table:
    """Return the schema of a property as an object: false, which allows nothing, has another form."""
    found = table(schema)
    return found if found is not None else {"not": {}} if schema is False else {}


def _output_schema(given: Any) -> Table | None:
    schema = table(given)
    return schema if schema is not None and _input_schema(schema) == schema else None


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _annotations(given: Any) -> Table | None:
    """Return annotations without hints that are neither true nor false, and without a title that is no text."""
    if (annotations := table(given)) is None:
        return None
    types = {"title": str, **dict.fromkeys(_HINTS, bool)}
    return {key: value for key, value in annotations.items() if isinstance(value, types.get(key, object))}


def _icons(given: Any) -> list[Table] | None:
    """Return the icons that have a source, without fields of other types than they should have."""
    icons = [icon for icon in map(table, array(given) or ()) if icon is not None and isinstance(icon.get("src"), str)]
    return [{key: value for key, value in icon.items() if _is_of_icon(key, value)} for icon in icons] or None


def _is_of_icon(key: str, value: Any) -> bool:
    if key == "sizes":
        sizes = array(value)
        return sizes is not None and all(isinstance(size, str) for size in sizes)
    return value in ("light", "dark") if key == "theme" else key != "mimeType" or isinstance(value, str)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "title": _text,
    "description": _text,
    "outputSchema": _output_schema,
    "annotations": _annotations,
    "icons": _icons,
    "_meta": table,
}
"""What a client would accept of each field, or `None` to leave it out."""
