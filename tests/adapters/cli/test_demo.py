"""`toolfold demo`, and the story that it tells."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.adapters.cli.support import invoke, run
from toolfold import ToolSet
from toolfold_adapters import demo


@pytest.mark.spec("CALL-1", "ACT-4", "HOOK-4", "HOOK-5", "NTF-1", "DEL-1")
async def test_every_step_of_the_story_comes_out_as_it_should() -> None:
    steps: list[demo.Told] = []
    await demo.story(steps.append)
    assert [step.failures for step in steps] == [()] * 8
    assert [step.notices for step in steps] == [0, 0, 1, 0, 1, 1, 1, 2]
    assert steps[0].after == steps[-1].after < steps[0].before


def test_it_ends_with_0_without_a_terminal_or_colours(tmp_path: Path) -> None:
    done = run("demo", cwd=tmp_path, NO_COLOR="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "\x1b" not in done.stdout
    assert done.stdout.count("✓") == 8
    assert "error -32602: Unknown tool: catalog__search" in done.stdout
    assert "All 8 steps went as they should." in done.stdout


def test_it_prints_json() -> None:
    result = invoke("demo", "--json")
    assert result.exit_code == 0
    steps = json.loads(result.stdout)
    assert len(steps) == 8
    assert set(steps[0]) == {"title", "request", "answers", "listed", "before", "after", "notices", "failures"}


def broken_by(change: Callable[[ToolSet], object]) -> Callable[[list[str] | None], ToolSet]:
    """Return a maker of the library's desk with something changed."""
    make = demo.library_desk

    def made(journal: list[str] | None = None) -> ToolSet:
        tools = make(journal)
        change(tools)
        return tools

    return made


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda tools: tools.register("extra", print, input_schema={"type": "object"}), "only the tools in no group"),
        (lambda tools: tools.unregister("catalog.search"), "the tools of the group are listed"),
        (lambda tools: tools.unregister("catalog.loans.lend"), "its tool answers"),
        (lambda tools: tools.register_exclusion("catalog", "stocktake"), "both close"),
    ],
)
def test_it_ends_with_1_if_a_step_does_not_come_out(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[ToolSet], object], said: str
) -> None:
    monkeypatch.setattr(demo, "library_desk", broken_by(change))
    result = invoke("demo")
    assert result.exit_code == 1
    assert "✗" in result.stdout
    assert f"this does not hold: {said}" in result.stdout
    assert "All 8 steps" not in result.stdout
