"""Where a value does not fit a JSON Schema, explained at a bounded cost (SPEC SAF-1, CALL-2).

The errors of a validator are no help there. For a recursive `oneOf` they take four times as long with each level, and
for a list of wrong numbers all of them are made before the first can be had. But whether a value fits at all is cheap
to say. So this descends to where it doesn't, asking of each part whether it fits its own schema, and takes the words
for it from the validator only there, for the keywords of one schema and for one value.

If no alternative fits, those that come furthest are explained: an object that has the `kind` of one, or
whatever else is constant there, gets the rest of what that one requires.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from typing import Any
from urllib.parse import unquote

import jsonschema_rs

from .._limits import MAX_PROBLEMS, MAX_SCHEMA_VALUES, enumerated, listed, quoted
from .._plain import array, table, walked
from .._values import frozen
from .cost import HERE, INSIDE, MAPPINGS, REFERENCES, Schema, at_pointer, patterns_in

Compile = Callable[[Any, jsonschema_rs.Registry], jsonschema_rs.Validator]

MISFIT = "it does not fit its schema"
_EXTRA = "it has properties that are not allowed"
_MISNAMED = "a property has a name that is not allowed"
_NOTHING = "nothing is allowed here"
_SEVERAL = "it fits more than one of the alternatives, and must fit exactly one"

_WHOLE = "urn:toolfold:schema"
_DATA = frozenset(("const", "enum", "default", "examples"))
"""The keywords whose values are no schemas, whatever they look like."""

_LED_ON = frozenset((*REFERENCES, *HERE, *INSIDE, "$schema", "$id", "id", "$anchor", "$dynamicAnchor"))
_OWN = frozenset(("not", "contains"))
"""The keywords by which a value is judged elsewhere than by the schema that has them; and those of them that still say
all there is to say."""

_LARGE_PATTERNS = MAX_SCHEMA_VALUES // 4
"""How many values all the patterns of a schema count for, if they are large."""

_MEMBERS = ("properties", "patternProperties")


@frozen
class Faults:
    """Where a value does not fit: a place to what is expected there, for some places, and how many more there are."""

    problems: Mapping[str, str]
    more: int = 0

    def __str__(self) -> str:
        return listed(self.problems, self.more)


class Explainer:
    """Says where values do not fit one schema.

    Args:
        schema: The schema, as plain JSON; it is valid.
        compiled: What makes a validator of a part of it, whose references a registry resolves.
        values: How many values the schema has.
        patterns: How many patterns it has, if they are large.
        quoting: Whether messages may quote what was found.
        siblings: Whether keywords beside `$ref` count, as they do in newer dialects.
    """

    def __init__(
        self, schema: Schema, compiled: Compile, *, values: int, patterns: int, quoting: bool, siblings: bool
    ) -> None:
        self.quoting = quoting
        self._schema: dict[str, Any] = _absolute(schema, siblings)
        identifiers = [self._schema.pop(keyword, None) for keyword in ("$id", "id")]
        self._registry = _registry(self._schema, {_WHOLE, *(one for one in identifiers if isinstance(one, str))})
        self._compiled = compiled
        self._validators: dict[tuple[int, str], jsonschema_rs.Validator | None] = {}
        self._values = values
        self._patterns = patterns
        self._left = 0

    def explain(self, value: Any, place: str, steps: int) -> Faults:
        """Return where `value` does not fit, which it doesn't; at most `steps` values are looked into."""
        if self._left < MAX_SCHEMA_VALUES // 2:
            self._validators.clear()
            self._left = MAX_SCHEMA_VALUES
        search = _Search(self, steps)
        search.run(self._schema, value, place)
        return Faults(search.found, search.more)

    def fits(self, schema: Any, value: Any, part: str = "") -> bool:
        """Return whether a value fits a schema, or a part of it, as far as that can be decided."""
        validator = self._validator(schema, part)
        return validator is None or validator.is_valid(value)

    def misfits(self, schema: Any, values: Iterable[Any], part: str = "") -> list[int]:
        """Return which values do not fit a schema, or a part of it, as far as that can be decided."""
        validator = self._validator(schema, part)
        if validator is None:
            return []
        return [index for index, value in enumerate(values) if not validator.is_valid(value)]

    def words(self, schema: Any, value: Any, part: str) -> str:
        """Return what is wrong with a value, by a part of a schema."""
        if schema is False:
            return _NOTHING
        if part == "extra":
            return self._extra(schema, table(value) or {})
        if (validator := self._validator(schema, part)) is not None:
            try:
                validator.validate(value)
            except jsonschema_rs.ValidationError as error:
                return error.message
        return MISFIT

    def _extra(self, schema: Any, value: dict[str, Any]) -> str:
        keys = list(value)
        wrong = self.misfits(schema, ({key: None} for key in keys), "extra") if self.quoting else []
        return f"{_EXTRA}: {enumerated([keys[index] for index in wrong])}" if wrong else _EXTRA

    def here(self, schema: Schema, value: Any) -> Iterator[Any]:
        """Yield the schemas that a value has to fit if it is to fit `schema`, alternatives apart."""
        for keyword in REFERENCES:
            whole, _, fragment = str(schema.get(keyword, "")).partition("#")
            if whole == _WHOLE and fragment[:1] in ("", "/"):
                yield at_pointer(self._schema, unquote(fragment))
        yield from array(schema.get("allOf")) or []
        if "if" in schema:
            yield schema.get("then" if self.fits(schema["if"], value) else "else")
        if (names := table(value)) is not None:
            for keyword in ("dependencies", "dependentSchemas"):
                yield from (one for name, one in (table(schema.get(keyword)) or {}).items() if name in names)

    def together(self, schema: Any, value: Any) -> list[Schema]:
        """Return the schemas that a value has to fit if it is to fit `schema`, itself and those of them included."""
        found: dict[int, Schema] = {}
        waiting = [schema]
        while waiting:
            one = table(waiting.pop())
            if one is not None and id(one) not in found:
                found[id(one)] = one
                waiting += self.here(one, value)
        return list(found.values())

    def of_property(self, schema: Schema, key: str) -> list[Any]:
        """Return the schemas for the value of a property."""
        found = [one for name, one in _named(schema, "properties") if name == key]
        for pattern, one in _named(schema, "patternProperties"):
            if not self.fits(schema, {key: None}, f"named {pattern}"):
                found.append(one)
        return found or [schema.get("additionalProperties")]

    def _validator(self, schema: Any, part: str) -> jsonschema_rs.Validator | None:
        """Return a validator of a schema, or of a part of it; `None` if there is none, or no more can be made."""
        if schema is None:
            return None
        key = (id(schema), part)
        if key not in self._validators and self._left > 0:
            wanted = _part(schema, part)
            self._left -= self._count(wanted)
            try:
                self._validators[key] = self._compiled(wanted, self._registry)
            except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
                self._validators[key] = None
        return self._validators.get(key)

    def _count(self, part: Any) -> int:
        """Return how much is compiled with a part of the schema; with a reference, maybe all of it."""
        values, containers = walked(part, sys.maxsize, sys.maxsize)
        objects = [one for one in map(table, containers) if one is not None]
        refers = not all(map(REFERENCES.isdisjoint, objects))
        patterns = self._patterns if refers else min(self._patterns, patterns_in(objects))
        share = _LARGE_PATTERNS * patterns // self._patterns if patterns else 0
        return values + share + (self._values if refers else 0)


