"""What a server that was not made for the kit offers: its groups, their tools, and how they are opened and closed.

A description is data, from a TOML file::

    [server]                                # optional; what else is in it is for whoever starts the server
    starts_active = ["core"]                # groups that are open in a new session, and are closed first
    handles = "arguments"                   # how a modern handle travels, unless in _meta
    relevant_controls = true                # a control is there only while it could do something

    [[group]]
    path = "files.edit"                     # the parent is "files"
    tools = ["write_note"]                  # as clients see them
    activate = { tool = "activate_files_edit", arguments = {} }
    deactivate = { tool = "deactivate_files_edit" }

    [[exclusion]]
    groups = ["sandbox", "live"]

or what a list of tools shows: names that end in `open` and `close`, or `activate` and `deactivate`, after a dot or
`__`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
from attrs import field, frozen

from toolfold_specs.driver import Group, Setup, Tool

WIRE_SEPARATOR = "__"
"""What stands for the dot in names unless a description says otherwise (SPEC NAM-6)."""
SEPARATORS = (".", WIRE_SEPARATOR)
VERBS = {"activate": "activate", "deactivate": "deactivate", "open": "activate", "close": "deactivate"}
"""What the control tools of a group do, by the ends of their names."""
"""What may stand between the segments of a tool's name; a group's path always has dots."""


class DescriptionError(Exception):
    """A description can't be read; the message says where and why."""


@frozen
class ControlCall:
    """A call of a tool, as it opens or closes a group."""

    tool: str
    arguments: Mapping[str, Any] = field(factory=dict[str, Any])

    def renamed(self, path: str, other: str) -> ControlCall | None:
        """Return the same for another group, by its path in the tool's name or an argument; None if there is none."""
        for separator in (*SEPARATORS, "_"):
            shown, put = path.replace(".", separator), other.replace(".", separator)
            if shown in self.tool:
                return ControlCall(self.tool.replace(shown, put), self.arguments)
            if shown in self.arguments.values():
                return ControlCall(
                    self.tool, {name: put if value == shown else value for name, value in self.arguments.items()}
                )
        return None


@frozen
class Described:
    """A group: its path, the names of its tools, and the calls that open and close it."""

    path: str
    tools: tuple[str, ...]
    activate: ControlCall
    deactivate: ControlCall | None = None


@frozen
class Description:
    """All that is known of a server's groups."""

    groups: tuple[Described, ...] = ()
    exclusions: tuple[tuple[str, ...], ...] = ()
    starts_active: tuple[str, ...] = ()
    handles: str = "meta"
    relevant_controls: bool = False
    names_errors: bool = False
    """Whether refusals are known to say which error they are, as those of a tool set do."""

    @property
    def setup(self) -> Setup:
        """The same as a system for the oracle; its tools are named by their labels."""
        groups = [Group(group.path, deactivator=group.deactivate is not None) for group in self.groups]
        labels = self.labels
        owned = [(group.path, labels[tool]) for group in self.groups for tool in group.tools if tool in labels]
        tools = [Tool(label.removeprefix(f"{path}."), path, flat=label == _base(label, path)) for path, label in owned]
        return Setup(groups, self.exclusions, tools, relevant_controls=self.relevant_controls)

    @property
    def labels(self) -> Mapping[str, str]:
        """For each tool of one group the name that it has in the setup: with dots, if it has the group's path."""
        owners: dict[str, list[str]] = {}
        for group in self.groups:
            for tool in group.tools:
                owners.setdefault(tool, []).append(group.path)
        single = {tool: paths[0] for tool, paths in owners.items() if len(paths) == 1}
        bases = {tool: _base(tool, path) for tool, path in single.items()}
        return {tool: tool if bases[tool] == tool else f"{path}.{bases[tool]}" for tool, path in single.items()}


