"""`find_tools`: what a session finds, what that opens, and what nobody learns from it (SPEC FND-1, FND-2)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.searching import answer, by_shared_words, fleet, found
from tests.core.support import snapshot_of
from toolfold import (
    ConfigError,
    DuplicateName,
    Profile,
    QuotaExceeded,
    Ranked,
    Ranking,
    SearchDocument,
    ToolResult,
    ToolSet,
    TransitionRequest,
    Visibility,
)
from toolfold._names import ancestors
from toolfold._view.listing import listed
from toolfold._view.search import findable

# -- what is found ----------------------------------------------------------------------------------------------------


@pytest.mark.spec("FND-1")
async def test_a_search_finds_tools_of_open_and_closed_groups_and_says_what_opens_them() -> None:
    async with fleet().open_session(active=["east"]) as session:
        result = await session.call("find_tools", {"query": "hire vessel", "limit": 3})
        lines = result.text.splitlines()
        assert lines[1] == "- ship.crew.hire: hire a sailor for a vessel"
        assert lines[2].startswith('  {"type":"object","properties":{"where":')
        assert lines[-3:] == [
            'In group ship.crew, not open; call open_group {"group": "ship"} first: ship.crew.hire',
            "Can be called now: east.dock",
            'In group ship, not open; call open_group {"group": "ship"} first: ship.steer',
        ]
        assert result.structured == {
            "changed": False,
            "active": ["east"],
            "displaced": [],
            "tools": ["east.dock"],
            "found": ["ship.crew.hire", "east.dock", "ship.steer"],
        }
        assert session.active == ("east",)


@pytest.mark.spec("FND-1")
async def test_what_opens_a_group_is_its_own_activator_where_each_group_has_one() -> None:
    async with fleet(control="per_group").open_session() as session:
        result = await session.call("find_tools", {"query": "steer"})
        assert "In group ship, not open; call ship.activate first: ship.steer" in result.text


@pytest.mark.spec("FND-2")
@pytest.mark.parametrize(
    ("query", "tool"),
    [("steer", "ship.steer"), ("sailors", "ship.crew.hire"), ("harbour", "east.dock"), ("inner", "east.dock")],
    ids=["description", "group", "parameter's description", "nested parameter"],
)
async def test_descriptions_groups_and_parameters_are_searched(query: str, tool: str) -> None:
    async with fleet().open_session() as session:
        assert (await found(session, query))[0] == tool


@pytest.mark.spec("FND-1")
async def test_five_tools_are_returned_unless_the_caller_wants_another_number() -> None:
    tools = ToolSet("many", search=by_shared_words)
    for number in range(60):
        tools.register(f"t{number:02}", answer, description="alike")
    async with tools.open_session() as session:
        assert await found(session, "alike") == [f"t{number:02}" for number in range(5)]
        assert len(await found(session, "alike", limit=50)) == 50
        for wrong in (0, 51, "all"):
            assert (await session.call("find_tools", {"query": "alike", "limit": wrong})).is_error


@pytest.mark.spec("FND-1")
async def test_the_best_tool_comes_whole_however_long_and_the_others_as_far_as_they_fit() -> None:
    tools = ToolSet("long", search=by_shared_words)
    for name in ("a_best", "b_next", "c_last"):
        schema = {"type": "object", "properties": {name: {"type": "string", "description": "long " * 400}}}
        tools.register(name, answer, description=f"alike {'word ' * 100}", input_schema=schema)
    async with tools.open_session() as session:
        lines = (await session.call("find_tools", {"query": "alike", "limit": 3})).text.splitlines()
        assert lines[1] == f"- a_best: alike {'word ' * 100}".rstrip()
        assert lines[2].startswith('  {"type":"object","properties":{"a_best"')
        signed = [f"- {name}({name}?: str): alike word " for name in ("b_next", "c_last")]
        assert [line.startswith(start) for line, start in zip(lines[3:5], signed, strict=True)] == [True, True]
        assert all(len(line) <= 120 + len("(b_next?: str)") and line.endswith(" [cut]") for line in lines[3:5])
        assert lines[5].endswith("find_tools with the name of a tool and limit 1 gives its schema.")


REPLY = "Reply to a message of a mailbox that others share, as the one who is signed in, with the text of the body."


@pytest.mark.spec("FND-1")
async def test_tools_of_one_kind_are_shown_by_their_difference_and_schemas_are_those_of_the_best_two() -> None:
    tools = ToolSet("mail", search=by_shared_words)
    schema = {"type": "object", "properties": {"body": {"type": "string"}}, "required": ["body"]}
    texts = [REPLY, REPLY.replace("Reply", "Forward"), REPLY.removesuffix(", with the text of the body."), "Reply it"]
    for name, text in zip(("a_reply", "b_forward", "c_quiet", "d_short"), texts, strict=True):
        tools.register(name, answer, description=text, input_schema=schema)
    tools.register("e_all", answer, description=REPLY.replace("Reply", "Reply to all"), input_schema=schema)
    async with tools.open_session() as session:
        lines = (await session.call("find_tools", {"query": "Reply Forward", "limit": 5})).text.splitlines()
        assert [line[2:] for line in lines if line.startswith("- ")] == [
            f"a_reply: {REPLY}",
            f"b_forward: {REPLY.replace('Reply', 'Forward')}",
            f"c_quiet(body: str): {texts[2]}",
            "d_short(body: str): Reply it",
            'e_all(body: str): as a_reply, but with "all to"',
        ]
        assert sum(line.startswith("  {") for line in lines) == 2
        assert lines[-2].startswith(
            "Input schemas are those of the best: find_tools with the name of a tool and limit 1"
        )


@pytest.mark.spec("FND-6")
@pytest.mark.parametrize(
    ("query", "clear", "said"),
    [
        ("harbour", False, "Found by charts, the best first:"),
        ("harbour", True, "Found by charts, the best first, which is far ahead of the others:"),
        ("east.dock", False, "Found by charts, the best first, which has the name that was asked for:"),
        ("dock", True, "Found by charts, the best first, which is far ahead of the others:"),
        ("dock", False, "Found by charts, the best first:"),
        ("steer dock harbour", True, "Found by charts, the best first, which is far ahead of the others:"),
        ("steer", True, "Found by charts, the best first, which has the name that was asked for:"),
        ("nothing", False, "No tool matches 'nothing' by charts. "),
    ],
)
async def test_an_answer_says_what_ranked_the_tools_and_how_sure_the_first_is(
    query: str, clear: bool, said: str
) -> None:
    def charts(documents: Sequence[SearchDocument]) -> Ranking:
        return lambda query: Ranked(() if query == "nothing" else ("east.dock", "ship.steer"), "charts", clear)

    async with fleet(search=charts).open_session() as session:
        assert (await session.call("find_tools", {"query": query})).text.startswith(said)


@pytest.mark.spec("FND-1")
async def test_a_tool_that_is_searched_for_by_its_name_comes_first_and_whole() -> None:
    async with fleet(search=lambda documents: lambda query: [one.name for one in documents]).open_session() as session:
        assert (await found(session, "dock"))[0] == "east.dock", "the first in the ranking"
        result = await session.call("find_tools", {"query": "west.dock", "limit": 1})
        assert result.structured["found"] == ["west.dock"]
        assert '"harbour"' in result.text


@pytest.mark.spec("FND-1")
@pytest.mark.parametrize("query", ["", "   ", "unknownword", "%n {0} {tools}", "\ud800", "x" * 100_000])
async def test_a_query_that_matches_nothing_is_answered_in_words(query: str) -> None:
    async with fleet().open_session() as session:
        result = await session.call("find_tools", {"query": query})
        assert not result.is_error
        assert result.text.startswith("No tool matches ")
        assert len(result.text) < 1_000
        result.text.encode()


# -- what is not found ------------------------------------------------------------------------------------------------


def harbour(*, secret: bool, locked: bool = True) -> ToolSet:
    """A tool set in which, with `secret`, a session can't find more than without."""
    tools = ToolSet("harbour", search=by_shared_words)
    tools.register_group("pier", "The pier")
    tools.register("moor", answer, description="moor a boat", group="pier")
    tools.register("watch", answer, description="watch a boat")
    if secret:
        tools.register_group("vault", "The vault", controls=False)
        tools.register_group("gate", "Behind a gate")
        tools.register("gate.activate", answer, description="password", hidden=True, replaces_control=True)
        rule = Visibility.when(lambda view: not locked)
        tools.register("steal", answer, description="steal a boat", visibility=rule)
        tools.register("sink", answer, description="sink a boat", group="pier", hidden=True)
        tools.register("hide", answer, description="hide a boat", hidden=Visibility.always())
        tools.register("scrap", answer, description="scrap a boat", group="pier", hidden=Visibility.group("pier"))
        tools.register("sell", answer, description="sell a boat", group="vault")
        tools.register("burn", answer, description="burn a boat", group="gate")
        tools.register("both", answer, description="a boat", visibility=Visibility.group("pier") & rule)
    return tools