def _registry(schema: dict[str, Any], names: set[str]) -> jsonschema_rs.Registry:
    try:
        return jsonschema_rs.Registry([(name, schema) for name in names])
    except ValueError:  # an `id` that is none, of a dialect that has no such keyword
        return jsonschema_rs.Registry([(_WHOLE, schema)])


class _Stage(IntEnum):
    """How far a value comes with an alternative that it does not fit."""

    OTHER = 0
    """It is something else altogether."""
    UNLIKE = 1
    """A constant in it is another."""
    NEAR = 2
    """A constant in it is the same, or it is all right as a whole; something else is wrong."""


@frozen
class _Try:
    """How far a value comes with an alternative, and what is wrong there: by which part of a schema, at which key."""

    alternative: Any
    stage: _Stage = _Stage.NEAR
    schema: Any = None
    part: str = "own"
    key: str | None = None


class _Search:
    """One search for what is wrong. What is still to be looked at waits in a list, so that depth needs no stack."""

    def __init__(self, explainer: Explainer, steps: int) -> None:
        self._of = explainer
        self._steps = steps
        self._next: list[tuple[Any, Any, str]] = []
        self.found: dict[str, str] = {}
        self.more = 0

    def run(self, schema: Any, value: Any, place: str) -> None:
        """Look at a value that does not fit, and into it."""
        waiting = [(schema, value, place)]
        while waiting and len(self.found) < MAX_PROBLEMS:
            self._next = []
            self._look(*waiting.pop())
            waiting += reversed(self._next)
        self.more += len(waiting)

    def _look(self, schema: Any, value: Any, place: str) -> None:
        found = len(self.found)
        known = table(schema)
        if known is not None and self._steps > 0:
            self._steps -= 1
            for part in ("own", "extra"):
                if not self._of.fits(known, value, part):
                    self._report(place, self._of.words(known, value, part))
            self._look_inside(known, value, place)
            self._look_here(known, value, place)
        if len(self.found) == found and not self._next:
            is_extra = table(value) is not None and "unevaluatedProperties" in (known or ())
            self._report(place, _EXTRA if is_extra else self._of.words(schema, value, "own"))

    def _report(self, place: str, text: str) -> None:
        self.found.setdefault(quoted(place), quoted(text))

    def _ask(self, schema: Any, value: Any, place: str) -> None:
        if not self._of.fits(schema, value):
            self._next.append((schema, value, place))

    def _look_inside(self, schema: Schema, value: Any, place: str) -> None:
        if (items := array(value)) is not None:
            self._look_at_items(schema, items, place)
        elif (members := table(value)) is not None:
            self._look_at_names(schema, members, place)
            self._look_at_members(schema, members, place)

    def _look_at_items(self, schema: Schema, value: list[Any], place: str) -> None:
        rest = schema.get("items")
        first = array(schema.get("prefixItems")) or []
        if (listed_items := array(rest)) is not None:
            first, rest = listed_items, schema.get("additionalItems")
        for index, (one, item) in enumerate(zip(first, value, strict=False)):
            self._ask(one, item, f"{place}[{index}]")
        for index in self._first(self._of.misfits(rest, value[len(first) :])):
            self._next.append((rest, value[len(first) + index], f"{place}[{len(first) + index}]"))

    def _look_at_names(self, schema: Schema, value: dict[str, Any], place: str) -> None:
        names, keys = schema.get("propertyNames"), list(value)
        wrong = self._of.misfits(names, keys)
        if wrong and not self._of.quoting:
            self._report(place, _MISNAMED)
        elif wrong:
            self._next += [(names, keys[index], f"{place}.{quoted(keys[index])}") for index in self._first(wrong)]

    def _look_at_members(self, schema: Schema, value: dict[str, Any], place: str) -> None:
        if self._of.fits(schema, value, "members"):
            return
        keys = list(value)
        for index in self._first(self._of.misfits(schema, ({key: value[key]} for key in keys), "members")):
            for one in self._of.of_property(schema, keys[index]):
                self._ask(one, value[keys[index]], f"{place}.{quoted(keys[index])}")

    def _first(self, misfits: list[int]) -> list[int]:
        """Return the first few of what does not fit, and count the others."""
        self.more += len(misfits[MAX_PROBLEMS:])
        return misfits[:MAX_PROBLEMS]

    def _look_here(self, schema: Schema, value: Any, place: str) -> None:
        for one in self._of.here(schema, value):
            self._ask(one, value, place)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema and not self._of.fits(schema, value, keyword):
                self._look_among(array(schema[keyword]) or [], value, place)

    def _look_among(self, alternatives: list[Any], value: Any, place: str) -> None:
        """Look at the closest of the alternatives that come furthest, or report what each of them requires."""
        if any(self._of.fits(one, value) for one in alternatives):
            self._report(place, _SEVERAL)
            return
        tries = [self._tried(one, value) for one in alternatives]
        stage = max(one.stage for one in tries)
        furthest = [one for one in tries if one.stage is stage]
        if stage is _Stage.NEAR:
            closest = max(furthest, key=lambda one: self._in_common(one.alternative, value))
            self._next.append((closest.alternative, value, place))
            return
        words: dict[str, list[str]] = {}
        for one in furthest[:MAX_PROBLEMS]:
            where, found = (place, value) if one.key is None else (f"{place}.{quoted(one.key)}", value[one.key])
            words.setdefault(where, []).append(self._of.words(one.schema, found, one.part))
        for where, texts in words.items():
            self._report(where, ", or ".join(dict.fromkeys(texts)))

    def _tried(self, alternative: Any, value: Any) -> _Try:
        together = self._of.together(alternative, value)
        members = table(value) or {}
        is_alike = False
        for key, one in (named for schema in together for named in _named(schema, "properties")):
            for constant in self._constants(one, members[key]) if key in members else ():
                if not self._of.fits(constant, members[key], "own"):
                    return _Try(alternative, _Stage.UNLIKE, constant, key=key)
                is_alike = True
        for schema, part in ((schema, part) for schema in together for part in ("own", "extra")):
            if not is_alike and not self._of.fits(schema, value, part):
                return _Try(alternative, _Stage.OTHER, schema, part)
        return _Try(alternative) if together else _Try(alternative, _Stage.OTHER, alternative)

    def _constants(self, schema: Any, value: Any) -> list[Schema]:
        return [one for one in self._of.together(schema, value) if "const" in one or "enum" in one]

    def _in_common(self, alternative: Any, value: Any) -> int:
        names = {name for one in self._of.together(alternative, value) for name, _ in _named(one, "properties")}
        return len(names.intersection(table(value) or ()))


