"""`toolfold demo`."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.support import invoke
from toolfold import ToolSet
from toolfold_cli import scenario
from toolfold_cli.library import desk


@pytest.mark.spec("CALL-1", "ACT-4", "HOOK-4", "HOOK-5", "NTF-1", "DEL-1")
async def test_every_step_succeeds() -> None:
    steps: list[scenario.DemoStep] = []
    await scenario.play(steps.append)
    assert [step.failures for step in steps] == [()] * 8
    assert [step.notices for step in steps] == [0, 0, 1, 0, 1, 1, 1, 2]
    assert steps[0].after == steps[-1].after < steps[0].before


def test_it_prints_each_step_with_its_answers() -> None:
    result = invoke("demo")
    assert (result.exit_code, result.stderr) == (0, "")
    assert "\x1b" not in result.stdout
    assert result.stdout.count("✓") == 8
    assert "error -32602: Unknown tool: catalog__search" in result.stdout
    assert "All 8 steps succeeded." in result.stdout


def test_it_prints_json() -> None:
    result = invoke("demo", "--json")
    assert result.exit_code == 0
    steps = json.loads(result.stdout)
    assert len(steps) == 8
    assert set(steps[0]) == {"title", "request", "answers", "listed", "before", "after", "notices", "failures"}


def broken_by(change: Callable[[ToolSet], object]) -> Callable[[list[str] | None], ToolSet]:
    """Return a function that makes the library's desk with something changed."""
    make = desk

    def made(hook_log: list[str] | None = None) -> ToolSet:
        tools = make(hook_log)
        change(tools)
        return tools

    return made


@pytest.mark.parametrize(
    ("change", "expectation"),
    [
        (lambda tools: tools.register("extra", print, input_schema={"type": "object"}), "only the tools in no group"),
        (lambda tools: tools.unregister("catalog.search"), "the tools of the group are listed"),
        (lambda tools: tools.unregister("catalog.loans.lend"), "its tool answers"),
        (lambda tools: tools.register_exclusion("catalog", "stocktake"), "both close"),
    ],
)
def test_it_fails_if_a_step_does(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[ToolSet], object], expectation: str
) -> None:
    monkeypatch.setattr(scenario, "desk", broken_by(change))
    result = invoke("demo")
    assert result.exit_code == 1
    assert "✗" in result.stdout
    assert f"expected: {expectation}" in result.stdout
    assert "All 8 steps" not in result.stdout