@pytest.mark.spec("FND-1", "CALL-1", "NAM-4")
async def test_tools_that_a_session_must_not_know_change_nothing_in_an_answer() -> None:
    async with harbour(secret=False).open_session() as plain, harbour(secret=True).open_session() as guarded:
        for query in ("a boat", "steal", "password", "vault", "watch moor"):
            for opening in (False, True):
                arguments = {"query": query, "open": opening}
                assert await guarded.call("find_tools", arguments) == await plain.call("find_tools", arguments)


@pytest.mark.spec("FND-1", "CALL-1")
async def test_the_index_is_made_of_what_the_session_may_find_alone() -> None:
    indexed: list[tuple[str, ...]] = []

    def spying(documents: Sequence[SearchDocument]) -> Ranking:
        indexed.append(tuple(one.name for one in documents))
        return by_shared_words(documents)

    tools = ToolSet("t", search=spying)
    tools.register("plain", answer, description="a boat")
    tools.register("rare", answer, description="a boat", visibility=Visibility.when(lambda v: "key" in v.facts))
    async with tools.open_session() as one, tools.open_session() as other:
        assert await found(one, "boat") == ["plain"]
        other.set_fact("key", True)
        assert await found(other, "boat") == ["plain", "rare"]
        assert await found(one, "boat") == ["plain"]
    assert indexed == [("plain",), ("plain", "rare")]


