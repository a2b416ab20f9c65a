"""What is offered, as data: groups of tools and profiles in TOML files, and how a tool calls its program."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterable
from pathlib import Path
from typing import Any

from attrs import frozen
from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from toolfold import Profile, ToolResult

from .arguments import Element, filled, mentioned
from .files import Files
from .programs import Place, run

HERE = Path(__file__).parent


class _Data(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ToolData(_Data):
    """A tool: what it is to the model, and which program it runs, in which way.

    `program` is its name, or several names of which one is enough; without any, the tool is done in this process.
    `stdin` is the parameter that the program reads, `seconds` the one that is its time limit, and `inside` are those
    that must be paths within the working folder. `says` tells statuses that are no errors, and what each means where
    the program prints nothing.
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
    """A group: its tools, and the variables that its programs are given beside the usual ones."""

    title: str
    description: str
    environment: tuple[str, ...] = ()
    tools: dict[str, ToolData]

    def described(self, found: Container[str]) -> str:
        """Return the description, with what is not offered because its program is missing."""
        missing: dict[str, list[str]] = {}
        for name, tool in self.tools.items():
            if tool.program and name not in found:
                missing.setdefault(" or ".join(tool.program), []).append(name)
        if not missing:
            return self.description
        told = ", ".join(one if [one] == names else f"{one} ({', '.join(names)})" for one, names in missing.items())
        some = any(name in found for name in self.tools)
        return f"{self.description}. {'Not' if some else 'Empty, since no program of it is'} installed here: {told}"


@frozen
class Program:
    """The handler of a tool that runs a program."""

    path: str
    tool: ToolData
    place: Place
    files: Files

    async def __call__(self, values: dict[str, Any]) -> ToolResult:
        """Run the program and return what it printed; it is an error if it failed or had to be stopped."""
        tool = self.tool
        values = {**values, **{name: str(self.files.at(values[name])) for name in tool.inside}}
        given = values.get(tool.stdin) if tool.stdin else None
        text = "\n".join(given) if isinstance(given, list) else given
        place = self.place.within(values.get(tool.seconds) if tool.seconds else None)
        ended = await run(self.path, filled(tool.arguments, values), place, text)
        printed = "\n".join(part.rstrip("\n") for part in (ended.output, ended.errors) if part)
        if ended.stopped or ended.status not in (0, *tool.says):
            failed = f"{Path(self.path).name} failed: {ended.how}."
            return ToolResult.of_text(f"{failed}\n{printed}" if printed else failed, is_error=True)
        return ToolResult.of_text(printed or tool.says.get(ended.status, "Done; nothing was printed."))


def groups() -> dict[str, GroupData]:
    """Return the groups by name."""
    return {file.stem: GroupData.model_validate(_read(file)) for file in sorted((HERE / "groups").glob("*.toml"))}


def profiles() -> Iterable[Profile]:
    """Return the profiles, in the order of document E."""
    return [Profile(name=name, **told) for name, told in _read(HERE / "profiles.toml").items()]


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))
