"""What upstreams offered when they were last asked, in files (SPEC GWY-4).

One file for each upstream, named by a hash of all that decides on what answers: the command or URL, the folder, and the
environment and headers that it is given, whose values are not stored. Where a file can't be read, or is not what it
should be, the upstream is asked instead.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, frozen
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from ..config.settings import UpstreamConfig
from ..definitions import Definitions
from ..private import write_private

log = logging.getLogger("toolfold.gateway")

FORMAT = 1


@frozen(kw_only=True)
class Known:
    """What is known of an upstream.

    Attributes:
        definitions: What it offers.
        modern: Whether its era is that without sessions.
        able: What the client could do that this was offered to; a server may offer less to one that can do less.
        capabilities: What the upstream says that it can do.
    """

    definitions: Definitions
    modern: bool
    able: tuple[str, ...]
    capabilities: Mapping[str, Any]


class _Definitions(TypedDict):
    name: str
    title: str | None
    version: str
    instructions: str | None
    tools: list[Any]
    prompts: list[Any]
    resources: list[Any]
    resource_templates: list[Any]
    warnings: list[str]


class _File(TypedDict):
    format: int
    definitions: _Definitions
    modern: bool
    able: list[str]
    capabilities: dict[str, Any]


_FILE = TypeAdapter(_File)


class DefinitionCache:
    """The files in a folder, or none at all."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def read(self, config: UpstreamConfig) -> Known | None:
        """Return what is stored of an upstream, or `None`."""
        if self._folder is None:
            return None
        path = self._path(config)
        try:
            stored = _FILE.validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValidationError, ValueError) as error:
            log.warning("the cached definitions in %s can't be used: %s", path, type(error).__name__)
            return None
        if stored["format"] != FORMAT:
            return None
        return Known(
            definitions=_structured(stored["definitions"]),
            modern=stored["modern"],
            able=tuple(stored["able"]),
            capabilities=stored["capabilities"],
        )

    def write(self, config: UpstreamConfig, known: Known) -> None:
        """Store what is known of an upstream: all of it, or nothing where that fails, which is logged."""
        if self._folder is None:
            return
        data = json.dumps({"format": FORMAT, **asdict(known)}, default=dict).encode()
        try:
            write_private(self._path(config), data)
        except OSError as error:
            log.warning("the definitions of an upstream can't be cached in %s: %s", self._folder, error)

    def _path(self, config: UpstreamConfig) -> Path:
        assert self._folder is not None
        return self._folder / f"{key_of(config)}.json"


def _structured(stored: _Definitions) -> Definitions:
    """Return stored definitions as the value that they were."""
    return Definitions(
        name=stored["name"],
        title=stored["title"],
        version=stored["version"],
        instructions=stored["instructions"],
        tools=stored["tools"],
        prompts=stored["prompts"],
        resources=stored["resources"],
        resource_templates=stored["resource_templates"],
        warnings=tuple(stored["warnings"]),
    )


def key_of(config: UpstreamConfig) -> str:
    """Return the name of what is stored of an upstream; it reveals nothing of the environment or the headers."""
    given: dict[str, Any] = {
        "command": config.command,
        "url": config.url,
        "cwd": config.cwd,
        "env": sorted(config.env.items()),
        "headers": sorted(config.headers.items()),
        "mode": config.mode,
    }
    return hashlib.sha256(json.dumps(given).encode()).hexdigest()


def default_folder() -> Path:
    """Return where definitions are cached on this machine, by its conventions."""
    from platformdirs import user_cache_path

    return user_cache_path("toolfold") / "definitions"
