"""Which definitions of upstreams were approved: the first ones, and those that a user approved (SPEC GWY-11).

A server can change what its tools say after they were looked at. So a fingerprint of each definition is stored when its
server is first seen; a definition with another one, or without one, has changed, until `toolfold approve`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from toolfold.spi import table

from .config import UpstreamConfig
from .definitions import Definitions

log = logging.getLogger("toolfold.gateway")


class Approvals:
    """The fingerprints of approved definitions, one file for each server.

    Args:
        folder: Where the files are; see `approvals_folder`.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def changed(self, upstream: UpstreamConfig, definitions: Definitions) -> frozenset[str]:
        """Return the names of the tools that changed since they were approved; a server seen first is approved."""
        approved = self._read(upstream)
        if approved is None:
            self.approve(upstream, definitions)
            return frozenset()
        now = fingerprints(definitions)
        return frozenset(name for name, fingerprint in now.items() if approved.get(name) != fingerprint)

    def approve(self, upstream: UpstreamConfig, definitions: Definitions) -> None:
        """Approve all definitions of a server as they are now; a file that can't be written is logged."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, name = tempfile.mkstemp(dir=self._folder)  # of mode 0600
            try:
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    json.dump(fingerprints(definitions), file, indent=1, sort_keys=True)
                Path(name).replace(self._path(upstream))
            except BaseException:
                with suppress(OSError):
                    Path(name).unlink()
                raise
        except OSError as error:
            log.warning("approved definitions can't be stored in %s: %s", self._folder, error)

    def _read(self, upstream: UpstreamConfig) -> Mapping[str, Any] | None:
        """Return the approved fingerprints, none of them if they can't be read, or `None` if there is no file."""
        path = self._path(upstream)
        try:
            return table(json.loads(path.read_text(encoding="utf-8"))) or {}
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
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


def _plain(value: Any) -> Any:
    return dict(cast("Mapping[str, Any]", value)) if isinstance(value, Mapping) else repr(value)


def approvals_folder() -> Path:
    """Return where approvals are stored on this machine, by its conventions."""
    from platformdirs import user_data_path

    return user_data_path("toolfold") / "approved"
