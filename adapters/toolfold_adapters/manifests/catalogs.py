"""A catalog as data: one file of TOML or JSON with groups and tools, without a program behind them.

It can be drawn, inspected, and served as a preview, in which every call returns an error; with handlers, it is a tool
set like any other.

name = "shop"                             # the name of the file otherwise
exclusions = [["orders", "cellar"]]       # sets of groups of which at most one is active

[groups.orders]                           # [groups."orders.returns"], or parent = "orders", is inside it
description = "Take orders"               # and instructions, title, pinned, opens_on: see `toolfold.GroupOptions`
tools = ["cancel", { name = "place", description = "Order an item" }]

[[tools]]                                 # tools that are in no group; for the keys of a tool, see `folders`
name = "hours"
parameters = { type = "object" }

[profiles.till]
active = ["orders"]                       # and available, description, read_only

[options]
control = "per_group"                     # and control_visibility, on_hidden, max_active, evict, page_size

A JSON file has the same keys; others of the file and of tools are ignored there, so a stored answer to `tools/list` is
a catalog too. One that has
an array is a manifest: a single group (SPEC GRP-1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from attrs import evolve, field, fields

from toolfold import ConfigError, ManifestError, Profile, ToolError, ToolfoldError, ToolSet
from toolfold.spi import frozen, table

from ..files import data_in, quoted_key, read_text
from ..hosts import SECTIONS
from ..profiles import in_their_parents
from .folders import (
    TOOL_KEYS,
    Handlers,
    InvalidEntry,
    load_manifests,
    position_of,
    problem_of,
    tool_of,
)

KEYS = ("name", "exclusions", "groups", "tools", "profiles", "options")
OPTIONS = ("control", "control_visibility", "on_hidden", "max_active", "evict", "page_size")
"""The options of a tool set that a catalog may have; see `toolfold.ToolSet`."""

_OF_SERVERS = ("upstream", "upstreams", *(section.partition(".")[0] for section in SECTIONS))
_PROFILE = tuple(attribute.name for attribute in fields(Profile) if attribute.name != "name")


def is_catalog(path: str | Path) -> bool:
    """Return whether a file has a catalog in it, and not something else, such as a configuration of servers."""
    try:
        data = data_in(Path(path), read_text(Path(path)))
    except ManifestError:
        return False
    if (given := table(data)) is None:
        return isinstance(data, list)
    return given.keys().isdisjoint(_OF_SERVERS) and not given.keys().isdisjoint(("groups", "tools"))


def load_catalog(path: str | Path, *, handlers: Handlers | None = None, **options: Any) -> ToolSet:
    """Return the tool set that a file describes.

    Args:
        path: A `.toml` or `.json` file.
        handlers: Finds the handler of each tool, as in `load_manifests`; without it, every call returns an error that
            says that this is a preview.
        options: Some of `OPTIONS`, which go over those in the file.

    Raises:
        ManifestError: The file can't be read.
        ConfigError: Something in it is wrong; the message has a sentence for each problem, with its place in the file.
    """
    file = Path(path)
    data = data_in(file, read_text(file))
    find = handlers if callable(handlers) else handlers.get if handlers is not None else _preview(file)
    if isinstance(data, list):
        tools = ToolSet(file.stem, **options)
        problems = list(load_manifests(tools, file, handlers=find, flat=False).errors)
    else:
        reader = _Reader(file, find)
        tools = reader.tool_set(table(data) or {}, options)
        problems = reader.problems
    if problems:
        raise ConfigError("\n".join(map(str, problems)))
    return tools


def _preview(file: Path) -> Callable[[str], Callable[..., Any]]:
    def handler_of(name: str) -> Callable[..., Any]:
        def refuse(**_: Any) -> None:
            raise ToolError(f"This is a preview: {file.name} describes {name!r}, and no program runs it.")

        return refuse

    return handler_of


@frozen
class _Reader:
    """Reads one file; problems are collected, and the rest is read."""

    file: Path
    find: Callable[[str], Callable[..., Any] | None]
    problems: list[ManifestError] = field(factory=list[ManifestError])

    def tool_set(self, data: Mapping[str, Any], options: Mapping[str, Any]) -> ToolSet:
        """Return what the data describe."""
        tools = ToolSet(self.file.stem)
        with self.at("the top of the file"):
            hint = "the configuration of a gateway has [upstream] or [upstreams.NAME]"
            self.check_keys(data, KEYS, hint, in_json=False)
        with self.at("[options]"):
            given = self.table(data, "options")
            self.check_keys(given, OPTIONS)
            tools = ToolSet(data.get("name", self.file.stem), **{**given, **options})
        entries = [*self.groups(tools, data), *self.entries(None, "[[tools]]", data)]
        for group, place, entry in entries:
            with self.at(place):
                self.tool(tools, group, entry)
        for number, members in enumerate(self.list(data, "exclusions"), 1):
            with self.at(f"exclusions, set {number}"):
                tools.register_exclusion(*_texts("the set", members))
        for profile in self.profiles(data):
            with self.at(f"[profiles.{quoted_key(profile.name)}]"):
                tools.register_profile(profile)
        return tools

    def profiles(self, data: Mapping[str, Any]) -> tuple[Profile, ...]:
        """Return the profiles, with those that they are within."""
        alone: dict[str, Profile] = {}
        parents: dict[str, str | None] = {}
        for name, profile in self.tables(data, "profiles"):
            with self.at(f"[profiles.{quoted_key(name)}]"):
                self.check_keys(profile, _PROFILE)
                if not isinstance(parent := profile.get("within"), str | None):
                    raise InvalidEntry("within must be the name of a profile")
                given: dict[str, Any] = {**profile, "name": name, "within": None}
                alone[name], parents[name] = Profile(**given), parent
        with self.at("[profiles]"):
            return in_their_parents(parents, lambda name, parent: evolve(alone[name], within=parent))
        return ()

    def groups(self, tools: ToolSet, data: Mapping[str, Any]) -> Iterator[tuple[str | None, str, object]]:
        """Register the groups, parents first, and yield the tools in them with their places in the file."""
        found = [
            (f"{group['parent']}.{name}" if group.get("parent") else name, name, group)
            for name, group in self.tables(data, "groups")
        ]
        for path, name, group in sorted(found, key=lambda each: each[0].count(".")):
            place = f"[groups.{quoted_key(name)}]"
            with self.at(place):
                options = {key: value for key, value in group.items() if key not in ("tools", "parent")}
                registered = tools.register_group(path, options.pop("description", ""), **options)
                yield from self.entries(registered.path, place, group)

    def entries(
        self, group: str | None, place: str, data: Mapping[str, Any]
    ) -> Iterator[tuple[str | None, str, object]]:
        """Yield the tools of a group, or those at the top, with their places."""
        for number, entry in enumerate(self.list(data, "tools", place)):
            given = {"name": entry} if isinstance(entry, str) else entry
            yield group, f"{place}, {position_of(number, given)}", given

    def tool(self, tools: ToolSet, group: str | None, entry: object) -> None:
        """Register a tool."""
        name, function, options = tool_of(entry)
        if any(sign in name for sign in "*?["):
            raise InvalidEntry(f"{name!r} is a pattern: name a tool, or add [upstream], whose tools it is to match")
        given = table(entry) or {}
        self.check_keys(given, TOOL_KEYS, in_json=False)
        handler = self.find(name) or (self.find(function) if isinstance(function, str) else None)
        if handler is None:
            raise InvalidEntry(f"there is no handler for {name!r}")
        tools.register(name, handler, group=group, flat=given.get("flat"), **options)

    @contextmanager
    def at(self, place: str) -> Generator[None]:
        """Collect what is raised within as a problem at a place in the file."""
        try:
            yield
        except (InvalidEntry, ToolfoldError, TypeError) as error:
            self.problems.append(ManifestError(str(self.file), place, problem_of(error)))

    def check_keys(
        self, data: Mapping[str, Any], keys: Collection[str], hint: str = "", *, in_json: bool = True
    ) -> None:
        """Raise `InvalidEntry` at a key that is not known; `in_json` says whether also in a JSON file."""
        for key in data:
            if key not in keys and (in_json or self.file.suffix.lower() == ".toml"):
                more = f"; {hint}" if hint else ""
                raise InvalidEntry(f"{key} is not known here: remove it, or use one of {', '.join(keys)}{more}")

    def table(self, data: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Return a table in the data, which is empty if it is not given."""
        found = table(data.get(key, {}))
        if found is None:
            raise InvalidEntry(f"{key} must be a table")
        return found

    def tables(self, data: Mapping[str, Any], key: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
        """Yield the tables in a table by name; a value that is none is a problem."""
        found: Mapping[str, Any] = {}
        with self.at("the top of the file"):
            found = self.table(data, key)
        for name, value in found.items():
            with self.at(f"[{key}]"):
                if (inner := table(value)) is None:
                    raise InvalidEntry(f"{name} must be a table")
                yield name, inner

    def list(self, data: Mapping[str, Any], key: str, place: str = "the top of the file") -> list[object]:
        """Return a list in the data, which is empty if it is not given; a value that is none is a problem."""
        found = data.get(key, [])
        with self.at(place):
            if not isinstance(found, list):
                raise InvalidEntry(f"{key} must be a list")
            return cast("list[object]", found)
        return []


def _texts(name: str, value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in cast("list[object]", value)):
        raise InvalidEntry(f"{name} must be a list of texts")
    return cast("list[str]", value)
