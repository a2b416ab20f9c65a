"""Groups of tools and profiles as data in TOML files, and how a tool calls its program."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterable, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen
from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from toolfold import Profile, ToolError, ToolResult

from . import repositories
from .arguments import Element, filled, mentioned
from .files import Files
from .programs import Place, run

HERE = Path(__file__).parent


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolData(_Data):
    """A tool: what it is to the model, and which program it runs, in which way.

    `program` is its name, or several names of which one is enough; without any, the tool is done in this process.
    `stdin` is the parameter that the program reads (an array is a line for each item), `seconds` the one that is its
    time limit, and `inside` are those that must be paths within the working folder. `says` tells statuses that are no
    errors, and what each means where the program prints nothing.
    """

    description: str
    annotations: dict[str, bool]
    program: tuple[str, ...] = ()
    arguments: list[Element] = []
    stdin: str | None = None
    seconds: str | None = None
    inside: tuple[str, ...] = ()
    says: dict[int, str] = {}
    input: dict[str, Any] = {}

    @field_validator("program", mode="before")
    @classmethod
    def _several(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _known(self) -> ToolData:
        used = {*mentioned(self.arguments), self.stdin, self.seconds, *self.inside} - {None}
        if unknown := used - self.input.keys():
            raise ValueError(f"there are no parameters {sorted(map(str, unknown))}")
        return self


class GroupData(_Data):
    """A group: its tools, and what holds for its programs.

    `environment` names the variables that they are given beside the usual ones. `runs_git` says that they are git, or
    run it: in the repository that the parameter `path` names, or in the working folder.
    """

    title: str
    description: str
    environment: tuple[str, ...] = ()
    runs_git: bool = False
    tools: dict[str, ToolData]

    def described(self, found: Container[str]) -> str:
        """Return the description, with what is not offered because its program is missing."""
        missing: dict[str, list[str]] = {}
        for name, tool in self.tools.items():
            if tool.program and name not in found:
                missing.setdefault(" or ".join(tool.program), []).append(name)
        if not missing:
            return self.description
        absent = ", ".join(one if [one] == names else f"{one} ({', '.join(names)})" for one, names in missing.items())
        some = any(name in found for name in self.tools)
        return f"{self.description}. {'Not' if some else 'Empty, since no program of it is'} installed here: {absent}"


@frozen
class Program:
    """The handler of a tool that runs a program; `git` is what looks at a repository before it is used, if any does."""

    path: str
    tool: ToolData
    place: Place
    files: Files
    git: str | None = None

    async def __call__(self, values: dict[str, Any]) -> ToolResult:
        """Run the program and return what it printed; it is an error if it failed or had to be stopped."""
        tool = self.tool
        for path in (path for name in tool.inside for path in _each(values.get(name))):
            self.files.within(path)
        arguments, text = filled(tool.arguments, values), self._input(values)
        if self.git is not None:
            await repositories.check(self.git, values.get("path", "."), self.place)
        place = self.place.within(values.get(tool.seconds) if tool.seconds else None)
        ended = await run(self.path, arguments, place, text)
        printed = "\n".join(part.rstrip("\n") for part in (ended.output, ended.errors) if part)
        if ended.stopped or ended.status not in (0, *tool.says):
            failed = f"{Path(self.path).name} failed: {ended.how}."
            return ToolResult.of_text(f"{failed}\n{printed}" if printed else failed, is_error=True)
        return ToolResult.of_text(printed or tool.says.get(ended.status, "Done; nothing was printed."))

    def _input(self, values: Mapping[str, Any]) -> str | None:
        """Return what the program reads, or `None`."""
        given = values.get(self.tool.stdin) if self.tool.stdin else None
        if not isinstance(given, list):
            return given
        if any("\n" in line for line in given):
            raise ToolError(f"No item of {self.tool.stdin} may have a line break in it; each is a line.")
        return "\n".join(given)


def _each(value: str | list[str] | None) -> list[str]:
    """Return the values of a parameter that may be an array, or absent."""
    return [] if value is None else [value] if isinstance(value, str) else value


def groups() -> dict[str, GroupData]:
    """Return the groups by name."""
    return {file.stem: GroupData.model_validate(_read(file)) for file in sorted((HERE / "groups").glob("*.toml"))}


def profiles() -> Iterable[Profile]:
    """Return the profiles, in the order of document E."""
    return [Profile(name=name, **options) for name, options in _read(HERE / "profiles.toml").items()]


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
