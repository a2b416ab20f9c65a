"""What an upstream offers, and which of it can be registered (SPEC REG-6)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import frozen
from pydantic_core import to_json

from toolfold import PromptOptions, ResourceOptions, ToolOptions, ToolSet
from toolfold.spi import Kind, array, table

Table = Mapping[str, Any]
LISTS: dict[Kind, str] = {
    "tool": "tools",
    "prompt": "prompts",
    "resource": "resources",
    "resource_template": "resource_templates",
}
_KEYS: dict[Kind, str] = {
    "tool": "name",
    "prompt": "name",
    "resource": "uri",
    "resource_template": "uriTemplate",
}
_OBJECT: Table = {"type": "object"}
_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@frozen(kw_only=True)
class Definitions:
    """What one upstream offers, in its own words: as it answered just now, or when it was last asked.

    `tools`, `prompts`, `resources` and `resource_templates` are definitions in the shape of the MCP specification, and
    are not trusted to be. `warnings` are sentences for the operator, on what is wrong with them.
    """

    name: str = ""
    title: str | None = None
    version: str = ""
    instructions: str | None = None
    tools: Sequence[Any] = ()
    prompts: Sequence[Any] = ()
    resources: Sequence[Any] = ()
    resource_templates: Sequence[Any] = ()
    warnings: tuple[str, ...] = ()

    def by_name(self, kind: Kind) -> dict[str, Table]:
        """Return the definitions of a kind by what the upstream calls them: of two of one name, the first counts."""
        found: dict[str, Table] = {}
        for given in getattr(self, LISTS[kind]):
            if (name := name_of(kind, given)) is not None:
                found.setdefault(name, given)
        return found


def name_of(kind: Kind, definition: Any) -> str | None:
    """Return what an upstream calls something by its definition, or `None` if that has no name."""
    name: Any = (table(definition) or {}).get(_KEYS[kind])
    return name if isinstance(name, str) and name else None


@frozen(kw_only=True)
class Usable:
    """The definitions of an upstream that have a name and are JSON: by kind, those by what the upstream calls them.

    `warnings` has a sentence for each of the others.
    """

    said: Definitions
    by_kind: Mapping[Kind, Mapping[str, Table]]
    warnings: tuple[str, ...]


def usable(said: Definitions) -> Usable:
    """Return the definitions that have a name and are JSON; each that has not, or is not, harms none of the others."""
    warnings = list(said.warnings)
    by_kind: dict[Kind, Mapping[str, Table]] = {kind: _checked(kind, said, warnings) for kind in LISTS}
    return Usable(said=said, by_kind=by_kind, warnings=tuple(warnings))


def _checked(kind: Kind, said: Definitions, warnings: list[str]) -> dict[str, Table]:
    checked: dict[str, Table] = {}
    counted = said.by_name(kind)
    words = kind.replace("_", " ")
    for position, given in enumerate(getattr(said, LISTS[kind]), 1):
        name = name_of(kind, given)
        if name is None:
            warnings.append(f"The {words} number {position} of the server's list has no name, so it is left out.")
        elif (definition := counted.pop(name, None)) is None:
            warnings.append(f"The {words} {name!r} is listed more than once; the first is used.")
        else:
            definition, changed = repaired(definition) if kind == "tool" else (definition, ())
            if problem := _problem(definition):
                warnings.append(f"The {words} {name!r} is left out: {problem}.")
                continue
            checked[name] = definition
            if changed:
                text = f"The tool {name!r} is served without what clients would refuse in its {', '.join(changed)}."
                warnings.append(text)
    return checked


def _problem(definition: Table) -> str | None:
    """Return why something can't even be told how large it is; the rest is checked when it is registered."""
    try:
        to_json(definition)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    return None


