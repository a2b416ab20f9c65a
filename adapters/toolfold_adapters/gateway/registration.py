"""Registers the tools of an upstream in a tool set: named, grouped, and each on its own (SPEC GWY-1, REG-6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen

from toolfold import ToolfoldError, ToolSet
from toolfold.spi import table

from .config import GatewayConfig
from .forward import forwarder
from .grouping import by_pattern, by_prefix, description_of
from .naming import allowed_names
from .upstream import Upstream


@frozen
class Report:
    """How the tools of an upstream were registered.

    `server` is the upstream's name and version, and `version` the latter alone; `instructions` is what it sends to
    clients, `tools` maps a name here to the upstream's own, and `warnings` are sentences for its operator.
    """

    server: str
    instructions: str | None
    tools: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    version: str = ""


def register_tools(
    tools: ToolSet, config: GatewayConfig, upstream: Upstream, definitions: Iterable[Any], reserved: Iterable[str]
) -> Report:
    """Register an upstream's tools, in groups, and return the report.

    A definition that can't be registered is left out and reported; it does not harm the others.

    Raises:
        ConfigError: The configuration does not fit the groups that follow from the names.
    """
    usable, warnings = _usable(definitions, upstream)
    controls: list[str] = []
    tools.guard_names(controls.append)  # called at once with the names that are taken
    names = allowed_names(list(usable), {*reserved, *controls})
    for original, name in names.items():
        if name != original:
            warnings.append(f"The tool {original!r} is called {name!r} here: its own name is not allowed or taken.")
    if upstream.stdout_warning:
        warnings.append(f"The server {upstream.name!r} is untidy. {upstream.stdout_warning}")
    members, unmatched = _members(config, list(usable))
    _declare(tools, config, members, names)
    home = {original: path for path, originals in members.items() for original in originals}
    for original, definition in usable.items():
        _register(tools, upstream, definition, names[original], home.get(original))
    return Report(
        server=f"{upstream.name} {upstream.version}".strip(),
        instructions=upstream.instructions,
        tools={name: original for original, name in names.items()},
        warnings=(*warnings, *unmatched),
        version=upstream.version,
    )


def _usable(definitions: Iterable[Any], upstream: Upstream) -> tuple[dict[str, Mapping[str, Any]], list[str]]:
    """Return the definitions that can be registered, by the upstream's name, and a warning for each other one."""
    usable: dict[str, Mapping[str, Any]] = {}
    warnings: list[str] = []
    scratch = ToolSet("scratch", control="none")
    for position, given in enumerate(definitions, 1):
        definition = table(given) or {}
        name = definition.get("name")
        if not isinstance(name, str) or not name:
            warnings.append(f"Tool number {position} of the server's list has no name, so it is left out.")
            continue
        if name in usable:
            warnings.append(f"The tool {name!r} is listed more than once; the first is used.")
            continue
        if problem := _problem(scratch, upstream, definition, f"tool-{position}"):
            warnings.append(f"The tool {name!r} is left out: {problem}.")
            continue
        usable[name] = definition
        if _needs_task(definition):
            warnings.append(f"The tool {name!r} can only be called as a task, which is not passed on: calls will fail.")
    return usable, warnings


def _problem(scratch: ToolSet, upstream: Upstream, definition: Mapping[str, Any], name: str) -> str | None:
    schema = definition.get("inputSchema")
    if not isinstance(schema, dict):
        return "it has no input schema"
    try:
        _register(scratch, upstream, definition, name, None)
    except ToolfoldError as error:
        return str(getattr(error, "problem", error))
    return upstream.learn_headers(definition["name"], schema)


def _needs_task(definition: Mapping[str, Any]) -> bool:
    return (table(definition.get("execution")) or {}).get("taskSupport") == "required"


def _members(config: GatewayConfig, names: Sequence[str]) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """Return the tools of each group by its path, and warnings."""
    if config.groups is None:
        return by_prefix(names), []
    paths = config.paths()
    return by_pattern(names, {paths[key]: group.tools for key, group in config.groups.items()})


def _declare(
    tools: ToolSet, config: GatewayConfig, members: Mapping[str, Sequence[str]], names: Mapping[str, str]
) -> None:
    descriptions = {
        path: description_of([names[original] for inner in _at_or_below(path, members) for original in members[inner]])
        for path in members
    }
    if config.groups is None:
        for path, description in descriptions.items():
            tools.register_group(path, description)
    config.declare(tools, descriptions)


def _at_or_below(path: str, paths: Iterable[str]) -> list[str]:
    return [other for other in paths if other == path or other.startswith(f"{path}.")]


def _register(tools: ToolSet, upstream: Upstream, definition: Mapping[str, Any], name: str, group: str | None) -> None:
    annotations = definition.get("annotations")
    if hints := table(annotations):  # some servers write null for what they leave open
        annotations = {key: value for key, value in hints.items() if value is not None}
    tools.register(
        name,
        forwarder(upstream, definition["name"]),
        description=definition.get("description"),
        input_schema=definition["inputSchema"],
        output_schema=definition.get("outputSchema"),
        check_output=False,  # results pass unchanged (SPEC GWY-1)
        title=definition.get("title"),
        group=group,
        flat=True,
        annotations=annotations,
        icons=definition.get("icons"),
        meta=definition.get("_meta"),
    )
