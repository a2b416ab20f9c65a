"""The tools of an existing server: their groups, by tags, patterns or marks, and their own names (SPEC INT-1)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence, Set
from contextlib import contextmanager
from contextvars import ContextVar
from fnmatch import fnmatchcase
from typing import Any, Literal, cast

from toolfold import ConfigError, InvalidName, ToolNotFound, WireNames, qualified_name
from toolfold.spi import enumerated, quoted, table

from ...names import WIRE_SEPARATOR
from ..meta import GROUP_META, MOUNTED_META

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
        return next(((path,) for path, globs in self.patterns.items() if _match(name, globs)), ())

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
        for path, globs in self.patterns.items():
            found += [self._unmatched(server, path, glob, names) for glob in globs if not _matches(glob, names)]
        if not found and not any(paths) and not self.leaves_all:
            what = "no tool has tags" if self.by_tags else "no tool is marked with meta=in_group(...)"
            found.append(f"The tools of the server {server!r} can't be grouped so: {what}; {_REMEDY}.")
        return found

    def _unmatched(self, server: str, path: str, glob: str, names: Sequence[str]) -> str:
        has = f"has {enumerated(names)}" if names else "has no tools"
        return f"The pattern {glob!r} of the group {path!r} matches no tool: correct it or remove it; {server!r} {has}."


class OwnNames(WireNames):
    """Names on the wire where a server's own tools keep theirs, whatever characters they have.

    `own` maps the names that its tools are registered by to their own.
    """

    def __init__(self) -> None:
        super().__init__(WIRE_SEPARATOR, _LONGEST)
        self.own: dict[str, str] = {}

    def to_wire(self, name: str) -> str:
        """Return the name that clients see."""
        return self.own[name] if name in self.own else super().to_wire(name)

    def knows(self, wire: str) -> bool:
        """Return whether a tool has that name on the wire."""
        try:
            self.from_wire(wire)
        except ToolNotFound:
            return False
        return True


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


def _match(name: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def _matches(glob: str, names: Iterable[str]) -> bool:
    return any(fnmatchcase(name, glob) for name in names)
