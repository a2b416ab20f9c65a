"""The forest of groups as a tree of text, for terminals and logs (SPEC DIA-1, DIA-3)."""

from __future__ import annotations

from collections.abc import Iterator

from toolfold import Catalog, GroupInfo, RegionState
from toolfold.machine import bits

from .diagram import Source, snapshot_of
from .palette import LOOKS
from .text import ELLIPSIS, plural, printable

NARROWEST = 20
LEGEND = "● open   ○ closed   ◌ locked: a group above it is not open"


def tree(source: Source, *, width: int | None = None) -> str:
    """Return the groups as a tree, a line each: state, name, tools, what it excludes, and its description.

    Args:
        source: The groups; the state of a snapshot or a session is drawn.
        width: The characters that a line may have; descriptions are cut to fit. `None` cuts nothing.
    """
    snapshot = snapshot_of(source)
    infos = snapshot.groups
    children: dict[str | None, list[GroupInfo]] = {}
    for info in infos:
        children.setdefault(info.parent, []).append(info)
    catalog = snapshot.catalog
    at_root = sum(component.group is None and component.control is None for component in catalog.tools.values())
    lines = [f"{printable(catalog.name)}: {plural(len(infos), 'group')}, {plural(at_root, 'tool')} in no group"]

    def grow(parent: str | None, indent: str) -> None:
        inside = children.get(parent, [])
        for place, info in enumerate(inside, start=1):
            last = place == len(inside)
            lines.append(_fitted(f"{indent}{'└─' if last else '├─'} {_described(catalog, info)}", width))
            grow(info.name, indent + ("   " if last else "│  "))

    grow(None, "")
    if infos:
        lines.append(LEGEND)
    return "\n".join(lines) + "\n"


def _described(catalog: Catalog, info: GroupInfo) -> str:
    return " · ".join([f"{LOOKS[info.state].mark} {info.name.rpartition('.')[2]}", *_facts(catalog, info)])


def _facts(catalog: Catalog, info: GroupInfo) -> Iterator[str]:
    if info.state is not RegionState.INACTIVE:
        yield info.state.word
    yield plural(info.tool_count, "tool")
    if partners := [catalog.groups[number].path for number in bits(catalog.forest.partners[catalog.index[info.name]])]:
        yield f"excludes {', '.join(partners)}"
    if description := printable(info.description):
        yield description


def _fitted(line: str, width: int | None) -> str:
    if width is None or len(line) <= width:
        return line
    return line[: max(width, NARROWEST) - 1].rstrip() + ELLIPSIS
