"""The instructions of a server: its groups, and how they are opened in each delivery."""

from __future__ import annotations

from collections.abc import Iterable

from toolfold import Catalog, GroupSpec, WireNames
from toolfold.spi import openers

SHOWN = 24


def instructions_for(given: str | None, catalog: Catalog, wire: WireNames, proxy: str | None, *, modern: bool) -> str:
    """Return a server's instructions: those of its author, then the groups and how to open them.

    Args:
        given: The author's instructions, if any.
        catalog: The catalog of the groups.
        wire: The names that clients see.
        proxy: The name of the call-tool proxy, if there is one; without it, the client's list itself changes.
        modern: Whether the client is of the modern era.
    """
    by_group = openers(catalog)
    if not by_group:
        return given or ""
    opener = wire.to_wire(next(iter(by_group.values())))
    how = opener if catalog.loader else f"{opener} (and so on)"
    if modern and proxy:
        then = f" and returns a handle, with which {proxy} calls its tools."
    elif proxy:
        then = f". Its tools are then in your list; if your list does not change, call them by {proxy}."
    else:
        then = ". Its tools are then in your list."
    find = f" {catalog.finder.name} searches all groups." if catalog.finder else ""
    text = [f"Most tools are in groups: {how} opens one{then}{find}"]
    return "\n".join([*([given, ""] if given else []), *text, *_named(catalog, by_group)])


def _named(catalog: Catalog, paths: Iterable[str]) -> list[str]:
    """Return lines that name the groups, unless the description of a tool that opens them all does."""
    if catalog.loader is not None:
        return []
    groups = [catalog.group(path) for path in paths]
    more = [f"- and {len(groups) - SHOWN} more"] if len(groups) > SHOWN else []
    return ["Groups:", *map(_line, groups[:SHOWN]), *more]


def _line(group: GroupSpec) -> str:
    """Return a group and its description on one line."""
    described = " ".join(group.description.split())
    return f"- {group.path}: {described}" if described else f"- {group.path}"
