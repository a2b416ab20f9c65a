"""`toolfold evaluate`: its tables, files, messages and exit status."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.cli.support import invoke
from toolfold_adapters.evaluation import Choice, read_lines, read_records

pytestmark = pytest.mark.spec("EVA-1")

TASKS = """
[[tasks]]
id = "tea"
ask = "Two teas, please."
calls = [{ tool = "orders.place", query = "order an item", arguments = { item = "tea", count = 2 }, result = "No. 5" }]
forbidden = ["orders.returns.take_back"]
"""


@pytest.fixture
def tasks(shop: Path) -> str:
    (shop / "tasks.toml").write_text(TASKS, encoding="utf-8")
    return "tasks.toml"


def test_a_run_is_recorded_and_goes_on_where_it_was_ended(tasks: str) -> None:
    file = Path("runs.jsonl")
    arguments = ("evaluate", "shop:tools", "--tasks", tasks, "--size", "all,20", "-o", str(file))
    assert invoke(*arguments).exit_code == 0
    whole = file.read_bytes()
    assert len(read_records(file)) == 14
    lines = whole.splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:7]) + lines[7][:40])
    assert invoke(*arguments).exit_code == 0
    assert file.read_bytes().splitlines(keepends=True)[:7] == lines[:7]
    assert [one.model_copy(update={"seconds": 0}) for one in read_records(file)] == [
        type(one).model_validate_json(line).model_copy(update={"seconds": 0})
        for one, line in zip(read_records(file), lines, strict=True)
    ]


def test_suggested_tasks_are_played_and_kept_in_a_new_file(shop: Path) -> None:
    arguments = ("evaluate", "shop:tools", "--suggest", "--tasks", "made.toml", "--arm", "groups")
    done = invoke(*arguments, "--require", "100", "-o", "choices.jsonl", "--report", "page.html")
    assert done.exit_code == 0, done.stderr
    assert "4 tasks, of 4 tools: the requests are sentences of descriptions" in done.stdout
    assert re.search(r"^groups +all +4/4 ", done.stdout, re.MULTILINE)
    assert re.search(r"^first found, no model +all +4/4 ", done.stdout, re.MULTILINE)
    assert len(read_lines(Path("choices.jsonl"), Choice)) == 4
    assert "<h1>Evaluation</h1>" in Path("page.html").read_text(encoding="utf-8")
    kept = Path("made.toml").read_text(encoding="utf-8")
    assert invoke("evaluate", "shop:tools", "--tasks", "made.toml", "--require", "100").exit_code == 0
    again = invoke(*arguments)
    assert again.exit_code == 1
    assert again.stderr.startswith("toolfold: made.toml exists already: leave out --suggest to play its tasks")
    assert Path("made.toml").read_text(encoding="utf-8") == kept


@pytest.mark.parametrize(
    ("text", "group", "problem"),
    [
        ("", '"all"', "No tasks can be made: of 1 tool, none has a description"),
        ("Buy.", "None", "These tools are in no"),
    ],
)
def test_no_tasks_that_can_be_suggested_are_a_failure(shop: Path, text: str, group: str, problem: str) -> None:
    code = (
        "from toolfold import ToolSet\n"
        "tools = ToolSet('bare')\n"
        "tools.register_group('all', 'All')\n"
        f"tools.register('buy', print, description='{text}', input_schema={{'type': 'object'}}, group={group})\n"
    )
    (shop / "bare.py").write_text(code, encoding="utf-8")
    done = invoke("evaluate", "bare:tools", "--suggest")
    assert (done.exit_code, done.stdout) == (1, "")
    assert f"toolfold: {problem}" in done.stderr


def test_suggested_tasks_are_chosen_for_anyway(shop: Path) -> None:
    done = invoke("evaluate", "shop:tools", "--suggest", "--choices")
    assert done.exit_code == 2
    assert "--suggest has models choose anyway: leave out --choices." in done.stderr


def test_a_smaller_sample_of_suggested_tasks_is_made_on_demand(shop: Path) -> None:
    done = invoke("evaluate", "shop:tools", "--suggest", "--sample", "2", "--arm", "groups")
    assert done.exit_code == 0, done.stderr
    assert "2 tasks, of 4 tools: " in done.stdout
