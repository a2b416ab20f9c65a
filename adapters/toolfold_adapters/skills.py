"""Skills as groups: folders with a `SKILL.md`, whose front matter says what they are and need (SPEC SKL-2).

---
name: returns
description: Take books back
allowed-tools: loans.find, loans.close        # or a list; separated by commas or spaces
---
Find the loan first. ...

The text after the front matter is the instructions of the group. The tools are those that the tool set has already:
a skill brings none. Its files are resources, which are listed while the group is open and can be read at any time, as
the extension `io.modelcontextprotocol/skills` has them; `mcp.extensions.skills` answers clients of that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from mimetypes import guess_type
from os import PathLike
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from toolfold import DuplicateName, Group, ManifestError, ToolError, ToolSet, Visibility
from toolfold.errors import similar, warn
from toolfold.spi import frozen, table

from .files import read_text, yaml_in
from .names import wire_name

FILE = "SKILL.md"
"""What makes a folder a skill."""
FRONT_MATTER_META = "io.modelcontextprotocol.skills/frontmatter"
"""In the definition of the resource of a `SKILL.md`: its front matter, if clients of the extension can be given it."""
TOOLS_METADATA = "io.modelcontextprotocol/tools"
"""In the `metadata` of a front matter: the tools that the skill needs, by the working group's draft on skills."""
MOST_FILES = 512
MOST_BYTES = 16 * 1024 * 1024
"""How many files a skill has at most, and of which size together, for all clients to accept it."""

_SKILL_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(-[a-z0-9]+)*")
_MAX_LENGTHS = {"description": 1024, "compatibility": 500}

_FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(?P<data>.*?\n)---[ \t]*\r?(\n(?P<text>.*))?", re.DOTALL)
_NAME = re.compile(r"(?P<name>[^\s,()]+)(\([^)]*\))?")
"""A tool, and what the skill may do with it, which is the host's to enforce: `Bash(git:*)`."""


@frozen(kw_only=True)
class Skill:
    """What the `SKILL.md` in a folder says, and the files beside it.

    `allowed_tools` has for each tool the key of the front matter that names it. `problem` says why clients of the
    extension can't be given it, which would refuse it or the whole list.
    """

    file: Path
    name: str
    description: str
    allowed_tools: Mapping[str, str]
    instructions: str
    front_matter: Mapping[str, Any]
    files: tuple[Path, ...]
    problem: str | None


def include_skill(tools: ToolSet, folder: str | PathLike[str]) -> tuple[Group, ...]:
    """Register what skills there are in a folder in a tool set: see `ToolSet.include_skill`."""
    skills = skills_in(Path(folder))
    with tools.all_or_nothing():
        return tuple(_register(tools, skill) for skill in skills)


def skills_in(folder: Path) -> list[Skill]:
    """Return the skill that a folder is, or those in it, or raise `ManifestError`."""
    return [read_skill(one) for one in _folders(folder)]


def read_skill(folder: Path) -> Skill:
    """Return the skill in a folder, or raise `ManifestError`."""
    file = folder / FILE
    data, text = parts_of(str(file), read_text(file))
    files = _files(folder)
    return Skill(
        file=file,
        name=_name(file, data),
        description=_text(file, data, "description"),
        allowed_tools=_allowed(file, data),
        instructions=text,
        front_matter=data,
        files=files,
        problem=_problem(data, files),
    )


def parts_of(file: str, content: str) -> tuple[dict[str, Any], str]:
    """Return the front matter in the content of a `SKILL.md`, and the text after it, or raise `ManifestError`."""
    found = _FRONT_MATTER.match(content)
    if found is None:
        raise ManifestError(file, "line 1", "it has no front matter: begin with a name and a description in ---")
    data = yaml_in(Path(file), f"\n{found['data']}", "front matter")  # its lines are those of the file
    return data, (found["text"] or "").strip()


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


def _name(file: Path, data: dict[str, Any]) -> str:
    name = _text(file, data, "name")
    if not _SKILL_NAME.fullmatch(name):
        problem = f"{name!r} must be 1 to 64 lower-case letters, digits and single hyphens between them"
        raise ManifestError(str(file), "front matter, name", problem)
    return name


def _text(file: Path, data: dict[str, Any], key: str) -> str:
    value = data.get(key)
    if not isinstance(value, str) or not value.strip():
        problem = "it is missing" if value is None else "it must be a text that is not empty"
        raise ManifestError(str(file), f"front matter, {key}", problem)
    return value.strip()


