"""`toolfold evaluate`: its tables, files, messages and exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import invoke
from toolfold_adapters.evaluation import ARMS, read_records

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


def test_tasks_on_ones_own_tools_are_played_without_running_a_handler(tasks: str) -> None:
    result = invoke("evaluate", "shop:tools", "--tasks", tasks)
    assert result.exit_code == 0, result.stderr
    first, head, *rows = result.stdout.splitlines()
    assert first.startswith("perfect (script; seed 0; tasks ")
    assert head.split()[:3] == ["ARM", "TOOLS", "DONE"]
    assert [row.split()[:3] for row in rows if row] == [[arm, "all", "1/1"] for arm in ARMS]
    assert "a handler prints" not in result.stderr


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


def test_a_run_of_records_is_judged_again(tasks: str) -> None:
    assert invoke("evaluate", "shop:tools", "--tasks", tasks, "--arm", "groups", "-o", "runs.jsonl").exit_code == 0
    result = invoke("evaluate", "shop:tools", "--tasks", tasks, "--replay", "runs.jsonl")
    assert result.stdout.startswith("perfect, again (transcript; ")
    assert "\ngroups " in result.stdout
    assert "everything" not in result.stdout


def test_too_few_tasks_done_are_a_failure_that_says_where(tasks: str) -> None:
    arguments = ("evaluate", "shop:tools", "--tasks", tasks, "--player", "reckless", "--arm", "groups,everything")
    result = invoke(*arguments, "--require", "50")
    assert result.exit_code == 1
    assert "tea: orders.returns.take_back was called, which is forbidden" in result.stdout
    assert "reckless did 0 of 1 tasks with everything and all tools; 50% are required." in result.stderr
    assert "1 row of the table" in result.stderr
    assert invoke(*arguments, "--require", "0").exit_code == 0


def test_how_servers_answer_is_recorded_with_the_figures(tasks: str) -> None:
    given = ("evaluate", "shop:tools", "--tasks", tasks, "--arm", "groups", "--answers", "names")
    result = invoke(*given, "--answer-tokens", "1500")
    assert "; answers names; answer_tokens 1500)" in result.stdout
    assert "answer_tokens must be at least 1200, not 5." in invoke(*given, "--answer-tokens", "5").stderr


def test_the_page_is_written(tasks: str) -> None:
    assert invoke("evaluate", "shop:tools", "--tasks", tasks, "--report", "page.html", "--price", "3/15").exit_code == 0
    assert "$3 and $15 for a million tokens" in Path("page.html").read_text(encoding="utf-8")


def test_the_built_in_tasks_need_no_target() -> None:
    result = invoke("evaluate", "--arm", "groups", "--size", "20", "--player", "calls-first", "--require", "100")
    assert result.exit_code == 0, result.stderr
    assert "70/70" in result.stdout


def test_tasks_are_suggested(shop: Path) -> None:
    result = invoke("evaluate", "shop:tools", "--suggest")
    assert result.exit_code == 0
    assert "# Without examples of all required arguments: " in result.stdout


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("shop:tools",), 2, "Give the --tasks for these tools"),
        (("shop:tools", "--live-mcp-bench", "."), 2, "leave out TARGET and --tasks"),
        (("--live-mcp-bench", "."), 1, "has no LiveMCPBench that can be read"),
        (("shop:tools", "--tasks", "none.toml"), 1, "none.toml: it can't be read"),
        (("shop:tools", "--tasks", "bad.toml"), 1, "bad.toml, task 'tea', call 1: there is no tool 'orders.plaice'."),
        (("--player", "lucky"), 1, "There is no player 'lucky'; there are perfect"),
        (("--arm", "none"), 1, "There is no arm 'none'; there are everything"),
        (("--host", "none", "--model", "x:y"), 1, "There is no host 'none'"),
        (("--host", "codex"), 1, "--host is for models; the script with the view of this host is --player codex."),
        (("--model", "x:y"), 1, "The model 'x:y' can't be used"),
        (("--size", "0"), 1, "--size 0: it is a number of tools from 1 to 1,000, or all."),
        (("--replay", "none.jsonl"), 1, "There is no file none.jsonl to replay."),
        (("--price", "3"), 2, "'3' is not READ/WRITTEN, such as 3/15."),
        (("--size", "20", "--arm", "groups", "-o", "folder/runs.jsonl"), 1, "folder/runs.jsonl can't be written"),
        (("--size", "20", "--arm", "groups", "--report", "folder/page.html"), 1, "there is no folder folder."),
    ],
)
def test_mistakes_are_named(shop: Path, arguments: tuple[str, ...], status: int, message: str) -> None:
    (shop / "bad.toml").write_text(TASKS.replace("orders.place", "orders.plaice"), encoding="utf-8")
    result = invoke("evaluate", *arguments)
    assert (result.exit_code, message in result.stderr) == (status, True), result.stderr
