"""The groups that an upstream has by an extension, as groups here: their paths, and the tools in them (SPEC GWY-2).

A group keeps its name where a path can have it; one that stands for a path of a server of Toolfold is called by the end
of that path. A tool that is in several groups is in the first of them, and shared with the others.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, count

from attrs import field, frozen

from ..mcp.client import OfferedGroup
from ..mcp.delivery.disclosure import path_of

_NOT_ALLOWED = re.compile(r"[^A-Za-z0-9_-]+")
_MOST_CHARACTERS = 48


@frozen(kw_only=True)
class Offered:
    """The groups of one upstream by their paths, and the paths of each of its tools, by the upstream's own names."""

    groups: Mapping[str, OfferedGroup] = field(factory=dict[str, OfferedGroup])
    homes: Mapping[str, Sequence[str]] = field(factory=dict[str, Sequence[str]])


def offered_by(groups: Iterable[OfferedGroup], base: str, warnings: list[str]) -> Offered:
    """Return the groups of an upstream, which come after those that they are in, below the path `base` or at root."""
    paths: dict[str, str] = {}
    placed: dict[str, OfferedGroup] = {}
    homes: dict[str, list[str]] = {}
    for group in groups:
        segment = _NOT_ALLOWED.sub("_", _own_name(group)).strip("_-")[:_MOST_CHARACTERS]
        if not segment:
            warnings.append(
                f"The group {group.name!r} is left out: its name has nothing that a group here can be called."
            )
            continue
        above = paths.get(group.parent or "", base)
        path = paths[group.name] = free_path(f"{above}.{segment}" if above else segment, placed)
        placed[path] = group
        for tool in dict.fromkeys(group.tools):
            homes.setdefault(tool, []).append(path)
    return Offered(groups=placed, homes=homes)


def _own_name(group: OfferedGroup) -> str:
    """Return the name of a group without what says in which one it is (SPEC DEL-5)."""
    path = path_of(group.name)
    own = path if group.parent is None else path.removeprefix(f"{path_of(group.parent)}.")
    return group.name if "." in own else own


def free_path(path: str, taken: Container[str]) -> str:
    """Return a path, with a number if another group has it."""
    return next(one for one in chain([path], (f"{path}_{number}" for number in count(2))) if one not in taken)
