"""What a field specification fills in: the defaults of absent fields, in its own order (SPEC KIT-3)."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

from attrs import frozen

ABSENT: Any = object()
"""Stands for the default of a field that has none, since any JSON value may be one."""


@frozen(eq=False)
class Entry:
    """A field to fill in: its default, if it has one, and the fields inside it or its items."""

    name: str
    default: Any = ABSENT
    inner: Fields | None = None


@frozen(eq=False)
class Fields:
    """A compiled field specification: its JSON Schema, and what to fill in."""

    schema: Mapping[str, Any]
    entries: tuple[Entry, ...] = ()

    def filled(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return checked arguments with the defaults of absent ones, in the order of the specification."""
        made: dict[str, Any] = {}
        for entry in self.entries:
            if entry.name in given:
                made[entry.name] = filled(entry.inner, given[entry.name])
            elif entry.default is not ABSENT:
                made[entry.name] = deepcopy(entry.default)
        return made


def filled(inner: Fields | None, value: Any) -> Any:
    if inner is None:
        return value
    if isinstance(value, list):
        return [filled(inner, item) for item in cast("list[object]", value)]
    return inner.filled(value)
