"""Converts names of a catalog into those that a model knows, and back (SPEC NAM-6, AGT-3)."""

from __future__ import annotations

import logging
from collections.abc import Container, Mapping
from typing import Self, TypedDict

from attrs import frozen

from toolfold import Catalog, ConfigError, ToolNotFound, WireNames
from toolfold.spi import Memo

from ..names import WIRE_LENGTH, WIRE_SEPARATOR

log = logging.getLogger("toolfold.inprocess")


class NameOptions(TypedDict, total=False):
    """Options of the names that a model knows: the replacement of the dot, and the maximum length."""

    separator: str
    max_length: int


@frozen(eq=False)
class _Names:
    """The wire names of a catalog: of the tools that have one, and why the others have none."""

    names: WireNames
    known: frozenset[str]
    refused: Mapping[str, str]

    @classmethod
    def of(cls, catalog: Catalog, separator: str, max_length: int, first: Container[str] = ()) -> Self:
        """Return them; where two names would be one on the wire, `first` take precedence."""
        names, known, refused = WireNames(separator, max_length), set[str](), dict[str, str]()
        for name in sorted(catalog.tools, key=lambda name: name not in first):
            try:
                names.admit(name)
            except ConfigError as error:
                refused[name] = str(error)
            else:
                known.add(name)
        return cls(names, frozenset(known), refused)


_NAMES = Memo[tuple[str, int], _Names](most=8)
"""The wire names of a catalog by separator and maximum length."""


class WireNameCodec:
    """Converts the names of the newest catalog that it was given into wire names and back.

    Its arguments are those of `WireNames`.
    """

    def __init__(self, separator: str = WIRE_SEPARATOR, max_length: int = WIRE_LENGTH) -> None:
        self.separator = separator
        self.max_length = max_length
        self._catalog: Catalog | None = None
        self._found = _Names(WireNames(separator, max_length), frozenset(), {})

    def update(self, catalog: Catalog, *, strict: bool = False) -> None:
        """Use the names of a catalog from now on.

        A name that has no wire name raises `ConfigError` if `strict`, as when a conversation is made; otherwise it is
        logged, and its tool is left out. Names that were known before keep their wire names.
        """
        if catalog is self._catalog:
            return
        found = self._shared(catalog)
        if found.refused and self._found.known:
            found = _Names.of(catalog, self.separator, self.max_length, self._found.known)
        for name, reason in found.refused.items():
            if strict:
                raise ConfigError(reason)
            log.error("%s is left out: %s", name, reason)
        self._catalog, self._found = catalog, found

    def _shared(self, catalog: Catalog) -> _Names:
        """Return the names that all conversations with a catalog have in common, so that each needs no table of all."""
        options = self.separator, self.max_length
        return _NAMES.of(catalog.memo, options, lambda: _Names.of(catalog, *options))

    def has_name(self, name: str) -> bool:
        """Return whether a tool has a wire name."""
        return name in self._found.known

    def to_wire(self, name: str) -> str:
        """Return a tool's name as the model knows it."""
        return self._found.names.to_wire(name)

    def from_wire(self, name: str) -> str:
        """Return the catalog's name for a wire name; any other name comes back unchanged."""
        try:
            return self._found.names.from_wire(name)
        except ToolNotFound:
            return name
