"""Whether clients can compile an output schema: one that they can't makes them refuse the whole list (SPEC GWY-20).

Strict clients compile the output schema of every tool that they list, without looking at what it describes JSON Schema
by. So what is read here is what a compiler stumbles over: keywords of another form than all drafts since 06 give them,
references to nothing or in a circle, identities of two parts, and patterns in the notation of another language than
ECMAScript's. What schemas say of unknown formats, or by keywords of their own, is passed over, as clients do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any
from urllib.parse import unquote

import jsonschema_rs
from pydantic_core import to_json

from toolfold.spi import array, frozen, quoted, table

Schema = Mapping[str, Any]

TYPES = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
_TEXTS = ("title", "description", "$comment", "contentMediaType", "contentEncoding")
DIALECTS = frozenset(
    (
        *(f"http://json-schema.org/draft-{number}/schema" for number in ("04", "06", "07")),
        *(f"https://json-schema.org/draft/{year}/schema" for year in ("2019-09", "2020-12")),
        *("http://json-schema.org/schema", "https://json-schema.org/draft-07/schema"),
    )
)
"""What `$schema` may be: compilers refuse one that they don't know."""
_META_SCHEMAS = ("http://json-schema.org/", "https://json-schema.org/")

ONE = frozenset(
    (
        *("additionalProperties", "unevaluatedProperties", "propertyNames", "items", "additionalItems"),
        *("unevaluatedItems", "contains", "not", "if", "then", "else"),
    )
)
SEVERAL = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
NAMED = frozenset(("properties", "patternProperties", "dependentSchemas", "$defs", "definitions", "dependencies"))
"""The keywords that have a schema, a list of schemas, and a mapping of schemas."""

_MOST_VALUES = 20_000
"""How many schemas are looked at in one; a larger one is passed on as it is."""


def compile_problem(schema: Schema) -> str | None:
    """Return why clients can't compile a schema, as a clause, or `None` if they can."""
    try:
        objects = [*_objects(schema)]
        if len(objects) > _MOST_VALUES:
            return None
        known = _Known.of(schema, objects)
    except _Problem as problem:
        return str(problem)
    found = (problem for one in objects for problem in _problems(one, known))
    return next(chain(found, _circles(objects, known)), None)


class _Problem(ValueError):
    """Something that should be a schema is none, or two have one identity."""


def _objects(root: Schema) -> Iterator[Schema]:
    """Yield the schemas in a schema that are objects, itself first; raises `_Problem` for what is no schema."""
    waiting: list[Any] = [root]
    for number, given in enumerate(waiting):
        if isinstance(given, bool):
            continue
        if (one := table(given)) is None:
            raise _Problem(f"{quoted(repr(given))} stands where a schema is expected")
        yield one
        if number <= _MOST_VALUES:
            waiting += _inside(one)


def _inside(schema: Schema) -> Iterator[Any]:
    for key, value in schema.items():
        if key in ONE:
            yield from value if isinstance(value, list) and key == "items" else (value,)
        elif key in SEVERAL:
            yield from array(value) or ()
        elif key in NAMED:
            required = key == "dependencies"  # in which a list of names may stand for a schema
            yield from (one for one in (table(value) or {}).values() if not (required and isinstance(one, list)))


@frozen
class _Known:
    """What references may lead to: by pointers into the whole or into a part with an identity, by anchors, by URIs."""

    resources: tuple[Schema, ...]
    anchors: Mapping[str, Schema]
    uris: Mapping[str, Schema]

    @classmethod
    def of(cls, root: Schema, objects: Sequence[Schema]) -> _Known:
        """Return what is in a schema; raises `_Problem` if two of its parts have one identity."""
        anchors = {
            one[key]: one for one in objects for key in ("$anchor", "$dynamicAnchor") if isinstance(one.get(key), str)
        }
        uris: dict[str, Schema] = {}
        identities = set[str]()
        for one in objects:
            if not isinstance(identity := one.get("$id"), str):
                continue
            uri, _, anchor = identity.partition("#")
            if anchor:
                anchors[anchor] = one
            if identity in identities:
                raise _Problem(f"$id is {quoted(repr(identity))} in two parts")
            identities.add(identity)
            uris.setdefault(uri, one)
        return cls((root, *uris.values()), anchors, uris)

    def target(self, reference: str) -> Schema | bool | None:
        """Return the schema that a reference leads to, `True` for one of JSON Schema's own, or `None`."""
        uri, _, fragment = reference.partition("#")
        if uri.startswith(_META_SCHEMAS):
            return True
        resources = self.resources
        if uri:
            resources = tuple(one for known, one in self.uris.items() if known == uri or known.endswith(f"/{uri}"))
        if not fragment:
            return next(iter(resources), None)
        if fragment in self.anchors and resources:
            return self.anchors[fragment]
        found = (_pointed(fragment, one) for one in resources if fragment.startswith("/"))
        return next((one for one in found if one is not None), None)


def _circles(objects: Iterable[Schema], known: _Known) -> Iterator[str]:
    """Yield what references lead back to themselves, with no part of a value between them: no compiler ends there."""
    walks: dict[int, int] = {}  # of each schema the first walk that came to it, so that none is passed twice
    for walk, start in enumerate(objects):
        found: Schema | bool | None = start
        while isinstance(found, Mapping) and isinstance(reference := found.get("$ref"), str):
            if walks.setdefault(id(found), walk) != walk:
                break
            found = known.target(reference)
            if isinstance(found, Mapping) and "$ref" in found and walks.get(id(found)) == walk:
                yield f"$ref leads to {quoted(repr(reference))}, which leads back to it"
                break


