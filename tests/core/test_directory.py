"""SPEC CTL-7: whatever the number of groups, what a host shows of a directory names or counts them all."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.core.support import answer
from toolfold import Loader, ToolSet
from toolfold._view.describe import Directory

pytestmark = pytest.mark.spec("CTL-7")

NAMES = st.integers(1, 24)
TEXTS = st.tuples(st.sampled_from(["word ", "x", "one… two ", "A sentence. "]), st.integers(0, 500)).map(
    lambda drawn: (drawn[0] * drawn[1])[: drawn[1]]
)


def paths(count: int, inner: int, length: int) -> list[str]:
    """Return paths of groups: after each at the top, so many in it."""
    tops = [f"{'g' * length}{number}" for number in range(count)]
    found = [path for top in tops for path in (top, *(f"{top}.in{number}" for number in range(inner)))]
    return sorted(found[:count], key=lambda path: path.split("."))


def tool_set(groups: Sequence[str], texts: Sequence[str], *, search: bool, room: int = 2_000) -> ToolSet:
    loader = Loader(name="open_group", closer="close_group", room=room)
    tools = ToolSet("made", control=loader, search=(lambda documents: lambda query: []) if search else None)
    for number, path in enumerate(groups):
        tools.register_group(path, texts[number % len(texts)])
    tools.register("t", answer, group=groups[0])
    return tools


def counted(text: str, groups: Sequence[str]) -> int:
    """Return how many groups a directory names or counts; each counts once."""
    total = 0
    for line in text.splitlines():
        if rest := re.fullmatch(r"- (?:and )?(\d+)(?: more)? groups(?:: find_tools finds their tools)?", line):
            total += int(rest[1])
            continue
        head = re.match(r"- ([\w-]+)(?: \(([^)]*)\))?(?:: |$)", line)
        assert head is not None, line
        assert head[1] in groups
        total += 1
        if head[2] is not None:
            named, _, more = head[2].partition(" and ")
            whole = re.fullmatch(r"(\d+) in all", named)
            inner = [] if whole else named.split(", ")
            assert all(f"{head[1]}.{one}" in groups for one in inner)
            total += int(whole[1]) if whole else len(inner) + int((more or "0").removesuffix(" more"))
    return total


@example(count=300, inner=0, length=20, texts=["word " * 100], search=True)
@example(count=300, inner=60, length=20, texts=["x" * 500], search=False)
@example(count=300, inner=7, length=3, texts=[""], search=True)
@example(count=29, inner=0, length=8, texts=["Two. Sentences " * 30, ""], search=True)
@example(count=1, inner=0, length=1, texts=["…"], search=True)
@given(
    count=st.integers(1, 300),
    inner=st.sampled_from([0, 0, 1, 9, 80]),
    length=NAMES,
    texts=st.lists(TEXTS, min_size=1, max_size=5),
    search=st.booleans(),
)
def test_every_group_is_named_or_counted_within_what_hosts_show(
    count: int, inner: int, length: int, texts: list[str], search: bool
) -> None:
    groups = paths(count, inner, length)
    tools = tool_set(groups, texts, search=search).catalog.tools
    for name in ("open_group", *(("find_tools",) if search else ())):
        description = tools[name].description
        assert len(description) <= 2_000
        assert "…" not in description
        first, *rest = description.splitlines()
        assert re.match(r"Groups of tools: (g+\d+|\d+ in all)\b", first[:157])
        assert ("Open a group" if name == "open_group" else "Find tools") in first[:157]
        if name == "open_group":
            assert counted("\n".join(rest[1:]), groups) == count


@given(count=st.integers(1, 60), room=st.integers(0, 900), inner=st.sampled_from([0, 1, 5]))
def test_a_directory_has_at_most_its_room_but_for_the_line_that_counts(count: int, room: int, inner: int) -> None:
    groups = dict.fromkeys(paths(count, inner, 5), "Some words about it. And more words.")
    lines = Directory(groups).lines(room, "find_tools")
    assert counted("\n".join(lines), [*groups]) == count
    assert len(lines) == 1 or sum(len(line) + 1 for line in lines) <= room


def test_names_come_before_descriptions_and_descriptions_share_what_is_left() -> None:
    groups = {"github": "Code " * 20, "github.issues": "", "github.pulls": "", "mail": "Letters", "maps": "Roads " * 20}
    assert Directory(groups).lines(70, None) == ["- github (issues, pulls)", "- mail: Letters", "- maps"]
    assert Directory(groups).lines(100, None) == [
        "- github (issues, pulls): Code Code Code [cut]",
        "- mail: Letters",
        "- maps: Roads Roads Roads [cut]",
    ]
    assert Directory(groups).lines(37, None) == ["- github (2 in all)", "- mail", "- maps"]
    many = dict.fromkeys((f"group_{number}" for number in range(9)), "")
    assert Directory(many).lines(50, None) == ["- group_0", "- group_1", "- group_2", "- and 6 more groups"]
    assert Directory(groups).lines(30, "find_tools") == ["- 5 groups: find_tools finds their tools"]


def test_a_first_line_has_the_names_that_fit_and_the_number_of_the_others() -> None:
    assert Directory({"a": "", "a.b": "", "c": ""}).introduced("Open one.") == "Groups of tools: a, c. Open one."
    assert Directory({f"group_{number}": "" for number in range(40)}).introduced("Open one.", 100) == (
        "Groups of tools: group_0, group_1, group_2, group_3, group_4, group_5 and 34 more. Open one."
    )
    assert Directory({}).introduced("Open one.") == "Open one."


async def test_opening_a_group_names_those_in_it_and_what_the_list_left_out_of_its_description() -> None:
    tools = tool_set(["a", "a.b", "a.c", "d"], ["Words about it. " * 100], search=False)
    opened = (await tools.call_tool("open_group", {"group": "a"})).text
    assert ("Words about it. " * 100).strip() in opened
    assert "Groups in it: a.b, a.c." in opened
    assert "Groups in it" not in (await tools.call_tool("open_group", {"group": "d"})).text
