"""The schemas of arguments as providers take them, and arguments in the server's own names again (SPEC AGT-3).

Providers refuse a whole request for one schema that is beyond their rules, which are rows of `RULES`. So unions at the
root are merged into one object, and names of properties that a provider does not take are replaced; a model writes
those, and the tool is called with its own. No replacement is the name of another property, so that a model that writes
the tool's own name is understood, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from toolfold.spi import array, frozen, table

from ..compiling import NAMED, ONE, SEVERAL

Schema = Mapping[str, Any]

_UNIONS = ("allOf", "anyOf", "oneOf")
_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_NO_KEY = re.compile(r"[^a-zA-Z0-9_.-]")
_KEYED = frozenset(("properties", "dependentSchemas", "dependencies", "dependentRequired"))
"""The keywords whose keys are names of properties."""
_BESIDE = ("if", "then", "else", "not")
"""The keywords with schemas of the same value, beside unions."""


@frozen(kw_only=True)
class SchemaRules:
    """What a provider takes as the schema of arguments.

    Attributes:
        root_without: The keywords that it refuses at the root.
        keys: The form of the names of properties.
        lists_properties: Whether it refuses an object without `properties`.
    """

    root_without: Sequence[str] = _UNIONS
    keys: re.Pattern[str] = _KEY
    lists_properties: bool = True


RULES: Mapping[str, SchemaRules] = {
    "anthropic": SchemaRules(),
    "openai": SchemaRules(root_without=(*_UNIONS, "enum", "not")),
    "openai_responses": SchemaRules(root_without=(*_UNIONS, "enum", "not")),
}
"""The rules of each provider, by format; what has its own shape has no row."""


def accepted(schema: Schema, rules: SchemaRules) -> dict[str, Any]:
    """Return the schema of a tool's arguments as a provider takes it."""
    made = _renamed(_merged(schema, schema, rules.root_without), _replacements(schema, rules.keys), rules)
    return table(made) or {}


