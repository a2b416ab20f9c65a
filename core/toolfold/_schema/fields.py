"""Schemas in their three forms: field specifications, JSON Schema mappings, JSON texts (SPEC KIT-3).

A field specification says by data what a typed function says by annotations: a mapping of names to fields, each a type
(`"string"`) or a mapping with a `type` and options:

    {"message": {"type": "string", "required": True}, "repeat": {"type": "integer", "min": 1, "default": 1}}

`TYPES` and `OPTIONS` are the whole vocabulary. An array is written `("array", T)`; what is said of its items stands
beside it: `{"type": ("array", "object"), "fields": {...}, "max_items": 9}`. Names that are not specified are refused.

It is compiled once, into a JSON Schema and into the defaults that are filled in before the handler runs. The other two
forms validate only, and arguments reach the handler untouched.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal, cast

from attrs import evolve

from ..errors import InvalidDefinition
from .arguments import Arguments, Entry, Fields, Output, compile_schema, filled, plain_json

What = Literal["input", "output"]


TYPES: Mapping[str, Mapping[str, Any]] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "enum": {},
    "object": {"type": "object"},
    "any": {},
}
"""The types of fields, and the JSON Schema of each; an array is `("array", T)`."""

_ANY = (*TYPES, "array")
OPTIONS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "type": ("", _ANY),
    "required": ("", _ANY),
    "default": ("default", _ANY),
    "title": ("title", _ANY),
    "description": ("description", _ANY),
    "values": ("enum", ("enum",)),
    "fields": ("", ("object",)),
    "min": ("minimum", ("integer", "number")),
    "max": ("maximum", ("integer", "number")),
    "min_length": ("minLength", ("string",)),
    "max_length": ("maxLength", ("string",)),
    "pattern": ("pattern", ("string",)),
    "min_items": ("minItems", ("array",)),
    "max_items": ("maxItems", ("array",)),
}
"""The options of a field: the JSON Schema keyword that each becomes, if it is one, and the types that it goes with."""


def input_of(name: str, options: Mapping[str, Any]) -> Arguments | None:
    """Return the arguments that `input` or `input_schema` of a tool describe, or `None` if neither is given.

    Raises `InvalidDefinition`, which names the tool and the place.
    """
    schema, fields = _form(name, options, "input")
    if schema is None:
        return None
    if not options.get("check_arguments", True):
        return Arguments.unchecked(name, schema)
    return evolve(Arguments.from_schema(name, schema), fields=fields)


def output_of(name: str, options: Mapping[str, Any]) -> Output | None:
    """Return what `output` or `output_schema` of a tool says of its structured results; as `input_of`."""
    schema, _ = _form(name, options, "output")
    if schema is None:
        return None
    return Output.from_schema(name, schema) if options.get("check_output", True) else Output.unchecked(name, schema)


def _form(name: str, options: Mapping[str, Any], what: What) -> tuple[Any, Fields | None]:
    """Return the schema that the options give, and the field specification that it comes from, if it does."""
    given, raw = options.get(what), options.get(f"{what}_schema")
    if given is not None and raw is not None:
        raise InvalidDefinition(name, f"it has both {what} and {what}_schema: leave one of them out")
    if given is None:
        return (_decoded(name, raw, what) if isinstance(raw, str) else raw), None
    if isinstance(given, str):
        return _decoded(name, given, what), None
    if (mapping := _mapping(given)) is None:
        raise InvalidDefinition(
            name, f"its {what} is {type(given).__name__}, and neither a field specification nor JSON Schema"
        )
    if looks_like_json_schema(mapping):
        return mapping, None
    try:
        fields = compile_fields(name, mapping, what)
    except RecursionError as error:
        raise InvalidDefinition(name, f"its {what} has too many fields inside of one another") from error
    return fields.schema, fields


def looks_like_json_schema(given: Mapping[object, Any]) -> bool:
    """Return whether a mapping is JSON Schema rather than a field specification.

    It is if its `type` is a text or a list, which no field is as a root, if a key begins with `$`, or if `allOf`,
    `anyOf` or `oneOf` is a list. So a field called `type` needs the long form, and JSON Schema that says nothing of all
    that goes into `input_schema` or `output_schema`, which are never taken for anything else.
    """
    return (
        isinstance(given.get("type"), str | list)
        or any(isinstance(key, str) and key.startswith("$") for key in given)
        or any(isinstance(given.get(key), list) for key in ("allOf", "anyOf", "oneOf"))
    )


def _mapping(value: object) -> Mapping[object, Any] | None:
    return cast("Mapping[object, Any]", value) if isinstance(value, Mapping) else None


def _decoded(name: str, text: str, what: What) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidDefinition(name, f"its {what} schema is a text that is not JSON: {error}") from error


# -- field specifications ---------------------------------------------------------------------------------------------


def compile_fields(name: str, given: Mapping[object, Any], what: str) -> Fields:
    """Return a field specification compiled, or raise `InvalidDefinition` with the tool and the place."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    entries: list[Entry] = []
    for key, value in given.items():
        if not isinstance(key, str) or not key:
            raise InvalidDefinition(name, f"its {what} has a field named {key!r}, and a name is a text")
        entry, properties[key], is_required = _field(name, key, value, f"{what}.{key}")
        entries.append(entry)
        if is_required:
            required.append(key)
    needed: dict[str, Any] = {"required": required} if required else {}
    schema = {"type": "object", "properties": properties, **needed, "additionalProperties": False}
    return Fields(schema, tuple(entries))


