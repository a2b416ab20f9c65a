"""`toolfold explain` and `toolfold check`: why a tool can or can't be called, and whether an agent can have it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.support import invoke


def rows(text: str) -> list[list[str]]:
    """Return the words of the lines of a table, without its heading."""
    return [line.split() for line in text.splitlines()[1:]]


@pytest.mark.spec("EXP-1")
def test_a_tool_is_explained_in_a_state_by_any_of_its_names(shop: Path) -> None:
    closed = invoke("explain", "shop:tools", "take_back", "orders__returns__take_back", "orders.returns.take_back")
    assert closed.exit_code == 0
    text = "orders.returns.take_back ancestor It needs the group orders.returns, which is closed as long as orders is: "
    assert {" ".join(row) for row in rows(closed.stdout)} == {f"{text}call orders__activate first."}
    opened = invoke("explain", "shop:tools", "take_back", "hours", "--active", "orders,orders.returns", "--json")
    assert [(one["name"], one["why"]) for one in json.loads(opened.stdout)] == [
        ("orders.returns.take_back", "listed"),
        ("hours", "listed"),
    ]


@pytest.mark.spec("EXP-1")
def test_what_a_profile_leaves_out_and_what_does_not_exist_are_distinguished(shop: Path) -> None:
    result = invoke("explain", "shop:tools", "orders.place", "plaice", "--profile", "look", "--json")
    assert result.exit_code == 1
    assert [one["text"] for one in json.loads(result.stdout)] == [
        "The profile leaves it out.",
        "There is no tool 'plaice'.",
    ]
    near = invoke("explain", "shop:tools", "orders.plaice")
    assert "There is no tool 'orders.plaice'; did you mean 'orders.place', " in near.stdout


@pytest.mark.spec("EXP-1", "EXP-2")
@pytest.mark.parametrize("command", ["explain", "check"])
def test_names_have_to_be_given(shop: Path, command: str) -> None:
    result = invoke(command, "shop:tools")
    assert result.exit_code == 2
    assert "Say which tools it is about" in result.stderr


@pytest.mark.spec("EXP-2")
def test_a_check_names_the_openings_and_what_excludes_what(shop: Path) -> None:
    result = invoke("check", "shop:tools", "hours", "take_back", "cellar.count")
    assert result.exit_code == 0
    assert rows(result.stdout) == [
        ["hours", "yes"],
        ["orders.returns.take_back", "yes", "orders,", "orders.returns"],
        ["cellar.count", "yes", "cellar"],
        ["orders.returns.take_back", "and", "cellar.count", "can't", "be", "called", "at", "the", "same", "time."],
    ]
    data = json.loads(invoke("check", "shop:tools", "take_back", "cellar.count", "--json").stdout)
    assert [one["open"] for one in data["tools"]] == [["orders", "orders.returns"], ["cellar"]]
    assert data["apart"] == [["orders.returns.take_back", "cellar.count"]]


@pytest.mark.spec("EXP-2")
def test_what_cannot_be_had_fails_the_check_and_says_why(shop: Path) -> None:
    result = invoke("check", "shop:tools", "hours", "orders.place", "nothing", "--profile", "look")
    assert result.exit_code == 1
    assert [row[:2] for row in rows(result.stdout)] == [["hours", "no"], ["orders.place", "no"], ["nothing", "no"]]
    assert rows(result.stdout)[1][2:] == ["The", "profile", "leaves", "it", "out."]


@pytest.mark.spec("EXP-2", "SKL-2")
def test_names_are_read_from_a_skill_and_from_a_file(shop: Path, tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(
        "---\nname: till\ndescription: Sell.\nallowed-tools: hours orders__place Bash(git:*)\n---\nSell it.\n", "utf-8"
    )
    (tmp_path / "needed.txt").write_text("# what the night shift needs\nhours   # when\n\ncount\n", "utf-8")
    result = invoke("check", "shop:tools", "--skill", str(tmp_path), "--file", str(tmp_path / "needed.txt"))
    assert result.exit_code == 1
    assert [row[:2] for row in rows(result.stdout)[:4]] == [
        ["hours", "yes"],
        ["orders.place", "yes"],
        ["Bash", "no"],
        ["cellar.count", "yes"],
    ]


@pytest.mark.spec("EXP-1", "SES-5")
@pytest.mark.parametrize(
    ("fact", "why"), [("role=manager", "listed"), ("role=clerk", "predicate"), ("role=5", "predicate")]
)
def test_a_tool_is_explained_for_a_caller_with_given_facts(fact: str, why: str) -> None:
    groups = "orders,orders.refunds"
    result = invoke(
        "explain", "toolfold_cli.shop:tools", "orders.refunds.pay", "--active", groups, "--fact", fact, "--json"
    )
    assert [one["why"] for one in json.loads(result.stdout)] == [why]


def test_a_fact_without_a_value_is_refused() -> None:
    result = invoke("explain", "toolfold_cli.shop:tools", "orders.find", "--fact", "role")
    assert result.exit_code == 2
    assert "NAME=VALUE" in result.stderr
