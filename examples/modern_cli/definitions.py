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
    """A tool: its definition for the model, and the program that it runs.

    `program` is the name of the program, or alternatives; a tool without one runs in this process. `stdin` names the
    parameter that is passed on standard input (an array as lines), `seconds` the one with the time limit, and `inside`
    those that must be paths within the working folder. `says` has the exit statuses that are not errors, each with a
    text for when the program prints nothing.
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
    """A group: its tools, and options for its programs.

    `environment` names variables that they get besides the usual ones. `runs_git` states that they are git or run it,
    in the repository at the parameter `path` or else in the working folder.
    """

    title: str
    description: str
    environment: tuple[str, ...] = ()
    runs_git: bool = False
    tools: dict[str, ToolData]

    def described(self, found: Container[str]) -> str:
        """Return the description, with the tools that are not offered because their programs are missing."""
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
    """The handler of a tool that runs a program; with `git`, it checks the repository first."""

    path: str
    tool: ToolData
    place: Place
    files: Files
    git: str | None = None

    async def __call__(self, values: dict[str, Any]) -> ToolResult:
        """Run the program and return its output, as an error if it failed or was stopped."""
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
        """Return the program's standard input, or `None`."""
        given = values.get(self.tool.stdin) if self.tool.stdin else None
        if not isinstance(given, list):
            return given
        if any("\n" in line for line in given):
            raise ToolError(f"Items of {self.tool.stdin} can't contain line breaks; each is passed as a line.")
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
