"""The names and groups of what servers offer, as a tool set has them."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest

from tests.adapters.gateway.registering import answering, configured, homes, listed, offering, registered, tool
from toolfold import ConfigError
from toolfold_adapters.gateway import GatewayConfig, GroupConfig, UpstreamConfig
from toolfold_adapters.gateway.config.settings import OptionsConfig, ProfileConfig
from toolfold_adapters.gateway.registration import UpstreamRegistration
from toolfold_adapters.names import ONE_SERVER

ODD = ["a.b", "a_b", "with space", "pfad/datei", "x" * 70, "x" * 64, "größe", "call_tool", "load_tool_group"]


@pytest.mark.spec("GWY-1", "GWY-6", "NAM-1")
async def test_odd_names_and_those_of_control_tools_are_mapped_and_calls_use_the_original() -> None:
    _, tools, report = registered({ONE_SERVER: offering(*ODD)}, options=OptionsConfig(control="load_tool_group"))
    names = {original: name for name, original in report.tools.items()}
    assert names["a_b"] == "a_b"
    for taken, original in (("a_b", "a.b"), ("call_tool", "call_tool"), ("load_tool_group", "load_tool_group")):
        assert re.fullmatch(rf"{taken}_[0-9a-f]{{6}}", names[original])
    async with tools.open_session() as session:
        for original, name in names.items():
            assert (await session.call(name)).text == f"{ONE_SERVER} tool {original}"
    assert len(report.warnings) == sum(name != original for original, name in names.items())


@pytest.mark.spec("GWY-2", "GWY-6")
async def test_a_server_without_a_name_within_the_budget_is_in_no_group_and_has_no_control_tools() -> None:
    _, tools, report = registered(
        {ONE_SERVER: offering("get_a", "get_b", "get_c", instructions="Be kind.", name="S", version="1")}
    )
    assert tools.catalog.groups == ()
    assert list(tools.catalog.tools) == ["get_a", "get_b", "get_c"]
    assert (report.server, report.instructions, report.version) == ("S 1", "Be kind.", "1")


LONG = "x" * 400
"""About 100 tokens."""


def many(noun: str, count: int = 5) -> list[dict[str, Any]]:
    return [tool(f"{verb}_{noun}", LONG) for verb in ("get", "list", "create", "update", "delete")[:count]]


@pytest.mark.spec("GWY-2", "GWY-6")
async def test_a_server_without_a_name_over_the_budget_is_divided_by_nouns_and_its_tools_keep_their_names() -> None:
    _, tools, _ = registered({ONE_SERVER: offering(*many("issue"), *many("branch"))}, budgets={"group_tokens": 700})
    assert {path: name for name, path in homes(tools).items() if name.startswith("get")} == {
        "branch": "get_branch",
        "issue": "get_issue",
    }
    text = "5 tools: get_issue, list_issue, create_issue, update_issue, delete_issue"
    assert tools.catalog.group("issue").description == text
    async with tools.open_session() as session:
        assert [one.name for one in session.list_tools().tools] == ["close_group", "find_tools", "open_group"]
        assert (await session.call("open_group", {"group": "issue"})).is_error is False
        assert (await session.call("get_issue")).text == f"{ONE_SERVER} tool get_issue"


@pytest.mark.spec("GWY-2", "GWY-6")
async def test_of_several_servers_each_is_a_group_described_by_its_title_and_instructions() -> None:
    _, tools, report = registered(
        {
            "files": offering("read", "write", title="File system", instructions="Reads and writes.\nMore."),
            "web": offering("fetch"),
        }
    )
    assert homes(tools) == {"files__read": "files", "files__write": "files", "web__fetch": "web"}
    assert [(group.path, group.title, group.description) for group in tools.catalog.groups] == [
        ("files", "File system", "Reads and writes"),
        ("web", None, "1 tool: web__fetch"),
    ]
    assert report.tools == {"files__read": "read", "files__write": "write", "web__fetch": "fetch"}
    assert report.instructions is None


@pytest.mark.spec("GWY-2")
async def test_a_server_over_the_budget_has_groups_in_its_own_and_the_others_have_none() -> None:
    _, tools, _ = registered(
        {"big": offering(*many("issue"), *many("branch")), "small": offering("ping")}, budgets={"group_tokens": 700}
    )
    assert [(group.path, group.description.partition(":")[0]) for group in tools.catalog.groups] == [
        ("big", "10 tools"),
        ("big.branch", "5 tools"),
        ("big.issue", "5 tools"),
        ("small", "1 tool"),
    ]
    assert homes(tools)["big__get_issue"] == "big.issue"
    async with tools.open_session() as session:
        assert not (await session.call("open_group", {"group": "big.issue"})).is_error
        assert len(listed(session)) == 5
        assert not (await session.call("close_group", {"group": "big"})).is_error
        assert not (await session.call("open_group", {"group": "big"})).is_error
        assert listed(session) == []


VERBS = ("close", "resize", "evaluate", "find", "click", "drag", "type", "press", "hover")
UNNAMED = [tool(name, LONG) for name in VERBS]
"""Tools of some 900 tokens whose names tell no parts."""


@pytest.mark.spec("GWY-2")
async def test_a_server_over_the_budget_whose_parts_have_no_names_is_one_group_and_its_tools_are_found() -> None:
    _, tools, _ = registered({"s": offering(*UNNAMED), "t": offering("x")}, budgets={"group_tokens": 700})
    assert {group.path for group in tools.catalog.groups} == {"s", "t"}
    async with tools.open_session() as session:
        found = await session.call("find_tools", {"query": "evaluate"})
        assert "s__evaluate" in found.text
        assert not (await session.call("open_group", {"group": "s"})).is_error
        assert len(listed(session)) == len(UNNAMED)


@pytest.mark.spec("GWY-2", "GWY-6")
@pytest.mark.parametrize(
    ("said", "rest", "group"),
    [
        ("Page Tools", [], "Page_Tools"),
        ("", [], "upstream"),
        ("issue", many("issue"), "issue-server"),
    ],
)
def test_what_is_in_no_part_of_a_server_without_a_name_is_in_a_group_called_like_it(
    said: str, rest: list[dict[str, Any]], group: str
) -> None:
    offered = offering(*UNNAMED, *rest, *(many("branch") if rest else ()), name=said)
    _, tools, _ = registered({ONE_SERVER: offered}, budgets={"group_tokens": 700})
    assert homes(tools)["evaluate"] == group
    assert set(homes(tools).values()) == {group, *(("issue", "branch") if rest else ())}


@pytest.mark.spec("GWY-2", "CTL-5")
async def test_the_name_of_a_divided_server_says_what_is_inside() -> None:
    offered = offering(*many("issue"), *many("branch"), "whoami")
    _, tools, _ = registered({"big": offered, "t": offering("x")}, budgets={"group_tokens": 700})
    async with tools.open_session() as session:
        opened = await session.call("open_group", {"group": "big"})
        assert "Groups in it: big.branch, big.issue." in opened.text
        assert listed(session) == ["big__whoami"]
        await session.call("open_group", {"group": "big.issue"})
        assert len(listed(session)) == 6


@pytest.mark.spec("GWY-2")
@pytest.mark.parametrize("where", ["fastmcp", "_fastmcp", None])
def test_tags_and_categories_of_a_server_are_its_groups(where: str | None) -> None:
    def marked(name: str, *tags: str) -> dict[str, Any]:
        meta: dict[str, Any] = {where: {"tags": list(tags)}} if where else {"category": tags[-1]}
        return tool(name, LONG, _meta=meta)

    names = ["get_issue", "run", "stop", "get_job", "list_job", "drop_job", "list_issue"]
    offered = [marked(name, "all", "Build Jobs" if at % 2 else "People") for at, name in enumerate(names)]
    odd = [tool("odd", LONG, _meta={"fastmcp": {"tags": 5}, "category": [1]}), tool("odder", _meta={"tags": "x"})]
    _, tools, _ = registered({"s": offering(*offered, *odd)}, budgets={"group_tokens": 800})
    found = homes(tools)
    assert {found[f"s__{name}"] for name in names[::2]} == {"s.people"}
    assert {found[f"s__{name}"] for name in names[1::2]} == {"s.build_job"}
    assert None not in found.values()


@pytest.mark.spec("GWY-2", "GWY-6", "FND-4")
async def test_pinned_tools_are_in_view_hidden_ones_in_no_list_and_renamed_ones_have_their_name() -> None:
    _, tools, report = registered(
        {"s": offering("find", "debug", "old"), "t": offering("x")},
        pins=("s__find",),
        hidden=("*debug",),
        rename={"s__old": "new", "s__gone": "y", "t__x": "s__find", "s__debug": "no dots."},
    )
    assert homes(tools) == {"new": "s", "s__debug": "s", "s__find": None, "t__x": "t"}
    assert [group.description for group in tools.catalog.groups] == ["1 tool: new", "1 tool: t__x"]
    assert tools.catalog.tools["s__find"].definition["_meta"] == {"anthropic/alwaysLoad": True}
    async with tools.open_session(active=["s"]) as session:
        assert listed(session) == ["new", "s__find"]
        assert (await session.call("new")).text == "s tool old"
        assert (await session.call("s__debug")).text == "s tool debug"
    source = "the gateway's configuration, [rename]"
    assert report.warnings == (
        f"{source}, s__gone: there is no tool of that name now.",
        f"{source}, t__x: another tool is called 's__find' already.",
        f"{source}, s__debug: 'no dots.' is no name that clients accept: 1 to 64 of A-Z a-z 0-9 _ -.",
    )


@pytest.mark.spec("GWY-2")
def test_a_server_serves_the_tools_that_its_entry_includes() -> None:
    config = GatewayConfig(
        upstreams={ONE_SERVER: UpstreamConfig(url="http://x", include_tools=("a*",), exclude_tools=("*z",))}
    )
    tools = config.new_tool_set("t")
    UpstreamRegistration(tools, config, answering).register_tools({ONE_SERVER: offering("ab", "az", "b")})
    assert list(tools.catalog.tools) == ["ab"]


@pytest.mark.spec("GWY-2")
async def test_configured_groups_have_the_tools_that_their_patterns_match() -> None:
    _, tools, report = registered(
        {ONE_SERVER: offering("answer", "one", "two")},
        groups={
            "numbers": GroupConfig(),
            "numbers.first": GroupConfig(tools=("one",)),
            "more": GroupConfig(tools=("t*", "nothing*"), description="More of it"),
        },
        exclusions=(("numbers", "more"),),
        profiles={"start": ProfileConfig(active=("numbers",), available=("*",))},
    )
    assert [(group.path, group.description) for group in tools.catalog.groups] == [
        ("more", "More of it"),
        ("numbers", "1 tool: one"),
        ("numbers.first", "1 tool: one"),
    ]
    own = set(report.tools)
    async with tools.open_session("start") as session:
        assert own & set(listed(session)) == {"answer"}
        await session.activate("numbers.first")
        assert own & set(listed(session)) == {"answer", "one"}
        await session.activate("more")
        assert own & set(listed(session)) == {"answer", "two"}
    assert report.warnings == ("The pattern 'nothing*' of group 'more' matches none of the tools.",)


async def test_groups_in_groups_are_pinned_and_unpinned_together() -> None:
    def config(*, pinned: bool) -> GatewayConfig:
        inner = GroupConfig(tools=("b*",), pinned=pinned)
        return configured("s", groups={"a": GroupConfig(tools=("a*",)), "a.b": inner, "c": GroupConfig(tools=("c*",))})

    registration, tools, _ = registered({"s": offering("a1", "b1", "c1")}, groups=config(pinned=False).groups)
    for pinned in (True, False):
        await registration.configure(config(pinned=pinned))
        async with tools.open_session() as session:
            assert session.active == (("a", "a.b") if pinned else ())
            closed = await session.call("close_group", {"group": "a"})
            assert closed.is_error == pinned


@pytest.mark.spec("GWY-2")
def test_what_no_configured_group_takes_stays_in_the_group_of_its_server() -> None:
    _, tools, _ = registered(
        {"s": offering("get_a", "set_a"), "t": offering("get_b")}, groups={"read": GroupConfig(tools=("*__get_*",))}
    )
    assert homes(tools) == {"s__get_a": "read", "s__set_a": "s", "t__get_b": "read"}


@pytest.mark.spec("GWY-2")
def test_a_profile_that_names_a_group_that_is_not_there_is_an_error_and_a_server_that_is_away_is_none() -> None:
    wrong = ProfileConfig(active=("nowhere",))
    with pytest.raises(ConfigError, match=r"^groups\.toml, \[profiles\.p\]: There is no group 'nowhere'"):
        registered({"s": offering("x"), "t": offering("y")}, profiles={"p": wrong}, source="groups.toml")
    with pytest.raises(
        ConfigError, match=r"^groups\.toml, \[profiles\]: The profile 'p' is within 'q', which does not"
    ):
        registered(
            {"s": offering("x"), "t": offering("y")},
            profiles={"p": ProfileConfig(within="q")},
            source="groups.toml",
        )
    config = configured("s", "away", profiles={"p": ProfileConfig(active=("s", "away"))}, exclusions=(("s", "away"),))
    tools = config.new_tool_set("t")
    report = UpstreamRegistration(tools, config, answering).register_tools({"s": offering("x")})
    assert tools.catalog.profiles["p"].active == ("s",)
    assert report.warnings == (
        "the gateway's configuration, exclusions: there is no group 'away' now, so this set has no effect.",
    )


@pytest.mark.spec("GWY-2")
def test_a_profile_that_names_a_divided_server_has_all_its_groups() -> None:
    _, tools, _ = registered(
        {"big": offering(*many("issue"), *many("branch")), "s": offering("x")},
        budgets={"group_tokens": 700},
        profiles={"p": ProfileConfig(available=("big",))},
    )
    assert tools.catalog.profiles["p"].available == ("big", "big.branch", "big.issue")


@pytest.mark.spec("GWY-2")
def test_groups_without_tools_cost_the_same_each_however_many_there_are() -> None:
    def steps(count: int) -> int:
        """Return how many instructions are run to register so many groups."""
        taken = 0

        def trace(frame: FrameType, event: str, arg: Any) -> Any:
            nonlocal taken
            taken += event == "opcode"
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            registered({"files": offering("read")}, groups={f"g{number}": GroupConfig() for number in range(count)})
        finally:
            sys.settrace(before)
        return taken

    steps(1)  # what is cached from the first time on
    assert steps(200) < 2.1 * steps(100)
