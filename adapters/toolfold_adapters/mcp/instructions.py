"""What a server tells clients about its groups, and how they are opened in each delivery."""

from __future__ import annotations

from toolfold import Catalog, GroupSpec, WireNames

SHOWN = 24


def instructions(given: str | None, catalog: Catalog, wire: WireNames, through: str | None, *, modern: bool) -> str:
    """Return a server's instructions: those it was given, then the groups and how to open them.

    Args:
        given: What the server's author says.
        catalog: Whose groups are told.
        wire: The names that clients see.
        through: The tool that calls other tools, if there is one; without, the client's list itself changes.
        modern: Whether the client is of the modern era.
    """
    loader = catalog.loader.name if catalog.loader else None
    activators = {spec.control[1] for spec in catalog.tools.values() if spec.control and spec.control[0] == "activate"}
    groups = [group for group in catalog.groups if group.path in activators or (loader and group.controls)]
    if not groups:
        return given or ""
    named = [_line(group) for group in groups[:SHOWN]]
    more = [f"- and {len(groups) - SHOWN} more"] if len(groups) > SHOWN else []
    opener = f"{loader} with the name of the group" if loader else wire.to_wire(f"{groups[0].path}.activate")
    example = "" if loader else " (and so on)"
    if modern and through:
        then = f"It answers with the group's tools and a handle: call them by {through} with that handle."
    elif through:
        then = f"Its tools are then in your list; if your list does not change, call them by {through}."
    else:
        then = "Its tools are then in your list."
    text = [f"Most tools are in groups that are opened when needed, by calling {opener}{example}. {then}", "Groups:"]
    return "\n".join([*([given, ""] if given else []), *text, *named, *more])


def _line(group: GroupSpec) -> str:
    """Return one line, whatever line breaks a description has."""
    described = " ".join(group.description.split())
    return f"- {group.path}: {described}" if described else f"- {group.path}"
