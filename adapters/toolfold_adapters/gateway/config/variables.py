"""Variables in the texts of a configuration: `${VAR}`, `${VAR:-default}` and those of editors (SPEC GWY-2)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from attrs import field, frozen

from toolfold import ConfigError

_REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*)|:?)", re.DOTALL)
INPUT_PREFIX = "TOOLFOLD_INPUT_"


@frozen
class Variables:
    """What the variables in a configuration stand for.

    `environ` is the environment, `folder` the one that editors call the workspace, and `inputs` maps what VS Code would
    ask its user for to the default; it is read from the environment, as `TOOLFOLD_INPUT_` and the name in capitals.
    """

    environ: Mapping[str, str]
    folder: Path
    inputs: Mapping[str, str | None] = field(factory=dict[str, str | None])

    def expand(self, value: Any) -> Any:
        """Return a value with the variables in all its texts replaced, and `~/` at the beginning of one.

        `$${` stands for `${`.

        Raises:
            ConfigError: A variable is missing, or there is none of its form; the message is the end of a sentence.
        """
        if isinstance(value, str):
            home = str(Path.home()) if value.startswith("~/") else ""
            return home + _REFERENCE.sub(self._replace, value[1:] if home else value)
        if isinstance(value, Mapping):
            table = cast("Mapping[str, Any]", value)
            return {key: self.expand(inner) for key, inner in table.items()}
        if isinstance(value, list | tuple):
            return [self.expand(inner) for inner in cast("list[Any]", value)]
        return value

    def _replace(self, match: re.Match[str]) -> str:
        escape, reference = match.groups()
        if escape:
            return match.group()[1:]
        value = self._editor_variable(reference)
        return self._from_environment(reference) if value is None else value

    def _editor_variable(self, reference: str) -> str | None:
        if reference.startswith("input:"):
            return self._input(reference.removeprefix("input:"))
        return {
            "workspaceFolder": str(self.folder),
            "workspaceFolderBasename": self.folder.name,
            "userHome": str(Path.home()),
            "pathSeparator": os.sep,
            "/": os.sep,
        }.get(reference)

    def _input(self, name: str) -> str:
        variable = input_variable(name)
        value = self.environ.get(variable, self.inputs.get(name))
        if value is None:
            raise ConfigError(f"VS Code would ask for ${{input:{name}}}; set the environment variable {variable}")
        return value

    def _from_environment(self, reference: str) -> str:
        match = _NAME.fullmatch(reference)
        if match is None:
            raise ConfigError(f"${{{reference}}} is no variable that is known here; write $${{ for a literal ${{")
        name, default = match.groups()
        value = self.environ.get(name) or default
        if value is None and name not in self.environ:
            raise ConfigError(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        return value or ""


def input_variable(name: str) -> str:
    """Return the environment variable that has what VS Code would ask its user for."""
    return INPUT_PREFIX + re.sub(r"[^A-Z0-9]", "_", name.upper())
