"""Skills as groups: folders with a `SKILL.md`, whose front matter says what they are and need (SPEC SKL-2).

---
name: returns
description: Take books back
allowed-tools: loans.find, loans.close        # or a list; separated by commas or spaces
---
Find the loan first. ...

The text after the front matter is the instructions of the group. The tools are those that the tool set has already:
a skill brings none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from mimetypes import guess_type
from os import PathLike
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote
from warnings import warn

from attrs import frozen

from toolfold import ConfigError, GroupSpec, ManifestError, ToolfoldWarning, ToolSet

from .manifests import read_text
from .names import WIRE_SEPARATOR
from .yaml_data import yaml_in

FILE = "SKILL.md"
"""What makes a folder a skill."""

_FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<data>.*?\n)---[ \t]*(\n(?P<text>.*))?", re.DOTALL)
_NAME = re.compile(r"(?P<name>[^\s,()]+)(\([^)]*\))?")
"""A tool, and what the skill may do with it, which is the host's to enforce: `Bash(git:*)`."""


@frozen(kw_only=True)
class Skill:
    """What the `SKILL.md` in a folder says."""

    file: Path
    name: str
    description: str
    allowed_tools: tuple[str, ...]
    instructions: str


def include_skill(tools: ToolSet, folder: str | PathLike[str]) -> tuple[GroupSpec, ...]:
    """Register a skill as a group, or each of those in a folder, and return the groups (SPEC SKL-2, REG-1).

    The tools that a skill allows can be called while it is open, as well as while their own groups are; so they have to
    be registered before. One that is missing is reported by a `ToolfoldWarning`. The files of the folder are resources
    of the group, `skill://NAME/PATH`, but for those whose names begin with a dot.

    Args:
        tools: The tool set to register them in.
        folder: A folder with a `SKILL.md`, or one of such folders.

    Raises:
        ManifestError: There is no skill, or what it says is wrong; nothing was registered.
        InvalidName, DuplicateName: A skill can't be called so, or a group is; nothing was registered.
    """
    skills = skills_in(Path(folder))
    with tools.all_or_nothing():
        return tuple(_register(tools, skill) for skill in skills)


def skills_in(folder: Path) -> list[Skill]:
    """Return the skill that a folder is, or those in it, or raise `ManifestError`."""
    return [read_skill(one) for one in _folders(folder)]


def read_skill(folder: Path) -> Skill:
    """Return the skill in a folder, or raise `ManifestError`."""
    file = folder / FILE
    found = _FRONT_MATTER.match(read_text(file))
    if found is None:
        raise ManifestError(str(file), "line 1", "it has no front matter: begin with a name and a description in ---")
    try:
        data = yaml_in(file, found["data"])
    except ConfigError as error:
        raise ManifestError(str(file), "front matter", str(error).removesuffix(".")) from error
    return Skill(
        file=file,
        name=_text(file, data, "name"),
        description=_text(file, data, "description"),
        allowed_tools=_allowed(file, data.get("allowed-tools")),
        instructions=(found["text"] or "").strip(),
    )


def has_skills(folder: Path) -> bool:
    """Return whether a path is that of a folder with a skill, or with folders that are."""
    try:
        return (folder / FILE).is_file() or any(folder.glob(f"*/{FILE}"))
    except OSError:  # it may be no path at all, such as a name that is too long for one
        return False


def _folders(folder: Path) -> list[Path]:
    if (folder / FILE).is_file():
        return [folder]
    found = sorted(file.parent for file in folder.glob(f"*/{FILE}"))
    if not found:
        raise ManifestError(str(folder), "folder", f"neither it nor a folder in it contains a {FILE}")
    return found


def _text(file: Path, data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        problem = "it is missing" if value is None else "it must be a text that is not empty"
        raise ManifestError(str(file), f"front matter, {key}", problem)
    return value.strip()


def _allowed(file: Path, given: object) -> tuple[str, ...]:
    entries = cast("list[object]", given) if isinstance(given, list) else [given or ""]
    texts = [entry for entry in entries if isinstance(entry, str)]
    if len(texts) != len(entries):
        raise ManifestError(str(file), "front matter, allowed-tools", "it must be a text, or a list of texts")
    return tuple(dict.fromkeys(found["name"] for text in texts for found in _NAME.finditer(text)))


def _register(tools: ToolSet, skill: Skill) -> GroupSpec:
    group = tools.register_group(skill.name, skill.description, instructions=skill.instructions)
    known = {tool.name: tool.name for tool in tools.catalog.tools.values() if tool.control is None}
    known |= {name.replace(".", WIRE_SEPARATOR): name for name in known}
    for name in skill.allowed_tools:
        if name in known:
            tools.share_tool(known[name], group.path)
        else:
            warn(missing(skill, name, known), ToolfoldWarning, stacklevel=4)
    register_files(tools, skill)
    return group


def register_files(tools: ToolSet, skill: Skill) -> None:
    """Register the files of a skill as resources of its group."""
    for path in _files(skill.file.parent):
        relative = path.relative_to(skill.file.parent).as_posix()
        uri, kind = f"skill://{skill.name}/{quote(relative)}", guess_type(path.name)[0]
        tools.register_resource(uri, _contents_of(path), name=relative, group=skill.name, mime_type=kind)


def missing(skill: Skill, name: str, known: Mapping[str, str]) -> str:
    """Return a sentence on a tool that a skill needs; `known` maps what tools may be called to their names."""
    near = dict.fromkeys(known[one] for one in get_close_matches(name, known))
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    place = f"{skill.file}, front matter, allowed-tools"
    return f"{place}: skill {skill.name!r} needs {name!r}, and no tool has this name.{hint}"


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder; what a link leads to outside is none of them."""
    root = folder.resolve()
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file() and path.resolve().is_relative_to(root):
            yield path


def _contents_of(path: Path) -> Callable[[], str | bytes]:
    def read() -> str | bytes:
        data = path.read_bytes()
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    return read
