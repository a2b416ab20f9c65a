"""Groups from the nouns of names, and by patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolfold import qualified_name
from toolfold_adapters.gateway.grouping import by_pattern, description_of
from toolfold_adapters.nouns import Sized, divide, nouns_of

pytestmark = pytest.mark.spec("GWY-2")

Groups = Mapping[str, Sequence[str]]


def sized(*names: str, tokens: int = 100) -> list[Sized]:
    return [Sized(name=name, tokens=tokens) for name in names]


def cross(verbs: str, nouns: str, form: str = "{verb}_{noun}") -> list[str]:
    return [form.format(verb=verb, noun=noun) for noun in nouns.split() for verb in verbs.split()]


VERBS = "get list create update delete"


@pytest.mark.parametrize(
    "form", ["{verb}_{noun}", "{noun}_{verb}", "{noun}-{verb}", "{noun}.{verb}", "api_{verb}_{noun}"]
)
def test_tools_go_together_by_their_noun_wherever_it_stands(form: str) -> None:
    names = cross(VERBS, "issue branch release", form)
    groups = divide(sized(*names), budget=500)
    assert {group: set(members) for group, members in groups.items()} == {
        noun: {name for name in names if noun in name} for noun in ("branch", "issue", "release")
    }


def test_words_end_at_humps_and_plurals_count_as_the_singular() -> None:
    names = ["getIssue", "listIssues", "IssueClose", "list_entries", "getEntry", "entry.delete"]
    assert divide(sized(*names), budget=300) == {"entry": tuple(names[3:]), "issue": tuple(names[:3])}


def test_what_all_names_have_in_common_says_nothing() -> None:
    names = cross(VERBS, "cookie video", "browser_{noun}_{verb}")
    assert set(divide(sized(*names), budget=500)) == {"cookie", "video"}


def test_nouns_that_always_stand_together_name_the_group_together() -> None:
    names = [*cross(VERBS, "pull_request"), *cross(VERBS, "branch")]
    assert set(divide(sized(*names), budget=500)) == {"branch", "pull_request"}


def test_a_noun_that_is_over_the_budget_is_divided_by_the_next_one() -> None:
    names = [
        *cross(VERBS, "issue"),
        *cross(VERBS, "issue_comment"),
        *cross(VERBS, "issue_label"),
        "get_me",
        "ping",
        "run",
    ]
    groups = divide(sized(*names), budget=600)
    assert {"issue_comment", "issue_label"} < set(groups)
    assert set(groups["issue_comment"]) == set(cross(VERBS, "issue_comment"))


def test_a_name_without_a_noun_goes_by_its_description() -> None:
    tools = [
        *sized(*cross(VERBS, "issue branch")),
        Sized(name="search", description="Find issues by text.", tokens=100),
    ]
    assert "search" in divide(tools, budget=600)["issue"]


def test_tools_that_no_noun_joins_are_together_within_the_budget_and_named_by_their_words() -> None:
    names = [f"{verb}_{noun}" for verb, noun in zip(VERBS.split(), ["ant", "bee", "cat", "dog", "eel"], strict=True)]
    assert divide(sized(*names), budget=500) == {"ant_bee_cat": tuple(names)}
    assert {name: len(group) for name, group in divide(sized(*names, "run"), budget=500).items()} == {
        "run_ant_bee": 3,
        "cat_dog_eel": 3,
    }


def test_parts_of_a_noun_that_nothing_divides_are_named_by_what_their_tools_do() -> None:
    names = [f"{verb}_event" for verb in ("create", "delete", "move", "list", "get", "find")]
    assert divide(sized(*names), budget=300) == {
        "create_delete_move": tuple(names[:3]),
        "list_get_find": tuple(names[3:]),
    }
    groups = divide(sized(*names, *cross(VERBS, "calendar")), budget=500)
    assert set(groups) == {"calendar", "event_create_delete_move", "event_list_get_find"}


def test_tags_come_before_nouns_and_nouns_divide_a_tag_that_is_over_the_budget() -> None:
    names = cross(VERBS, "issue branch")
    tools = [Sized(name=name, tags=["Project Management"], tokens=100) for name in names]
    tools += [Sized(name=f"{verb}_issue_type", tags=("admin",), tokens=100) for verb in ("get", "set", "list")]
    assert set(divide(tools, budget=500)) == {"admin", "project_management_branch", "project_management_issue"}


def test_a_group_that_is_too_small_in_tokens_joins_another_such_one() -> None:
    names = [*cross("get set list", "ant"), *cross("get set list", "bee"), *cross(VERBS, "cat")]
    tools = [Sized(name=name, tokens=10 if "cat" not in name else 160) for name in names]
    assert set(divide(tools, budget=800)) == {"ant_bee", "cat"}


def test_verbs_are_nouns_where_they_come_later() -> None:
    assert nouns_of("list_releases") == ("release",)
    assert nouns_of("release_lock") == ("lock",)
    assert nouns_of("add_issue_comment") == ("issue", "comment")
    assert nouns_of("search") == ()


WORDS = ["get", "list", "create", "search", "run", "pod", "log", "issue", "comment", "branch", "file", "x1", "ü"]
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("_".join)
TOOLS = st.lists(
    st.builds(
        Sized, name=NAMES, description=st.sampled_from(["", "Lists pods.", "Of files"]), tokens=st.integers(1, 900)
    ),
    max_size=40,
    unique_by=lambda tool: tool.name,
)


@settings(deadline=None)
@given(tools=TOOLS, budget=st.integers(100, 3000))
@example(
    tools=[*sized("get", "issue", tokens=1), *sized("search", tokens=108), *sized("create", tokens=191)], budget=109
)
@example(
    tools=[
        *sized("get", "list", tokens=1),
        *sized("get_get_get", tokens=267),
        *sized("run", tokens=143),
        *sized("comment", tokens=395),
    ],
    budget=268,
)
def test_every_tool_is_in_one_group_within_the_budget_and_of_three_where_there_is_room(
    tools: list[Sized], budget: int
) -> None:
    groups = divide(tools, budget)
    tokens = {tool.name: tool.tokens for tool in tools}
    assert sorted(name for members in groups.values() for name in members) == sorted(tokens)
    sizes = {group: sum(tokens[name] for name in members) for group, members in groups.items()}
    for group, members in groups.items():
        assert qualified_name("", group) == group
        assert sizes[group] <= budget or len(members) == 1
        if len(members) < 3:
            assert all(sizes[group] + size > budget for other, size in sizes.items() if other != group)
    assert divide(tools, budget) == groups


def test_the_first_group_whose_pattern_matches_has_the_tool() -> None:
    names = {name: (name,) for name in ("get_a", "set_a", "get_b", "Get_c")}
    groups, warnings = by_pattern(names, {"b": ["*_b"], "read": ["get_?", "get_*"], "rest": ["*"]})
    assert groups == {"b": ("get_b",), "read": ("get_a",), "rest": ("set_a", "Get_c")}
    assert warnings == []


def test_a_pattern_that_brings_nothing_is_a_warning_that_says_why() -> None:
    groups, warnings = by_pattern({"get_a": ("get_a",)}, {"read": ["get_*"], "late": ["get_a"], "none": ["put_*"]})
    assert groups == {"read": ("get_a",), "late": (), "none": ()}
    assert warnings == [
        "The pattern 'get_a' of group 'late' matches only tools that an earlier group has taken.",
        "The pattern 'put_*' of group 'none' matches none of the tools.",
    ]


def test_a_description_counts_the_tools_and_names_a_few_without_what_they_begin_with() -> None:
    assert description_of(["a"]) == "1 tool: a"
    assert description_of(["a_b", "a_c"]) == "2 tools: b, c"
    assert description_of(["pod_list", "pod_log"]) == "2 tools: list, log"
    many = description_of([f"a{number:09}" for number in range(30)])
    assert many.startswith("30 tools: a000000000, a000000001")
    assert many.endswith(", …")
    assert len(many) < 125
    assert description_of([]) == ""
