"""What grouping saves: document C's table, next to the costs of this assistant's tools."""

from __future__ import annotations

from attrs import frozen

from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.tokens import saved_percent


@frozen
class Cost:
    """What the tools cost per turn, in tokens: without groups, and with them and the prompt's section on groups."""

    before: int
    after: int

    @property
    def saved(self) -> float:
        """What is saved, in percent."""
        return saved_percent(self.before, self.after)


@frozen
class Row:
    """One row of the table: a scenario, what the document estimates, and what is measured here."""

    scenario: str
    document: Cost
    here: Cost


DOCUMENT = {
    "Simple query (no tools needed)": (Cost(20_000, 3_400), ()),
    "Email task (Gmail only)": (Cost(20_000, 5_000), ("google_gmail",)),
    "Config + Email task": (Cost(20_000, 10_400), ("config", "google_gmail")),
    "All groups loaded": (Cost(20_000, 20_400), None),
}
"""The document's scenarios, its estimates, and the groups that are loaded in each; `None` for all."""


def table(tools: ToolSet) -> list[Row]:
    """Return the table of savings; the measured tokens are approximate, as `toolfold_adapters.tokens` counts them."""
    everything = [group.path for group in tools.catalog.groups]
    rows: list[Row] = []
    for scenario, (document, groups) in DOCUMENT.items():
        cost = Conversation(tools, active=everything if groups is None else groups).tokens()
        rows.append(Row(scenario, document, Cost(cost.everything, cost.sent)))
    return rows
