"""The tools of an existing server: their groups, by tags, patterns or marks, and their registration (SPEC INT-1)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from functools import partial, reduce
from typing import Any, Literal, cast

from attrs import define, field

from toolfold import (
    ConfigError,
    InvalidDefinition,
    InvalidName,
    ToolfoldError,
    ToolSet,
    Visibility,
    WireNames,
    qualified_name,
)
from toolfold.spi import ancestors, enumerated, quoted, table

from ...names import GROUP_META, MOUNTED_META, WIRE_SEPARATOR, numbered
from ..answer.render import ForeignDefinition, Offer, without_mounted_groups
from ..request import component_called

log = logging.getLogger("toolfold.mcp")

By = Literal["tags"] | Mapping[str, str | Iterable[str]]
"""`"tags"`, or a mapping of groups, by path, to the names of their tools or patterns of them."""

_LONGEST = 1_024
_asking: ContextVar[object] = ContextVar("toolfold_asking", default=None)
_REMEDY = 'give it a mapping of groups to names, as in by={"files": ["read_*", "write_*"]}'


def in_group(path: str, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the `meta` of a tool that is in a group: `@mcp.tool(meta=in_group("database.write"))`.

    Args:
        path: The path of the group.
        meta: What else the tool has in its `_meta`.

    Raises:
        ConfigError: No group can have that path.
    """
    check_path(path, "in_group")
    return {**(meta or {}), GROUP_META: path}