@pytest.mark.spec("FND-2")
async def test_an_index_is_made_once_for_all_states_and_sessions_in_which_the_same_can_be_found() -> None:
    made: list[int] = []

    def counting(documents: Sequence[SearchDocument]) -> Ranking:
        made.append(len(documents))
        return by_shared_words(documents)

    tools = fleet(counting)
    async with tools.open_session() as one, tools.open_session() as other:
        assert made == []
        before = await found(one, "vessel dock")
        await one.activate("ship")
        await other.activate("west")
        assert await found(one, "vessel dock") == await found(other, "vessel dock") == before
        assert len(made) == 1
        tools.register("row", answer, description="row a vessel")
        assert "row" in await found(one, "row vessel")
        assert len(made) == 2


@pytest.mark.spec("FND-1", "PRO-1")
async def test_groups_outside_of_a_profile_are_neither_found_nor_opened() -> None:
    tools = fleet()
    tools.register_profile(Profile(name="east", available=["east"]))
    async with tools.open_session("east") as session:
        assert await found(session, "vessel ship crew west", open=True) == ["east.dock"]
        assert session.active == ("east",)


@pytest.mark.spec("FND-1")
async def test_a_tool_that_any_of_several_groups_makes_available_is_found() -> None:
    tools = fleet()
    either = Visibility.group("west") | Visibility.group("ship")
    tools.register("anchor", answer, description="anchor", visibility=either)
    async with tools.open_session() as session:
        assert await found(session, "anchor", open=True) == ["anchor"]
        assert (await session.call("anchor", {})).text == "ok"


@pytest.mark.spec("FND-1")
async def test_without_control_tools_a_search_shows_what_can_be_called_now() -> None:
    async with fleet(control="none").open_session(active=["east"]) as session:
        assert await found(session, "vessel", open=True) == ["east.dock"]
        assert session.active == ("east",)


GROUPS = ("a", "a.x", "a.x.y", "b", "c")
leaves = st.sampled_from([Visibility.always(), *map(Visibility.group, GROUPS)])
rules = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda left, right: left & right, inner, inner),
        st.builds(lambda left, right: left | right, inner, inner),
        st.builds(lambda rule: ~rule, inner),
    ),
    max_leaves=3,
)


