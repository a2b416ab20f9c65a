"""Validation by JSON Schema at a cost that is bounded by the size of what is validated (SPEC SAF-1).

Whether a value fits is asked first; only what doesn't is explained. Neither is begun for a value beyond the limits, or
with too many values for how often its schema looks at each; and a schema for which that has no bound is refused. It is
limits that keep validation from holding up everything else, and not threads: validators hold the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NoReturn

import jsonschema_rs

from .cost import Cost
from .explain import Explainer, Faults
from .limits import MAX_SCHEMA_VALUES, MAX_VISITS
from .plain import TooLarge, table, walked

DIALECTS: Mapping[str, type[jsonschema_rs.Validator]] = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
}
_LONE_REFERENCES = (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft6Validator, jsonschema_rs.Draft7Validator)
"""The dialects in which nothing counts that stands beside a `$ref`."""

_LINEAR = jsonschema_rs.RegexOptions()
"""How texts are matched with patterns: in linear time."""

_BACKTRACKING = jsonschema_rs.FancyRegexOptions(backtrack_limit=5_000)
"""The same for patterns that look around or back, which need it; beyond the limit, a text does not match."""

_MATCH = 30_000
"""How many visits such a match counts for."""

_STEPS = 5
"""How many values are looked into, at least, to explain what is wrong."""

_INTRICATE = frozenset(("$ref", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"))
"""The keywords without which a schema looks at a value no more often than it is long."""


class Validator:
    """A compiled schema, of the dialect that `$schema` names, by default 2020-12.

    With `mask`, messages have it in place of what was validated.

    Raises:
        TooLarge: The schema is beyond the limits, or there is no bound for what it costs.
        jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError: It is not a valid schema.
    """

    def __init__(self, schema: dict[str, Any], *, mask: str | None = None) -> None:
        self._schema = schema
        self._mask = mask
        self._values, containers = walked(schema, MAX_SCHEMA_VALUES)
        self._dialect = DIALECTS.get(str(schema.get("$schema", "")).rstrip("#"), jsonschema_rs.Draft202012Validator)
        self._patterns: Any = _LINEAR
        self._known: int | None = None
        if not all(_INTRICATE.isdisjoint(table(one) or ()) for one in containers):
            self._known = Cost(schema).visits()  # refuses what even to compile may take too long
        try:
            self._native = self._compiled(schema)
        except jsonschema_rs.ValidationError:
            self._patterns, self._known = _BACKTRACKING, None
            self._native = self._compiled(schema)

    def is_valid(self, value: Any) -> bool:
        """Return whether a value fits, however long that takes."""
        return self._native.is_valid(value)

    def faults(self, value: Any, place: str) -> Faults | None:
        """Return where a value, itself at `place`, does not fit, or `None` if it does (SPEC SAF-1)."""
        try:
            values, _ = walked(value)
        except TooLarge as error:
            return Faults({place: f"it {error}"})
        if values * self._visits > MAX_VISITS:
            return Faults({place: f"it has {values:,} values, too many at once for a schema as intricate as its own"})
        try:
            if self._native.is_valid(value):
                return None
            return self._explainer.explain(value, place, max(_STEPS, MAX_VISITS // (values * self._visits)))
        except UnicodeEncodeError:  # the validator reads UTF-8
            return Faults({place: "it has a name or a text with a lone surrogate, which is no character"})

    @cached_property
    def _visits(self) -> int:
        """How often the schema looks at one value, at most."""
        pattern = _MATCH if self._patterns is _BACKTRACKING else 0
        return self._known or Cost(self._schema, pattern=pattern).visits()

    @cached_property
    def _explainer(self) -> Explainer:
        siblings = self._dialect not in _LONE_REFERENCES
        return Explainer(self._schema, self._compiled, self._values, quoting=self._mask is None, siblings=siblings)

    def _compiled(self, schema: Any, registry: jsonschema_rs.Registry | None = None) -> jsonschema_rs.Validator:
        return self._dialect(
            schema, registry=registry, retriever=_refuse_remote, mask=self._mask, pattern_options=self._patterns
        )


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not part of the schema, and schemas are never fetched")
