"""What a gateway offers, as a value: a function of its configuration and of what each upstream offers (SPEC GWY-2).

`layout_of` decides on the name and the group of everything; `registration` makes a tool set so. Since a layout is a
value, a list that an upstream changed and a configuration that was edited are the same: another layout.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

from toolfold import ToolfoldError, ToolOptions, ToolSet
from toolfold.spi import Kind, table

from .config import GatewayConfig
from .grouping import by_pattern, by_prefix, description_of
from .naming import allowed_names


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


@frozen(kw_only=True)
class Placed:
    """Something that an upstream offers, with its place here.

    `original` is what the upstream calls it, `name` what clients do (URIs are the same), and `options` are those of its
    registration.
    """

    kind: Kind
    server: str
    original: str
    name: str
    options: ToolOptions


@frozen(kw_only=True)
class Layout:
    """Everything that a gateway offers.

    `groups` maps a path to its description, for the groups that no configuration defines; `descriptions` has those of
    configured ones that give none.
    """

    placed: tuple[Placed, ...] = ()
    groups: Mapping[str, str] = field(factory=dict[str, str])
    descriptions: Mapping[str, str] = field(factory=dict[str, str])
    warnings: tuple[str, ...] = ()


def layout_of(config: GatewayConfig, servers: Mapping[str, Definitions], reserved: Iterable[str] = ()) -> Layout:
    """Return what a gateway offers.

    Args:
        config: Its configuration.
        servers: What each upstream offers that is known, by its name in the configuration.
        reserved: Names that no tool may have.
    """
    warnings: list[str] = []
    taken = set(reserved)
    named: dict[str, tuple[str, Mapping[str, Any]]] = {}
    prefixed = len(config.upstreams) > 1
    for server in config.upstreams:
        if server not in servers:
            continue
        definitions, problems = _tools_of(servers[server])
        warnings += (*servers[server].warnings, *problems)
        prefix = f"{server}__" if prefixed else ""
        names = allowed_names([f"{prefix}{original}" for original in definitions], taken)
        for (original, definition), name in zip(definitions.items(), names.values(), strict=True):
            named[name] = (server, definition)
            if name != f"{prefix}{original}":
                warnings.append(f"The tool {original!r} is called {name!r} here: its own name is not allowed or taken.")
    originals = {name: _original_name(server, definition, prefixed) for name, (server, definition) in named.items()}
    members, problems = _members(config, named, originals, prefixed)
    descriptions = {
        path: description_of([name for inner in _at_or_below(path, members) for name in members[inner]])
        for path in members
    }
    home = {name: path for path, names in members.items() for name in names}
    return Layout(
        placed=tuple(
            Placed(
                kind="tool",
                server=server,
                original=definition["name"],
                name=name,
                options=_tool_options(definition, home.get(name)),
            )
            for name, (server, definition) in named.items()
        ),
        groups=descriptions if config.groups is None else {},
        descriptions=descriptions,
        warnings=(*warnings, *problems),
    )


def _original_name(server: str, definition: Mapping[str, Any], prefixed: bool) -> str:
    return f"{server}__{definition['name']}" if prefixed else str(definition["name"])


def _tools_of(definitions: Definitions) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Return the definitions of tools that have a name, by it, and a warning for each other one."""
    usable: dict[str, Mapping[str, Any]] = {}
    warnings: list[str] = []
    scratch = ToolSet("scratch", control="none")
    for position, given in enumerate(definitions.tools, 1):
        definition = table(given) or {}
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            warnings.append(f"Tool number {position} of the server's list has no name, so it is left out.")
        elif name in usable:
            warnings.append(f"The tool {name!r} is listed more than once; the first is used.")
        elif problem := _problem(scratch, definition, f"tool-{position}"):
            warnings.append(f"The tool {name!r} is left out: {problem}.")
        else:
            usable[name] = definition
            if _needs_task(definition):
                warnings.append(
                    f"The tool {name!r} can only be called as a task, which is not passed on: calls will fail."
                )
    return usable, warnings


def _problem(scratch: ToolSet, definition: Mapping[str, Any], name: str) -> str | None:
    if not isinstance(definition.get("inputSchema"), dict):
        return "it has no input schema"
    try:
        scratch.register(name, lambda: None, **_tool_options(definition, None))
    except ToolfoldError as error:
        return str(getattr(error, "problem", error))
    return None


def _needs_task(definition: Mapping[str, Any]) -> bool:
    return (table(definition.get("execution")) or {}).get("taskSupport") == "required"


def _members(
    config: GatewayConfig,
    named: Mapping[str, tuple[str, Mapping[str, Any]]],
    originals: Mapping[str, str],
    prefixed: bool,
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the tools of each group by its path, and warnings."""
    if config.groups is not None:
        paths = config.paths()
        found, warnings = by_pattern(
            list(originals.values()), {paths[key]: group.tools for key, group in config.groups.items()}
        )
        names = {original: name for name, original in originals.items()}
        return {path: tuple(names[original] for original in group) for path, group in found.items()}, warnings
    if not prefixed:
        return by_prefix(list(named)), []
    groups: dict[str, tuple[str, ...]] = {}
    for name, (server, _) in named.items():
        groups[server] = (*groups.get(server, ()), name)
    return groups, []


def _at_or_below(path: str, paths: Iterable[str]) -> list[str]:
    return [other for other in paths if other == path or other.startswith(f"{path}.")]


def _tool_options(definition: Mapping[str, Any], group: str | None) -> ToolOptions:
    annotations = definition.get("annotations")
    if hints := table(annotations):  # some servers write null for what they leave open
        annotations = {key: value for key, value in hints.items() if value is not None}
    return {
        "description": definition.get("description"),
        "input_schema": definition["inputSchema"],
        "output_schema": definition.get("outputSchema"),
        "check_arguments": False,  # they are the upstream's to judge (SPEC GWY-7)
        "check_output": False,  # results pass unchanged (SPEC GWY-1)
        "title": definition.get("title"),
        "group": group,
        "flat": True,
        "annotations": annotations,
        "icons": definition.get("icons"),
        "meta": definition.get("_meta"),
    }
