"""`toolfold call`: one call of a tool."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import invoke


@pytest.mark.parametrize("name", ["orders.place", "orders__place", "place"])
def test_a_tool_is_called_in_its_group_which_is_opened(shop: Path, name: str) -> None:
    result = invoke("call", "shop:tools", name, '{"item": "tea", "count": 2}')
    assert (result.exit_code, result.stdout) == (0, "2 of tea\n")
    assert "a handler prints" in result.stderr


def test_hooks_run_and_groups_inside_others_are_opened(shop: Path) -> None:
    assert invoke("call", "shop:tools", "orders.returns.take_back", '{"item": "tea"}').stdout == "took back tea\n"
    counted = invoke("call", "shop:tools", "count", '{"item": "tea"}', "--json")
    assert json.loads(counted.stdout) == {
        "content": [{"type": "text", "text": "3"}],
        "structured": {"result": 3},
        "is_error": False,
    }
    assert "the cellar is lit" in counted.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("place", "{}"), '"item" is a required property'),
        (("plaice",), "There is no tool 'plaice'. Did you mean orders.place?"),
        (("zzz",), "toolfold inspect TARGET --tools lists them."),
        (("count", '{"item": "tea"}', "--active", "orders"), "cellar"),
        (("place", '{"item": "tea"}', "--profile", "look"), "orders"),
    ],
)
def test_a_call_that_fails_ends_with_1_and_says_why(shop: Path, arguments: tuple[str, ...], message: str) -> None:
    result = invoke("call", "shop:tools", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert message in result.stderr


ANSWERING = """
from toolfold import ToolResult, ToolSet

tools = ToolSet("answering")
tools.register("an_object", lambda: ToolResult(structured={"total": 12.5}))
tools.register("a_list", lambda: ToolResult(structured=[4711, 4712]))
tools.register("an_error", lambda: ToolResult(({"type": "error", "text": "no number"},), is_error=True))
"""


def test_what_a_result_says_in_another_way_than_by_text_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answering_otherwise.py").write_text(ANSWERING)
    results = [invoke("call", "answering_otherwise.py", name) for name in ("an_object", "a_list", "an_error")]
    assert [(result.exit_code, result.stdout) for result in results] == [
        (0, '{"total": 12.5}\n'),
        (0, "[4711, 4712]\n"),
        (1, ""),
    ]
    assert "no number" in results[-1].stderr


@pytest.mark.parametrize(
    ("words", "called"),
    [
        (["item=tea", "count=2"], "2 of tea\n"),
        (["item=7"], "1 of 7\n"),
        (["item=a=b"], "1 of a=b\n"),
        (['{"item": "tea"}'], "1 of tea\n"),
    ],
)
def test_arguments_are_names_with_values_or_an_object(shop: Path, words: list[str], called: str) -> None:
    result = invoke("call", "shop:tools", "place", *words)
    assert (result.exit_code, result.stdout) == (0, called)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["item=tea", "count"], "NAME=VALUE each, or as one JSON object"),
        (["item=tea", "item=milk"], "item is given twice; a list is JSON"),
        (["{item: tea}"], "The arguments are neither NAME=VALUE each nor JSON"),
        (["tea"], "The arguments are neither NAME=VALUE each nor JSON"),
    ],
)
def test_arguments_that_are_neither_are_refused_with_what_to_write(shop: Path, words: list[str], message: str) -> None:
    result = invoke("call", "shop:tools", "place", *words)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