class Grouping:
    """Says which groups a tool belongs to, by its definition.

    A tool's own mark comes first (see `in_group`), then `by`, then its groups in a mounted server that it comes from.
    A tool with several tags is in the group of each of them. Of patterns, the first that matches a name gets it; `*`,
    `?` and `[…]` are wild, and upper and lower case differ.

    Args:
        by: How tools are grouped; `None` for marks alone, and an empty mapping for marks, should there be any.

    Raises:
        ConfigError: `by` is something else, or has a path or pattern that can't be one.
    """

    def __init__(self, by: By | None = None) -> None:
        self.by_tags = by == "tags"
        self.leaves_all = by == {}
        self.patterns: dict[str, tuple[str, ...]] = {}
        given = table(by)
        if given is None and by not in (None, "tags"):
            raise ConfigError(f'by can\'t be {quoted(repr(by))}: say "tags", or {_REMEDY}.')
        for path, patterns in (given or {}).items():
            check_path(path, "by")
            several = not isinstance(patterns, str) and isinstance(patterns, Iterable)
            self.patterns[path] = tuple(cast("Iterable[str]", patterns if several else (patterns,)))
            if wrong := [one for one in self.patterns[path] if not is_name(one)]:
                raise ConfigError(f"by has the pattern {wrong[0]!r} for the group {path!r}; a pattern is a text.")

    def paths(self, definition: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the groups of a tool: none for one that stays in view.

        Raises:
            ConfigError: Its mark or a tag can't be the path of a group.
        """
        name, meta = str(definition["name"]), table(definition.get("_meta")) or {}
        marked: Any = meta.get(GROUP_META)
        if marked is not None:
            return (check_path(marked, f"the mark of the tool {name!r}"),)
        return self._asked_for(name, meta) or tuple(meta.get(MOUNTED_META, ()))

    def _asked_for(self, name: str, meta: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the groups of a tool that has no mark of its own, as `by` says."""
        if self.by_tags:
            return tuple(check_path(tag, f"the tags of the tool {name!r}") for tag in tags_of(meta))
        found = ((path,) for path, globs in self.patterns.items() if matches([name], globs))
        return next(found, ())

    def problems(self, server: str, definitions: Sequence[Mapping[str, Any]]) -> list[str]:
        """Return what is wrong with grouping all tools of a server, in sentences that say what to do.

        Args:
            server: The name of the server.
            definitions: The definitions of its tools.
        """
        names = [str(definition["name"]) for definition in definitions]
        found = [
            f"The server {server!r} lists two tools with the name {name!r}: rename one of them."
            for name in dict.fromkeys(name for name in names if names.count(name) > 1)
        ]
        paths: list[tuple[str, ...]] = []
        for definition in definitions:
            try:
                paths.append(self.paths(definition))
            except ConfigError as error:
                found.append(str(error))
        has = f"has {enumerated(names)}" if names else "has no tools"
        found += [
            f"The pattern {glob!r} of the group {path!r} matches no tool: correct it or remove it; {server!r} {has}."
            for path, globs in self.patterns.items()
            for glob in globs
            if not matches(names, [glob])
        ]
        if not found and not any(paths) and not self.leaves_all:
            what = "no tool has tags" if self.by_tags else "no tool is marked with meta=in_group(...)"
            found.append(f"The tools of the server {server!r} can't be grouped so: {what}; {_REMEDY}.")
        return found


@define(eq=False)
class OwnTools:
    """The tools of an existing server, as they are registered in a tool set.

    Args:
        server: The name of the server.
        tools: The tool set.
        grouping: Says which groups they belong to.
        handler: Returns the handler of a tool, by its own name.

    Attributes:
        names: The names on the wire, where they keep theirs, whatever characters these have.
        placed: The groups of each that is registered, by its own name.
    """

    _server: str
    _tools: ToolSet
    _grouping: Grouping
    _handler: Callable[[str], Callable[..., Any]]
    complete: bool = field(init=False, default=False)
    """Whether its first list has been looked at as a whole, or had not to be."""
    names: WireNames = field(init=False, factory=partial(WireNames, WIRE_SEPARATOR, _LONGEST))
    placed: dict[str, tuple[str, ...]] = field(init=False, factory=dict[str, tuple[str, ...]])
    _reported: set[str] = field(init=False, factory=set[str])

    def add_groups(self) -> None:
        """Register the groups that have patterns."""
        for path in self._grouping.patterns:
            self._add_group(path)

    def check(self, definitions: Sequence[ForeignDefinition], *, complete: bool) -> None:
        """Register tools that are known before the server runs.

        Args:
            definitions: Their definitions.
            complete: Whether the server has no others.

        Raises:
            ConfigError: They can't be grouped as asked.
        """
        self.complete = complete
        problems = self._grouping.problems(self._server, definitions) if complete else []
        if problems:
            raise ConfigError(problems[0])
        self._register(definitions)

    def register(self, definitions: Sequence[ForeignDefinition]) -> None:
        """Register tools one by one; what is wrong with one is reported once."""
        for definition in definitions:
            try:
                self._register([definition])
            except ToolfoldError as error:
                self._warn(f"The tool {definition['name']!r} is left out: {error}")

    def _register(self, definitions: Sequence[ForeignDefinition]) -> None:
        placed = {str(definition["name"]): self.paths(definition) for definition in definitions}
        for path in sorted({path for paths in placed.values() for path in paths}):
            self._add_group(path)
        for definition in definitions:
            name = str(definition["name"])
            if self.placed.get(name) != placed[name]:
                self._place(name, definition, placed[name])

    def knows(self, wire: str) -> bool:
        """Return whether a tool of the tool set has that name on the wire, of the server's own or not."""
        return component_called(self._tools.catalog, self.names, wire) is not None

    def _place(self, name: str, definition: ForeignDefinition, paths: tuple[str, ...]) -> None:
        """Register a tool, or register it elsewhere."""
        registered = next((ours for ours, own in self.names.own.items() if own == name), None)
        if registered is None and self.knows(name):
            raise ConfigError(
                f"The server {self._server!r} has a tool {name!r}, and so have its groups: rename it, or choose "
                "another control= for the ToolSet in tools=."
            )
        if registered is not None:
            self._tools.unregister(registered)
            del self.placed[name]
        registered = registered or self._free_name(name)
        self.names.own[registered] = name
        try:
            self._register_own(registered, name, definition, paths)
        except BaseException:
            del self.names.own[registered]
            raise
        self.placed[name] = paths

    def _register_own(self, registered: str, name: str, definition: ForeignDefinition, paths: tuple[str, ...]) -> None:
        place: dict[str, Any] = {
            "group": paths[0] if paths else None,
            "visibility": reduce(lambda one, other: one | other, map(Visibility.group, paths))
            if len(paths) > 1
            else None,
            "flat": True,
            "check_arguments": False,
        }
        try:
            described = _described(without_mounted_groups(definition))
            self._tools.register(registered, self._handler(name), **place, **described)
        except InvalidDefinition:  # it is the server's own, and listed as the server has it
            self._tools.register(registered, self._handler(name), **place, input_schema={"type": "object"})

    def _free_name(self, name: str) -> str:
        """Return a name that a tool can be registered by: its own, if it can be that."""
        return numbered(re.sub(r"[^A-Za-z0-9_-]", "_", name)[:56] or "tool", self._tools.catalog.tools)

    def _add_group(self, path: str) -> None:
        """Add a group and what contains it, without a description: not every caller may know what is in it."""
        for each in (*ancestors(path), path):
            if each not in self._tools.catalog.index:
                self._tools.register_group(each)

    def _warn(self, *sentences: str) -> None:
        for sentence in sentences:
            if sentence not in self._reported:
                self._reported.add(sentence)
                log.warning("%s", sentence)

    def take_note(self, offer: Offer) -> None:
        """Register the tools that are new."""
        if not self.complete and offer.first and offer.next_cursor is None:
            self.complete = True
            self._warn(*self._grouping.problems(self._server, list(offer.definitions.values())))
        self.register([one for name, one in offer.definitions.items() if self.placed.get(name) != self.paths(one)])

    def paths(self, definition: ForeignDefinition) -> tuple[str, ...]:
        """Return the groups of a tool; one that can't be grouped as asked stays in view, and is reported once."""
        try:
            return self._grouping.paths(definition)
        except ConfigError as error:
            self._warn(str(error))
            return ()


@contextmanager
def asking(groups: object) -> Generator[None]:
    """Have the servers that are mounted in a server say the groups of their tools, while that is asked for its list."""
    token = _asking.set(groups)
    try:
        yield
    finally:
        _asking.reset(token)


def is_asked_by_another(groups: object) -> bool:
    """Return whether a server is asked for its list as one that is mounted, and not by its own `groups`."""
    return _asking.get() not in (None, groups)


def marked(definition: Mapping[str, Any]) -> bool:
    """Return whether a tool is marked with `in_group`, or has groups in a mounted server."""
    return not {GROUP_META, MOUNTED_META}.isdisjoint(table(definition.get("_meta")) or {})


def tags_of(meta: Mapping[str, Any]) -> list[str]:
    """Return the tags of a tool, as either major version of FastMCP puts them into its `_meta`, or as `_meta.tags`."""
    own = table(meta.get("fastmcp")) or table(meta.get("_fastmcp")) or {}
    given: Any = own.get("tags", meta.get("tags"))
    tags = cast("Iterable[Any]", given) if isinstance(given, list | tuple | Set) else ()
    return sorted({tag for tag in tags if is_name(tag)})


def matches(aliases: Iterable[str], globs: Iterable[str]) -> bool:
    """Return whether one of some names matches one of the patterns."""
    patterns = tuple(globs)
    return any(fnmatchcase(alias, glob) for alias in aliases for glob in patterns)


def is_name(value: Any) -> bool:
    """Return whether a value can name something."""
    return isinstance(value, str) and bool(value)


def check_path(path: Any, where: str) -> str:
    """Return a path that a group can have, or raise `ConfigError`, which says where it is written."""
    try:
        for segment in str(path).split(".") if isinstance(path, str) else [path]:
            qualified_name("", segment)
    except InvalidName as error:
        raise ConfigError(
            f"{quoted(repr(path))} in {where} can't be the path of a group: {error.problem}; rename it."
        ) from error
    return str(path)


def _described(definition: ForeignDefinition) -> dict[str, Any]:
    """Return a definition as options of `ToolSet.register`, for what is said of tools outside of requests."""
    return {
        "title": definition.get("title"),
        "description": definition.get("description"),
        "input_schema": definition.get("inputSchema"),
        "output_schema": definition.get("outputSchema"),
        "check_output": False,
        "annotations": definition.get("annotations"),
        "icons": definition.get("icons"),
        "meta": definition.get("_meta"),
    }