def _allowed(file: Path, data: dict[str, Any]) -> dict[str, str]:
    metadata = table(data.get("metadata")) or {}
    given = {"allowed-tools": data.get("allowed-tools"), f"metadata, {TOOLS_METADATA}": metadata.get(TOOLS_METADATA)}
    named: dict[str, str] = {}
    for key, value in given.items():
        entries = cast("list[object]", value) if isinstance(value, list) else [value or ""]
        texts = [entry for entry in entries if isinstance(entry, str)]
        if len(texts) != len(entries):
            raise ManifestError(str(file), f"front matter, {key}", "it must be a text, or a list of texts")
        for found in (match["name"] for text in texts for match in _NAME.finditer(text)):
            named.setdefault(found, key)
    return named


def _problem(data: dict[str, Any], files: tuple[Path, ...]) -> str | None:
    """Return what of a skill is not as the Agent Skills format or the extension has it, or `None`."""
    for key in ("description", "license", "compatibility", "allowed-tools"):
        if key in data and not isinstance(data[key], str):
            return f"front matter, {key}: it must be a text"
        if len(data.get(key, "")) > (most := _MAX_LENGTHS.get(key, MOST_BYTES)):
            return f"front matter, {key}: it has more than {most:,} characters"
    metadata = data.get("metadata", {})
    if table(metadata) is None or not all(isinstance(one, str) for pair in metadata.items() for one in pair):
        return "front matter, metadata: it must map texts to texts (write numbers in quotes)"
    if not _is_json(data):
        return "front matter: it has a value that JSON has not, such as a date (write it in quotes)"
    if len(files) > MOST_FILES or sum(one.stat().st_size for one in files) > MOST_BYTES:
        return f"folder: it has more than {MOST_FILES} files or {MOST_BYTES:,} bytes"
    return None


def _is_json(data: dict[str, Any]) -> bool:
    try:
        return bool(json.loads(json.dumps(data, allow_nan=False)) == data)
    except (TypeError, ValueError):
        return False


def _register(tools: ToolSet, skill: Skill) -> Group:
    try:
        group = tools.register_group(skill.name, skill.description, instructions=skill.instructions)
    except DuplicateName as error:
        raise ManifestError(str(skill.file), "front matter, name", str(error).removesuffix(".")) from error
    known = {tool.name: tool.name for tool in tools.catalog.tools.values() if tool.control is None}
    known |= {wire_name(name): name for name in known}
    for name in skill.allowed_tools:
        if name in known:
            tools.share_tool(known[name], group.path)
        else:
            warn(missing(skill, name, known))
    if skill.problem is not None:
        warn(not_served(skill))
    register_files(tools, skill)
    return group


def register_files(tools: ToolSet, skill: Skill) -> None:
    """Register the files of a skill as resources of its group."""
    root = skill.file.parent.resolve()
    for path in skill.files:
        relative = path.relative_to(skill.file.parent).as_posix()
        own = relative == FILE
        meta = {FRONT_MATTER_META: skill.front_matter} if own and skill.problem is None else None
        tools.register_resource(
            f"skill://{skill.name}/{quote(relative)}",
            _contents_of(path, relative, root),
            name=skill.name if own else relative,
            description=skill.description if own else None,
            group=skill.name,
            always=True,
            visible=Visibility.group(skill.name),
            mime_type="text/markdown" if own else guess_type(path.name)[0],
            meta=meta,
        )


def missing(skill: Skill, name: str, known: Mapping[str, str]) -> str:
    """Return a sentence on a tool that a skill needs; `known` maps what tools may be called to their names."""
    near = dict.fromkeys(known[one] for one in similar(name, list(known)))
    hint = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
    place = f"{skill.file}, front matter, {skill.allowed_tools[name]}"
    return f"{place}: skill {skill.name!r} needs {name!r}, and no tool has this name.{hint}"


def not_served(skill: Skill) -> str:
    """Return a sentence on a skill that is a group, and that clients of the extension can't be given."""
    return f"{skill.file}, {skill.problem}; so {skill.name!r} is a group, and not in skills/list."


def _files(folder: Path) -> tuple[Path, ...]:
    """Return the files of a folder in order; what a link leads to outside is none of them."""
    root = folder.resolve()
    found = [path for path in sorted(folder.rglob("*")) if _within(path, root) is not None]
    return tuple(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _within(path: Path, root: Path) -> Path | None:
    """Return the file that a path leads to, if that is in a folder, which is a path without links, and no pipe."""
    with suppress(OSError, RuntimeError):  # the latter for a loop of links, before Python 3.13
        target = path.resolve(strict=True)
        if target.is_file() and target.is_relative_to(root):
            return target
    return None


def _contents_of(path: Path, relative: str, root: Path) -> Callable[[], str | bytes]:
    def read() -> str | bytes:
        if (target := _within(path, root)) is None:  # it may have become a link to somewhere else
            raise ToolError(f"The skill has no file {relative!r} any more.")
        data = target.read_bytes()
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data

    return read
