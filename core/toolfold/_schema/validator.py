"""Validation by JSON Schema at a cost that is bounded by the size of what is validated (SPEC SAF-1).

Whether a value fits is asked first; only what doesn't is explained. Neither is begun for a value beyond the limits, or
with too many values for how often its schema looks at each; and a schema for which that has no bound is refused. It is
limits that keep validation from holding up everything else, and not threads: validators hold the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NoReturn

import jsonschema_rs

from .._limits import MAX_SCHEMA_VALUES, MAX_VISITS
from .._plain import TooLarge, not_json, table, walked
from .._values import frozen
from .cost import Cost, patterns_in
from .explain import Explainer, Faults

DIALECTS: Mapping[str, type[jsonschema_rs.Validator]] = {
    "http://json-schema.org/draft-04/schema": jsonschema_rs.Draft4Validator,
    "http://json-schema.org/draft-06/schema": jsonschema_rs.Draft6Validator,
    "http://json-schema.org/draft-07/schema": jsonschema_rs.Draft7Validator,
    "https://json-schema.org/draft/2019-09/schema": jsonschema_rs.Draft201909Validator,
}
_LONE_REFERENCES = (jsonschema_rs.Draft4Validator, jsonschema_rs.Draft6Validator, jsonschema_rs.Draft7Validator)
"""The dialects in which nothing counts that stands beside a `$ref`."""

_PATTERNS = 1 << 20
_LARGE_PATTERNS = 64 << 20
"""How many bytes the patterns of a schema may take when they are compiled: as a rule, and all the same."""

_BACKTRACKS = 5_000
"""How many steps a text is matched in that needs backtracking; beyond, it does not match."""

_MATCH = 30_000
"""How many visits a match counts for that needs backtracking."""

LIGHT_VALUES = MAX_SCHEMA_VALUES // 50
LIGHT_VISITS = MAX_VISITS // 1000
"""How many values a schema may have, and how often it may look at one, to count as light."""

_STEPS = 5
"""How many values are looked into, at least, to explain what is wrong."""

_INTRICATE = frozenset(("$ref", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"))
"""The keywords without which a schema looks at a value no more often than it is long."""


@frozen
class _Matching:
    """How texts are matched with patterns: in linear time, unless a pattern looks around or back."""

    options: jsonschema_rs.RegexOptions | jsonschema_rs.FancyRegexOptions
    is_large: bool = False
    backtracks: bool = False


def _ways_of_matching(patterns: int) -> Iterator[_Matching]:
    """Yield the ways of matching with so many patterns, the best first: each is for what the one before can't do."""
    share, large_share = _PATTERNS // max(1, patterns), _LARGE_PATTERNS // max(1, patterns)
    dfa = min(_PATTERNS, large_share)
    yield _Matching(jsonschema_rs.RegexOptions(size_limit=share, dfa_size_limit=dfa))
    if patterns:
        yield _Matching(jsonschema_rs.RegexOptions(size_limit=large_share, dfa_size_limit=dfa), is_large=True)
    options = jsonschema_rs.FancyRegexOptions(_BACKTRACKS, size_limit=large_share, dfa_size_limit=dfa)
    yield _Matching(options, is_large=True, backtracks=True)


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
        objects = [one for one in map(table, containers) if one is not None]
        self._patterns = patterns_in(objects)
        self._known: int | None = None
        if not all(map(_INTRICATE.isdisjoint, objects)):
            self._known = Cost(schema).visits()  # refuses what even to compile may take too long
        for matching in _ways_of_matching(self._patterns):
            self._matching = matching
            try:
                self._native = self._compiled(schema)
                break
            except jsonschema_rs.ValidationError:
                if matching.backtracks:
                    raise
        if self._matching.backtracks:
            self._known = Cost(schema, pattern=_MATCH).visits()

    @property
    def is_light(self) -> bool:
        """Whether even many such schemas side by side are far from every limit."""
        return not self._patterns and self._values <= LIGHT_VALUES and self._most >= MAX_VISITS // LIGHT_VISITS

    def is_valid(self, value: Any) -> bool:
        """Return whether a value fits, however long that takes."""
        return self._native.is_valid(value)

    def faults(self, value: Any, place: str) -> Faults | None:
        """Return where a value, itself at `place`, does not fit, or `None` if it does (SPEC SAF-1)."""
        try:
            values, _ = walked(value)
        except TooLarge as error:
            return Faults({place: f"it {error}"})
        if values > self._most:
            return Faults({place: f"it has {values:,} values, too many at once for a schema as intricate as its own"})
        try:
            if self._native.is_valid(value):
                return None
            return self._explainer.explain(value, place, max(_STEPS, self._most // values))
        except UnicodeEncodeError:  # the validator reads UTF-8
            return Faults({place: "it has a name or a text with a lone surrogate, which is no character"})
        except ValueError:  # the validator reads JSON
            if (foreign := not_json(value)) is None:
                raise
            return Faults({place: f"it has {foreign}, which has no JSON form"})

    @cached_property
    def _most(self) -> int:
        """How many values may be validated at a time, as often as the schema looks at each."""
        return MAX_VISITS // (self._known or Cost(self._schema).visits())

    @cached_property
    def _explainer(self) -> Explainer:
        return Explainer(
            self._schema,
            self._compiled,
            values=self._values,
            patterns=self._patterns if self._matching.is_large else 0,
            quoting=self._mask is None,
            siblings=self._dialect not in _LONE_REFERENCES,
        )

    def _compiled(self, schema: Any, registry: jsonschema_rs.Registry | None = None) -> jsonschema_rs.Validator:
        return self._dialect(
            schema, registry=registry, retriever=_refuse_remote, mask=self._mask, pattern_options=self._matching.options
        )


def _refuse_remote(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is not part of the schema, and schemas are never fetched")
