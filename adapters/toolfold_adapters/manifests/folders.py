"""Groups of tools as data: JSON files that are read into a `ToolSet` (SPEC GRP-1, GRP-2).

A file that contains an array is a group, named after the file (`web.search.json` is the group `search` in `web`); each
element is a tool. A first element with `"_meta": true` may have the group's `display_name`, `description` and
`instructions`. A file that contains one object is one tool in no group.

A tool has a `name`, a `description`, and the JSON Schema of its arguments as `parameters` or `inputSchema`; without a
schema it takes no arguments. It may have `title`, `outputSchema`, `annotations`, `icons`, `category`, `tags`, `hidden`,
and a `function`: another name to find its handler by. Other keys are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

from attrs import field

from toolfold import Component, Group, InvalidDefinition, ManifestError, ToolfoldError, ToolSet
from toolfold.spi import frozen, plain_json, table

from ..files import data_in, read_text

Find = Callable[[str], Callable[..., Any] | None]
_NO_ARGUMENTS: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
Handlers = Mapping[str, Callable[..., Any]] | Find
"""Finds the handler of a tool by name: a mapping, or a function that returns `None` or raises for an unknown name."""

_OPTIONS = {
    "description": "description",
    "title": "title",
    "outputSchema": "output_schema",
    "annotations": "annotations",
    "icons": "icons",
    "category": "category",
    "tags": "tags",
    "hidden": "hidden",
}
TOOL_KEYS = ("name", *_OPTIONS, "parameters", "inputSchema", "flat", "function", "_meta")
"""The keys of a tool that mean something here."""


@frozen
class ManifestReport:
    """The result of loading manifests: the groups and tools that were registered, and the errors."""

    groups: tuple[Group, ...] = ()
    tools: tuple[Component, ...] = ()
    errors: tuple[ManifestError, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything was loaded."""
        return not self.errors

    def __str__(self) -> str:
        head = f"{len(self.groups)} group(s) and {len(self.tools)} tool(s) loaded, {len(self.errors)} error(s)"
        return "\n".join([head, *map(str, self.errors)])


def load_manifests(
    tools: ToolSet, *paths: str | PathLike[str], handlers: Handlers, flat: bool = True, strict: bool = False
) -> ManifestReport:
    """Register the groups and tools of manifest files and return what was loaded, and the errors.

    An invalid entry or file is reported, and everything else is loaded. A group is registered with all its valid tools,
    or, if it has none, not at all.

    SPEC GRP-1, GRP-2.

    Args:
        tools: The tool set to register them in.
        paths: Files, and folders whose `.json` files are read in order of name.
        handlers: Finds the handler of each tool, by its name or else by its `function`.
        flat: Whether tools keep their names unchanged; otherwise they are qualified by the group (SPEC NAM-5).
        strict: Raise instead of reporting, and register nothing then.

    Raises:
        ManifestError: With `strict`, the first error; the others are its notes.
    """
    loader = _Loader(tools, handlers if callable(handlers) else handlers.get, flat)
    with tools.all_or_nothing():
        for path in paths:
            for file in loader.files(Path(path)):
                loader.load(file)
        if strict and loader.errors:
            first, *others = loader.errors
            for other in others:
                first.add_note(str(other))
            raise first
    return ManifestReport(tuple(loader.groups), tuple(loader.components), tuple(loader.errors))


class InvalidEntry(Exception):
    """An entry is not a valid tool, or a file not a valid group."""


