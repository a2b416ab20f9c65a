"""The approximate cost of lists of tools in tokens, before and after grouping (SPEC GWY-5), and numbers as text.

Every model counts tokens in its own way, so this is a heuristic that anyone can verify. A value costs a quarter of the
characters of its compact JSON, rounded up; a string costs a quarter of its own. Real counts of English text and JSON
Schema are mostly within a quarter of that; ratios of two costs are much closer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from toolfold import CHARACTERS_PER_TOKEN as CHARACTERS_PER_TOKEN
from toolfold import Component
from toolfold import approximate_tokens as approximate_tokens
from toolfold.spi import RequestView, frozen, listed

ANSWER_TOKENS = 5_000
"""The default maximum length of the library's own answers (SPEC CTL-4)."""
LEAST_ANSWER_TOKENS = 1_200
"""The smallest such maximum: it has room for the longest handle that is accepted, and for the sentence about it."""


Render = Callable[[Component, Callable[[str], str]], Mapping[str, Any]]
"""Returns the definition of a component as a client reads it, with names converted."""


def cost(
    components: Iterable[Component], to_wire: Callable[[str], str] = str, render: Render = Component.render
) -> int:
    """Return the approximate number of tokens of tools' definitions, with names converted by `to_wire`."""
    return sum(approximate_tokens(render(component, to_wire)) for component in components)


@frozen(kw_only=True)
class GroupCost:
    """The share of one group, or of one server behind a gateway, in the list of tools.

    Attributes:
        path: The group, or `None` for the tools in no group; or the server.
        tools: How many tools it has, without hidden and control tools.
        listed: How many of its tools are listed now, control tools included.
        before: The approximate tokens of its tools if all were listed, without groups.
        after: The approximate tokens that are listed now.
    """

    path: str | None
    tools: int
    listed: int
    before: int
    after: int

    @classmethod
    def of(
        cls,
        path: str | None,
        own: Sequence[Component],
        now: Sequence[Component],
        to_wire: Callable[[str], str] = str,
        render: Render = Component.render,
    ) -> GroupCost:
        """Return what tools cost: `own` without groups, and `now` as they are listed."""
        before, after = cost(own, to_wire, render), cost(now, to_wire, render)
        return cls(path=path, tools=len(own), listed=len(now), before=before, after=after)


@frozen
class Costs:
    """The cost of a list of tools by group: the tools in no group first, then all groups in canonical order."""

    groups: tuple[GroupCost, ...]

    @property
    def tools(self) -> int:
        """How many tools there are, without hidden and control tools."""
        return sum(group.tools for group in self.groups)

    @property
    def listed(self) -> int:
        """How many tools are listed now, control tools included."""
        return sum(group.listed for group in self.groups)

    @property
    def before(self) -> int:
        """The approximate tokens of all tools."""
        return sum(group.before for group in self.groups)

    @property
    def after(self) -> int:
        """The approximate tokens that are listed now."""
        return sum(group.after for group in self.groups)

    @property
    def saved(self) -> float:
        """The percentage of tokens saved; negative if the control tools cost more than what is not listed."""
        return saved_percent(self.before, self.after)


def saved_percent(before: int, after: int) -> float:
    """Return by how many percent `after` is less than `before`, with one decimal; 0 if `before` is 0."""
    return round(100 * (before - after) / before, 1) if before else 0.0


def measure(view: RequestView, extra: Iterable[Component] = (), render: Render = Component.render) -> Costs:
    """Return the cost of the tools that a session lists, and of all tools of its catalog.

    Tools that are never listed are not counted. Control tools count only in `after`, since without groups there are
    none. A loader counts among the tools in no group, and so do the tools that an adapter adds to a list, `extra`.
    Names are those that the caller of the view knows; `render` makes the definitions that it reads.

    SPEC GWY-5.
    """
    catalog = view.snapshot.catalog
    before: dict[str | None, list[Component]] = {None: [], **{group.path: [] for group in catalog.groups}}
    after: dict[str | None, list[Component]] = {path: [] for path in before}
    after[None] += extra
    for component in catalog.tools.values():
        if component.control is None and not component.never_listed:
            before[component.group].append(component)
    for component in listed(view, "tool"):
        after[_owner(component)].append(component)
    return Costs(tuple(GroupCost.of(path, before[path], after[path], view.to_wire, render) for path in before))


def _owner(component: Component) -> str | None:
    return (component.control[1] or None) if component.control else component.group


def approximate(tokens: int) -> str:
    """Return an approximate number as text."""
    return f"~{tokens:,}"


def rounded(number: int) -> str:
    """Return a number with two digits that count, such as 940, 12,000 or 1.2 million."""
    digits = len(str(abs(number)))
    number = round(number, 2 - digits)
    for name, size in (("billion", 10**9), ("million", 10**6)):
        if abs(number) >= size:
            return f"{number / size:,.2g} {name}" if abs(number) < 100 * size else f"{number // size:,} {name}"
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is 1."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
