"""Edits the files of clients in place: everything that is not changed keeps its text, comments included.

`JsonFile`, `TomlFile` and `YamlFile` have the same methods. What `take` returns can be `put` into another file of the
same format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from attrs import evolve, frozen

from toolfold import ConfigError
from toolfold.spi import table
from toolfold_adapters.files import strict_json, without_comments

_SAME_LINE = re.compile(r"[ \t]*(?://[^\n]*|/\*(?:(?!\*/)[^\n])*\*/[ \t]*)?(?=\r?\n|$)|")
_SPACE = re.compile(r"\s*")


class ServersFile(Protocol):
    """A client's file whose servers are edited."""

    @property
    def text(self) -> str:
        """The present text."""
        ...

    def take(self, name: str) -> Any:
        """Remove a server, and return it with its comments."""

    def put(self, name: str, server: Any) -> None:
        """Add a server that was taken from another file."""

    def add(self, name: str, settings: Mapping[str, Any]) -> None:
        """Add a server with settings."""


def edited(suffix: str, text: str | None, section: Sequence[str]) -> ServersFile:
    """Return a file to edit, in the format that its suffix names; a new one if there is no text.

    Raises:
        ConfigError: It is written in a way that can't be edited.
    """
    kinds: Mapping[str, Any] = {".toml": TomlFile, ".yaml": YamlFile, ".yml": YamlFile}
    file: ServersFile = kinds.get(suffix.lower(), JsonFile)(text, section)
    return file


# -- JSON with comments -----------------------------------------------------------------------------------------------


@frozen
class _Member:
    """The text of a member of an object, with the comments before its key and after its comma."""

    name: str
    before: str
    text: str
    trailing: str


@frozen
class _Object:
    """An object within a text: `head` ends with its opening brace, and `tail` begins after its last member."""

    head: str
    tail: str
    members: tuple[_Member, ...] = ()
    last_comma: bool = False

    @property
    def text(self) -> str:
        text = self.head
        for member, after in zip(self.members, [*(one.before for one in self.members[1:]), self.tail], strict=False):
            comma = "," if self.last_comma or member is not self.members[-1] else ""
            text += f"{member.before}{member.text}{comma}{member.trailing}"
            if "//" in member.trailing and not after.lstrip(" \t\r").startswith("\n"):
                text += "\n"
        return text + self.tail

    @property
    def indent(self) -> str | None:
        """What its members are indented by; `None` if they are on one line."""
        _, newline, indent = self.members[0].before.rpartition("\n") if self.members else ("", "", "")
        return indent if newline and not indent.strip() else None


