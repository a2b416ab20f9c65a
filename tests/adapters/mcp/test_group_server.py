"""`group_server`: groups for an existing server of the MCP SDK, in both eras (SPEC INT-1)."""

from __future__ import annotations

import logging
from typing import Any, Literal

import mcp_types as types
import pytest
from mcp import Client
from mcp.server import MCPServer, Server
from mcp.server.caching import CacheHint

from tests.adapters.mcp.existing import CALLS, Recorder, answer, listed, listing, plain_tool, shop
from toolfold import ConfigError, ToolfoldError, ToolSet
from toolfold_adapters.mcp import group_server, in_group
from toolfold_adapters.names import HANDLE_META

Era = Literal["legacy", "auto"]
CONTROLS = ["call_tool", "close_group", "open_group"]
both_eras = pytest.mark.parametrize("era", ["legacy", "auto"])


async def opened(client: Client, group: str) -> dict[str, Any]:
    """Open a group, and return what `call_tool` takes beside name and arguments."""
    result = await client.call_tool("open_group", {"group": group})
    assert not result.is_error, result
    handle = (result.meta or {}).get(HANDLE_META)
    return {} if handle is None else {"handle": handle}


@both_eras
@pytest.mark.spec("INT-1")
async def test_definitions_and_answers_are_those_of_the_server_without_groups(era: Era) -> None:
    grouped = group_server(shop(), {"database": "db_*"}, active=["database", "mail", "mail.out"])
    async with Client(shop(), mode=era) as plain, Client(grouped, mode=era) as client:
        definitions = {tool.name: tool for tool in (await client.list_tools()).tools}
        for tool in (await plain.list_tools()).tools:
            assert definitions.pop(tool.name) == tool
        assert sorted(definitions) == CONTROLS
        for name, arguments in CALLS:
            assert await answer(client, name, arguments) == await answer(plain, name, arguments), name


@both_eras
@pytest.mark.spec("INT-1")
async def test_the_call_tool_proxy_answers_as_a_direct_call_does(era: Era) -> None:
    grouped = group_server(shop(), {"database": "db_*"})
    async with Client(shop(), mode=era) as plain, Client(grouped, mode=era) as client:
        handle = await opened(client, "database")
        for name, arguments in CALLS[1:7]:
            call = {"name": name, "arguments": arguments, **handle}
            assert await answer(client, "call_tool", call) == await answer(plain, name, arguments)


@both_eras
@pytest.mark.spec("INT-1")
async def test_everything_but_tools_is_as_before(era: Era) -> None:
    async with (
        Client(shop(), mode=era) as plain,
        Client(group_server(shop(), {"database": "db_*"}), mode=era) as client,
    ):
        for one, other in zip(await _rest(plain), await _rest(client), strict=True):
            assert one == other
        assert (client.instructions or "").endswith("\n\nA shop.")
        assert "open_group opens one" in (client.instructions or "")


async def _rest(client: Client) -> list[Any]:
    return [
        client.server_info,
        await client.list_prompts(),
        await client.get_prompt("greet", {"name": "Ada"}),
        await client.list_resources(),
        await client.list_resource_templates(),
        await client.read_resource("shop://hours"),
        await client.read_resource("shop://cup"),
    ]


@pytest.mark.spec("INT-1")
async def test_middleware_sees_all_requests() -> None:
    recorder = Recorder()
    async with Client(group_server(shop(recorder), {"database": "db_*"}), mode="legacy") as client:
        await opened(client, "database")
        await client.call_tool("ping")
    assert recorder.seen.count("tools/call") == 2


@both_eras
@pytest.mark.spec("INT-1")
async def test_a_low_level_server_has_groups_by_marks_and_by_tags(era: Era) -> None:
    tools = [
        plain_tool("both", tags=["red", "blue"]),
        plain_tool("red_one", tags=["red"]),
        plain_tool("marked", **in_group("green", {"tags": ["red"]})),
        plain_tool("free"),
    ]
    server = group_server(listing(*tools), "tags")
    async with Client(server, mode=era) as client:
        assert await listed(client) == sorted([*CONTROLS, "free"])
        for group, members in (("blue", ["both"]), ("red", ["both", "red_one"]), ("green", ["marked"])):
            result = await client.call_tool("open_group", {"group": group})
            text = result.content[0].text  # type: ignore[union-attr]
            assert [tool.name for tool in tools if f"- {tool.name}: " in text] == members, group
            await client.call_tool("close_group", {"group": group})


@pytest.mark.spec("INT-1")
async def test_groups_in_a_mounted_server_come_after_the_server_s_own_and_are_not_sent() -> None:
    mounted = {"dev.toolfold/mounted-groups": ["inner", "deep.inner"]}
    tools = [
        plain_tool("tagged", tags=["outer"], **mounted),
        plain_tool("marked", **in_group("mark", mounted)),
        plain_tool("rest", **mounted),
        plain_tool("more", kept=1, **mounted),
    ]
    server = group_server(listing(*tools), "tags")
    async with Client(server, mode="legacy") as client:
        assert await listed(client) == CONTROLS
        for group, members in (("outer", ["tagged"]), ("mark", ["marked"]), ("inner", ["more", "rest"])):
            await client.call_tool("open_group", {"group": group})
            assert [name for name in await listed(client) if name not in CONTROLS] == members
            shown = {tool.name: tool.meta for tool in (await client.list_tools(cache_mode="bypass")).tools}
            await client.call_tool("close_group", {"group": group})
        assert (shown["rest"], shown["more"]) == (None, {"kept": 1})


