"""A hook that refuses to open its group is no fault of the server, and one that breaks what it leaves is."""

from __future__ import annotations

import pytest

from toolfold import Context, ToolError, ToolSet
from toolfold_adapters.mcp import build_server
from toolfold_specs.driver import Driver
from toolfold_specs.drivers.blackbox import BlackBoxDriver
from toolfold_specs.drivers.in_process import described
from toolfold_specs.drivers.link import Link
from toolfold_specs.drivers.protocol import Era
from toolfold_specs.kit import check


def scanning() -> ToolSet:
    """Return a tool set with a group that opens once its scanner is charged, and one in it."""
    tools = ToolSet("shop", control="open_group")

    def refuse(context: Context) -> None:
        if context.snapshot.facts.get("scanner") != "charged":
            raise ToolError("The scanner is empty: charge it first.")

    tools.register_group("stock", "Products")
    tools.register_group("stock.count", "Count the shelves", on_activate=refuse)
    tools.register_group("stock.count.late", "Count at night")
    tools.register_group("orders", "Orders")
    tools.register_exclusion("orders", "stock.count")
    for path in ("stock", "stock.count", "stock.count.late", "orders"):
        tools.register("show", lambda: "", group=path, description="Show what there is.")
    return tools


def made(tools: ToolSet, era: Era) -> Driver:
    return BlackBoxDriver(Link(build_server(tools), era), described(tools), grace=0.01)


@pytest.mark.spec("CNF-8", "HOOK-4")
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_hook_that_refuses_leaves_its_group_out_of_what_is_checked_and_is_no_violation(era: Era) -> None:
    tools = scanning()
    report = check(lambda: made(tools, era), layers=("exhaustive",), budget=400)
    assert [violation.clause for violation in report.violations] == []
    left_out = {name: why for name, why in report.left_out.items() if name.startswith("group ")}
    assert left_out == dict.fromkeys(
        ["group stock.count", "group stock.count.late"], "its hook refuses to open it, and nothing is changed"
    )
