"""The data in files of JSON with comments, TOML and YAML, and what the variables in it stand for (SPEC GWY-2)."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from attrs import field, frozen

from toolfold import ConfigError, ManifestError
from toolfold_adapters.manifests import yaml_in

YAML = (".yaml", ".yml")
"""The suffixes of files of YAML."""
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')
_REFERENCE = re.compile(r"(\$?)\$\{([^{}]*)\}")
_NAME = re.compile(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*)|:?)", re.DOTALL)
INPUT_PREFIX = "TOOLFOLD_INPUT_"


def read_file(file: Path) -> dict[str, Any]:
    """Return the data in a file of TOML, YAML, or JSON with comments; raises `ConfigError`."""
    return data_in(file, read_text(file))


def read_text(file: Path) -> str:
    """Return the text of a file, with its ends of lines; raises `ConfigError`."""
    try:
        with file.open(encoding="utf-8-sig", newline="") as opened:
            return opened.read()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file} is not a text in UTF-8: save it as one.") from error
    except OSError as error:
        raise ConfigError(f"{file} can't be read: {error.strerror or type(error).__name__}.") from error


def data_in(file: Path, text: str) -> dict[str, Any]:
    """Return the data in a text that a file has or would have; raises `ConfigError`."""
    if file.suffix.lower() == ".toml":
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ConfigError(f"{file} is not valid TOML: {error}. Correct it there.") from error
    if file.suffix.lower() in YAML:
        try:
            return yaml_in(file, text)
        except ManifestError as error:
            raise ConfigError(str(error)) from error
    try:
        data: object = json.loads(plain_json(text), object_pairs_hook=_Object)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid JSON: {error}. Correct it there.") from error
    if not isinstance(data, _Object):
        raise ConfigError(f"{file} must be a JSON object.")
    return data


class _Object(dict[str, Any]):
    """A JSON object that remembers which keys it was given more than once."""

    def __init__(self, pairs: Iterable[tuple[str, Any]]) -> None:
        self.repeated: dict[str, None] = {}
        for key, value in pairs:
            if key in self:
                self.repeated[key] = None
            else:
                self[key] = value


# -- JSON with comments and last commas, as editors allow it ----------------------------------------------------------


def without_comments(text: str) -> str:
    """Return a text with blanks for comments, so that all else stays on its line and column."""
    return _COMMENT.sub(_blank, text)


def plain_json(text: str) -> str:
    """Return a text of JSON with blanks for comments and last commas."""
    return _LAST_COMMA.sub(_blank, without_comments(text))


def _blank(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\n]", " ", match[0])


# -- variables: `${VAR}`, `${VAR:-default}` and those of editors ------------------------------------------------------


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