def load(path: Path) -> Description:
    """Return the description in a TOML file.

    Raises:
        DescriptionError: It can't be read, or is wrong somewhere.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DescriptionError(f"{path} can't be read: {error.strerror}.") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise DescriptionError(f"{path} can't be read: {error}") from error
    try:
        return parse(data)
    except DescriptionError as error:
        raise DescriptionError(f"{path}: {error}") from error


def parse(data: Mapping[str, Any]) -> Description:
    """Return the description in the data of a TOML file; raises `DescriptionError`."""
    if (error := next(_validator().iter_errors(data), None)) is not None:
        raise DescriptionError(f"{'/'.join(map(str, error.instance_path)) or 'the file'}: {error.message}")
    groups = tuple(_group(entry) for entry in data.get("group", ()))
    paths = [group.path for group in groups]
    for path in paths:
        if paths.count(path) > 1:
            raise DescriptionError(f"the group {path!r} is described twice")
        if "." in path and path.rpartition(".")[0] not in paths:
            raise DescriptionError(f"the group {path!r} has no parent: describe {path.rpartition('.')[0]!r} too")
    server = data.get("server", {})
    starts = tuple(server.get("starts_active", ()))
    exclusions = tuple(tuple(entry["groups"]) for entry in data.get("exclusion", ()))
    for named in (*starts, *(path for members in exclusions for path in members)):
        if named not in paths:
            there = ", ".join(paths) or "there are none"
            raise DescriptionError(f"{named!r} is no group that is described: {there}")
    return Description(
        groups, exclusions, starts, server.get("handles", "meta"), server.get("relevant_controls", False)
    )


def is_control(name: str) -> bool:
    """Return whether a name looks like that of a control tool."""
    return _controlled(name) is not None


def only_sounds_like_control(definition: Mapping[str, Any]) -> bool:
    """Return whether a tool that is called as what opens or closes a group can't be that, as it needs arguments.

    `activate` and `deactivate` are reserved for control tools (NAM-4); `files.open` may be any tool.
    """
    name, schema = str(definition["name"]), cast("Mapping[str, Any]", definition.get("inputSchema") or {})
    return name.endswith(("open", "close")) and is_control(name) and bool(schema.get("required"))


def catalog_name(name: str) -> str:
    """Return the name of a control tool with dots, as in a catalog; any other name unchanged."""
    found = _controlled(name)
    return name if found is None else f"{found[1]}.{found[0]}"


def _controlled(name: str) -> tuple[str, str] | None:
    """Return the verb and the group's path in a control tool's name; None for any other name."""
    for separator in SEPARATORS:
        group, _, verb = name.rpartition(separator)
        if group and verb in VERBS:
            return VERBS[verb], group.replace(separator, ".")
    return None


def _base(tool: str, path: str) -> str:
    """Return the name of a tool without the path of its group, if it begins with that."""
    for separator in SEPARATORS:
        prefix = path.replace(".", separator) + separator
        if tool.startswith(prefix):
            return tool.removeprefix(prefix)
    return tool


def infer(names: Iterable[str]) -> Description:
    """Return the groups that control tools such as `files.edit.activate` name; their own tools remain to be found."""
    calls = {found: ControlCall(name) for name in sorted(names) if (found := _controlled(name)) is not None}
    paths = sorted((path for verb, path in calls if verb == "activate"), key=_canonical)
    retained = [path for path in paths if "." not in path or path.rpartition(".")[0] in paths]
    return Description(
        tuple(Described(path, (), calls["activate", path], calls.get(("deactivate", path))) for path in retained)
    )


def _canonical(path: str) -> list[str]:
    return path.split(".")


def _group(entry: Mapping[str, Any]) -> Described:
    path = entry["path"]
    parent = entry.get("parent", path.rpartition(".")[0])
    if parent != path.rpartition(".")[0]:
        raise DescriptionError(f"the path of a group begins with its parent's: call {path!r} {f'{parent}.{path}'!r}")
    deactivate = ControlCall(**entry["deactivate"]) if "deactivate" in entry else None
    return Described(path, tuple(entry.get("tools", ())), ControlCall(**entry["activate"]), deactivate)


@cache
def _validator() -> jsonschema_rs.Validator:
    """Return what checks the form of a description."""
    names = {"type": "array", "items": {"type": "string"}}
    call = _table(["tool"], tool={"type": "string"}, arguments={"type": "object"})
    text = {"type": "string", "minLength": 1}
    group = _table(["path", "activate"], path=text, parent=text, tools=names, activate=call, deactivate=call)
    exclusion = _table(["groups"], groups={**names, "minItems": 2, "uniqueItems": True})
    handles, relevant = {"enum": ["meta", "arguments"]}, {"type": "boolean"}
    server = {
        **_table([], starts_active=names, handles=handles, relevant_controls=relevant),
        "additionalProperties": True,
    }
    groups, exclusions = ({"type": "array", "items": one} for one in (group, exclusion))
    return jsonschema_rs.validator_for(_table([], group=groups, exclusion=exclusions, server=server))


def _table(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
