"""The order of the tools that a model is given: one that it has keeps its position, and new ones come at the end."""

from __future__ import annotations

from collections.abc import Iterable

from toolfold import Component, Snapshot
from toolfold.spi import RequestView, listed, rules

from .wire_names import WireNameCodec


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
        positions = (self.loaded.index(path) for path in rules.required_groups(component.rule) if path in self.loaded)
        return max(positions, default=-1)
