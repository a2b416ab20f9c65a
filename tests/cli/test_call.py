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