def _named(schema: Schema, keyword: str) -> Iterable[tuple[str, Any]]:
    return (table(schema.get(keyword)) or {}).items()


def _part(schema: Any, part: str) -> Any:
    """Return a part of a schema: its own words, the names that it allows, what it says of members, or one keyword."""
    known = table(schema)
    if known is None or not part:
        return schema
    if part == "own":
        own = {keyword: value for keyword, value in known.items() if keyword not in _LED_ON or keyword in _OWN}
        lists = {key: one for key, one in _named(known, "dependencies") if array(one) is not None}
        return {**own, "dependencies": lists} if lists else own
    if part == "extra":
        anything: dict[str, Any] = {}
        allowed = {keyword: {name: anything for name, _ in _named(known, keyword)} for keyword in _MEMBERS}
        return {**allowed, "additionalProperties": False} if known.get("additionalProperties") is False else {}
    if part == "members":
        members = {keyword: known[keyword] for keyword in _MEMBERS if keyword in known}
        others = known.get("additionalProperties", True)
        return members if isinstance(others, bool) else {**members, "additionalProperties": others}
    if part.startswith("named "):
        return {"patternProperties": {part.removeprefix("named "): {"not": {}}}}
    return {part: known[part]}


def _absolute(schema: Any, siblings: bool, *, names: bool = False) -> Any:
    """Return a copy of a schema whose references are to `_WHOLE`, so that its parts can be used by themselves.

    `names` says that it is a mapping of names to schemas.
    """
    if (listed_schemas := array(schema)) is not None:
        return [_absolute(one, siblings) for one in listed_schemas]
    if (known := table(schema)) is None:
        return schema
    if names:
        return {name: _absolute(one, siblings) for name, one in known.items()}
    made: dict[str, Any] = {}
    for keyword, value in known.items():
        if keyword in REFERENCES and isinstance(value, str) and value.startswith("#"):
            made["$ref" if keyword == "$recursiveRef" else keyword] = _WHOLE + value
        elif keyword in _DATA:
            made[keyword] = value
        elif siblings or "$ref" not in known:
            made[keyword] = _absolute(value, siblings, names=keyword in MAPPINGS)
    return made
