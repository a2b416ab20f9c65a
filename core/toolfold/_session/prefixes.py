"""How often the list that a conversation begins with has changed, and by whom (SPEC PFX-1).

A provider caches what a conversation begins with, its tools first. A list that differs from the one before makes it
read everything again that comes after the first difference. What is known of that here is counted: the rest of the
list, and the answers to calls; the instructions and what a model and its user wrote come on top.

A list of a session is taken to be the next one of its conversation. Lists of requests that belong to no session follow
from the request alone, so there is nothing to count (SPEC DEL-7).
"""

from __future__ import annotations

from attrs import define

from .._catalog.catalog import Catalog
from .._catalog.components import Component
from .._snapshot import Change
from .events import Listed

CATALOG, RULES = "(catalog)", "(rules)"
"""What breaks a prefix, if no group does: something was registered or removed, or a predicate or mode changed."""


@define
class Prefixes:
    """How many prefixes something broke, and about how many tokens were billed again for that, at least."""

    broken: int = 0
    tokens: int = 0


@define(eq=False)
class Begun:
    """What a session was sent first, and how much after it.

    Attributes:
        items: The list that it was answered last.
        catalog: The catalog of that list, if it is known.
        pages: The pages of the list that it is being answered.
        answered: About how many tokens the answers to its calls had.
        by: The group whose opening or closing came first since then.
    """

    items: tuple[Component, ...] | None = None
    catalog: Catalog | None = None
    pages: tuple[Component, ...] = ()
    answered: int = 0
    by: str = ""

    def changed(self, change: Change) -> None:
        """Note what was opened or closed."""
        self.by = self.by or next(iter((*change.activated, *change.deactivated)), "")

    def listed(self, event: Listed) -> tuple[str, int] | None:
        """Note a page of a list; return who broke the prefix, and about how many tokens come after that, if it did."""
        self.pages = event.items if event.begins else (*self.pages, *event.items)
        if not event.ends:
            return None
        before, now, known = self.items, self.pages, self.catalog
        by = self.by or (CATALOG if known is not event.catalog and None not in (known, event.catalog) else RULES)
        self.items, self.catalog, self.pages, self.by = now, event.catalog, (), ""
        if before is None or before is now:
            return None
        pairs = enumerate(zip(before, now, strict=False))
        place = next((place for place, (old, new) in pairs if not _same(old, new)), min(len(before), len(now)))
        if place == len(before) == len(now):
            return None
        return by, sum([item.tokens for item in before[place:]]) + self.answered


def _same(one: Component, other: Component) -> bool:
    return one is other or (one.name == other.name and one.definition == other.definition)
