"""`toolfold demo`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec
from typing import cast

import pytest

from tests.cli.support import invoke
from toolfold import ToolSet
from toolfold_cli import scenario, shop


@pytest.mark.spec("DEL-2", "CALL-1", "ACT-4", "HOOK-4", "HOOK-5", "VIS-5", "DEL-7")
async def test_every_step_succeeds_and_costs_less_than_all_tools() -> None:
    steps: list[scenario.DemoStep] = []

    async def keep(step: scenario.DemoStep) -> None:
        steps.append(step)

    await scenario.play(keep)
    assert [step.failures for step in steps] == [()] * 8
    assert steps[0].read < 0.3 * steps[0].flat
    assert all(step.read < step.flat for step in steps)
    assert [step.open_groups for step in steps[2::2]] == [
        ("orders",),
        ("orders", "orders.refunds"),
        ("stock", "stock.count"),
    ]


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("60", 60), ("200", 100)])
def test_its_lines_are_as_long_as_columns_says_and_not_longer_than_can_be_read(
    monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS", raising=False)
    lines = [line for line in invoke("demo").stdout.splitlines() if not line.startswith("● open")]
    assert width - 10 < max(map(len, lines)) <= width
    assert [line for line in lines if line != line.rstrip()] == []


async def test_each_line_is_shown_as_it_happens_and_an_answer_after_its_request() -> None:
    happened: list[str] = []

    async def keep(line: scenario.DemoLine) -> None:
        happened.append(line.kind)

    async def end(step: scenario.DemoStep) -> None:
        happened.append("end")

    await scenario.play(end, on_line=keep)
    assert " ".join(happened[:11]) == "step request answer end step request answer end step request answer"
    assert re.fullmatch(r"(step (request answer )+end ){8}", f"{' '.join(happened)} ")


def test_it_prints_json() -> None:
    result = invoke("demo", "--json")
    assert result.exit_code == 0
    steps = json.loads(result.stdout)
    assert len(steps) == 8
    assert set(steps[0]) == {"title", "request", "answer", "open_groups", "read", "flat", "failures"}


def fresh_shop() -> ToolSet:
    """Return the tools of the shop, made anew, so that a test may change them."""
    spec = find_spec(shop.__name__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return cast(ToolSet, module.tools)


@pytest.mark.parametrize(
    ("change", "expectation"),
    [
        (lambda tools: tools.unregister("orders.find"), "the answer has the definitions"),
        (lambda tools: tools.unregister("stock.count.enter"), "the tool answers"),
        (lambda tools: tools.register_exclusion("orders", "stock"), "the database, which had been closed"),
    ],
)
def test_it_fails_if_a_step_does(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[ToolSet], object], expectation: str
) -> None:
    tools = fresh_shop()
    change(tools)
    monkeypatch.setattr(scenario, "tools", tools)
    result = invoke("demo")
    assert result.exit_code == 1
    assert "✗" in result.stdout
    assert f"expected: {expectation}" in result.stdout
    assert "All 8 steps" not in result.stdout
