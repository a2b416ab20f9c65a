"""JSON Schemas as types in the notation of a language: for calls on one line, and for stubs (SPEC CTL-4, COD-1)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from attrs import field

from .._plain import array, table
from .._values import frozen

SIGNATURE = 300
"""How many characters a call on one line has at most, unless the names of required arguments alone need more."""

_CHOICES = 60
_DEPTH = 3
_OTHER_FORMS = frozenset({"$ref", "anyOf", "oneOf", "allOf", "prefixItems", "if", "dependentSchemas"})


@frozen
class Field:
    """A property of an object: its type, and whether it has to be there."""

    type: str
    is_required: bool


Fields = Mapping[str, Field]


@frozen(kw_only=True)
class Notation:
    """How a language writes types.

    Attributes:
        scalars: The types that JSON Schema has a word for, `object` for one of which nothing else is known.
        anything: The type of any value.
        array: The type of an array, with `{}` for that of its items.
        mapping: The type of an object of which only the type of the values is known, with `{}` for that.
        either: What stands between the types of a union.
        choices: Returns the type of one of some JSON values.
        an_object: Returns the type of an object with some properties, of a value that is called so.
        room: How many characters a union or an object has at most; a longer one is `anything`, or any object.
    """

    scalars: Mapping[str, str]
    anything: str
    array: str
    mapping: str
    either: str
    choices: Callable[[Iterable[Any]], str]
    an_object: Callable[[Fields, str], str]
    room: int


@frozen
class Types:
    """Writes the types of a schema.

    Args:
        notation: The language.
        schema: The whole schema, in which parts may refer to others.
    """

    notation: Notation
    schema: Any
    _written: dict[tuple[str, int], str] = field(init=False, factory=dict[tuple[str, int], str])

    @cached_property
    def definitions(self) -> Mapping[str, Any]:
        """The parts that others may refer to, by name."""
        whole = table(self.schema) or {}
        return {**(table(whole.get("definitions")) or {}), **(table(whole.get("$defs")) or {})}

    @property
    def root(self) -> Mapping[str, Any]:
        """The schema, or the part of it that it refers to."""
        whole = table(self.schema) or {}
        return table(self.definitions.get(_referred(whole))) or whole

    def write(self, schema: Any, depth: int, name: str = "") -> str:
        """Return the type of what fits a schema and is called `name`; objects deeper than `depth` are any objects."""
        whole, notation = table(schema) or {}, self.notation
        if (referred := _referred(whole)) in self.definitions:
            return self._definition(referred, depth - 1, name) if depth > 0 else notation.anything
        if (values := array(whole.get("enum"))) is not None:
            return notation.choices(values)
        if "const" in whole:
            return notation.choices([whole["const"]])
        several = array(whole.get("anyOf")) or array(whole.get("oneOf"))
        if several is not None:
            return self._union((self.write(one, depth - 1, name) for one in several) if depth > 0 else ())
        named = whole.get("type")
        kinds = [str(kind) for kind in array(named) or ([named] if named else [])]
        return self._union(self._kind(kind, whole, depth, name) for kind in kinds)

    def fields(self, schema: Mapping[str, Any], depth: int, name: str = "") -> dict[str, Field]:
        """Return the properties of an object, in their order."""
        needed = array(schema.get("required")) or ()
        properties = table(schema.get("properties")) or {}
        return {key: Field(self.write(part, depth, f"{name}_{key}"), key in needed) for key, part in properties.items()}

    def _definition(self, referred: str, depth: int, name: str) -> str:
        """Return the type of a shared part, written once: parts may refer to one another many times (SPEC SAF-1)."""
        if (referred, depth) not in self._written:
            self._written[referred, depth] = self.write(self.definitions[referred], depth, name)
        return self._written[referred, depth]

    def _union(self, types: Iterable[str]) -> str:
        written = self.notation.either.join(dict.fromkeys(types))
        return written if 0 < len(written) <= self.notation.room else self.notation.anything

    def _kind(self, kind: str, schema: Mapping[str, Any], depth: int, name: str) -> str:
        notation = self.notation
        if kind == "array":
            return notation.array.format(
                self.write(schema.get("items"), depth - 1, name) if depth > 0 else notation.anything
            )
        if kind == "object" and depth > 0:
            if fields := self.fields(schema, depth - 1, name):
                written = notation.an_object(fields, name)
                return written if len(written) <= notation.room else notation.scalars["object"]
            if table(schema.get("additionalProperties")):
                return notation.mapping.format(self.write(schema["additionalProperties"], depth - 1, name))
        return notation.scalars.get(kind, notation.anything)


def _referred(schema: Mapping[str, Any]) -> str:
    """Return the name of the shared part that a schema refers to."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


# -- calls on one line ------------------------------------------------------------------------------------------------


def _choices(values: Iterable[Any]) -> str:
    """Return a choice: as many values as fit, and the number of the others."""
    shown, others = list[str](), 0
    for text in (json.dumps(value, ensure_ascii=False) for value in values):
        if others or sum(map(len, shown)) + len(text) > _CHOICES:
            others += 1
        else:
            shown.append(text)
    return "|".join([*shown, *([f"{others} more"] if others else [])])


def written(name: str, part: Field) -> str:
    """Return a property with its type: `name: str`, or `name?: str` where it may lack."""
    return f"{_named(name)}{'' if part.is_required else '?'}: {part.type}"


def _named(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name, ensure_ascii=not name.isprintable())


def _required_first(fields: Fields) -> list[str]:
    return sorted(fields, key=lambda name: not fields[name].is_required)


_COMPACT = Notation(
    scalars={
        "string": "str",
        "integer": "int",
        "number": "float",
        "boolean": "bool",
        "object": "object",
        "null": "null",
    },
    anything="any",
    array="[{}]",
    mapping="object",
    either="|",
    choices=_choices,
    an_object=lambda fields, _: f"{{{', '.join(written(name, fields[name]) for name in _required_first(fields))}}}",
    room=SIGNATURE,
)


def signature(name: str, schema: Any, room: int = SIGNATURE) -> str:
    """Return a tool as a call on one line: `create_issue(repo: str, title: str, labels?: [str])` (SPEC CTL-4).

    One that is longer than `room` characters has objects without what is in them, then the first optional arguments and
    the number of the others, and at last the required ones without types. Their names are never left out.
    """
    types = Types(_COMPACT, schema)
    root = types.root
    more = ["see its schema"] if root.keys() & {*_OTHER_FORMS, "patternProperties"} else []
    fields = dict[str, Field]()
    for depth in (_DEPTH, 0):
        fields = types.fields(root, depth)
        text = f"{name}({', '.join([*(written(one, fields[one]) for one in _required_first(fields)), *more])})"
        if len(text) <= room:
            return text
    required = [written(one, part) for one, part in fields.items() if part.is_required]
    optional = [written(one, part) for one, part in fields.items() if not part.is_required]
    if len(_call(name, required, len(optional), more)) > room:
        named = [_named(one) for one, part in fields.items() if part.is_required]
        return _call(name, named, len(optional), more)
    for number, argument in enumerate(optional, 1):
        if len(_call(name, [*required, argument], len(optional) - number, more)) > room:
            return _call(name, required, len(optional) - number + 1, more)
        required.append(argument)
    return _call(name, required, 0, more)


def _call(name: str, parts: Iterable[str], left_out: int, more: Iterable[str]) -> str:
    """Return a call with the number of the optional arguments that are left out."""
    others = [f"and {left_out} optional"] if left_out else []
    return f"{name}({', '.join([*parts, *others, *more])})"
