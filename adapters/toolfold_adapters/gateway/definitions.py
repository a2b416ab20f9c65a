"""What an upstream offers, and which of it can be registered (SPEC REG-6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen
from pydantic_core import to_json

from toolfold import PromptOptions, ResourceOptions, ToolOptions, ToolSet
from toolfold.spi import Kind, table

from .upstream.repair import Table, repaired

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