def register(tools: ToolSet, kind: Kind, name: str, handler: Any, definition: Table, **options: Any) -> None:
    """Register a definition of an upstream.

    Args:
        tools: Where.
        kind: What it is.
        name: What it is called here; its URI, if it is a resource or a template.
        handler: What calls the upstream.
        definition: As the upstream has it.
        options: `group`, `hidden`, and `meta` to go over its own.
    """
    meta = {**(table(definition.get("_meta")) or {}), **options.pop("meta", {})}
    shared: dict[str, Any] = {
        **options,
        "title": definition.get("title"),
        "description": definition.get("description") or "",
        "icons": definition.get("icons"),
        "meta": meta or None,
    }
    if kind == "tool":
        tools.register(name, handler, **shared, **_of_tool(definition))
    elif kind == "prompt":
        own: PromptOptions = {"flat": True, "check_arguments": False, "arguments": definition.get("arguments") or ()}
        tools.register_prompt(name, handler, **shared, **own)
    else:
        of_resource: ResourceOptions = {
            "name": definition.get("name"),
            "mime_type": definition.get("mimeType"),
            "annotations": definition.get("annotations"),
            "size": definition.get("size"),
            "check_arguments": False,
        }
        add = tools.register_resource if kind == "resource" else tools.register_resource_template
        add(name, handler, **shared, **of_resource)


def _of_tool(definition: Table) -> ToolOptions:
    return {
        "flat": True,
        "input_schema": definition["inputSchema"],
        "output_schema": definition.get("outputSchema"),
        "check_arguments": False,  # they are the upstream's to judge (SPEC GWY-7)
        "check_output": False,  # results pass unchanged (SPEC GWY-1)
        "annotations": definition.get("annotations"),
    }


# -- what makes clients refuse a whole list (SPEC GWY-7) ---------------------------------------------------------------


def repaired(definition: Table) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the definition of a tool that no client refuses, and the fields that had to be changed or left out.

    Clients check the shape of a definition, not what its schemas mean: one wrong field of one tool, and they have no
    tools. Everything else passes on, understood or not.
    """
    given = _without_nulls(definition)
    if (annotations := table(given.get("annotations"))) is not None:
        given["annotations"] = _without_nulls(annotations)
    made = {**given, "inputSchema": _input_schema(given.get("inputSchema"))}
    for key, check in _CHECKS.items():
        if key in made and (value := check(made.pop(key))) is not None:
            made[key] = value
    changed = (key for key in ("inputSchema", *_CHECKS) if made.get(key) != given.get(key))
    return made, tuple(changed)


def _without_nulls(given: Table) -> dict[str, Any]:
    """Return what says anything: many servers write null for what they have not."""
    return {key: value for key, value in given.items() if value is not None}


def _input_schema(given: Any) -> Table:
    """Return an input schema whose root is of type object, and whose properties and required names have their form."""
    schema = table(given)
    if schema is None:
        return _OBJECT
    made = {**schema, **_OBJECT}
    if "properties" in made:
        properties = table(made["properties"]) or {}
        made["properties"] = {name: _property(one) for name, one in properties.items()}
    if "required" in made:
        made["required"] = [name for name in array(made["required"]) or () if isinstance(name, str)]
    return made


def _property(schema: Any) -> Table:
    """Return the schema of a property as an object: false, which allows nothing, has another form."""
    found = table(schema)
    return found if found is not None else {"not": {}} if schema is False else {}


def _output_schema(given: Any) -> Table | None:
    schema = table(given)
    return schema if schema is not None and _input_schema(schema) == schema else None


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) else None


def _annotations(given: Any) -> Table | None:
    """Return annotations without hints that are neither true nor false, and without a title that is no text."""
    if (annotations := table(given)) is None:
        return None
    types = {"title": str, **dict.fromkeys(_HINTS, bool)}
    return {key: value for key, value in annotations.items() if isinstance(value, types.get(key, object))}


def _icons(given: Any) -> list[Table] | None:
    """Return the icons that have a source, without fields of other types than they should have."""
    icons = [icon for icon in map(table, array(given) or ()) if icon is not None and isinstance(icon.get("src"), str)]
    return [{key: value for key, value in icon.items() if _is_of_icon(key, value)} for icon in icons] or None


def _is_of_icon(key: str, value: Any) -> bool:
    if key == "sizes":
        sizes = array(value)
        return sizes is not None and all(isinstance(size, str) for size in sizes)
    return value in ("light", "dark") if key == "theme" else key != "mimeType" or isinstance(value, str)


_CHECKS: Mapping[str, Callable[[Any], Any]] = {
    "title": _text,
    "description": _text,
    "outputSchema": _output_schema,
    "annotations": _annotations,
    "icons": _icons,
    "_meta": table,
}
"""What a client would accept of each field, or `None` to leave it out."""
