"""The names and the order in which a model knows the tools of a catalog (SPEC NAM-6, AGT-1, AGT-3)."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Mapping, Set
from typing import Self, TypedDict

from toolfold import Catalog, Component, ConfigError, Snapshot, ToolNotFound, WireNames
from toolfold.spi import Memo, RequestView, frozen, listed

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
    mapped: Set[str]
    refused: Mapping[str, str]

    @classmethod
    def of(cls, catalog: Catalog, separator: str, max_length: int, first: Container[str] = ()) -> Self:
        """Return them; where two names would be one on the wire, `first` take precedence."""
        names = WireNames(separator, max_length)
        refused = names.admit_tools(sorted(catalog.tools.values(), key=lambda tool: tool.name not in first))
        return cls(names, catalog.tools.keys() - refused.keys(), refused)


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
        self._names = _Names(WireNames(separator, max_length), frozenset(), {})

    def update(self, catalog: Catalog, *, strict: bool = False) -> None:
        """Use the names of a catalog from now on.

        A name that has no wire name raises `ConfigError` if `strict`, as when a conversation is made; otherwise it is
        logged, and its tool is left out. Names that were known before keep their wire names.
        """
        if catalog is self._catalog:
            return
        found = self._shared(catalog)
        if found.refused and self._names.mapped:
            found = _Names.of(catalog, self.separator, self.max_length, self._names.mapped)
        for name, reason in found.refused.items():
            if strict:
                raise ConfigError(reason)
            log.error("%s is left out: %s", name, reason)
        self._catalog, self._names = catalog, found

    def _shared(self, catalog: Catalog) -> _Names:
        """Return the names that all conversations with a catalog have in common, so that each needs no table of all."""
        options = self.separator, self.max_length
        return _NAMES.of(catalog.memo, options, lambda: _Names.of(catalog, *options))

    def has_name(self, name: str) -> bool:
        """Return whether a tool has a wire name."""
        return name in self._names.mapped

    def to_wire(self, name: str) -> str:
        """Return a tool's name as the model knows it."""
        return self._names.names.to_wire(name)

    def from_wire(self, name: str) -> str:
        """Return the catalog's name for a wire name; any other name comes back unchanged."""
        try:
            return self._names.names.from_wire(name)
        except ToolNotFound:
            return name


class ToolOrder:
    """The order of the tools and of the loaded groups of one conversation (SPEC AGT-1).

    Attributes:
        names: The names by which the model knows the tools; those without such a name are left out.
        loaded: The loaded groups, in the order in which they were loaded.
    """

    def __init__(self, names: WireNameCodec, snapshot: Snapshot, loaded: Iterable[str]) -> None:
        self.names = names
        self.loaded = snapshot.in_order(loaded)
        self._tools: list[str] = []

    def update(self, snapshot: Snapshot) -> None:
        """Note which groups are active now."""
        self.loaded = snapshot.in_order(self.loaded)

    def listed(self, view: RequestView) -> list[Component]:
        """Return the tools that are listed now, in the order in which the model is given them."""
        self.names.update(view.snapshot.catalog)
        self.update(view.snapshot)
        shown = {one.name: one for one in listed(view, "tool") if self.names.has_name(one.name)}
        new = sorted(shown.keys() - set(self._tools), key=lambda name: (self._place(shown[name]), name))
        self._tools = [*(name for name in self._tools if name in shown), *new]
        return [shown[name] for name in self._tools]

    def _place(self, component: Component) -> int:
        """Return the position of the last loaded group that the tool requires, or -1 if it requires none."""
        positions = (self.loaded.index(path) for path in component.required_groups if path in self.loaded)
        return max(positions, default=-1)
