"""Tool sets in this process, served and described: the only module of the kit that imports `toolfold`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolfold import Catalog, Visibility, WireNames
from toolfold import ToolSet as ToolSet

from .description import WIRE_SEPARATOR, ControlCall, Described, Description

if TYPE_CHECKING:
    from mcp.server import Server


def served(tools: ToolSet) -> Server[Any]:
    """Return the server of a tool set; needs the extra `mcp`, which what else is here does not."""
    from toolfold_adapters.mcp import build_server

    return build_server(tools)


def described(tools: ToolSet, separator: str = WIRE_SEPARATOR) -> Description | None:
    """Return what a tool set says of itself: the groups that clients can open, their plain tools, and the exclusions.

    `separator` stands for the dot in the names that clients see.

    None if the number of active groups or the length of the list is limited, which a description can't say.
    """
    catalog = tools.catalog
    if catalog.max_active is not None or catalog.list_budget is not None:
        return None
    names = WireNames(separator)
    names.admit_tools(catalog.tools.values())
    calls = _calls(catalog, names)
    groups: dict[str, Described] = {}
    for group in catalog.groups:
        path, plain = group.path, _plain_tools(catalog, group.path, names)
        opened, parent = calls.get(("activate", path)), group.path.rpartition(".")[0]
        if opened is not None and plain and (not parent or parent in groups):
            groups[path] = Described(path, plain, opened, calls.get(("deactivate", path)))
    exclusions = (tuple(sorted(members & groups.keys())) for members in catalog.exclusions)
    relevant = any(spec.control is not None and spec.rule != Visibility.always() for spec in catalog.tools.values())
    excluded = tuple(sorted(members for members in exclusions if len(members) > 1))
    return Description(tuple(groups.values()), excluded, relevant_controls=relevant, names_errors=True)


def _calls(catalog: Catalog, names: WireNames) -> dict[tuple[str, str], ControlCall]:
    """Return the calls that open and close groups, by verb and path."""
    calls: dict[tuple[str, str], ControlCall] = {}
    for spec in catalog.tools.values():
        if spec.control is None:
            continue
        role, path = spec.control
        if spec.loader is None:
            calls[role, path] = ControlCall(names.to_wire(spec.name))
            continue
        for group in catalog.groups:
            if group.controls and (role == "load" or group.show_deactivator):
                verb = "activate" if role == "load" else "deactivate"
                calls[verb, group.path] = ControlCall(names.to_wire(spec.name), {spec.loader.argument: group.path})
    return calls


def _plain_tools(catalog: Catalog, path: str, names: WireNames) -> tuple[str, ...]:
    """Return the tools that are listed while their group is active, and depend on nothing else."""
    own = [spec for spec in catalog.tools.values() if spec.group == path and spec.control is None]
    plain = (
        spec for spec in own if spec.rule == Visibility.group(path) and spec.hidden is False and spec.modes is None
    )
    return tuple(names.to_wire(spec.name) for spec in plain)
