"""Definitions, checked and made into components: tools, prompts, resources, resource templates (SPEC 3, REG-6).

Everything that will be sent to clients is checked here and copied as plain JSON, so that no definition can break a
list later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

from .._catalog.components import Component, Kind
from .._catalog.modes import with_modes
from .._catalog.rules import Visibility
from .._catalog.uri_templates import template_variables
from .._limits import MAX_URI
from .._names import is_text
from .._plain import table
from .._schema.arguments import Arguments, check_text, plain_json
from .._schema.fields import input_of, output_of
from ..errors import InvalidDefinition, InvalidName
from . import decorators
from .handlers import adapted, checked, raw_handler

HINTS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
}
"""The hints of a tool as Python spells them, and on the wire."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


Place = tuple[str, str | None, Visibility]
"""The full name or the URI of something, its group, and its rule."""


def tool_component(place: Place, handler: Callable[..., Any], options: Mapping[str, Any]) -> Component:
    """Return the component of a tool; `options` are `ToolOptions`, checked. Raises `InvalidDefinition`."""
    name, group, rule = place
    wire = definition(name, {**options, "description": _described(handler, options)})
    handle, arguments = adapted(name, handler, input_of(name, options), in_thread=options["run_in_thread"])
    if (output := output_of(name, options)) is not None:
        wire["outputSchema"] = output.schema
        handle = checked(name, handle, output) if options.get("check_output", True) else handle
    if (modes := options.get("modes")) is not None:
        arguments = with_modes(name, modes, arguments)
    return Component(
        kind="tool",
        name=name,
        rule=rule,
        definition={**wire, "inputSchema": arguments.schema},
        handler=handle,
        arguments=arguments if options.get("check_arguments", True) else None,
        group=group,
        hidden=options.get("hidden", False),
        category=options.get("category"),
        tags=_tags(name, options.get("tags", ())),
        modes=modes,
    )


def prompt_component(place: Place, handler: Callable[..., Any], options: Mapping[str, Any]) -> Component:
    """Return the component of a prompt; `options` are `PromptOptions`, checked. Raises `InvalidDefinition`."""
    name, group, rule = place
    wire = definition(name, {**options, "description": _described(handler, options)})
    listed, schema = prompt_schema(name, options.get("arguments", ()))
    return Component(
        kind="prompt",
        name=name,
        rule=rule,
        definition={**wire, "arguments": listed},
        handler=raw_handler(name, handler, in_thread=options["run_in_thread"]),
        arguments=Arguments.from_schema(name, schema) if options.get("check_arguments", True) else None,
        group=group,
        hidden=options.get("hidden", False),
    )


def resource_component(kind: Kind, place: Place, handler: Callable[..., Any], options: Mapping[str, Any]) -> Component:
    """Return the component of a resource or a resource template; `options` are `ResourceOptions`, checked.

    Raises `InvalidDefinition`, `InvalidName`.
    """
    uri, group, rule = place
    check_uri(uri)
    key, arguments = "uri", None
    if kind == "resource_template":
        names = template_variables(uri)
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
        key, arguments = "uriTemplate", Arguments.from_schema(uri, schema)
    wire = definition(uri, {**options, "description": _described(handler, options)})
    wire |= {key: uri, "name": check_text(uri, "name", options.get("name")) or uri}
    if (mime_type := check_text(uri, "mime_type", options.get("mime_type"))) is not None:
        wire["mimeType"] = mime_type
    return Component(
        kind=kind,
        name=uri,
        rule=rule,
        definition=wire,
        handler=raw_handler(uri, handler, in_thread=options["run_in_thread"]),
        arguments=arguments,
        group=group,
        hidden=options.get("hidden", False),
    )


def _described(handler: Any, options: Mapping[str, Any]) -> Any:
    given = options.get("description")
    return decorators.docstring(handler) if given is None else given


