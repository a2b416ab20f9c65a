"""What lists of tools cost a model, approximately, before and after grouping (SPEC GWY-5).

Every model counts tokens in its own way, so this is a heuristic with one virtue: anyone can check it. A value costs a
quarter of the characters of its compact JSON, rounded up; a text costs a quarter of its own. Real counts of English
text and JSON Schema are mostly within a quarter of that; ratios of two costs are much closer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from attrs import frozen

from toolfold import Component
from toolfold.spi import RequestView, ToWire, listed, never_listed

CHARACTERS_PER_TOKEN = 4
ANSWER_TOKENS = 8_000
"""How long an answer of the library itself may be unless its author says otherwise (SPEC CTL-4)."""


def approximate_tokens(value: Any) -> int:
    """Return about how many tokens a text or a JSON value is: a quarter of its characters, rounded up.

    A value that is no text is counted as JSON without white space, and with non-ASCII characters as they are.
    """
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return -(-len(text) // CHARACTERS_PER_TOKEN)


def cost(components: Iterable[Component], to_wire: ToWire = str) -> int:
    """Return about how many tokens the definitions of tools are under the names that `to_wire` gives them."""
    return sum(
        approximate_tokens({**component.definition, "name": to_wire(component.name)}) for component in components
    )


@frozen(kw_only=True)
class GroupCost:
    """What one group puts into the list of tools.

    Attributes:
        path: The group, or `None` for the tools that are in none.
        tools: How many tools it has, hidden and control tools apart.
        listed: How many tools of it are listed now, control tools included.
        before: About how many tokens its tools would be if all were listed, without groups.
        after: About how many tokens are listed now.
    """

    path: str | None
    tools: int
    listed: int
    before: int
    after: int


@frozen
class Costs:
    """What a list of tools costs, group by group: the tools in no group first, then all groups in canonical order."""

    groups: tuple[GroupCost, ...]

    @property
    def tools(self) -> int:
        """How many tools there are, hidden and control tools apart."""
        return sum(group.tools for group in self.groups)

    @property
    def listed(self) -> int:
        """How many tools are listed now, control tools included."""
        return sum(group.listed for group in self.groups)

    @property
    def before(self) -> int:
        """About how many tokens all tools are."""
        return sum(group.before for group in self.groups)

    @property
    def after(self) -> int:
        """About how many tokens are listed now."""
        return sum(group.after for group in self.groups)

    @property
    def saved(self) -> float:
        """The part of the tokens that is not listed, in percent; negative if the control tools cost more than that."""
        return saved_percent(self.before, self.after)


def saved_percent(before: int, after: int) -> float:
    """Return how much less `after` is than `before`, in percent with one decimal; 0 if there was nothing before."""
    return round(100 * (before - after) / before, 1) if before else 0.0


def measure(view: RequestView, extra: Iterable[Component] = (), to_wire: ToWire = str) -> Costs:
    """Return what the tools cost that a session is given, beside what all tools of its catalog cost (SPEC GWY-5).

    Tools that no list ever has, because they are hidden, count nowhere. Control tools count on one side only: without
    groups there would be none. A loader counts among the tools in no group, and so does what an adapter adds to a list,
    `extra`. `to_wire` gives tools' names as clients know them.
    """
    catalog = view.snapshot.catalog
    before: dict[str | None, list[Component]] = {None: [], **{group.path: [] for group in catalog.groups}}
    after: dict[str | None, list[Component]] = {path: [] for path in before}
    after[None] += extra
    for component in catalog.tools.values():
        if component.control is None and not never_listed(component):
            before[component.group].append(component)
    for component in listed(view, "tool"):
        after[_owner(component)].append(component)
    return Costs(
        tuple(
            GroupCost(
                path=path,
                tools=len(before[path]),
                listed=len(after[path]),
                before=cost(before[path], to_wire),
                after=cost(after[path], to_wire),
            )
            for path in before
        )
    )


def _owner(component: Component) -> str | None:
    return (component.control[1] or None) if component.control else component.group
