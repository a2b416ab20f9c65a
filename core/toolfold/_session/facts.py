"""Facts: immutable JSON values that a session has beside its groups, for predicates (SPEC SES-5, STO-7)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

from .._names import is_text
from ..errors import InvalidDefinition, QuotaExceeded

MAX_FACTS = 1_000
"""How many facts a session may have (SPEC STO-7)."""
MAX_FACT = 64 * 1024
"""How many characters a fact may have, with its name."""


def is_fact(value: Any) -> bool:
    """Return whether a value may be a fact: one of JSON's scalars, or a tuple of such (SPEC SES-5)."""
    if isinstance(value, tuple):
        return all(is_fact(item) for item in cast("tuple[object, ...]", value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def with_fact(facts: Mapping[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return facts with one of them set; raises `InvalidDefinition` and `QuotaExceeded`."""
    if not is_text(name) or not is_fact(value):
        raise InvalidDefinition(str(name), "a fact is None, a bool, a finite number, a text, or a tuple of such")
    if len(name) + len(repr(value)) > MAX_FACT:
        raise QuotaExceeded("characters of a fact", MAX_FACT, "set a shorter one")
    if len(changed := {**facts, name: value}) > MAX_FACTS:
        raise QuotaExceeded("facts of a session", MAX_FACTS, "set one that it has again instead")
    return changed
