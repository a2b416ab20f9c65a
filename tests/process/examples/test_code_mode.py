"""Programs in sandboxes of others, whose interpreters are processes (SPEC COD-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from examples.code_mode import shop, with_monty
from examples.code_mode.with_monty import in_monty
from examples.code_mode.with_pydantic_ai import in_pydantic_ai

pytestmark = pytest.mark.spec("COD-3")

TEA = {"item": "tea", "count": 2}


async def test_a_program_in_monty_loses_what_an_exclusion_closes_and_each_real_tool_is_approved() -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []
    assert await in_monty(lambda *call: seen.append(call)) == ["2 of tea", 312, "Unknown tool: orders.place"]
    tools = [("orders.activate", {}), ("orders.place", TEA), ("cellar.activate", {}), ("cellar.bottles", {})]
    assert seen == [*tools, ("orders.place", {"item": "milk"})]


@pytest.mark.filterwarnings("ignore:CodeMode. tool .* has no return schema")
async def test_a_program_in_pydantic_ais_code_mode_does_so_too() -> None:
    seen: list[tuple[str, Mapping[str, Any]]] = []
    opened, told, counted = await in_pydantic_ai(lambda *call: seen.append(call))
    assert opened.startswith("Group orders is open.")
    assert told == ["2 of tea", "Unknown tool: orders__place"]
    assert counted == 312
    tools = [("orders__open", {}), ("orders__place", TEA), ("cellar__open", {})]
    assert seen == [*tools, ("orders__place", {"item": "milk"}), ("cellar__bottles", {})]


async def test_what_an_approval_refuses_is_not_called() -> None:
    def refuse(tool: str, arguments: Mapping[str, Any]) -> None:
        if tool == "orders.place":
            raise PermissionError(f"{tool} is not approved")

    async with shop().open_session(active=["orders"]) as session:
        program = "try:\n    await orders_place(item='tea')\nexcept Exception as error:\n    told = str(error)\ntold"
        assert await with_monty.run(program, session, refuse) == "orders.place is not approved"
