"""`toolfold evaluate`: its tables, files, messages and exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.support import invoke
from toolfold_adapters.evaluation import read_records

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


def test_no_tasks_that_can_be_suggested_are_a_failure(shop: Path) -> None:
    code = (
        "from toolfold import ToolSet\n"
        "tools = ToolSet('bare')\n"
        "tools.register('buy', print, description='Buy.', "
        "input_schema={'type': 'object', 'properties': {'item': {'type': 'string'}}, 'required': ['item']})\n"
    )
    (shop / "bare.py").write_text(code, encoding="utf-8")
    done = invoke("evaluate", "bare:tools", "--suggest")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("toolfold: No tasks can be made: of 1 tool, none has examples")
