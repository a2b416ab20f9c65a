"""The instructions of a server: its groups, and how they are opened in each delivery (SPEC CTL-7)."""

from __future__ import annotations

from toolfold import Catalog, WireNames
from toolfold.spi import Directory, shortened

FIRST = 240
"""How many characters of instructions every host shows that shows any."""

ROOM = 2_000
"""How many characters instructions have at most, with those of the author."""

_LEAST = 100
"""How many of them are left for the list of groups: enough to count them."""


def instructions_for(given: str | None, catalog: Catalog, wire: WireNames, proxy: str | None, *, modern: bool) -> str:
    """Return a server's instructions: the groups and how to open them, then its author's, then pinned groups'.

    Args:
        given: The author's instructions, if any; cut at the end to what room is left.
        catalog: The catalog of the groups.
        wire: The names that clients see.
        proxy: The name of the call-tool proxy, if there is one; without it, the client's list itself changes.
        modern: Whether the client is of the modern era.
    """
    pinned = catalog.instructions(group.path for group in catalog.groups if group.pinned)
    given = "\n\n".join(text for text in (given, pinned) if text)
    by_group = catalog.openers
    if not by_group:
        return given
    opener = wire.to_wire(next(iter(by_group.values())))
    how = opener if catalog.loader else f"{opener} (and so on)"
    if modern and proxy:
        then = f" and returns a handle, with which {proxy} calls its tools."
    elif proxy:
        then = f"; its tools are then in your list. If it does not change, {proxy} calls them."
    else:
        then = "; its tools are then in your list."
    find = f" {catalog.finder.name} searches all." if catalog.finder else ""
    known = Directory.of(map(catalog.group, by_group))
    first = known.introduced(f"{how} opens one{then}{find}", FIRST)
    author = _fitting(given, ROOM - len(first) - _LEAST)
    if catalog.loader is None:  # whose description names them all otherwise
        room = ROOM - len(first) - len(author) - len("\nGroups:\n\n")
        finder = catalog.finder.name if catalog.finder else None
        first = "\n".join([first, "Groups:", *known.lines(room, finder)])
    return f"{first}\n\n{author}" if author else first


def _fitting(text: str, room: int) -> str:
    return text if len(text) <= room else shortened(text, room)