class JsonFile:
    """A file of JSON, possibly with comments."""

    def __init__(self, text: str | None, section: Sequence[str]) -> None:
        self._section = tuple(section)
        self._servers = _object_at(_skeleton(self._section) if text is None else text, self._section)
        self._indent = self._servers.indent

    @property
    def text(self) -> str:
        """The present text."""
        return self._servers.text

    def take(self, name: str) -> Any:
        """Remove a server, and return it with its comments."""
        taken = next(member for member in self._servers.members if member.name == name)
        self._keep(member for member in self._servers.members if member is not taken)
        return taken

    def put(self, name: str, server: Any) -> None:
        """Add a server that was taken from another file."""
        self._keep([*self._servers.members, server])

    def add(self, name: str, settings: Mapping[str, Any]) -> None:
        """Add a server with settings."""
        indent, before = self._indent, " " if self._servers.members else ""
        value = json.dumps(settings, ensure_ascii=False)
        if indent is not None:
            unit = indent[: len(indent) // (len(self._section) + 1)]
            before = f"\n{indent}"
            value = json.dumps(settings, ensure_ascii=False, indent=unit).replace("\n", before)
        self.put(name, _Member(name, before, f"{json.dumps(name)}: {value}", ""))

    def copy(self, name: str, other: JsonFile) -> None:
        """Copy a member of the top-level object from another file."""
        copied = next(member for member in _object_at(other.text, ()).members if member.name == name)
        whole = _object_at(self.text, ())
        others = [member for member in whole.members if member.name != name]
        self._servers = _object_at(evolve(whole, members=(copied, *others)).text, self._section)

    def _keep(self, members: Iterable[_Member]) -> None:
        self._servers = evolve(self._servers, members=tuple(members))


def _skeleton(section: Sequence[str], depth: int = 0) -> str:
    """Return the text of a file with an empty section."""
    inside = f"\n{'  ' * (depth + 1)}{json.dumps(section[0])}: {_skeleton(section[1:], depth + 1)}" if section else ""
    return f"{{{inside}\n{'  ' * depth}}}" + ("" if depth else "\n")


def _object_at(text: str, path: Sequence[str]) -> _Object:
    """Return the object at a path of keys in valid JSON with comments."""
    plain = strict_json(text)
    at = _skip(plain, 0)
    for key in path:
        at = next(value for name, _, value, _ in _spans(plain, at) if name == key)
    commas = without_comments(text)
    brace, at = at, at + 1
    members: list[_Member] = []
    comma = False
    for name, start, _, end in _spans(plain, brace):
        place = _skip(commas, end)
        comma = commas[place] == ","
        trailing = _same_line(text, place + 1 if comma else end)
        gap = text[end:place] if comma else ""
        members.append(_Member(name, text[at:start], text[start:end], gap + trailing))
        at = (place + 1 if comma else end) + len(trailing)
    return _Object(text[: brace + 1], text[at:], tuple(members), comma)


def _spans(plain: str, brace: int) -> list[tuple[str, int, int, int]]:
    """Return name, start of the key, start of the value and end of each member of the object at a brace."""
    decode = json.JSONDecoder().raw_decode
    spans: list[tuple[str, int, int, int]] = []
    at = _skip(plain, brace + 1)
    while plain[at] == '"':
        name, end = decode(plain, at)
        value = _skip(plain, _skip(plain, end) + 1)
        _, end = decode(plain, value)
        spans.append((name, at, value, end))
        at = _skip(plain, end)
        if plain[at] == ",":
            at = _skip(plain, at + 1)
    return spans


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None, "it matches an empty text"
    return match.end()


def _same_line(text: str, at: int) -> str:
    """Return the comment that follows on the same line, if nothing else does."""
    match = _SAME_LINE.match(text, at)
    assert match is not None, "it matches an empty text"
    return match[0]


# -- TOML -------------------------------------------------------------------------------------------------------------


class TomlFile:
    """A file of TOML that has the servers in a table by their names, or each as an item of an array, with its name."""

    def __init__(self, text: str | None, section: Sequence[str]) -> None:
        import tomlkit

        self._document = tomlkit.parse(text or "")
        (self._section,) = section

    @property
    def text(self) -> str:
        """The present text."""
        import tomlkit

        return tomlkit.dumps(self._document)

    def take(self, name: str) -> Any:
        """Remove a server, and return it with its comments."""
        if (items := self._items()) is not None:
            place = next(place for place, item in enumerate(items) if item.get("name") == name)
            return _Item(items.pop(place))
        servers = {**self._servers()}
        taken = servers.pop(name)
        self._document[self._section] = servers
        return taken

    def put(self, name: str, server: Any) -> None:
        """Add a server that was taken from another file."""
        if not isinstance(server, _Item):
            self._document[self._section] = {**self._servers(), name: server}
        elif (items := self._items()) is not None:
            items.append(server.fitting(items))
        else:
            import tomlkit

            self._document[self._section] = tomlkit.array() if server.is_inline else tomlkit.aot()
            self._document[self._section].append(server.table)

    def add(self, name: str, settings: Mapping[str, Any]) -> None:
        """Add a server with settings."""
        if self._items() is None:
            self.put(name, dict(settings))
            return
        import tomlkit

        self.put(name, _Item(tomlkit.item({"name": name, **settings})))

    def _servers(self) -> Mapping[str, Any]:
        return table(cast("Any", self._document).get(self._section)) or {}

    def _items(self) -> Any:
        """Return the array that has the servers, if they are in one."""
        found: Any = cast("Any", self._document).get(self._section)
        return cast("Any", found) if isinstance(found, list) else None


@frozen
class _Item:
    """A server that is an item of an array, and not a table with a key."""

    table: Any

    @property
    def is_inline(self) -> bool:
        """Whether it is in braces, in an array in brackets, and not below a header of its own."""
        from tomlkit.items import InlineTable

        return isinstance(self.table, InlineTable)

    def fitting(self, items: Any) -> Any:
        """Return it as an array takes it: as it is written, or its data alone if items are written otherwise there."""
        from tomlkit.items import Array

        return self.table if self.is_inline == isinstance(items, Array) else self.table.unwrap()


# -- YAML -------------------------------------------------------------------------------------------------------------


class YamlFile:
    """A file of YAML that has each server, a key of a mapping or an item of a list, on lines of its own."""

    def __init__(self, text: str | None, section: Sequence[str]) -> None:
        self._section = tuple(section)
        self._servers: dict[str, str] = {}
        self._head = "".join(f"{'  ' * depth}{key}:\n" for depth, key in enumerate(section))
        self._tail, self._listed = "", False
        if text is not None:
            self._divide(text)
        self._indent = next((_indent_of(server) for server in self._servers.values()), "  " * len(section))

    @property
    def text(self) -> str:
        """The present text."""
        parts = [self._head, *self._servers.values(), self._tail]
        lines = [part if part.endswith("\n") else f"{part}\n" for part in parts if part]
        return "".join(lines[:-1]) + next((part for part in reversed(parts) if part), "")

    def take(self, name: str) -> Any:
        """Remove a server, and return it with its comments."""
        return self._servers.pop(name)

    def put(self, name: str, server: Any) -> None:
        """Add a server that was taken from another file."""
        own = _indent_of(server) if len(self._section) == 1 else self._indent
        other = next((_indent_of(one) for one in self._servers.values()), own)
        lines = str(server).splitlines(keepends=True)
        self._servers[name] = "".join(other + line.removeprefix(_indent_of(server)) for line in lines)

    def add(self, name: str, settings: Mapping[str, Any]) -> None:
        """Add a server with settings."""
        lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in settings.items()]
        if self._listed:
            lines = [f"- name: {name}", *(f"  {line}" for line in lines if not line.startswith("name:"))]
        else:
            lines = [f"{name}:", *(f"  {line}" for line in lines)]
        self._servers[name] = "".join(f"{self._indent}{line}\n" for line in lines)

    def _divide(self, text: str) -> None:
        """Find the lines of each server: from the comments above it to those of the next one."""
        from ruamel.yaml import YAML

        parser: Any = YAML(typ="safe", pure=True)
        node = parser.compose(text)
        for name in self._section:
            node = next(value for key, value in node.value if key.value == name)
        self._listed = node.id == "sequence"
        lines: list[str] = text.splitlines(keepends=True)
        starts: list[int] = [(one if self._listed else one[0]).start_mark.line for one in node.value]
        if node.flow_style or not node.value or len(set(starts)) < len(starts):
            raise ConfigError(
                f"{'.'.join(self._section)} is not written with each server on lines of its own; write it so."
            )
        names = [_named(one) if self._listed else one[0].value for one in node.value]
        end = _end_of(node)
        for number, start in enumerate(starts):
            while lines[start - 1].lstrip().startswith("#"):
                start -= 1
            starts[number] = start
        self._head, self._tail = "".join(lines[: starts[0]]), "".join(lines[end:])
        for name, start, stop in zip(names, starts, [*starts[1:], end], strict=True):
            self._servers[name] = "".join(lines[start:stop])


def _named(item: Any) -> str:
    """Return the name of an item of a list."""
    return next(str(value.value) for key, value in item.value if key.value == "name")


def _end_of(node: Any) -> int:
    """Return the line after a collection in block style; a comment that follows is no part of it."""
    if node.id != "scalar" and not node.flow_style and node.value:
        return _end_of(node.value[-1][1] if node.id == "mapping" else node.value[-1])
    mark = node.end_mark
    return int(mark.line) + bool(mark.column)


def _indent_of(text: str) -> str:
    return text[: len(text) - len(text.lstrip(" "))]
