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
from .._catalog.rules import Always, GroupActive, Visibility, groups_of, within
from .._catalog.uri_templates import template_variables
from .._limits import MAX_URI
from .._names import check_name, check_segment, is_text, qualified_name, split_name
from .._plain import table
from .._schema.annotations import SchemaCache, of_texts
from .._schema.arguments import Arguments, check_text, plain_json
from .._schema.fields import input_of, output_of
from ..errors import InvalidDefinition, InvalidName
from ..machine import paths_of
from .control import RESERVED
from .handlers import checked, handled, is_typed

HINTS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
}
"""The hints of a tool as Python writes them, and on the wire."""

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_UNPARSED = re.compile(r"\S+")
"""A URI template that is not taken apart may have its scheme in an expression."""


def component_of(
    kind: Kind,
    name: str,
    handler: Callable[..., Any],
    options: Mapping[str, Any],
    schemas: SchemaCache,
    group_at: Callable[[str], object],
) -> Component:
    """Return the component of what is registered under a name, base or full, or under a URI; `options` are checked.

    `group_at` raises unless a group exists: its own, and those that its rules and its bounds mention.

    Raises:
        InvalidName, GroupNotFound, InvalidDefinition: It can't be registered so.
    """
    full, group, rule = _place(kind, name, options, group_at)
    if kind == "tool":
        made = _tool(full, handler, options, schemas)
    elif kind == "prompt":
        made = _prompt(full, handler, options, schemas)
    else:
        made = _resource(kind, full, handler, options, schemas)
    bounded_by = paths_of(options.get("bounded_by", ()))
    for path in bounded_by:
        group_at(path)
    return Component(
        kind=kind,
        name=full,
        group=group,
        rule=rule,
        hidden=options.get("hidden", False),
        bounded_by=bounded_by,
        **made,
    )


def _tool(name: str, handler: Callable[..., Any], options: Mapping[str, Any], schemas: SchemaCache) -> dict[str, Any]:
    """Return what is special about the component of a tool."""
    given, output = input_of(name, options), output_of(name, options)
    if options.get("structured_output") and (given is not None or output is not None):
        problem = "structured_output is for a handler that alone describes arguments and results: leave it out"
        raise InvalidDefinition(name, f"{problem}, or input and output")
    made = handled(name, handler, schemas, typed=given is None, in_thread=options["run_in_thread"])
    arguments = given or made.arguments
    assert arguments is not None, "annotations describe them unless options do"
    if given is None and output is None and options.get("structured_output", options.get("check_output", True)):
        output = schemas.output(name, made.returned, needed="structured_output" in options)
    wire, handle = definition(name, {"description": made.description, **options}), made.handler
    if output is not None:
        wire["outputSchema"] = output.schema
        is_checked = output.convert is not None or options.get("check_output", True)
        handle = checked(name, handle, output) if is_checked else handle
    if (modes := options.get("modes")) is not None:
        arguments = with_modes(name, modes, arguments)
    return {
        "definition": {**wire, "inputSchema": arguments.schema},
        "handler": handle,
        "arguments": arguments if options.get("check_arguments", True) else None,
        "category": options.get("category"),
        "tags": _tags(name, options.get("tags", ())),
        "modes": modes,
    }


def _prompt(name: str, handler: Callable[..., Any], options: Mapping[str, Any], schemas: SchemaCache) -> dict[str, Any]:
    """Return what is special about the component of a prompt."""
    typed = "arguments" not in options and is_typed(handler)
    made = handled(name, handler, schemas, typed=bool(typed), in_thread=options["run_in_thread"])
    given = options.get("arguments") if made.arguments is None else _listed(made.arguments)
    listed, schema = prompt_schema(name, given or ())
    arguments = of_texts(name, made.arguments, schema)
    wire = definition(name, {"description": made.description or None, **options})
    return {
        "definition": wire if given is None else {**wire, "arguments": listed},
        "handler": made.handler,
        "arguments": arguments if options.get("check_arguments", True) else None,
    }


