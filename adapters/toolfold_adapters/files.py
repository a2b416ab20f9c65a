"""The data in files of JSON with comments, TOML and YAML: one reader, and one form of what is said of mistakes."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolfold import ConfigError, ManifestError
from toolfold.spi import extras_named, table

_UNQUOTED = {"mapping values are not allowed here": ": write a text that has a colon in quotes"}
"""What else is said of a problem with YAML."""
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')


def read_text(file: Path, newline: str | None = None, *, regular: bool = True, pipe: bool = False) -> str:
    """Return the text in a file, with `newline=""` as its lines end there, or raise `ManifestError`.

    It is no pipe, which may block for ever, unless it may be a `pipe` into which another program writes; but unless it
    has to be a `regular` file, it may be one that a shell has opened, as for `<(command)`.
    """
    try:
        mode = file.stat().st_mode
        usable = stat.S_ISREG(mode) or (pipe and stat.S_ISFIFO(mode))
        if not usable and (regular or not (stat.S_ISDIR(mode) or file.is_relative_to("/dev"))):
            raise ManifestError(str(file), "file", "it is not a regular file")
        with file.open(encoding="utf-8-sig", newline=newline) as opened:
            return opened.read()
    except OSError as error:
        raise ManifestError(str(file), "file", f"it can't be read: {error.strerror or type(error).__name__}") from error
    except UnicodeDecodeError as error:
        problem = "it is not a text in UTF-8: save it as one"
        raise ManifestError(str(file), f"byte {error.start}", problem) from error


def data_in(file: Path, text: str, made_of: type[dict[str, Any]] = dict) -> Any:
    """Return the data in a text that a file has or would have, by its suffix, or raise `ManifestError`.

    What is in no format that a suffix names is JSON, whose objects are made as `made_of`.
    """
    import tomllib  # a server that is a module reads no TOML, and need not wait for this

    suffix = file.suffix.lower()
    if suffix in (".yaml", ".yml"):
        return yaml_in(file, text)
    try:
        return tomllib.loads(text) if suffix == ".toml" else json.loads(strict_json(text), object_pairs_hook=made_of)
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(str(file), "file", f"it is not valid TOML: {error}; correct it there") from error
    except json.JSONDecodeError as error:
        end = len(error.doc.rstrip())  # where the text ends too early, that is not on the line after its last one
        found = json.JSONDecodeError(error.msg, error.doc, min(error.pos, end))
        place = f"line {found.lineno}, column {found.colno}"
        raise ManifestError(str(file), place, f"it is not valid JSON: {error.msg}; correct it there") from error
    except (ValueError, RecursionError) as error:
        problem = "it contains a number that is too long, or is nested too deeply"
        raise ManifestError(str(file), "file", problem) from error


def yaml_in(file: Path, text: str, whole: str = "file") -> dict[str, Any]:
    """Return the mapping in a text of YAML that a file has or would have, or raise `ManifestError`.

    `whole` names the text.
    """
    with extras_named():
        from ruamel.yaml import YAML as Parser
        from ruamel.yaml.error import YAMLError
    parser: Any = Parser(typ="safe", pure=True)
    try:
        data = parser.load(text)
    except (YAMLError, ValueError, RecursionError) as error:  # such as a date that is none
        mark: Any = getattr(error, "problem_mark", None)
        place = whole if mark is None else f"line {mark.line + 1}"
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        problem += _UNQUOTED.get(problem, "")
        raise ManifestError(str(file), place, f"it is not valid YAML: {problem}") from error
    if (found := table({} if data is None else data)) is None:
        raise ManifestError(str(file), whole, "it must be a YAML mapping")
    return {**found}


# -- of a configuration, where whatever is wrong is a `ConfigError` ----------------------------------------------------


def read_table(file: Path) -> dict[str, Any]:
    """Return the table in a file, or raise `ConfigError`."""
    return table_in(file, original_text(file))


def original_text(file: Path) -> str:
    """Return the text of a file, as its lines end there, or raise `ConfigError`."""
    with _of_configuration():
        return read_text(file, newline="", regular=False)


def table_in(file: Path, text: str) -> dict[str, Any]:
    """Return the table in a text that a file has or would have, or raise `ConfigError`.

    A table in JSON has the attribute `repeated`, with the keys that it was given more than once.
    """
    with _of_configuration():
        if (found := table(data_in(file, text, _Object))) is None:
            raise ManifestError(str(file), "file", "it must be a JSON object")
        return found


@contextmanager
def _of_configuration() -> Generator[None]:
    try:
        yield
    except ManifestError as error:
        raise ConfigError(str(error)) from error


def quoted_key(key: str) -> str:
    """Return a key as TOML writes it."""
    bare = key.replace("_", "").replace("-", "").isalnum() and key.isascii()
    return key if bare else json.dumps(key, ensure_ascii=False)


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


def strict_json(text: str) -> str:
    """Return a text of JSON with blanks for comments and last commas."""
    return _LAST_COMMA.sub(_blank, without_comments(text))


def _blank(match: re.Match[str]) -> str:
    return match[1] or re.sub(r"[^\n]", " ", match[0])