def definition(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parts that every definition on the wire has, checked (SPEC REG-6): absent ones are left out.

    `options` may hold `title`, `description`, `icons`, `meta`, `category` and `annotations`.
    """
    made: dict[str, Any] = {"name": name}
    for key in ("title", "description"):
        if (text := check_text(name, key, options.get(key))) is not None:
            made[key] = text
    if (annotations := options.get("annotations")) is not None:
        made["annotations"] = _annotations(name, plain_json(name, annotations, "annotations"))
    if (icons := options.get("icons")) is not None:
        made["icons"] = _icons(name, plain_json(name, several(name, "icons", icons), "icons"))
    meta = plain_json(name, options.get("meta") or {}, "meta")
    if not isinstance(meta, dict):
        raise InvalidDefinition(name, "its meta must be a JSON object")
    if (category := check_text(name, "category", options.get("category"))) is not None:
        meta["category"] = category
    return {**made, "_meta": meta} if meta else made


def several(name: str, what: str, given: Any) -> list[Any]:
    """Return what may be given as one or as several; a text or a mapping is one."""
    if isinstance(given, str | Mapping):
        return [given]
    if not isinstance(given, Iterable):
        raise InvalidDefinition(name, f"its {what} is {given!r}, and must be a list")
    return list(cast("Iterable[object]", given))


def check_uri(uri: str) -> str:
    """Return `uri` if it looks like one: a scheme, a colon, and no white space; else raise `InvalidName`."""
    if not is_text(uri) or _URI.fullmatch(uri) is None:
        raise InvalidName(str(uri), str(uri), "a resource is named by a URI with a scheme, such as file:///notes.txt")
    if len(uri) > MAX_URI:
        raise InvalidName(uri, uri, f"it has {len(uri):,} characters, and a URI may have {MAX_URI:,}")
    return str(plain_json(uri, uri, "URI"))


def prompt_schema(name: str, arguments: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a prompt's arguments in wire form and as a schema; each is given as a name or a mapping with `name`."""
    listed: list[dict[str, Any]] = []
    for argument in plain_json(name, several(name, "arguments", arguments), "arguments"):
        given = table({"name": argument, "required": True} if isinstance(argument, str) else argument) or {}
        if not isinstance(given.get("name"), str):
            raise InvalidDefinition(name, f"its argument {argument!r} is neither a name nor a mapping with a name")
        entry = {key: value for key, value in given.items() if value is not None}
        if not isinstance(entry.get("required", False), bool):
            raise InvalidDefinition(name, f"its argument {entry['name']!r} must be required or not: true or false")
        for key in ("title", "description"):
            check_text(name, f"argument's {key}", entry.get(key))
        listed.append(entry)
    schema = {
        "type": "object",
        "properties": {entry["name"]: {"type": "string"} for entry in listed},
        "required": [entry["name"] for entry in listed if entry.get("required")],
        "additionalProperties": False,
    }
    return listed, schema


def _tags(name: str, given: Any) -> tuple[str, ...]:
    tags = several(name, "tags", given)
    if not all(isinstance(tag, str) for tag in tags):
        raise InvalidDefinition(name, f"its tags are {tags!r}, and must be texts")
    return tuple(tags)


def _annotations(name: str, annotations: Any) -> dict[str, Any]:
    """Return annotations with the hints under their names on the wire; a hint that is null says nothing."""
    if (given := table(annotations)) is None:
        raise InvalidDefinition(name, "its annotations must be a JSON object")
    made: dict[str, Any] = {HINTS.get(key) or key: value for key, value in given.items() if value is not None}
    for hint in HINTS.values():
        if not isinstance(made.get(hint, False), bool):
            raise InvalidDefinition(name, f"its annotation {hint} must be true or false")
    if not isinstance(made.get("title", ""), str):
        raise InvalidDefinition(name, "its annotation title must be a text")
    return made


def _icons(name: str, icons: Any) -> list[Any]:
    for given in icons:
        icon = table(given) or {}
        if not isinstance(icon.get("src"), str):
            raise InvalidDefinition(name, "its icons must be a list of objects that have a src")
        sizes: Any = icon.get("sizes", [])
        if not isinstance(icon.get("mimeType", ""), str) or icon.get("theme", "light") not in ("light", "dark"):
            raise InvalidDefinition(name, "an icon's mimeType must be a text, and its theme light or dark")
        if not isinstance(sizes, list) or not all(isinstance(size, str) for size in cast("list[object]", sizes)):
            raise InvalidDefinition(name, "an icon's sizes must be a list of texts")
    return list(icons)
