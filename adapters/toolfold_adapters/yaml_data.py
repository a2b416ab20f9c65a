"""Mappings in YAML, as other programs' files have them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolfold import ConfigError
from toolfold.spi import extras_named, table


def yaml_in(file: Path, text: str) -> dict[str, Any]:
    """Return the mapping in a text that a file has or would have; raises `ConfigError`."""
    with extras_named():
        from ruamel.yaml import YAML as Parser
        from ruamel.yaml.error import YAMLError
    parser: Any = Parser(typ="safe", pure=True)
    try:
        data = parser.load(text)
    except (YAMLError, RecursionError) as error:
        raise ConfigError(f"{file} is not valid YAML: {error}. Correct it there.") from error
    if (found := table({} if data is None else data)) is None:
        raise ConfigError(f"{file} must be a YAML mapping.")
    return {**found}
