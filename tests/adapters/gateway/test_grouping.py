"""Groups from names and by patterns."""

from __future__ import annotations

import pytest

from toolfold_adapters.gateway import by_pattern, by_prefix
from toolfold_adapters.gateway.grouping import description_of

pytestmark = pytest.mark.spec("GWY-2")


def test_three_tools_with_the_same_first_word_are_a_group_and_two_are_not() -> None:
    names = ["pods_get", "pods_list", "pods_log", "helm_list", "helm_install", "view"]
    assert by_prefix(names) == {"pods": ("pods_get", "pods_list", "pods_log")}


@pytest.mark.parametrize(
    "names",
    [
        ("issue_get", "issue-list", "issue.close", "other"),
        ("issueGet", "issueList", "IssueClose", "other"),
        ("issue/get", "issue list", "issue:close", "other"),
        ("issue", "issue_list", "issue_close", "other"),
    ],
)
def test_a_word_ends_at_any_sign_and_at_a_hump(names: tuple[str, ...]) -> None:
    assert by_prefix(names) == {"issue": names[:3]}


def test_capitals_in_a_row_are_one_word() -> None:
    assert by_prefix(["HTTPGet", "HTTPPut", "HTTPHead", "x"]) == {"http": ("HTTPGet", "HTTPPut", "HTTPHead")}


def test_words_that_all_names_begin_with_are_passed_over() -> None:
    cookies = ("browser_cookie_list", "browser_cookie_get", "browser_cookie_set")
    assert by_prefix([*cookies, "browser_click", "browser"]) == {"cookie": cookies}
    assert by_prefix([f"my_{name}" for name in (*cookies, "browser_click")]) == {
        "cookie": tuple(f"my_{name}" for name in cookies)
    }


@pytest.mark.parametrize("names", [[], ["one"], ["a_b_c"], ["getUser", "get_user", "get-user"], ["___", "…", "日本"]])
def test_names_that_give_no_groups_give_none(names: list[str]) -> None:
    assert by_prefix(names) == {}


def test_a_group_is_an_allowed_segment_however_long_the_word() -> None:
    assert list(by_prefix(["y" * 80 + "_a", "y" * 80 + "_b", "y" * 80 + "_c", "z"])) == ["y" * 64]


def test_the_first_group_whose_pattern_matches_has_the_tool() -> None:
    names = ["get_a", "set_a", "get_b", "Get_c"]
    groups, warnings = by_pattern(names, {"b": ["*_b"], "read": ["get_?", "get_*"], "rest": ["*"]})
    assert groups == {"b": ("get_b",), "read": ("get_a",), "rest": ("set_a", "Get_c")}
    assert warnings == []


def test_a_pattern_that_brings_nothing_is_a_warning_that_says_why() -> None:
    groups, warnings = by_pattern(["get_a"], {"read": ["get_*"], "late": ["get_a"], "none": ["put_*"]})
    assert groups == {"read": ("get_a",), "late": (), "none": ()}
    assert warnings == [
        "The pattern 'get_a' of group 'late' matches only tools that an earlier group has taken.",
        "The pattern 'put_*' of group 'none' matches none of the server's tools.",
    ]


def test_a_description_counts_the_tools_and_names_a_few() -> None:
    assert description_of(["a"]) == "1 tool: a"
    assert description_of(list("abcde")) == "5 tools: a, b, c, d, e"
    assert description_of(list("abcdefg")) == "7 tools: a, b, c, d, e, …"
    assert description_of([]) == ""