@both_eras
@pytest.mark.spec("INT-1", "SAF-2")
async def test_an_exception_of_a_low_level_handler_is_answered_as_without_groups(era: Era) -> None:
    plain, grouped = listing(plain_tool("boom")), group_server(listing(plain_tool("boom")), {"b": "boom"}, active=["b"])
    async with Client(plain, mode=era) as one, Client(grouped, mode=era) as other:
        assert await answer(other, "boom") == await answer(one, "boom")


@both_eras
@pytest.mark.spec("INT-1", "LST-2")
async def test_the_pages_of_a_server_stay_its_pages_and_what_opens_groups_is_on_the_first(era: Era) -> None:
    tools = [plain_tool(f"t{number}") for number in range(7)]
    server = group_server(listing(*tools, pages=3), {"even": ["t0", "t2", "t4", "t6"]})
    async with Client(server, mode=era) as client:
        pages: list[list[str]] = []
        cursor: str | None = None
        while cursor is not None or not pages:
            page = await client.list_tools(cursor=cursor)
            pages.append([tool.name for tool in page.tools])
            cursor = page.next_cursor
        assert pages == [sorted([*CONTROLS, "t1"]), ["t3", "t5"], []]
        result = await client.call_tool("open_group", {"group": "even"})
        assert all(f"t{number}: About" in str(result.content) for number in (0, 2, 4, 6))
        handle = {"handle": (result.meta or {})[HANDLE_META]} if era == "auto" else {}
        call = {"name": "t6", "arguments": {"x": 1}, **handle}
        assert (await client.call_tool("call_tool", call)).content[0].text == "t6 {'x': 1}"  # type: ignore[union-attr]


@both_eras
@pytest.mark.spec("INT-1", "NAM-6")
async def test_tools_keep_names_that_no_tool_of_a_tool_set_could_have(era: Era) -> None:
    names = ["admin.tools/list", "admin_tools/list", "x" * 100, "ünïcode", "admin_tools_list"]
    server = group_server(listing(*map(plain_tool, names)), {"all": "*"}, active=["all"])
    async with Client(server, mode=era) as client:
        assert set(await listed(client)) == {*names, *CONTROLS}
        for name in names:
            assert (await client.call_tool(name, {})).content[0].text == f"{name} {{}}"  # type: ignore[union-attr]


@both_eras
@pytest.mark.spec("INT-1", "VIS-5")
async def test_groups_show_a_caller_nothing_that_the_server_does_not_offer_it(era: Era) -> None:
    server, allowed = listing(), [plain_tool("mine")]

    async def list_tools(ctx: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(allowed))

    server.add_request_handler("tools/list", types.PaginatedRequestParams, list_tools)
    group_server(server, {"all": "*"})
    async with Client(server, mode=era) as client:
        allowed.append(plain_tool("theirs"))
        await client.list_tools()
        allowed.pop()
        result = await client.call_tool("open_group", {"group": "all"})
        assert "mine" in str(result)
        assert "theirs" not in str(result)
        assert "theirs" not in str(await client.list_tools(cache_mode="bypass"))
        assert "theirs" not in str(client.instructions)


@both_eras
@pytest.mark.spec("INT-1")
async def test_a_tool_that_comes_later_is_grouped_when_it_comes(era: Era) -> None:
    server = group_server(shop(), {"database": "db_*"})
    async with Client(server, mode=era) as client:
        server.add_tool(lambda: "new", name="db_new", description="New.")
        assert (await answer(client, "db_new"))["code"] == types.INVALID_PARAMS
        assert "db_new" not in await listed(client)
        result = await client.call_tool("open_group", {"group": "database"})
        assert "db_new: New." in result.content[0].text  # type: ignore[union-attr]


@pytest.mark.spec("INT-1", "HOOK-1", "REG-3")
async def test_a_tool_set_gives_its_groups_texts_hooks_and_exclusions() -> None:
    ran: list[str] = []
    tools = ToolSet("shop", control="open_group")
    tools.register_group("database", "Rows and tables", on_activate=lambda: ran.append("open"))
    tools.register_group("mail", "Letters")
    tools.register_exclusion("database", "mail")
    server = group_server(shop(), {"database": "db_*", "mail": "send"}, tools=tools)
    async with Client(server, mode="legacy") as client:
        opener = next(tool for tool in (await client.list_tools()).tools if tool.name == "open_group")
        assert "database: Rows and tables" in (opener.description or "")
        await opened(client, "mail")
        await opened(client, "database")
        assert ran == ["open"]
        shown = await listed(client)
        assert ("db_row" in shown, "send" in shown) == (True, False)