@pytest.mark.spec("FND-1", "VIS-7")
@given(
    st.lists(rules, max_size=6),
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.lists(st.sampled_from(GROUPS), max_size=4),
    st.sampled_from([None, 2, 3]),
)
def test_what_is_found_can_be_called_after_opening_what_the_search_would_open(
    drawn: list[Visibility], controls: list[bool], opened: list[str], most: int | None
) -> None:
    tools = ToolSet("t", search=by_shared_words, max_active=most, evict="oldest" if most else None)
    for path, own in zip(GROUPS, controls, strict=True):
        tools.register_group(path, controls=own)
        tools.register("plain", answer, group=path)
    tools.register_exclusion("b", "c")
    for number, rule in enumerate(drawn):
        tools.register(f"t{number}", answer, visibility=rule)
    view = tools.runtime.view_of(snapshot_of(tools.catalog, opened))
    openable = [path for path, own in zip(GROUPS, controls, strict=True) if own or view.snapshot.is_active(path)]
    found = {one.component.name: one for one in findable(view)}
    for name, one in found.items():
        after = view.snapshot
        if one.closed:
            assert set(one.closed) <= set(openable) - set(after.active)
            try:
                after = after.after(TransitionRequest(one.wanted))
            except QuotaExceeded:
                continue  # until others are closed
        listed_then = [component.name for component in listed(view.of(after), "tool")]
        assert name in listed_then
    for path in GROUPS:
        if set(GROUPS_AROUND[path]) <= set(openable):
            assert f"{path}.plain" in found
        elif path not in openable:
            assert f"{path}.plain" not in found


GROUPS_AROUND = {path: [*ancestors(path), path] for path in GROUPS}


# -- rankers ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("FND-2")
@pytest.mark.parametrize("search", [True, "bm25", 3])
def test_a_search_needs_a_ranker(search: Any) -> None:
    with pytest.raises(ConfigError, match=r"search must be a ranker, such as toolfold_adapters\.search\.bm25, not"):
        ToolSet("t", search=search)


@pytest.mark.spec("FND-1", "REG-4")
def test_the_name_of_the_search_is_taken_where_there_is_one() -> None:
    with pytest.raises(DuplicateName):
        fleet().register("find_tools", answer)
    ToolSet("t").register("find_tools", answer)


@pytest.mark.spec("FND-2")
async def test_whatever_a_ranker_answers_only_tools_that_can_be_found_are_returned_and_each_once() -> None:
    def odd(documents: Sequence[SearchDocument]) -> Callable[[str], list[Any]]:
        return lambda query: ["nothing", "ship.steer", "ship.steer", "find_tools", "ship.activate", "east.dock"]

    async with fleet(odd).open_session() as session:
        assert await found(session, "anything") == ["ship.steer", "east.dock"]


@pytest.mark.spec("FND-2", "CALL-3")
async def test_a_ranker_that_fails_is_an_error_without_internals() -> None:
    def broken(documents: Sequence[SearchDocument]) -> Ranking:
        raise ValueError("a secret")

    async with fleet(broken).open_session() as session:
        result = await session.call("find_tools", {"query": "x"})
        assert result.is_error
        assert "secret" not in result.text


@pytest.mark.spec("FND-2", "SAF-1")
async def test_a_slow_ranking_holds_up_nobody_and_sees_a_bounded_query() -> None:
    asked: list[int] = []
    ranking, go_on = threading.Event(), threading.Event()

    def slow(documents: Sequence[SearchDocument]) -> Ranking:
        def ranked(query: str) -> list[str]:
            asked.append(len(query))
            ranking.set()
            assert go_on.wait(60)
            return ["ping"]

        return ranked

    results: list[ToolResult] = []
    async with fleet(slow).open_session() as session, anyio.create_task_group() as group:

        async def search() -> None:
            results.append(await session.call("find_tools", {"query": "x" * 1_000_000}))

        group.start_soon(search)
        assert await anyio.to_thread.run_sync(ranking.wait, 10)
        assert (await session.call("ping", {})).text == "ok"
        go_on.set()
    assert [one.structured["found"] for one in results] == [["ping"]]
    assert asked == [1_000]


@pytest.mark.spec("CTL-6")
def test_the_search_is_a_control_tool_with_a_closed_schema() -> None:
    component = fleet().catalog.tools["find_tools"]
    assert component.control == ("find", "")
    assert component.input_schema["additionalProperties"] is False
    assert component.definition["annotations"]["destructiveHint"] is False
