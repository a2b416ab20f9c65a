"""Converts names of a catalog into those that a model knows, and back (SPEC NAM-6, AGT-3)."""

from __future__ import annotations

import logging
from typing import TypedDict

from toolfold import Catalog, ConfigError, ToolNotFound, WireNames

log = logging.getLogger("toolfold.inprocess")


class NameOptions(TypedDict, total=False):
    """Options of the names that a model knows: the replacement of the dot, and the maximum length."""

    separator: str
    max_length: int


class WireNameCodec:
    """Converts the names of the newest catalog that it was given into wire names and back.

    Its arguments are those of `WireNames`.
    """

    def __init__(self, separator: str, max_length: int) -> None:
        self.separator = separator
        self.max_length = max_length
        self._catalog: Catalog | None = None
        self._known = frozenset[str]()
        self._names = WireNames(separator, max_length)

    def update(self, catalog: Catalog, *, strict: bool = False) -> None:
        """Use the names of a catalog from now on.

        A name that has no wire name raises `ConfigError` if `strict`, as when a conversation is made; otherwise it is
        logged, and its tool is left out. Names that were known before keep their wire names.
        """
        if catalog is self._catalog:
            return
        names, known = WireNames(self.separator, self.max_length), set[str]()
        for name in sorted(catalog.tools, key=lambda name: name not in self._known):
            try:
                names.admit(name)
            except ConfigError as error:
                if strict:
                    raise
                log.error("%s is left out: %s", name, error)
            else:
                known.add(name)
        self._catalog, self._names, self._known = catalog, names, frozenset(known)

    def has_name(self, name: str) -> bool:
        """Return whether a tool has a wire name."""
        return name in self._known

    def to_wire(self, name: str) -> str:
        """Return a tool's name as the model knows it."""
        return self._names.to_wire(name)

    def from_wire(self, name: str) -> str:
        """Return the catalog's name for a wire name; any other name comes back unchanged."""
        try:
            return self._names.from_wire(name)
        except ToolNotFound:
            return name
