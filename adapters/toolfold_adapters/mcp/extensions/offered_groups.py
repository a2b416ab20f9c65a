"""The groups of another server, fetched by `groups/list` and `groups/get` (SPEC DEL-5, GWY-2).

Two extensions have these methods: the draft `io.modelcontextprotocol/groups`, and `com.google.cloud/toolbox.v1`, which
servers of today have. The latter has no groups in groups, no instructions and no pages, and its answers have at the top
what the draft has in `contents`. No answer is trusted: what is wrong is left out, with a sentence about it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from attrs import define, field
from pydantic_core import to_json

from toolfold import ProtocolError
from toolfold.spi import KINDS, Kind, array, enumerated, frozen, quoted, table

from ...names import GROUPS_EXTENSION, LISTS, TOOLBOX_EXTENSION

EXTENSIONS = (GROUPS_EXTENSION, TOOLBOX_EXTENSION)
"""The extensions for groups, the one that says more first."""
MOST_GROUPS = 500
"""How many groups of a server are fetched, and how many pages of their list."""
MOST_BYTES = 16 * 1024 * 1024
MOST_ITEMS = 20_000
"""How much of all lists of a server is kept."""
MOST_CURSOR = 8192
"""How many characters a cursor may have: all of a list are known until it ends, since one that comes again ends it."""

T = TypeVar("T")
Table = Mapping[str, Any]
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any]]]
"""Sends a request, by its method and parameters, and returns its result; raises `ProtocolError`."""


@frozen(kw_only=True)
class OfferedGroup:
    """A group of another server: `parent` is the group that it is in, and `tools` names those that are in it."""

    name: str
    title: str | None = None
    description: str = ""
    instructions: str = ""
    parent: str | None = None
    tools: tuple[str, ...] = ()


@frozen(kw_only=True)
class Fetched:
    """A group with the definitions that are in it, and the entries of the groups that are."""

    group: OfferedGroup
    contents: Mapping[Kind, tuple[Table, ...]]
    inner: tuple[Any, ...]


def extension_of(capabilities: Mapping[str, Any]) -> str | None:
    """Return the extension for groups that a server says it has, or `None`."""
    offered = table(capabilities.get("extensions")) or {}
    return next((one for one in EXTENSIONS if one in offered), None)


@define
class Room:
    """How much of all lists of one server is kept, in bytes of JSON and in items (SPEC GWY-12).

    `full` is whether something did not fit; from then on nothing does. `left_out` is how many items that is, of those
    that were read. `public` is whether each page says that any user may see it.
    """

    bytes: int = field(factory=lambda: MOST_BYTES)
    items: int = field(factory=lambda: MOST_ITEMS)
    full: bool = False
    left_out: int = 0
    public: bool = True

    def fitting(self, given: Sequence[T]) -> list[T]:
        """Return the first of what a list has that there is room for, which it takes."""
        kept: list[T] = []
        for one in given:
            weight = _weight(one)
            self.full = self.full or not self.items or weight > self.bytes
            if self.full:
                break
            self.bytes -= weight
            self.items -= 1
            kept.append(one)
        self.left_out += len(given) - len(kept)
        return kept


def _weight(one: Any) -> int:
    try:
        return len(to_json(one))
    except (ValueError, RecursionError):  # it is left out later, with why
        return MOST_BYTES // 100


async def list_groups(ask: Ask, room: Room | None = None) -> list[Any]:
    """Return the entries on all pages of `groups/list` that there is room for; raises `ProtocolError`."""
    found: list[Any] = []
    room = room or Room()

    async def take(page: Table) -> bool:
        found.extend(room.fitting(array(page.get("groups")) or []))
        return not room.full

    await take_pages(ask, "groups/list", MOST_GROUPS, take)
    return found


async def take_pages(ask: Ask, method: str, most: int, take: Callable[[Table], Awaitable[bool]]) -> bool:
    """Have `take` take the pages of a list of another server, one at a time, until it wants no more.

    Returns whether the list ended within `most` pages and with cursors of a length; raises `ProtocolError`.
    """
    params: Table = {}
    seen: set[str | int | float] = set()
    for _ in range(most):
        page = await ask(method, params)
        cursor = page.get("nextCursor")
        more = await take(page)
        if not more or isinstance(cursor, bool) or not isinstance(cursor, str | int | float) or cursor in seen:
            return True
        if isinstance(cursor, str) and len(cursor) > MOST_CURSOR:
            return False
        seen.add(cursor)
        params = {"cursor": cursor}  # as it came: some servers have numbers
    return False


async def get_group(ask: Ask, entry: Table, parent: str | None = None) -> Fetched:
    """Return what is in a group, given its entry in a list; raises `ProtocolError`."""
    answer = await ask("groups/get", {"name": entry["name"]})
    inside = table(answer.get("contents")) or answer
    contents: dict[Kind, tuple[Table, ...]] = {
        kind: tuple(one for one in map(table, array(inside.get(listed.key)) or ()) if one and _identity(kind, one))
        for kind, listed in LISTS.items()
    }
    group = OfferedGroup(
        name=entry["name"],
        title=_text(entry.get("title")) or None,
        description=(description := _text(entry.get("description"))),
        instructions="" if (text := _text(answer.get("instructions"))) == description else text,
        parent=parent,
        tools=tuple(one["name"] for one in contents["tool"]),
    )
    return Fetched(group=group, contents=contents, inner=tuple(array(inside.get("groups")) or ()))


def is_entry(given: Any) -> bool:
    """Return whether something is an entry of a group: it has a name."""
    return bool(_text((table(given) or {}).get("name")))


@define
class OfferedGroups:
    """All groups of a server, those in groups after these, with what is in any of them, each once.

    Attributes:
        groups: The groups by name.
        contents: The definitions by what identifies them, for each kind.
        warnings: Sentences on what is wrong with them.
        room: How much of them is kept.
    """

    room: Room = field(factory=Room)
    groups: dict[str, OfferedGroup] = field(factory=dict[str, OfferedGroup])
    contents: dict[Kind, dict[str, Table]] = field(factory=lambda: {kind: {} for kind in KINDS})
    warnings: list[str] = field(factory=list[str])
    _origins: dict[tuple[Kind, str], str] = field(factory=dict[tuple[Kind, str], str])

    async def fetch(self, ask: Ask) -> None:
        """Fetch all groups, level by level; raises `ProtocolError` if there is no list of them."""
        waiting: list[tuple[Any, str | None]] = [(entry, None) for entry in await list_groups(ask, self.room)]
        for entry, parent in waiting:
            if self._is_new(entry, parent) and not self.room.full:
                waiting += await self._fetch_one(ask, entry, parent)

    def _is_new(self, entry: Any, parent: str | None) -> bool:
        """Return whether a group is to be fetched; one that is in several groups is in the first of them here."""
        place = "groups/list" if parent is None else f"the group {quoted(parent)!r}"
        if not is_entry(entry):
            self.warnings.append(f"A group in {place} has no name, so it is left out.")
            return False
        name = entry["name"]
        if name in (above := self._above(parent)):
            circle = enumerated([*above[: above.index(name) + 1][::-1], name])
            self.warnings.append(f"The groups {circle} contain one another, so {place} is served without {name!r}.")
        elif name not in self.groups and len(self.groups) == MOST_GROUPS:
            self.warnings.append(f"There are more than {MOST_GROUPS} groups, so {quoted(name)!r} is left out.")
        return name not in self.groups and len(self.groups) < MOST_GROUPS

    def _above(self, name: str | None) -> list[str]:
        """Return a group and those that it is in, the innermost first."""
        found: list[str] = []
        while name is not None:
            found.append(name)
            name = self.groups[name].parent
        return found

    async def _fetch_one(self, ask: Ask, entry: Table, parent: str | None) -> list[tuple[Any, str | None]]:
        """Add a group and what is in it; return the entries of the groups in it."""
        try:
            fetched = await get_group(ask, entry, parent)
        except ProtocolError as error:
            self.warnings.append(
                f"The group {quoted(entry['name'])!r} is left out: groups/get answered with the error {error.code} "
                f"({error.message})."
            )
            return []
        name = fetched.group.name
        if not self.room.fitting([fetched.group.instructions]):
            return []
        self.groups[name] = fetched.group
        for kind, definitions in fetched.contents.items():
            for one in self.room.fitting(definitions):
                self._add(kind, one, name)
        return [(inner, name) for inner in self.room.fitting(fetched.inner)]

    def _add(self, kind: Kind, definition: Table, group: str) -> None:
        identity = _identity(kind, definition)
        if self.contents[kind].setdefault(identity, definition) != definition:
            self.warnings.append(different(kind, identity, self._origins[kind, identity], group))
        self._origins.setdefault((kind, identity), group)


def different(kind: Kind, identity: str, first: str, second: str) -> str:
    """Return a sentence on something that two groups define differently."""
    return (
        f"The {kind.replace('_', ' ')} {quoted(identity)!r} is defined differently by the groups {quoted(first)!r} and "
        f"{quoted(second)!r}; the definition in {quoted(first)!r} is used."
    )


def _identity(kind: Kind, definition: Table) -> str:
    return _text(definition.get(LISTS[kind].identified_by))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
