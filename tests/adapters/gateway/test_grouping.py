"""Groups by the names of tools, and by patterns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolfold_adapters.gateway.describing import description_of
from toolfold_adapters.gateway.grouping import by_pattern
from toolfold_adapters.manifests import nouns
from toolfold_adapters.manifests.nouns import MIN_TOOLS, Sized, divide, nouns_of, words_of

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


def test_two_nouns_that_people_say_together_are_one_name() -> None:
    names = [*cross(VERBS, "pull_request"), *cross(VERBS, "branch")]
    assert set(divide(sized(*names), budget=500)) == {"branch", "pull_request"}


def test_a_part_that_is_over_the_budget_has_parts_in_it() -> None:
    comments, labels = cross(VERBS, "issue_comment"), cross(VERBS, "issue_label")
    names = [*cross(VERBS, "branch"), *cross(VERBS, "issue"), *comments, *labels, "get_me", "ping", "run"]
    assert divide(sized(*names), budget=600) == {
        "branch": tuple(cross(VERBS, "branch")),
        "issue": tuple(cross(VERBS, "issue")),
        "issue.comment": tuple(comments),
        "issue.label": tuple(labels),
    }


def test_the_word_that_names_begin_with_comes_before_a_noun_that_more_share() -> None:
    names = [*cross("helm kcp", "release chart values", "{verb}_{noun}"), *cross(VERBS, "release", "{verb}_{noun}")]
    assert set(divide(sized(*names), budget=500)) == {"helm", "kcp", "release"}


UNNAMED = {
    "verbs alone": "close resize evaluate find click drag type press hover",
    "a noun for each": "get_ant list_bee create_cat update_dog delete_eel run_fox open_gnu stop_hen add_ibex",
    "two of each": " ".join(cross("get list", "ant bee cat dog eel")),
    "one noun for all": " ".join(f"{verb}_event" for verb in ["create", "delete", "move", "list", "get", "find"]),
    "a noun for a third": " ".join([*cross("get list drop", "ant"), *["close", "find", "run", "add", "send", "turn"]]),
    "what is no noun": " ".join(cross(VERBS, "visible recent")),
    "other letters": " ".join(cross("a b c d", "größe höhe")),
}


@pytest.mark.parametrize("names", UNNAMED.values(), ids=UNNAMED)
def test_a_server_whose_parts_have_no_names_has_none(names: str) -> None:
    assert divide(sized(*names.split()), budget=300) == {}


def test_tools_without_a_name_that_tells_stay_with_the_server() -> None:
    groups = divide(sized(*cross(VERBS, "issue branch"), "search", "get_me", "list_user"), budget=500)
    assert {name for own in groups.values() for name in own} == {*cross(VERBS, "issue branch")}


def test_tags_come_before_names() -> None:
    names = cross(VERBS, "issue branch")
    tools = [Sized(name=name, tags=["Project Management"], tokens=100) for name in names]
    tools += [Sized(name=f"{verb}_issue_type", tags=("admin", "rare"), tokens=100) for verb in ("get", "set", "list")]
    tools += [Sized(name=name, tags=(f"t{name}", "größe", "long " * 20), tokens=100) for name in cross(VERBS, "page")]
    assert set(divide(tools, budget=500)) == {
        "admin",
        "page",
        "project_management",
        "project_management.branch",
        "project_management.issue",
    }


def test_verbs_are_nouns_where_they_come_later() -> None:
    assert nouns_of("list_releases") == ("release",)
    assert nouns_of("release_lock") == ("lock",)
    assert nouns_of("add_issue_comment") == ("issue", "comment")
    assert nouns_of("search") == ()


WORDS = ["get", "list", "create", "search", "run", "pod", "log", "issue", "comment", "branch", "file", "x1", "ü"]
NAMES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map("_".join)
TOOLS = st.lists(
    st.builds(Sized, name=NAMES, tokens=st.integers(1, 900)),
    max_size=40,
    unique_by=lambda tool: tool.name,
)


@settings(deadline=None)
@given(tools=TOOLS, budget=st.integers(100, 3000))
def test_parts_have_three_tools_or_parts_of_their_own_and_each_tool_is_in_one_at_most(
    tools: list[Sized], budget: int
) -> None:
    parts = divide(tools, budget)
    members = [name for own in parts.values() for name in own]
    assert len(members) == len({*members})
    assert {*members} <= {tool.name for tool in tools}
    for path, own in parts.items():
        assert len(own) >= MIN_TOOLS or any(other.startswith(f"{path}.") for other in parts)
        assert re.fullmatch(r"[a-z][a-z0-9]*(\.[a-z][a-z0-9]*)?", path)
    assert divide(tools, budget) == parts
    assert not parts or len({path.partition(".")[0] for path in parts}) > 1


@pytest.mark.spec("GWY-2", "SAF-1")
def test_what_dividing_costs_grows_with_the_number_of_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[str] = []

    def counting(text: str) -> tuple[str, ...]:
        counted.append(text)
        return words_of(text)

    monkeypatch.setattr(nouns, "words_of", counting)
    costs: list[int] = []
    for size in (400, 4000):
        counted.clear()
        divide(sized(*(f"get_{chr(97 + number % 26)}x{number // 3}_{number}" for number in range(size))), budget=500)
        costs.append(len(counted))
    assert costs[1] <= 10 * costs[0]


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


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ("a", "1 tool: a"),
        ("a_b a_c", "2 tools: b, c"),
        ("pod_list pod_log", "2 tools: list, log"),
        (
            " ".join(f"a{at:09}" for at in range(30)),
            "30 tools: " + ", ".join(f"a{at:09}" for at in range(6)) + " and 24 more",
        ),
        ("", ""),
    ],
)
def test_a_description_counts_the_tools_and_names_a_few_without_what_they_begin_with(names: str, text: str) -> None:
    assert description_of(names.split()) == text
