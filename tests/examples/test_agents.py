"""The same tool set in three agent frameworks, as an example."""

from __future__ import annotations

import pytest

from examples import agents


@pytest.mark.spec("INT-2")
async def test_hierarchy_hooks_exclusion_and_budget_hold_in_each_framework(capsys: pytest.CaptureFixture[str]) -> None:
    await agents.main()
    header, *rest = capsys.readouterr().out.splitlines()
    steps = [(line[:5].strip(), line[7:34].strip(), line[36:]) for line in rest[: len(agents.SCRIPT)]]
    assert header.split("  ")[0] == "tools"
    assert [(given, calls) for given, calls, _ in steps] == [
        ("3", "open_group orders.refunds"),
        ("3", "open_group orders"),
        ("5", "orders__find"),
        ("5", "open_group orders.refunds"),
        ("7", "orders__refunds__refund"),
        ("7", "open_group reports"),
        ("7", "open_group stock"),
        ("9", "open_group mail"),
        ("9", "mail__send"),
    ]
    assert 'call open_group {"group": "orders"} first' in steps[0][2]
    assert "Closed to make room: orders.refunds." in steps[5][2]
    assert "Closed to make room: orders." in steps[7][2]
    assert "a transaction begins, and with the reports, the transaction is committed." in rest[-4]
    assert rest[-1].endswith("all 11 tools. So it went in pydantic-ai, openai-agents, langchain.")
