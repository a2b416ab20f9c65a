"""What becomes of servers' definitions in a tool set."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from mcp_types import Tool

from tests.adapters.gateway.registering import answering, configured, homes, listed, offering, registered, tool
from tests.adapters.gateway.upstreams.raw import BROKEN, FULL, ODD
from toolfold import ConfigError
from toolfold_adapters.gateway import GatewayConfig, GroupConfig, UpstreamConfig
from toolfold_adapters.gateway.config.settings import OptionsConfig, ProfileConfig
from toolfold_adapters.gateway.registration import Registration
from toolfold_adapters.gateway.upstream.definitions import Definitions
from toolfold_adapters.names import ONE_SERVER
from toolfold_adapters.skills import read_skill


@pytest.mark.spec("GWY-1")
async def test_a_definition_is_passed_on_unchanged() -> None:
    _, tools, _ = registered({ONE_SERVER: offering(FULL)})
    assert dict(tools.catalog.tools["full"].definition) == FULL


@pytest.mark.spec("REG-6", "GWY-7")
async def test_a_definition_is_left_out_only_if_it_has_no_name_and_what_clients_refuse_is_reported() -> None:
    _, tools, report = registered({ONE_SERVER: Definitions(tools=BROKEN)})
    served = ("array_root", "bad_output", "bad_schema", "bad_title", "good", "no_schema", "old_draft", "only_task")
    assert tuple(homes(tools)) == (*served, "remote")
    assert tools.catalog.tools["old_draft"].definition["annotations"] == {"readOnlyHint": True}
    assert report.warnings == (
        "The tool 'no_schema' is served without what clients would refuse in its inputSchema.",
        "The tool 'array_root' is served without what clients would refuse in its inputSchema.",
        "The tool 'bad_output' is served without what clients would refuse in its outputSchema.",
        "The tool 'bad_title' is served without what clients would refuse in its title.",
        "The tool number 8 of the server's list has no name, so it is left out.",
        "The tool number 9 of the server's list has no name, so it is left out.",
        "The tool 'good' is listed more than once; the first is used.",
        report.warnings[-1],
    )
    assert "'only_task' can only be called as a task" in report.warnings[-1]


@pytest.mark.spec("REG-6", "GWY-7")
async def test_what_cannot_be_registered_is_left_out_and_harms_nothing_else() -> None:
    deep: dict[str, Any] = {}
    for _ in range(3000):
        deep = {"items": deep}
    said = Definitions(
        tools=[
            tool("unpaired", description="\ud800"),
            tool("nested", inputSchema={"type": "object", "properties": {"x": deep}}),
            tool("endless", description="x" * 2_000_000),
            tool("infinite", inputSchema={"type": "object", "default": float("inf")}),
            tool("good"),
        ],
        prompts=[{"name": "ask", "arguments": [{"description": "no name"}]}, {"name": "good"}],
        resources=[{"uri": "no scheme", "name": "a"}, {"uri": "a:b", "name": "b"}],
    )
    _, tools, report = registered({ONE_SERVER: said})
    assert list(homes(tools)) == ["good"]
    assert [list(tools.catalog.components[kind].by_name) for kind in ("prompt", "resource")] == [["good"], ["a:b"]]
    assert dict(report.tools) == {"good": "good"}
    left_out = [warning.partition(" is left out: ")[0] for warning in report.warnings]
    assert left_out == [
        "The tool 'unpaired'",
        "The tool 'nested'",
        "The tool 'endless'",
        "The tool 'infinite'",
        "The prompt 'ask'",
        "The resource 'no scheme'",
    ]


@pytest.mark.spec("GWY-7")
@pytest.mark.parametrize(
    "field",
    [
        {"inputSchema": {"type": "object", "properties": {"x": {"type": "nonsense"}}}},
        {"inputSchema": {"type": "object", "$ref": "https://example.org/schema.json"}},
        {"inputSchema": {"type": "object", "properties": {"x": {"pattern": "("}}}},
        {"inputSchema": {"type": "object", "properties": {"x": {"minimum": 1, "exclusiveMinimum": True}}}},
        {"inputSchema": {"type": "object", "$defs": 5, "oneOf": "x", "additionalProperties": "no"}},
        {"inputSchema": {"type": "object", "$schema": "https://example.org/own"}},
        {"outputSchema": {"type": "object", "properties": {"x": {"$ref": "#/nowhere"}}}},
        {"annotations": {"readOnlyHint": True, "example.org/cost": {"tokens": 5}}},
        {"icons": [{"src": "x:y", "more": 5}]},
        {"_meta": {"example.org/x": [None, 5]}},
    ],
)
async def test_what_the_gateway_does_not_understand_passes_on_and_is_called(field: dict[str, Any]) -> None:
    _, tools, report = registered({ONE_SERVER: offering(tool("odd", **field))})
    assert report.warnings == ()
    assert tools.catalog.tools["odd"].definition.items() >= field.items()
    async with tools.open_session() as session:
        assert (await session.call("odd", {"x": 1})).text == f"{ONE_SERVER} tool odd"


@pytest.mark.spec("GWY-7")
@pytest.mark.parametrize(
    ("given", "served"),
    [
        ({"inputSchema": {"properties": {"a": {}}}}, {"inputSchema": {"type": "object", "properties": {"a": {}}}}),
        ({"inputSchema": {"type": ["object", "null"]}}, {"inputSchema": {"type": "object"}}),
        ({"inputSchema": True}, {"inputSchema": {"type": "object"}}),
        (
            {"inputSchema": {"type": "object", "properties": {"a": True, "b": False}, "required": ["a", 5]}},
            {"inputSchema": {"type": "object", "properties": {"a": {}, "b": {"not": {}}}, "required": ["a"]}},
        ),
        (
            {"inputSchema": {"type": "object", "properties": [], "required": "a"}},
            {"inputSchema": {"type": "object", "properties": {}, "required": []}},
        ),
        ({"outputSchema": {"type": "array"}}, {"outputSchema": None}),
        ({"title": ["a"], "description": 5}, {"title": None, "description": ""}),
        (
            {"annotations": {"readOnlyHint": "yes", "destructiveHint": False, "title": 5}},
            {"annotations": {"destructiveHint": False}},
        ),
        ({"annotations": "none"}, {"annotations": None}),
        (
            {"icons": [{"src": "a:b", "sizes": "48x48", "theme": "blue", "mimeType": 5}, "x"]},
            {"icons": [{"src": "a:b"}]},
        ),
        ({"_meta": [1]}, {"_meta": None}),
    ],
)
def test_what_a_client_would_refuse_is_repaired_and_reported(given: dict[str, Any], served: dict[str, Any]) -> None:
    _, tools, report = registered({ONE_SERVER: offering({**tool("odd"), **given})})
    definition = tools.catalog.tools["odd"].definition
    assert {key: definition.get(key) for key in served} == served
    assert report.warnings == (
        f"The tool 'odd' is served without what clients would refuse in its {', '.join(given)}.",
    )
    assert Tool.model_validate(dict(definition)).name == "odd"


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
    assert (
        tools.catalog.group("issue").description
        == "5 tools: get_issue, list_issue, create_issue, update_issue, delete_issue"
    )
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
        ("files", "File system", "File system: Reads and writes. More (2 tools: read, write)"),
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


@pytest.mark.spec("GWY-6")
def test_adding_a_server_renames_nothing_of_another() -> None:
    def names(*servers: str) -> set[str]:
        odd = offering("a.b", "a_b", "call_tool", "x" * 64)
        return set(registered(dict.fromkeys(servers, odd))[2].tools)

    assert names("a") < names("a", "b") < names("a", "a_b", "b") < names("c", "b", "a", "a_b")


@pytest.mark.spec("GWY-2", "GWY-6")
async def test_a_single_server_with_a_name_is_a_group_of_that_name() -> None:
    _, tools, _ = registered({"a": offering("x")})
    assert homes(tools) == {"a__x": "a"}
    async with tools.open_session() as session:
        assert not (await session.call("open_group", {"group": "a"})).is_error
        assert listed(session) == ["a__x"]


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
    Registration(tools, config, answering).register_tools({ONE_SERVER: offering("ab", "az", "b")})
    assert list(tools.catalog.tools) == ["ab"]


@pytest.mark.spec("GWY-1")
async def test_prompts_and_resources_are_there_whatever_is_open() -> None:
    said = Definitions(
        tools=[tool("x")],
        prompts=[{"name": "ask", "arguments": [{"name": "what", "required": True}]}, {"name": 5}],
        resources=[{"uri": "file:///a", "name": "a", "mimeType": "text/plain"}],
        resource_templates=[{"uriTemplate": "file:///{path}", "name": "any"}],
    )
    _, tools, report = registered({"s": said, "t": offering("y")})
    components = tools.catalog.components
    assert [list(components[kind].by_name) for kind in ("prompt", "resource", "resource_template")] == [
        ["s__ask"],
        ["file:///a"],
        ["file:///{path}"],
    ]
    assert components["resource"].by_name["file:///a"].definition == {**said.resources[0], "description": ""}
    assert report.warnings == ("s: The prompt number 2 of the server's list has no name, so it is left out.",)


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


@pytest.mark.spec("FND-4")
async def test_a_pinned_group_is_not_closed_by_clients() -> None:
    groups = {"a": GroupConfig(tools=("a*",), pinned=True), "b": GroupConfig(tools=("b*",))}
    _, tools, _ = registered({"s": offering("a1", "b1")}, groups=groups)
    async with tools.open_session(active=["a", "b"]) as session:
        assert (await session.call("close_group", {"group": "a"})).is_error
        assert not (await session.call("close_group", {"group": "b"})).is_error
        assert session.active == ("a",)


@pytest.mark.spec("FND-4", "GWY-9")
@pytest.mark.spec("SKL-1")
async def test_the_instructions_of_a_configured_group_follow_the_configuration() -> None:
    def grouped(text: str) -> dict[str, GroupConfig]:
        return {"read": GroupConfig(tools=("s__get",), instructions=text)}

    registration, tools, _ = registered({"s": offering("get")}, groups=grouped("Look first."))
    assert tools.catalog.group("read").instructions == "Look first."
    await registration.configure(configured("s", groups=grouped("Look twice.")))
    assert tools.catalog.group("read").instructions == "Look twice."


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
    config = configured("s", "away", profiles={"p": ProfileConfig(active=("s", "away"))}, exclusions=(("s", "away"),))
    tools = config.new_tool_set("t")
    report = Registration(tools, config, answering).register_tools({"s": offering("x")})
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


# -- later ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GWY-3", "GWY-4")
async def test_a_fresh_list_replaces_what_differs_and_closes_nothing() -> None:
    registration, tools, _ = registered({"s": offering("a", "b"), "t": offering("x")})
    kept = tools.catalog.tools["s__a"]
    changes: list[object] = []
    async with tools.open_session(active=["s", "t"]) as session:
        session.on_list_changed(lambda *_: changes.append(1))
        report = await registration.replace("s", offering("a", tool("b", "changed"), "c"))
        assert listed(session) == ["s__a", "s__b", "s__c", "t__x"]
        assert len(changes) == 1
        await registration.replace("s", offering("a", tool("b", "changed"), "c"))
        assert len(changes) == 1
    assert tools.catalog.tools["s__a"] is kept
    assert tools.catalog.tools["s__b"].description == "changed"
    assert tools.catalog.group("s").description == "3 tools: a, b, c"
    assert sorted(report.tools) == ["s__a", "s__b", "s__c", "t__x"]


@pytest.mark.spec("GWY-3")
async def test_what_an_upstream_no_longer_offers_is_gone_and_the_others_stay_open() -> None:
    registration, tools, _ = registered({"s": offering("a"), "t": offering("x")})
    async with tools.open_session(active=["s", "t"]) as session:
        await registration.replace("s", None)
        assert session.active == ("t",)
        assert homes(tools) == {"t__x": "t"}
        await registration.replace("s", offering("a"))
        assert session.active == ("t",)
        assert homes(tools) == {"s__a": "s", "t__x": "t"}


@pytest.mark.spec("GWY-9")
async def test_another_configuration_changes_what_differs_and_keeps_open_what_stays() -> None:
    servers = {"s": offering("a", "b"), "t": offering("x"), "gone": offering("y")}
    registration, tools, _ = registered(servers, exclusions=(("s", "t"),), profiles={"p": ProfileConfig(active=("s",))})
    async with tools.open_session(active=["s"]) as session:
        await registration.configure(
            configured("s", "t", hidden=("s__b",), profiles={"q": ProfileConfig(active=("t",))})
        )
        assert session.active == ("s",)
        await session.activate("t")
        assert listed(session) == ["s__a", "t__x"]
    assert homes(tools) == {"s__a": "s", "s__b": "s", "t__x": "t"}
    assert list(tools.catalog.profiles) == ["q"]
    assert tools.catalog.exclusions == ()


@pytest.mark.spec("GWY-9")
async def test_a_wrong_configuration_changes_nothing() -> None:
    registration, tools, _ = registered({"s": offering("a"), "t": offering("x")})
    before = tools.catalog
    with pytest.raises(ConfigError, match="no group 'nowhere'"):
        await registration.configure(configured("s", profiles={"p": ProfileConfig(active=("nowhere",))}))
    assert tools.catalog is before
    await registration.replace("t", offering("x", "y"))
    assert homes(tools) == {"s__a": "s", "t__x": "t", "t__y": "t"}


# -- odd servers ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("GWY-2")
@pytest.mark.parametrize(
    ("instructions", "beginning"),
    [
        ("Reads files. " * 30, "Reads files. " * 10 + "Reads files (1 tool"),
        ("Word " * 100, "Word " * 30 + "[cut] (1 tool"),
        ("X" * 300, "X" * 154 + " [cut] (1 tool"),
        ("One\n\tline.", "One line (1 tool"),
        ("A Model Context Protocol (MCP) server that provides weather data.", "Weather data (1 tool"),
        ("This is a TypeScript-based MCP server for the\nwhois database.", "The whois database (1 tool"),
        ("MCP server", "MCP server (1 tool"),
    ],
)
def test_a_group_is_described_by_what_its_server_says_of_itself(instructions: str, beginning: str) -> None:
    _, tools, _ = registered({"s": offering("a", instructions=instructions), "t": offering("b")})
    assert tools.catalog.group("s").description.startswith(beginning)


@pytest.mark.spec("GWY-1")
def test_a_resource_that_two_servers_have_is_the_first_ones_and_reported() -> None:
    said = Definitions(resources=[{"uri": "file:///a", "name": "a"}])
    registration, _, report = registered({"s": said, "t": said})
    placed = registration.find("resource", "file:///a")
    assert placed is not None
    assert placed.server == "s"
    assert report.warnings == ("t: The resource 'file:///a' is also another server's.",)


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


@pytest.mark.spec("SKL-2")
async def test_a_skill_is_a_group_with_tools_of_several_servers(tmp_path: Path) -> None:
    file = tmp_path / "SKILL.md"
    file.write_text(
        "---\nname: tidy\ndescription: Put things in order\nallowed-tools: s__get t__put gt\n---\nGet, then put.\n"
    )
    skill = read_skill(tmp_path)
    servers = {"s": offering("get", "set"), "t": offering("put")}
    registration, tools, report = registered(servers, skills=(skill,))
    assert [text for text in report.warnings if "gt" in text] == [
        f"{file}, front matter, allowed-tools: skill 'tidy' needs 'gt', and no tool has this name."
    ]
    assert tools.catalog.group("tidy").instructions == "Get, then put."
    assert homes(tools) == {"s__get": "s", "s__set": "s", "t__put": "t"}
    async with tools.open_session(active=["tidy"]) as session:
        assert listed(session) == ["s__get", "t__put"]
        assert (await session.call("t__put", {})).text == "t tool put"
        assert (await session.read("skill://tidy/SKILL.md"))["contents"][0]["text"] == file.read_text()
        await registration.replace("s", offering(tool("get", "changed"), "set"))
        assert listed(session) == ["s__get", "t__put"]
        await registration.configure(configured("s", "t"))
        assert (session.active, listed(session)) == ((), [])
        assert not tools.catalog.components["resource"].by_name


@pytest.mark.spec("SKL-2")
def test_a_skill_with_the_name_of_a_group_is_left_out_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text("---\nname: s\ndescription: A name that is taken\n---\n")
    _, tools, report = registered({"s": offering("get")}, skills=(read_skill(tmp_path),))
    assert tools.catalog.group("s").description == "1 tool: s__get"
    assert [text for text in report.warnings if "SKILL.md" in text] == [
        f"{tmp_path / 'SKILL.md'}: the skill is left out, since a group is called 's' already."
    ]