def _pointed(pointer: str, root: Schema) -> Schema | bool | None:
    found: Any = root
    for step in unquote(pointer)[1:].split("/"):
        step = step.replace("~1", "/").replace("~0", "~")
        if (inner := table(found)) is not None:
            found = inner.get(step)
        elif (items := array(found)) is not None and step.isdecimal() and int(step) < len(items):
            found = items[int(step)]
        else:
            return None
    return found if isinstance(found, bool) else table(found)


# -- the forms of keywords --------------------------------------------------------------------------------------------


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return _is_number(value) and value >= 0 and value == value // 1


def _are_names(value: Any) -> bool:
    several = array(value)
    return several is not None and all(isinstance(one, str) for one in several) and len({*several}) == len(several)


def _is_type(value: Any) -> bool:
    several = [value] if array(value) is None else value
    return bool(several) and _are_names(several) and TYPES.issuperset(several)


def _is_filled(value: Any) -> bool:
    return bool(array(value))


def _is_enum(value: Any) -> bool:
    several = array(value)
    return bool(several) and len({to_json(one) for one in several or ()}) == len(several or ())


def _is_dialect(value: Any) -> bool:
    return isinstance(value, str) and value.rstrip("#") in DIALECTS


def _is_table(value: Any) -> bool:
    return table(value) is not None


_FORMS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "type": (_is_type, f"one of {', '.join(sorted(TYPES))}, or a list of some"),
    "enum": (_is_enum, "a list of at least one value, each of them once"),
    "required": (_are_names, "a list of names, each of them once"),
    "$schema": (_is_dialect, "a draft of JSON Schema"),
    "id": (lambda value: False, "called $id"),
    "nullable": (lambda value: False, "beside a type"),
    **dict.fromkeys(("format", "$ref", "$id", *_TEXTS), (lambda value: isinstance(value, str), "a text")),
    **dict.fromkeys(("uniqueItems", "readOnly", "writeOnly"), (lambda value: isinstance(value, bool), "true or false")),
    **dict.fromkeys(SEVERAL, (_is_filled, "a list of at least one schema")),
    **dict.fromkeys(NAMED, (_is_table, "a mapping of schemas")),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
        (_is_number, "a number"),
    ),
    "multipleOf": (lambda value: _is_number(value) and value > 0, "a number above 0"),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "a whole number, 0 or more"),
    ),
}
"""The form that a keyword must have, and what it must be in words."""


def _problems(schema: Schema, known: _Known) -> Iterator[str]:
    """Yield what is wrong with a schema by itself."""
    for key, value in schema.items():
        is_right, words = _FORMS.get(key, (None, ""))
        beside_type = key == "nullable" and "type" in schema
        if is_right is not None and not beside_type and not is_right(value):
            yield f"{key} is {quoted(repr(value))}, and must be {words}"
    reference = schema.get("$ref")
    if isinstance(reference, str) and known.target(reference) is None:
        yield f"$ref leads to {quoted(repr(reference))}, which is not in it"
    patterns: list[Any] = [schema["pattern"]] if "pattern" in schema else []
    for pattern in [*patterns, *(table(schema.get("patternProperties")) or {})]:
        if (problem := pattern_problem(pattern)) is not None:
            yield f"the pattern {quoted(repr(pattern))} is none in JavaScript: {problem}"


# -- patterns ---------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|u\{[0-9A-Fa-f]+\}|[pP]\{[\w=]+\}|k<\w+>|c[A-Za-z]|.?)|.", re.DOTALL
)
_GROUPS = re.compile(r"\(\?(?:[:=!]|<[=!]|<[A-Za-z_$][\w$]*>)")
_QUANTIFIER = re.compile(r"\{\d+(?:,\d*)?\}")
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_ESCAPES = frozenset("dDwWsSfnrtv0")
_BACKTRACKS, _SIZE = 1, 1 << 20


def pattern_problem(pattern: Any) -> str | None:
    """Return why a pattern is none of ECMAScript in its Unicode mode, by which clients read it, or `None`."""
    if not isinstance(pattern, str):
        return "it is no text"
    inside, place, quantified = False, 0, False
    while place < len(pattern):
        found = _TOKEN.match(pattern, place)
        assert found is not None, "any character is a token"
        token, rest = found.group(), pattern[place:]
        if token[0] == "\\" and not _is_escape(token, inside=inside):
            return f"{token} is no escape"
        if not inside and token == "(" and rest.startswith("(?") and _GROUPS.match(rest) is None:
            return f"{rest[:4]} begins no group"
        if not inside and token == "{" and (found := _QUANTIFIER.match(pattern, place)) is None:
            return "{ stands alone"
        if not inside and token in ("}", "]"):
            return f"{token} stands alone"
        if not inside and quantified and token == "+":
            return "quantifiers are not possessive"
        inside = token == "[" or (inside and token != "]")
        quantified = not inside and (token in ("*", "+", "?") or token == "{") and not quantified
        place = found.end()
    try:
        options = jsonschema_rs.FancyRegexOptions(_BACKTRACKS, size_limit=_SIZE)
        without_names = re.sub(r"\\k<\w+>", "(?:)", pattern)  # it has no references by name
        jsonschema_rs.Draft7Validator({"pattern": without_names}, pattern_options=options)
    except (jsonschema_rs.ValidationError, ValueError):
        return "it is not well formed"
    return None


def _is_escape(token: str, *, inside: bool) -> bool:
    """Return whether an escape is one in or outside a class: any other letter or sign is refused in Unicode mode."""
    if len(token) > 2:
        return True
    sign = token[1:]
    if sign in _SYNTAX or sign in _ESCAPES:
        return True
    return sign != "" and sign in ("-b" if inside else "bB123456789")
