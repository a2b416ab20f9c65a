"""The directory of groups in a description, within what hosts show of one (SPEC CTL-7).

Some show a model one line of 157 characters, some the first 247 of a server's instructions, some 2,048 in all. So names
come before descriptions, and what is left out is counted. There is no ellipsis: hosts count one as three characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from attrs import frozen

from .._catalog.components import GroupSpec
from .._names import SEPARATOR, ancestors
from .describe import line_of, shortened

FIRST_LINE = 157
"""How many characters of a description every host shows."""

_NAMES = 60
"""How many characters the names in a first line have, whatever else is in it."""

_COUNTED = len("9999 in all")


@frozen
class Directory:
    """Groups by path, in their order, each with its description on one line."""

    groups: Mapping[str, str]

    @classmethod
    def of(cls, groups: Iterable[GroupSpec]) -> Directory:
        """Return the directory of some groups."""
        return cls({group.path: one_line(group.description) for group in groups})

    @classmethod
    def openable(cls, groups: Iterable[GroupSpec]) -> Directory:
        """Return the directory of those among some groups that a model can open."""
        return cls.of(group for group in groups if group.controls and not group.pinned)

    def introduced(self, way: str, room: int = FIRST_LINE) -> str:
        """Return `way`, which says how groups are reached, after the names of those at the top.

        It has at most `room` characters, with as many names as fit, and the number of the others.
        """
        names = [*_with_inner(self.groups)]
        if not names:
            return way
        frame = len("Groups of tools: . ") + len(way)
        return f"Groups of tools: {names_within(names, max(room - frame, _NAMES))}. {way}"

    def lines(self, room: int, finder: str | None) -> list[str]:
        """Return a line for each group at the top, with the names of those in it: at most `room` characters.

        What room the names leave, descriptions share. If the names don't fit, the last line has the number of the
        groups that are not named, and `finder`, the tool that finds them; that line is never left out.

        Args:
            room: The number of characters, with a line break after each line.
            finder: The name of the tool that searches, if there is one.
        """
        inner = _with_inner(self.groups)
        used = shown = spare = 0
        end = f" groups{f': {finder} finds their tools' if finder else ''}"
        for number, (top, names) in enumerate(inner.items(), 1):
            used += len(line_of(top, "")) + 1 + (_COUNTED + len(" ()") if names else 0)
            last = 0 if number == len(inner) else len(f"- and {len(self.groups)} more{end}") + 1
            if used + last <= room:
                shown, spare = number, room - used - last
        tops = [*inner][:shown]
        missing = sum(1 + len(names) for names in [*inner.values()][shown:])
        more = [f"- and {missing} more{end}" if shown else f"- {missing}{end}"] if missing else []
        if not tops:
            return more
        lists = {top: inner[top] for top in tops if inner[top]}
        length = _level([len(", ".join(names)) for names in lists.values()], spare + _COUNTED * len(lists))
        named = {top: names_within(names, max(length, _COUNTED)) for top, names in lists.items()}
        spare -= sum(map(len, named.values())) - _COUNTED * len(lists)
        described = [text for top in tops if (text := self.groups[top])]
        length = _level([len(text) + len(": ") for text in described], spare) - len(": ")
        heads = {top: f"{top} ({named[top]})" if top in named else top for top in tops}
        return [*(line_of(heads[top], shortened(self.groups[top], length)) for top in tops), *more]


def one_line(text: str) -> str:
    """Return a text as a directory has it: on one line, without an ellipsis."""
    return " ".join(text.replace("…", "...").split())


def has_whole(lines: str, path: str, description: str) -> bool:
    """Return whether a directory has the whole description of a group, which may be none."""
    if not description:
        return True
    heads = (f"- {path}: ", f"- {path} (")
    return any(line.startswith(heads) and line.endswith(f": {description}") for line in lines.splitlines())


def names_within(names: Sequence[str], room: int) -> str:
    """Return names, separated by commas: as many as fit in `room` characters, and the number of the others."""
    text, used = f"{len(names)} in all", -len(", ")
    shown = 0
    for number, name in enumerate(names, 1):
        used += len(", ") + len(name)
        if used > room:
            break
        if used + len(_others(len(names) - number)) <= room:
            shown = number
    return ", ".join(names[:shown]) + _others(len(names) - shown) if shown else text


def _others(number: int) -> str:
    return f" and {number} more" if number else ""


def _with_inner(groups: Iterable[str]) -> dict[str, list[str]]:
    """Return the groups at the top, each with the paths of those in it, as they continue its own."""
    inner: dict[str, list[str]] = {}
    for path in groups:
        top = next((above for above in ancestors(path) if above in inner), None)
        if top is None:
            inner[path] = []
        else:
            inner[top].append(path.removeprefix(f"{top}{SEPARATOR}"))
    return inner


def _level(lengths: Iterable[int], room: int) -> int:
    """Return the greatest length that texts are cut to so that all together have at most `room` characters."""
    ordered = sorted(lengths)
    for number, length in enumerate(ordered):
        share = room // (len(ordered) - number)
        if length > share:
            return max(share, 0)
        room -= length
    return ordered[-1] if ordered else 0
