"""What grouping saves: document C's table, reckoned anew for this assistant."""

from __future__ import annotations

from attrs import frozen

from toolfold import ToolSet
from toolfold_adapters.inprocess import Conversation
from toolfold_adapters.tokens import saved_percent

SCENARIOS = {
    "Simple question (no group)": (),
    "Mail task (mail only)": ("mail",),
    "Settings and mail task": ("settings", "mail"),
    "All groups loaded": None,
}
"""The groups that are loaded in each scenario; `None` for all."""


@frozen
class Row:
    """One row of the table, in tokens: the tools without groups, and tools and prompt section with them."""

    scenario: str
    before: int
    after: int

    @property
    def saved(self) -> str:
        """What is saved, in tokens and in percent."""
        return f"{self.before - self.after:,} ({saved_percent(self.before, self.after):.0f}%)"


def table(tools: ToolSet) -> list[Row]:
    """Return the table of savings; the tokens are approximate, as `toolfold_adapters.tokens` counts them."""
    everything = [group.path for group in tools.catalog.groups]
    rows: list[Row] = []
    for scenario, groups in SCENARIOS.items():
        cost = Conversation(tools, active=everything if groups is None else groups).tokens()
        rows.append(Row(scenario, cost.everything, cost.sent))
    return rows