@pytest.mark.spec("INT-1", "DEL-7")
@pytest.mark.parametrize("hint", [None, CacheHint(ttl_ms=5_000, scope="public")])
async def test_how_long_a_list_may_be_cached_is_for_the_server_to_say(hint: CacheHint | None) -> None:
    server = MCPServer("m", cache_hints={} if hint is None else {"tools/list": hint})
    server.add_tool(lambda: "a", name="a", description="A.")
    group_server(server, {"g": "a"})
    async with Client(server) as client:
        result = await client.list_tools()
        expected = (5_000, "public") if hint else (0, "private")
        assert (result.ttl_ms, result.cache_scope) == expected


@pytest.mark.spec("INT-1")
async def test_a_definition_that_no_schema_validator_accepts_is_passed_on() -> None:
    odd = types.Tool(name="odd", input_schema={"type": "object", "properties": {"x": {"pattern": "("}}})
    async with Client(group_server(listing(odd), {"g": "odd"}, active=["g"])) as client:
        shown = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert shown["odd"].input_schema == odd.input_schema
        assert (await client.call_tool("odd", {"x": "y"})).content[0].text == "odd {'x': 'y'}"  # type: ignore[union-attr]


def _two_of_one_name() -> MCPServer[Any]:
    server = shop()
    list_tools = server.list_tools

    async def twice() -> list[types.Tool]:
        return [*await list_tools(), (await list_tools())[0]]

    server.list_tools = twice  # type: ignore[method-assign]
    return server


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "a pattern that matches nothing": (
        shop,
        {"by": {"database": ["db_*", "sql_*"]}},
        r"'sql_\*' .*'database' matches no",
    ),
    "no tags": (lambda: _with("a"), {"by": "tags"}, "no tool has tags"),
    "no marks": (lambda: _with("a"), {}, "no tool is marked"),
    "a path that can't be": (shop, {"by": {"data base": "db_*"}}, "'data base'.*can't be the path"),
    "a mark that can't be": (lambda: _with("a", **{"dev.toolfold/group": "a b"}), {}, "'a b'.*tool 'a'.*can't be"),
    "no way of grouping": (shop, {"by": 7}, "by can't be '?7"),
    "a pattern that is no text": (shop, {"by": {"database": [7]}}, "a pattern is a text"),
    "patterns that are none": (shop, {"by": {"database": 7}}, "a pattern is a text"),
    "tools of one name": (_two_of_one_name, {"by": {"d": "*"}}, "two tools with the name 'ping'"),
    "a control tool's name": (lambda: _with("open_group"), {"by": {"d": "*"}}, "'open_group', and so have its groups"),
    "the proxy's name": (lambda: _with("call_tool"), {"by": {"d": "*"}}, "'call_tool'.*call_tool="),
    "no tools": (lambda: Server("empty"), {"by": {"d": "*"}}, "no tools to group"),
    "groups already": (lambda: group_server(shop(), {"d": "db_*"}), {"by": {"d": "*"}}, "has groups already"),
    "pages of its own": (shop, {"tools": ToolSet("t", page_size=5)}, "leave page_size out of the ToolSet"),
    "no server": (lambda: ToolSet("t"), {"by": {"d": "*"}}, "ToolSet is no server of the MCP SDK"),
}


def _with(name: str, **meta: Any) -> MCPServer[Any]:
    server = MCPServer("one")
    server.add_tool(lambda: "a", name=name, description="A.", meta=meta or None)
    return server


@pytest.mark.spec("INT-1", "ERR-2")
@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_grouped_is_refused_in_a_sentence_that_says_what_to_do(case: str) -> None:
    make, options, message = BAD[case]
    with pytest.raises(ToolfoldError, match=f"(?s){message}"):
        group_server(make(), **options)


@pytest.mark.spec("INT-1", "ERR-2")
def test_a_refused_server_is_left_as_it_was() -> None:
    server = shop()
    with pytest.raises(ConfigError):
        group_server(server, {"database": "sql_*"})
    assert group_server(server, {"database": "db_*"}) is server


@pytest.mark.spec("INT-1", "ERR-2")
async def test_a_later_tool_that_cannot_be_grouped_stays_in_view_and_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = group_server(listing(plain_tool("a", tags=["not a path"]), plain_tool("b", tags=["g"])), "tags")
    with caplog.at_level(logging.WARNING, "toolfold"):
        async with Client(server) as client:
            assert await listed(client) == sorted([*CONTROLS, "a"])
            await client.list_tools()
            assert (await client.call_tool("a", {})).content[0].text == "a {}"  # type: ignore[union-attr]
    assert len([record for record in caplog.records if "'not a path'" in record.message]) == 1


@pytest.mark.spec("INT-1", "ERR-2")
def test_no_group_can_be_marked_with_a_path_that_is_none() -> None:
    with pytest.raises(ConfigError, match="'a b' in in_group"):
        in_group("a b")
