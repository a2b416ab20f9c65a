"""A toolkit that is included in a group, with its category overridden there."""

from __future__ import annotations

from typing import Any

from toolfold import tool

WEEKLY = {
    "type": "object",
    "properties": {"week": {"type": "integer"}, "orders": {"type": "integer", "minimum": 0}},
    "required": ["week", "orders"],
}


class Reports:
    """Figures of the year."""

    def __init__(self, orders: dict[int, int]) -> None:
        self._orders = orders

    @tool(name="weekly", category="Figures", annotations={"read_only_hint": True})
    @tool(description="The orders of one week of the year")
    @tool(input={"week": {"type": "integer", "required": True, "min": 1, "max": 53}}, output_schema=WEEKLY)
    def weekly_report(self, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"week": arguments["week"], "orders": self._orders.get(arguments["week"])}
