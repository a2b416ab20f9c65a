"""What goes over the wire in both eras: names, cursors, errors, definitions, other kinds of lists."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp_types as types
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.gateway.inprocess import wired
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import build_server, change_of, client_of, names_of
from toolfold import ConfigError, InputRequired, ProtocolError, ToolfoldError, ToolResult, ToolSet, Visibility
from toolfold_adapters import mcp
from toolfold_adapters.names import HANDLE_META

ERAS = ("legacy", "2026-07-28")
OBJECT = {"type": "object"}
LONG = "x" * 1_000_000


@pytest.mark.spec("SAF-1", "ERR-2")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    "act",
    [
        lambda client: client.call_tool(LONG, {}),
        lambda client: client.call_tool("call_tool", {"name": LONG}),
        lambda client: client.get_prompt(LONG),
        lambda client: client.read_resource(f"x:{LONG}"),
        lambda client: client.list_tools(cursor=LONG),
        lambda client: client.call_tool("load_tool_group", {"group_name": LONG}),
        lambda client: client.call_tool("load_tool_group", {"group_name": "vault", LONG: LONG}),
    ],
    ids=["tool", "through", "prompt", "resource", "cursor", "group", "arguments"],
)
async def test_a_long_text_of_a_client_does_not_come_back_as_long(
    act: Callable[[Client], Awaitable[types.CallToolResult]], era: str
) -> None:
    async with client_of(build_server(make_desk(control="load_tool_group")), era) as (client, _):
        try:
            answer = (await act(client)).model_dump_json()
        except MCPError as error:
            answer = error.error.model_dump_json()
    assert "xxx" in answer or "cursor" in answer
    assert len(answer) < 12_000


@pytest.mark.spec("LST-2", "LST-3")
@pytest.mark.parametrize("era", ERAS)
async def test_pages_join_to_the_whole_list_and_a_foreign_cursor_is_refused(era: str) -> None:
    whole = await _names(build_server(make_desk()), era)
    async with Client(build_server(make_desk(page_size=3)), mode=era, cache=None) as client:
        found, cursor = [], None
        while True:
            page = await client.list_tools(cursor=cursor)
            assert len(page.tools) <= 3
            found += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        assert found == whole
        for foreign in ("MTA", "nonsense!"):
            with pytest.raises(MCPError) as refused:
                await client.list_tools(cursor=foreign)
            assert refused.value.code == -32602


@pytest.mark.spec("NAM-6", "CTL-4")
async def test_another_separator_is_used_wherever_the_client_sees_a_name() -> None:
    async with client_of(build_server(make_desk(), separator="__"), "legacy") as (client, _):
        assert not [name for name in await names_of(client) if "." in name]
        opened = await client.call_tool("database__open", {})
        assert change_of(opened)["tools"] == ["database__query"]
        assert "- database__query: Run a query." in opened.content[0].text  # type: ignore[union-attr]
        assert not (await client.call_tool("database__query", {"sql": "x"})).is_error
        with pytest.raises(MCPError, match=r"Unknown tool: database\.query"):
            await client.call_tool("database.query", {"sql": "x"})


@pytest.mark.spec("NAM-6")
def test_names_that_meet_on_the_wire_are_refused_when_the_server_is_built_or_the_tool_registered() -> None:
    tools = ToolSet("twins")
    tools.register_group("a")
    tools.register("b", lambda: None, group="a", input_schema=OBJECT)
    tools.register("a_b", lambda: None, input_schema=OBJECT)
    with pytest.raises(ConfigError, match="'a_b'"):
        build_server(tools, separator="_")
    tools.unregister("a_b")
    build_server(tools, separator="_")
    before = tools.catalog
    with pytest.raises(ConfigError, match="'a_b'"):
        tools.register("a_b", lambda: None, input_schema=OBJECT)
    assert tools.catalog is before


@pytest.mark.spec("NAM-6", "DEL-2")
@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"profile": "nobody"}, "There is no profile 'nobody'"),
        ({"active": ["a", "b"]}, "can't be open together"),
        ({"handle_key": "short"}, "at least 16 characters"),
        ({"call_tool": "taken"}, "A tool has the name of the call-tool proxy, 'taken'"),
    ],
    ids=lambda given: str(given) if isinstance(given, dict) else "",
)
def test_a_server_that_can_not_be_built_keeps_no_names(wrong: dict[str, Any], match: str) -> None:
    tools = ToolSet("t", control="none")
    for group in ("a", "b"):
        tools.register_group(group)
    tools.register_exclusion("a", "b")
    tools.register("taken", lambda: "", input_schema=OBJECT)
    with pytest.raises(ToolfoldError, match=match):
        build_server(tools, **{"call_tool": "invoke", "separator": "_", **wrong})
    tools.register("invoke", lambda: "", input_schema=OBJECT)
    tools.register("q", lambda: "", input_schema=OBJECT, group="a")
    tools.register("a_q", lambda: "", input_schema=OBJECT)
    build_server(tools)


@pytest.mark.spec("REG-9", "VIS-6")
@pytest.mark.parametrize("era", ERAS)
async def test_prompts_and_resources_are_listed_and_answered(era: str) -> None:
    tools = ToolSet("library")
    tools.register_prompt("greet", lambda arguments: f"Greet {arguments['who']}.", arguments=["who"])
    tools.register_resource("note:///one", lambda: "first", name="one", mime_type="text/plain")
    tools.register_resource("note:///two", lambda: b"\x00\x01", hidden=True)
    tools.register_resource_template("note:///by/{author}", lambda arguments: f"of {arguments['author']}")
    async with client_of(build_server(tools), era) as (client, _):
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["greet"]
        assert [resource.uri for resource in (await client.list_resources()).resources] == ["note:///one"]
        templates = (await client.list_resource_templates()).resource_templates
        assert [template.uri_template for template in templates] == ["note:///by/{author}"]
        prompt = await client.get_prompt("greet", {"who": "Ada"})
        assert prompt.messages[0].content.text == "Greet Ada."  # type: ignore[union-attr]
        assert (await client.read_resource("note:///one")).contents[0].text == "first"  # type: ignore[union-attr]
        assert (await client.read_resource("note:///two")).contents[0].blob == "AAE="  # type: ignore[union-attr]
        assert (await client.read_resource("note:///by/ada")).contents[0].text == "of ada"  # type: ignore[union-attr]
        with pytest.raises(MCPError) as unknown:
            await client.read_resource("note:///three")
        assert unknown.value.code == (-32002 if era == "legacy" else -32602)
        with pytest.raises(MCPError) as incomplete:
            await client.get_prompt("greet", {})
        assert incomplete.value.code == -32602


@pytest.mark.spec("REG-9", "NTF-1")
async def test_opening_a_group_tells_which_lists_changed() -> None:
    tools = ToolSet("library")
    tools.register_group("shelf", "More to read")
    tools.register_resource("note:///one", lambda: "first", group="shelf")
    tools.register_resource_template("note:///{name}", lambda: "any", group="shelf")
    tools.register_prompt("ask", lambda: "ask", group="shelf")
    async with client_of(build_server(tools), "legacy") as (client, listener):
        await client.call_tool("shelf.activate", {})
        assert sorted(listener.notified) == [
            "notifications/prompts/list_changed",
            "notifications/resources/list_changed",
        ]


@pytest.mark.spec("REG-6")
async def test_an_output_schema_that_legacy_clients_do_not_know_does_not_cost_them_the_list() -> None:
    tools = ToolSet("arrays")
    tools.register(
        "numbers", lambda: ToolResult(structured=[1, 2]), input_schema=OBJECT, output_schema={"type": "array"}
    )
    tools.register("other", lambda: "x", input_schema=OBJECT)
    for era in ERAS:
        async with Client(build_server(tools), mode=era) as client:
            shown = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
            assert shown == {"numbers": None if era == "legacy" else {"type": "array"}, "other": None}
            answer = await client.call_tool("numbers", {})
            assert answer.structured_content == (None if era == "legacy" else [1, 2])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "title": st.text(max_size=5) | _JSON,
        "description": st.text(max_size=20) | _JSON,
        "annotations": st.dictionaries(st.sampled_from(["readOnlyHint", "title", "open_world_hint", "x"]), _JSON)
        | _JSON,
        "icons": st.lists(st.dictionaries(st.sampled_from(["src", "mimeType", "sizes", "theme"]), _JSON), max_size=2),
        "meta": st.dictionaries(st.text(max_size=5), _JSON, max_size=2) | _JSON,
        "category": st.text(max_size=5) | _JSON,
        "output_schema": st.dictionaries(st.sampled_from(["type", "properties", "items"]), _JSON, max_size=2) | _JSON,
        "input_schema": st.fixed_dictionaries(
            {"type": st.just("object")},
            optional={"properties": _JSON, "required": _JSON, "title": _JSON, "description": _JSON},
        ),
    },
)


@pytest.mark.spec("REG-6")
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(options=_OPTIONS)
def test_whatever_can_be_registered_never_breaks_a_list(options: dict[str, Any]) -> None:
    tools = ToolSet("fuzzed")
    tools.register("sound", lambda: "x", input_schema=OBJECT)
    try:
        options.setdefault("input_schema", OBJECT)
        tools.register("odd", lambda: "x", **options)
    except ToolfoldError:
        expected = ["sound"]
    else:
        expected = ["odd", "sound"]
    for era in ERAS:
        assert anyio.run(_names, build_server(tools), era) == expected


async def test_a_predicate_reads_the_state_of_its_own_request() -> None:
    readings = iter(range(100))
    tools = ToolSet("counted", state=lambda: next(readings))
    seen: list[int] = []

    def predicate(view: Any) -> bool:
        seen.append(view.state)
        return True

    for name in ("one", "two"):
        tools.register(name, lambda: "x", input_schema=OBJECT, visibility=Visibility.when(predicate))
    async with client_of(build_server(tools), "legacy") as (client, _):
        await client.list_tools()
        await client.list_tools(cache_mode="bypass")
    assert len(set(seen[:2])) == 1
    assert seen[0] != seen[-1]


async def _names(server: Any, era: str) -> list[str]:
    async with Client(server, mode=era, cache=None) as client:
        return [tool.name for tool in (await client.list_tools()).tools]


def asking_for_consent() -> ToolSet:
    tools = ToolSet("asking")
    question = {
        "method": "elicitation/create",
        "params": {"message": "Sure?", "mode": "form", "requestedSchema": {**OBJECT, "properties": {}}},
    }
    asking = InputRequired({"sure": question}, state="s1")
    tools.register("delete", lambda: asking, input_schema=OBJECT)
    tools.register_prompt("confirm", lambda: asking)
    tools.register_resource("note://own", lambda: asking)
    tools.register_group("after", opens_on="delete")
    return tools


async def consenting(context: Any, params: Any) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={})


@pytest.mark.parametrize("era", ERAS)
async def test_a_handler_that_needs_input_asks_for_it_where_the_era_has_a_way(era: str) -> None:
    tools = asking_for_consent()
    async with Client(build_server(tools), mode=era, elicitation_callback=consenting) as client:
        if era == "legacy":
            assert (await client.call_tool("delete", {})).is_error
            with pytest.raises(MCPError, match="More input is needed"):
                await client.get_prompt("confirm")
        else:
            for asked in (
                await client.session.call_tool("delete", {}, allow_input_required=True),
                await client.session.get_prompt("confirm", allow_input_required=True),
            ):
                assert asked.model_dump(by_alias=True)["resultType"] == "input_required"
                assert asked.model_dump(by_alias=True)["requestState"] == "s1"
                assert HANDLE_META not in (asked.meta or {})


@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
async def test_a_client_is_not_asked_for_what_it_does_not_declare(kind: str) -> None:
    async with Client(build_server(asking_for_consent()), mode="2026-07-28") as client:
        asking: dict[str, Callable[[], Awaitable[Any]]] = {
            "tool": lambda: client.call_tool("delete", {}),
            "prompt": lambda: client.get_prompt("confirm"),
            "resource": lambda: client.read_resource("note://own"),
        }
        with pytest.raises(MCPError) as refused:
            await asking[kind]()
    error = refused.value.error
    assert (error.code, error.data) == (-32021, {"requiredCapabilities": {"elicitation": {}}})


@pytest.mark.parametrize(
    ("modes", "declares"),
    [({}, True), ({"form": {}}, True), ({"form": {}, "url": {}}, True), ({"url": {}}, False)],
)
async def test_a_client_is_asked_for_forms_if_it_declares_them_or_no_mode(modes: Any, declares: bool) -> None:
    async with wired(build_server(asking_for_consent()), "auto", {"elicitation": modes}) as wire:
        if declares:
            asked = await wire.request("tools/call", {"name": "delete", "arguments": {}})
            assert [*asked["inputRequests"]] == ["sure"]
        else:
            with pytest.raises(ProtocolError, match=r"a client with elicitation\.form, which") as refused:
                await wire.request("tools/call", {"name": "delete", "arguments": {}})
            assert refused.value.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY


@pytest.mark.spec("NAM-6")
async def test_a_server_gives_names_that_every_known_client_accepts_unless_it_is_asked_not_to() -> None:
    tools = make_desk()
    async with client_of(mcp.build_server(tools), "legacy") as (client, _):
        names = await names_of(client)
        assert "database__open" in names
        assert all(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) for name in names)
    async with client_of(mcp.build_server(tools, separator="."), "legacy") as (client, _):
        assert "database.activate" in await names_of(client)


@pytest.mark.spec("NAM-6")
def test_a_name_that_is_too_long_for_known_clients_is_an_error_when_the_server_is_built() -> None:
    tools = ToolSet("long")
    tools.register_group("g" * 40)
    tools.register("t" * 30, lambda: None, group="g" * 40)
    with pytest.raises(ConfigError, match=r"72 characters; this wire allows 64"):
        mcp.build_server(tools)
    mcp.build_server(tools, max_name_length=128)


@pytest.mark.spec("LST-1", "LST-2", "NAM-6")
@pytest.mark.parametrize("era", ERAS)
async def test_lists_are_in_order_of_the_names_on_the_wire(era: str) -> None:
    tools = ToolSet("order", page_size=2)
    tools.register_group("api")
    for name, group in (("list", "api"), ("apiZ", None), ("api2", None), ("api_x", None)):
        tools.register(name, lambda: None, group=group, visibility=Visibility.always())
    async with client_of(mcp.build_server(tools), era) as (client, _):
        names, cursor = list[str](), None
        while names == [] or cursor is not None:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
        assert names == sorted(names)
        assert {"api__list", "api2", "apiZ", "api_x"} <= set(names)


@pytest.mark.spec("GWY-6")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_control_tools_for_all_groups_say_that_they_must_stay_in_view(mode: Any) -> None:
    tools = ToolSet("t", control="open_group")
    tools.register_group("g")
    tools.register("x", lambda: "x", group="g")
    async with Client(build_server(tools, active=["g"]), mode=mode) as client:
        marked = {
            tool.name: (tool.meta or {}).get("anthropic/alwaysLoad") for tool in (await client.list_tools()).tools
        }
    assert marked == {"open_group": True, "close_group": True, "call_tool": True, "g.x": None}