def _resource(
    kind: Kind, uri: str, handler: Callable[..., Any], options: Mapping[str, Any], schemas: SchemaCache
) -> dict[str, Any]:
    """Return what is special about the component of a resource or a resource template."""
    unparsed = kind == "resource_template" and not options.get("check_arguments", True)
    check_uri(uri, _UNPARSED if unparsed else _URI)
    has_variables = kind == "resource_template" and not unparsed
    names = template_variables(uri) if has_variables else []
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}, "required": names}
    typed = not unparsed and is_typed(handler)
    made = handled(uri, handler, schemas, typed=bool(typed), in_thread=options["run_in_thread"])
    if made.arguments is not None:
        _check_variables(uri, names, made.arguments)
    arguments = of_texts(uri, made.arguments, schema)
    wire = definition(uri, {"description": made.description or None, **options})
    key = "uri" if kind == "resource" else "uriTemplate"
    wire |= {key: uri, "name": check_text(uri, "name", options.get("name")) or uri}
    if (mime_type := check_text(uri, "mime_type", options.get("mime_type"))) is not None:
        wire["mimeType"] = mime_type
    if (size := options.get("size")) is not None:
        wire["size"] = _size(uri, kind, size)
    return {"definition": wire, "handler": made.handler, "arguments": arguments if has_variables else None}


# -- names, groups and rules (SPEC NAM-2, NAM-4, NAM-5, VIS-1) -------------------------------------------------------


def _place(
    kind: Kind, name: str, given: Mapping[str, Any], group_at: Callable[[str], object]
) -> tuple[str, str | None, Visibility]:
    """Return the full name or the URI of something, its group, and its rule."""
    group, rule, flat = given.get("group"), given.get("visibility"), given.get("flat", False)
    base = name
    if kind in ("tool", "prompt"):
        group, base = _split(name, group, flat)
    else:
        flat = True
    for rule_of in (rule, given.get("hidden")):
        for mentioned in sorted(groups_of(rule_of)) if isinstance(rule_of, Visibility) else ():
            group_at(mentioned)
    if group is None and isinstance(rule, GroupActive):
        group, flat = rule.path, True
    if group is None:
        return base, None, Always() if rule is None else rule
    group_at(group)
    full = base if flat else qualified_name(group, base)
    if kind == "tool" and base in RESERVED and not flat:
        return full, group, _replacement_rule(full, rule)
    return full, group, within(group, rule)


def _split(name: str, group: str | None, flat: bool) -> tuple[str | None, str]:
    """Return the group and the base name of what is registered under a name, base or full."""
    if not is_text(name):
        raise InvalidName(str(name), str(name), "a name is a text")
    above, base = split_name(name)
    if base != name:
        check_name(name)
        if flat or (group is not None and group != above):
            raise InvalidName(name, name, "a dotted name is a full name, and its group must agree with it")
        group = above
    check_segment(base, name)
    return group, base


def _replacement_rule(name: str, rule: Visibility | None) -> Visibility:
    if rule is None:
        return Always()
    if groups_of(rule):
        raise InvalidDefinition(
            name, "it takes the place of a control tool, so it must not depend on a group being active"
        )
    return rule


# -- definitions on the wire ------------------------------------------------------------------------------------------


def _listed(arguments: Arguments) -> list[dict[str, Any]]:
    """Return the arguments of a typed prompt in wire form."""
    required = arguments.schema.get("required", ())
    return [
        {"name": name, "description": schema.get("description"), "required": name in required}
        for name, schema in arguments.schema["properties"].items()
    ]


def _check_variables(uri: str, names: Iterable[str], arguments: Arguments) -> None:
    """Raise `InvalidDefinition` unless a handler's parameters are the variables of its URI template."""
    taken, required = set(arguments.schema["properties"]), set(arguments.schema.get("required", ()))
    if not required <= set(names) <= taken:
        variables, parameters = (", ".join(sorted(one)) or "none" for one in (set(names), taken))
        problem = f"its URI has the variables {variables}, and its handler the parameters {parameters}"
        raise InvalidDefinition(uri, f"{problem}: name them alike")


def _size(uri: str, kind: Kind, size: Any) -> int:
    if kind != "resource" or not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise InvalidDefinition(uri, f"its size is {size!r}, and must be a number of bytes, of a resource")
    return size


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
    meta: Any = plain_json(name, given, "meta") if (given := options.get("meta")) else {}
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


def check_uri(uri: str, form: re.Pattern[str] = _URI) -> str:
    """Return `uri` if it has a form, by default a scheme, a colon, and no white space; else raise `InvalidName`."""
    if not is_text(uri) or form.fullmatch(uri) is None:
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
