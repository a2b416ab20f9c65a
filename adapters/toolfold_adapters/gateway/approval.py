"""Which definitions of upstreams were approved: the first ones, and those that a user approved (SPEC GWY-11).

A server can change what its tools say after they were looked at. So each definition is stored when its server is first
seen; one that is another now, or that was not there, has changed, until `toolfold approve`, which shows the difference.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from difflib import unified_diff
from pathlib import Path
from typing import Any, cast

from toolfold.spi import table

from .config import UpstreamConfig
from .definitions import Definitions
from .private import write_private

log = logging.getLogger("toolfold.gateway")


class Approvals:
    """The approved definitions, one file for each server.

    Args:
        folder: Where the files are; see `approvals_folder`.
        serving: Whether a server that is seen first is approved: where somebody only looks, nothing is stored.
    """

    def __init__(self, folder: Path, *, serving: bool = True) -> None:
        self._folder = folder
        self._serving = serving

    def changed(self, upstream: UpstreamConfig, definitions: Definitions) -> frozenset[str]:
        """Return the names of the tools that changed since they were approved: none of a server that is seen first."""
        approved = self._read(upstream)
        if approved is None:
            if self._serving:
                self.approve(upstream, definitions)
            return frozenset()
        now = _as_stored(definitions)
        return frozenset(name for name in now if approved.get(name) != now[name])

    def difference(self, upstream: UpstreamConfig, definitions: Definitions) -> dict[str, list[str]]:
        """Return the lines of each definition that changed since it was approved, by its name.

        Those that it had begin with `-`, those that it has now with `+`, as in a unified diff.
        """
        approved, now = self._read(upstream) or {}, _as_stored(definitions)
        changed = sorted(self.changed(upstream, definitions))
        return {name: _difference(approved.get(name), now[name]) for name in changed}

    def approve(self, upstream: UpstreamConfig, definitions: Definitions) -> None:
        """Approve all definitions of a server as they are now; a file that can't be written is logged."""
        data = json.dumps(_as_stored(definitions), indent=1, sort_keys=True)
        try:
            write_private(self._path(upstream), data.encode("utf-8", "replace"))
        except OSError as error:
            log.warning("approved definitions can't be stored in %s: %s", self._folder, error)

    def _read(self, upstream: UpstreamConfig) -> Mapping[str, Any] | None:
        """Return the approved definitions, none of them if they can't be read, or `None` if there is no file."""
        path = self._path(upstream)
        try:
            return table(json.loads(path.read_text(encoding="utf-8"))) or {}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, RecursionError) as error:
            log.warning("the approved definitions in %s can't be read: %s", path, type(error).__name__)
            return {}

    def _path(self, upstream: UpstreamConfig) -> Path:
        """Return the file of a server: it is the same one while the command or the address is the same."""
        key = json.dumps([upstream.command, upstream.url, upstream.cwd])
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"


def fingerprints(definitions: Definitions) -> dict[str, str]:
    """Return a fingerprint of the definition of each tool, by its name."""
    named = [(table(tool) or {}).get("name") for tool in definitions.tools]
    return {
        name: hashlib.sha256(json.dumps(tool, sort_keys=True, default=_plain).encode("utf-8", "replace")).hexdigest()
        for name, tool in zip(named, definitions.tools, strict=True)
        if isinstance(name, str)
    }


def _as_stored(definitions: Definitions) -> dict[str, Any]:
    """Return the definition of each tool, by its name, as it is read from a file."""
    named = {(table(tool) or {}).get("name"): tool for tool in definitions.tools}
    tools = {name: tool for name, tool in named.items() if isinstance(name, str)}
    stored: dict[str, Any] = json.loads(json.dumps(tools, default=_plain))
    return stored


def _difference(before: Any, now: Any) -> list[str]:
    old, new = ([] if one is None else _visible(one).split("\n") for one in (before, now))
    return list(unified_diff(old, new, n=1, lineterm=""))[2:]


def _visible(definition: Any) -> str:
    """Return a definition as text, with escapes for characters that a reader would not see."""
    text = json.dumps(definition, indent=2, sort_keys=True, ensure_ascii=False)
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else repr(value)


def approvals_folder() -> Path:
    """Return where approvals are stored on this machine, by its conventions."""
    from platformdirs import user_data_path

    return user_data_path("toolfold") / "approved"