def own_arguments(schema: Schema, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments that a model wrote with the names of the tool's own schema, whichever it was given."""
    forms = {rules.keys for rules in RULES.values()}
    own = {new: old for form in forms for old, new in _replacements(schema, form).items()}
    return (table(_Restoring(schema, own).value(arguments, [schema])) or {}) if own else arguments


# -- unions at the root -----------------------------------------------------------------------------------------------


def _merged(schema: Schema, root: Schema, without: Sequence[str], depth: int = 8) -> Schema:
    """Return a schema of objects with what its unions say of properties in place of the unions."""
    if schema.keys().isdisjoint(without):
        return schema
    properties: dict[str, Any] = dict(table(schema.get("properties")) or {})
    required = dict.fromkeys(array(schema.get("required")) or ())
    for union in (key for key in _UNIONS if key in schema):
        given = [_resolved(one, root) for one in array(schema[union]) or ()]
        parts = [_merged(one, root, without, depth - 1) for one in given if depth]
        for name, found in _by_name(parts).items():
            properties.setdefault(name, found[0] if len(found) == 1 else {_joined(union): found})
        needed = [dict.fromkeys(array(one.get("required")) or ()) for one in parts]
        for name in dict.fromkeys(name for names in needed for name in names):
            if union == "allOf" or all(name in names for names in needed):
                required[name] = None
    made = {key: value for key, value in schema.items() if key not in without}
    return {**made, "type": "object", "properties": properties, **({"required": [*required]} if required else {})}


def _joined(union: str) -> str:
    return "allOf" if union == "allOf" else "anyOf"


def _by_name(parts: Iterable[Schema]) -> dict[str, list[Any]]:
    """Return the schemas that the parts of a union have for each property, each once."""
    found: dict[str, list[Any]] = {}
    for part in parts:
        for name, one in (table(part.get("properties")) or {}).items():
            schemas = found.setdefault(name, [])
            schemas += [one] if one not in schemas else []
    return found


def _resolved(given: Any, root: Schema) -> Schema:
    """Return a schema, or the one in the same document that it refers to."""
    seen: set[str] = set()
    found = table(given) or {}
    while isinstance(reference := found.get("$ref"), str) and reference.startswith("#/") and reference not in seen:
        seen.add(reference)
        inner: Any = root
        for step in unquote(reference[2:]).split("/"):
            inner = (table(inner) or {}).get(step.replace("~1", "/").replace("~0", "~"))
        found = {**(table(inner) or {}), **{key: value for key, value in found.items() if key != "$ref"}}
    return found


# -- names of properties ----------------------------------------------------------------------------------------------


def _replacements(schema: Schema, form: re.Pattern[str]) -> dict[str, str]:
    """Return a name for each property in a schema, however deep, whose own name does not have the form."""
    names = dict.fromkeys(_names(schema))
    taken = {name for name in names if form.fullmatch(name)}
    made: dict[str, str] = {}
    for name in [name for name in names if name not in taken]:
        base = _NO_KEY.sub("_", name)[:60] or "_"
        made[name] = next(one for one in (base, *(f"{base}_{number}" for number in range(2, 1000))) if one not in taken)
        taken.add(made[name])
    return made


def _names(schema: Any) -> Iterator[str]:
    for key, value in (table(schema) or {}).items():
        if key in NAMED:
            inner = table(value) or {}
            yield from inner if key == "properties" else ()
            for one in inner.values():
                yield from _names(one)
        elif key in ONE or key in SEVERAL:
            for one in array(value) or (value,):
                yield from _names(one)


def _renamed(schema: Any, names: Mapping[str, str], rules: SchemaRules) -> Any:
    """Return a schema with other names of properties, and with `properties` in each object."""
    if (given := table(schema)) is None:
        return schema
    made: dict[str, Any] = {}
    for key, value in given.items():
        if key == "required" or key in NAMED or key in _KEYED:
            made[key] = _renamed_mapping(key, value, names, rules)
        elif key in ONE or key in SEVERAL:
            several = array(value)
            inner = [_renamed(one, names, rules) for one in several or (value,)]
            made[key] = inner[0] if several is None else inner
        else:
            made[key] = value
    if rules.lists_properties and "object" in (array(made.get("type")) or [made.get("type")]):
        made.setdefault("properties", {})
    return made


def _renamed_mapping(key: str, value: Any, names: Mapping[str, str], rules: SchemaRules) -> Any:
    if (several := array(value)) is not None:  # names
        return [names.get(one, one) if isinstance(one, str) else one for one in several]
    given = table(value) or {}
    inner = {
        names.get(name, name) if key in _KEYED else name: _renamed_mapping("required", one, names, rules)
        if isinstance(one, list)
        else _renamed(one, names, rules)
        for name, one in given.items()
    }
    return inner if table(value) is not None else value


@frozen
class _Restoring:
    """Puts the own names of properties into arguments, where the schema has them."""

    root: Schema
    own: Mapping[str, str]

    def value(self, given: Any, schemas: Sequence[Any]) -> Any:
        """Return a value of which `schemas` hold, with its own names."""
        parts = [*self._parts(schemas)]
        if (items := array(given)) is not None:
            inner = [one for part in parts for key in ("items", "prefixItems") for one in _several(part.get(key))]
            return [self.value(one, inner) for one in items]
        if (members := table(given)) is None:
            return given
        known = _by_name(parts)
        others = [part["additionalProperties"] for part in parts if "additionalProperties" in part]
        made: dict[str, Any] = {}
        for key, one in members.items():
            name = self.own.get(key, key)
            name = name if key not in known and name in known and name not in members else key
            made[name] = self.value(one, known.get(name, others))
        return made

    def _parts(self, schemas: Sequence[Any]) -> Iterator[Schema]:
        """Yield what holds of one value: schemas, what they refer to, and the parts of their unions."""
        waiting, seen = [*schemas], set[int]()
        for given in waiting:
            if id(given) in seen or table(given) is None:
                continue
            seen.add(id(given))
            part = _resolved(given, self.root)
            yield part
            waiting += [one for key in (*_UNIONS, *_BESIDE) for one in _several(part.get(key))]


def _several(given: Any) -> Sequence[Any]:
    return array(given) or (() if given is None else (given,))