@frozen
class _Loader:
    """One call of `load_manifests`, and its results so far."""

    tools: ToolSet
    find: Find
    flat: bool
    groups: list[Group] = field(factory=list[Group])
    components: list[Component] = field(factory=list[Component])
    errors: list[ManifestError] = field(factory=list[ManifestError])

    def report(self, file: Path, position: str, problem: object) -> None:
        self.errors.append(ManifestError(str(file), position, problem_of(problem)))

    def files(self, path: Path) -> Iterable[Path]:
        """Return the files of a folder, or the file itself."""
        if not path.is_dir():
            return (path,)
        try:
            found = [file for file in path.iterdir() if file.suffix == ".json"]
        except OSError as error:
            self.report(path, "folder", f"it can't be read: {error.strerror}")
            return ()
        if not found:
            self.report(path, "folder", "it contains no .json file")
        return sorted(found, key=lambda file: file.stem.split("."))

    def load(self, file: Path) -> None:
        """Load one file: a group, or a single tool in no group."""
        try:
            content = data_in(file, read_text(file))
        except ManifestError as error:
            self.errors.append(error)
            return
        if isinstance(content, list):
            self.group(file, cast("list[object]", content))
        elif "name" in (table(content) or {}):
            self.components.extend(self.tool(file, "file", content, None))
        else:
            self.report(file, "file", "it must contain an array of tools, or one object that is a tool and has a name")

    def group(self, file: Path, entries: list[object]) -> None:
        """Load a group with all its valid tools, or nothing if there are none."""
        about = self.about(file, entries[0]) if entries and _is_meta(entries[0]) else {}
        title = about.get("display_name", _display_name(file.stem))
        description = about.get("description", f"Tools from {file.stem} group")
        made: list[Component] = []
        try:
            with self.tools.all_or_nothing():
                group = self.tools.register_group(
                    file.stem, description, instructions=about.get("instructions"), title=title
                )
                for number, entry in enumerate(entries):
                    if number > 0 or not _is_meta(entry):
                        made.extend(self.tool(file, position_of(number, entry), entry, group.path))
                if not made:
                    raise InvalidEntry("it has no tools that can be loaded, so it was left out")
        except (InvalidEntry, ToolfoldError) as error:
            self.report(file, "group", error)
        else:
            self.groups.append(group)
            self.components.extend(made)

    def about(self, file: Path, meta: object) -> dict[str, str]:
        """Return the texts in the `_meta` element of a group; values that are not strings are reported and left out."""
        texts: dict[str, str] = {}
        for key in ("display_name", "description", "instructions"):
            try:
                text = plain_json("_meta", (table(meta) or {}).get(key), key)
                if not isinstance(text, str | None):
                    raise InvalidDefinition("_meta", f"its {key} is {type(text).__name__}, and must be a text")
            except InvalidDefinition as error:
                self.report(file, position_of(0, meta), error)
            else:
                texts |= {} if text is None else {key: text}
        return texts

    def tool(self, file: Path, position: str, entry: object, group: str | None) -> tuple[Component, ...]:
        """Register one tool and return its component, or report why it can't be."""
        try:
            name, function, options = tool_of(entry)
            handler = self.handler(name, function)
            flat = group is not None and self.flat
            return (self.tools.register(name, handler, group=group, flat=flat, **options),)
        except (InvalidEntry, ToolfoldError) as error:
            self.report(file, position, error)
            return ()

    def handler(self, *names: object) -> Callable[..., Any]:
        """Return the first handler that is found by one of the names."""
        asked = [name for name in names if isinstance(name, str)]
        for name in asked:
            try:
                found = self.find(name)
            except (LookupError, AttributeError):
                continue
            if found is not None:
                return found
        raise InvalidEntry(f"there is no handler for {' or '.join(map(repr, asked))}")


def tool_of(entry: object) -> tuple[str, object, dict[str, Any]]:
    """Return the name, the function and the registration options of an entry, or raise `InvalidEntry`."""
    given = table(entry)
    if given is None:
        raise InvalidEntry("a tool must be an object")
    if _is_meta(given):
        raise InvalidEntry("a _meta element must be the first in its file, and is not a tool")
    name = given.get("name")
    if not isinstance(name, str):
        raise InvalidEntry("it has no name" if name is None else "its name must be a string")
    either = (given.get("parameters"), given.get("inputSchema"))
    schema = next((one for one in either if one is not None), _NO_ARGUMENTS)
    if not isinstance(given.get("hidden", False), bool):
        raise InvalidEntry("its hidden must be true or false")
    for key in ("icons", "tags"):
        if not isinstance(given.get(key, []), list):
            raise InvalidEntry(f"its {key} must be a list")
    options = {option: given[key] for key, option in _OPTIONS.items() if given.get(key) is not None}
    options.setdefault("description", "")  # not the docstring of a handler, which several tools may share
    return name, given.get("function"), {**options, "input_schema": schema, "meta": given.get("_meta")}


def _is_meta(entry: object) -> bool:
    return (table(entry) or {}).get("_meta") is True


def position_of(number: int, entry: object) -> str:
    """Return the position of an entry: its number, from 1, and its name if it has one."""
    name = (table(entry) or {}).get("name")
    return f"entry {number + 1} ({name})" if isinstance(name, str) and name.isprintable() else f"entry {number + 1}"


def _display_name(path: str) -> str:
    """Return the default display name of a group: `google_gmail` becomes `Google Gmail`."""
    words = path.rpartition(".")[2].replace("_", " ").split()
    return " ".join(word[:1].upper() + word[1:] for word in words)


def problem_of(problem: object) -> str:
    """Return what is wrong as a clause, to follow the place of it."""
    given = problem.problem if isinstance(problem, InvalidDefinition) else str(problem)
    return given.removesuffix(".")