def _field(name: str, key: str, given: Any, place: str) -> tuple[Entry, dict[str, Any], bool]:
    """Return a field to fill in, its JSON Schema, and whether it is required."""
    options: dict[object, Any] = {"type": given} if (said := _mapping(given)) is None else dict(said)
    item, depth = _type_of(name, options.get("type"), place)
    _check_options(name, options, ("array", item) if depth else (item,), place)
    inner = None
    if (children := options.get("fields")) is not None:
        if (specified := _mapping(children)) is None:
            raise InvalidDefinition(name, f"its {place} has fields that are no mapping")
        inner = compile_fields(name, specified, place)
    schema = {**(inner.schema if inner else TYPES[item]), **_keywords(options, item)}
    for level in range(depth):
        schema = {"type": "array", "items": schema, **(_keywords(options, "array") if level == depth - 1 else {})}
    schema |= _keywords(options, None)
    schema = cast("dict[str, Any]", plain_json(name, schema, place))
    validator = compile_schema(name, schema, place)
    entry = Entry(key, inner=inner)
    if "default" in options:
        if not validator.is_valid(schema["default"]):
            raise InvalidDefinition(name, f"its {place} has a default that does not fit it")
        entry = evolve(entry, default=filled(inner, schema["default"]))
    return entry, schema, options.get("required", False)


def _type_of(name: str, given: Any, place: str) -> tuple[str, int]:
    """Return the innermost type, and in how many arrays it is."""
    depth = 0
    while isinstance(given, list | tuple):
        parts = tuple(cast("list[Any]", given))
        if len(parts) != 2 or parts[0] != "array":
            raise InvalidDefinition(name, f'its {place} has the type {given!r}; an array is ("array", TYPE)')
        given = parts[1]
        depth += 1
    if given is None:
        raise InvalidDefinition(name, f"its {place} has no type")
    if not isinstance(given, str) or given not in TYPES:
        known = ", ".join(TYPES)
        raise InvalidDefinition(name, f'its {place} has the type {given!r}; the types are {known}, and ("array", TYPE)')
    return given, depth


def _check_options(name: str, options: Mapping[object, Any], types: tuple[str, ...], place: str) -> None:
    for option in options:
        if not isinstance(option, str) or option not in OPTIONS:
            known = ", ".join(OPTIONS)
            raise InvalidDefinition(name, f"its {place} has the option {option!r}; the options are {known}")
        if not set(types) & set(OPTIONS[option][1]):
            raise InvalidDefinition(name, f"its {place} has the option {option!r}, which does not go with its type")
    if not isinstance(options.get("required", False), bool):
        raise InvalidDefinition(name, f"its {place} must be required or not: true or false")
    if options.get("required") and "default" in options:
        raise InvalidDefinition(name, f"its {place} is required, so its default would never be used: leave one out")
    if types[-1] == "enum":
        values: Any = options.get("values")
        if not isinstance(values, list | tuple) or not values:
            raise InvalidDefinition(name, f"its {place} is an enum and needs its values, as a list")


def _keywords(options: Mapping[object, Any], kind: str | None) -> dict[str, Any]:
    """Return the JSON Schema keywords of the options that go with one type, or, for `None`, with every type."""
    made: dict[str, Any] = {}
    for option, (keyword, types) in OPTIONS.items():
        fits = types is _ANY if kind is None else kind in types and types is not _ANY
        if keyword and fits and option in options:
            made[keyword] = options[option]
    if kind == "enum" and all(isinstance(value, str) for value in made["enum"]):
        made["type"] = "string"
    return made
