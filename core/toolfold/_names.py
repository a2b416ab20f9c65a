"""Segments, paths, qualified names, and names on the wire (SPEC NAM-1 to NAM-6)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol

from ._limits import MAX_NAME
from .errors import ConfigError, InvalidName, ToolNotFound

SEPARATOR = "."
_SEGMENT = re.compile(r"[A-Za-z0-9_-]{1,64}")
_ALPHABET = "use 1 to 64 of the characters A-Z a-z 0-9 _ -"


def is_text(value: object) -> bool:
    """Return whether `value` is a string: input from outside may be anything, whatever its annotation says."""
    return isinstance(value, str)


def check_segment(segment: str, whole: str | None = None) -> str:
    """Return `segment` if it is a valid path segment or base name, else raise `InvalidName` (SPEC NAM-1)."""
    if not is_text(segment) or _SEGMENT.fullmatch(segment) is None:
        raise InvalidName(str(segment if whole is None else whole), str(segment), _ALPHABET)
    return segment


def check_name(name: str) -> str:
    """Return `name` if it is a valid full name: segments joined by dots, at most 128 characters (SPEC NAM-1)."""
    if not is_text(name):
        raise InvalidName(str(name), str(name), "a name is a text")
    for segment in name.split(SEPARATOR):
        check_segment(segment, name)
    if len(name) > MAX_NAME:
        raise InvalidName(name, name, f"it has {len(name)} characters, and at most {MAX_NAME} are allowed")
    return name


def qualified_name(group: str, base: str) -> str:
    """Return the full name of a tool: `{group}.{base}`, or `base` at root, where `group` is `""`.

    SPEC NAM-2.
    """
    check_segment(base)
    return check_name(f"{group}{SEPARATOR}{base}" if group else base)


def split_name(name: str) -> tuple[str, str]:
    """Return `(group path, base)` of a full name; the path is `""` for an unqualified one."""
    group, _, base = name.rpartition(SEPARATOR)
    return group, base


PREFIXED = "__"
"""What stands between the name of a tool and that of its server or its host; the separator of groups is read as it."""


def base_name(name: str) -> str:
    """Return what a tool is called without the names before it: of its groups, its server, its host."""
    return name.replace(SEPARATOR, PREFIXED).rpartition(PREFIXED)[2]


SPOKEN = {"activate": "open", "deactivate": "close"}
"""What people and models call what the control tools of a group do."""


def spoken(name: str) -> str:
    """Return a control tool's name as people and models say it: `orders.open` for `orders.activate`."""
    path, base = split_name(name)
    return f"{path}{SEPARATOR}{SPOKEN[base]}" if path and base in SPOKEN else name


ToWire = Callable[[str], str]
"""Maps a tool's name to the one that a caller knows."""


def ancestors(path: str) -> list[str]:
    """Return the paths above `path`, topmost first."""
    segments = path.split(SEPARATOR)
    return [SEPARATOR.join(segments[:depth]) for depth in range(1, len(segments))]


def canonical_key(path: str) -> list[str]:
    """Return the sort key of the canonical order: segment by segment, ancestors before descendants (SPEC 1)."""
    return path.split(SEPARATOR)


def snake_case(name: str) -> str:
    """Return a class name as a segment: `FileOps` gives `file_ops`, `HTTPServer` gives `http_server` (SPEC NAM-3)."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


class NamedTool(Protocol):
    """What names on the wire depend on of a tool."""

    @property
    def name(self) -> str:
        """Its name in the catalog."""
        ...

    @property
    def opens_or_closes(self) -> bool:
        """Whether it opens or closes one group."""
        ...


class WireNames:
    """A bijection between the names of a catalog and the names that clients are given.

    SPEC NAM-6.

    Args:
        separator: What stands for the dot on the wire, of the characters `A-Z a-z 0-9 _ - .`.
        max_length: How many characters a name on the wire may have; by default, no fewer than any name.

    Attributes:
        own: Names that have another name on the wire than that; to be set before they are admitted.
    """

    def __init__(self, separator: str, max_length: int = MAX_NAME) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,8}", separator):
            raise ConfigError(f"{separator!r} can't separate names on the wire: use 1 to 8 of A-Z a-z 0-9 _ - .")
        self.separator = separator
        self.max_length = max_length
        self.own: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._spoken: dict[str, str] = {}
        self._older: dict[str, str] = {}

    def admit(self, name: str) -> None:
        """Admit a name, or raise `ConfigError` if its wire name is taken by another or too long.

        A control tool that has that wire name gives way, and is called `orders__activate` from then on.
        """
        wire = self.to_wire(name)
        if len(wire) > self.max_length:
            raise ConfigError(
                f"{wire!r} has {len(wire)} characters; this wire allows {self.max_length}: shorten it, or allow more."
            )
        other = self._names.get(wire, name)
        if other != name and other in self._spoken:
            self._give_way(other)
        elif other != name:
            raise ConfigError(
                f"{other!r} and {name!r} would both be {wire!r} on the wire: rename one, or choose another separator."
            )
        self._names[wire] = name

    def admit_control(self, name: str) -> None:
        """Admit the name of a tool that opens or closes a group: `orders.activate` is `orders__open` on the wire.

        `orders__activate`, as it was called before, is accepted too, unless another tool has that name. It is the only
        name where an author's tool is called `orders__open`, and where the separator is the catalog's own.
        """
        plain, wire = self._separated(name), self._separated(spoken(name))
        is_free = self._names.get(wire, name) == name and self._names.get(plain) != name
        if self.separator != SEPARATOR and name not in self.own and wire != plain and is_free:
            self._spoken[name], self._older[plain] = wire, name
        self.admit(name)

    def _give_way(self, control: str) -> None:
        wire = self._spoken.pop(control)
        try:
            self.admit(control)
        except ConfigError:
            self._spoken[control] = wire
            raise

    def admit_tools(self, tools: Iterable[NamedTool]) -> dict[str, str]:
        """Admit the names of tools, and return those that have none on the wire, with the reason."""
        refused: dict[str, str] = {}
        for tool in sorted(tools, key=lambda tool: tool.opens_or_closes):  # those give way to the names of others
            try:
                (self.admit_control if tool.opens_or_closes else self.admit)(tool.name)
            except ConfigError as error:
                refused[tool.name] = str(error)
        return refused

    def admit_all(self, names: Iterable[str]) -> None:
        """Admit many names; see `admit`."""
        for name in names:
            self.admit(name)

    def release(self, name: str) -> None:
        """Release a name, so that another may have its wire name."""
        wire = self.to_wire(name)
        if self._names.get(wire) == name:
            del self._names[wire]
        self._spoken.pop(name, None)
        self._older.pop(self._separated(name), None)

    def to_wire(self, name: str) -> str:
        """Return the name that clients see."""
        return self.own.get(name) or self._spoken.get(name) or self._separated(name)

    def _separated(self, name: str) -> str:
        return name if self.separator == SEPARATOR else name.replace(SEPARATOR, self.separator)

    def from_wire(self, wire: str) -> str:
        """Return the catalog's name, or raise `ToolNotFound` if no name was admitted that is `wire` on the wire."""
        if self.separator == SEPARATOR:
            return wire
        if wire in self._names:
            return self._names[wire]
        if (control := self._older.get(wire)) in self._spoken:
            assert control is not None
            return control
        raise ToolNotFound(wire)
