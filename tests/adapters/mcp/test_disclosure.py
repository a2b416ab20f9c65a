"""Disclosure by the draft extension for groups: what is fetched, listed and called, and what stays (DEL-5)."""

from __future__ import annotations

import re
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.client import advertise
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.shop import make_shop, shop_over
from tests.adapters.mcp.support import (
    build_server,
    client_of,
    names_of,
)
from tests.adapters.mcp.test_handle_delivery import MODERN, listed_under, opened, received, text_of
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold import Context, ProtocolError, ToolError, ToolSet, Visibility

EXTENSION = "io.modelcontextprotocol/groups"
TOOLBOX = "com.google.cloud/toolbox.v1"
DECLARED = [advertise(EXTENSION, {})]
ALLOWED = re.compile(r"[a-z0-9-]{1,64}")

pytestmark = pytest.mark.spec("DEL-5")


class _Params(types.RequestParams):
    name: str | None = None
    cursor: str | None = None


class _Request(types.Request[_Params, str]):
    method: str


class _Answer(types.Result):
    groups: list[dict[str, Any]] | None = None
    contents: dict[str, Any] | None = None
    instructions: str | None = None
    next_cursor: str | None = None
    ttl_ms: int | None = None
    cache_scope: str | None = None


async def asked(client: Client, method: str, **params: Any) -> _Answer:
    """Send a request of the extension and return the answer."""
    request: Any = _Request(method=method, params=_Params(**params))
    return await client.session.send_request(request, _Answer)


async def refusal_of(client: Client, method: str, **params: Any) -> types.ErrorData:
    with pytest.raises(MCPError) as refused:
        await asked(client, method, **params)
    return refused.value.error


async def contents_of(client: Client, group: str) -> dict[str, Any]:
    contents = (await asked(client, "groups/get", name=group)).contents
    assert contents is not None
    return contents


def make_nested() -> ToolSet:
    """Return groups whose names the draft does not allow, and would be one another's if only made to fit."""
    tools = ToolSet("nested")
    long = "x" * 55
    for path, parent in (
        *(("A_b", None), ("a-b", None), ("a_B", None), ("a-b-2", None), ("a", None), ("b", "a")),
        *((long, None), (long, long), ("__", None), ("Y" * 63 + "_", None)),
    ):
        tools.register_group(path, parent=parent)
        group = f"{parent}.{path}" if parent else path
        if len(group) < 100:
            tools.register("t", lambda: "done", group=group)
    return tools


async def test_the_extension_is_announced_in_the_modern_era_and_not_in_the_legacy_one() -> None:
    async with shop_over("memory") as target:
        async with client_of(target, "auto") as (client, _):
            assert client.protocol_version == MODERN
            assert client.server_capabilities.extensions == {EXTENSION: {"listChanged": True}, TOOLBOX: {}}
        async with client_of(target, "legacy", extensions=DECLARED) as (client, _):
            assert client.server_capabilities.extensions is None


async def test_groups_are_disclosed_level_by_level_with_the_listed_definitions() -> None:
    async with (
        shop_over("memory") as target,
        client_of(target, MODERN, extensions=DECLARED) as (client, _),
        client_of(target, MODERN) as (plain, _),
    ):
        top = (await asked(client, "groups/list")).groups
        assert top == [
            {"name": "cash", "title": "cash", "description": "Paying in coins"},
            {"name": "credit", "title": "credit", "description": "Paying by card"},
            {"name": "stock", "title": "stock", "description": "What there is"},
        ]
        stock = await asked(client, "groups/get", name="stock")
        assert stock.instructions is None
        assert stock.contents is not None
        assert stock.contents["groups"] == [
            {"name": "stock-0d-orders", "title": "orders", "description": "What is to come"}
        ]
        assert [prompt["name"] for prompt in stock.contents["prompts"]] == ["stock.advise"]
        assert [resource["uri"] for resource in stock.contents["resources"]] == ["shop:///shelves"]
        under = await listed_under(plain, await opened(plain, "stock.orders", await opened(plain, "stock")))
        orders = await contents_of(client, "stock-0d-orders")
        assert "groups" not in orders
        fetched = {tool["name"]: tool for tool in (*stock.contents["tools"], *orders["tools"])}
        assert set(fetched) == {name for name in under if name.startswith("stock.") and "activate" not in name}
        for name, tool in fetched.items():
            assert types.Tool.model_validate(tool) == under[name]


async def test_names_have_the_form_that_the_draft_allows_and_are_unique() -> None:
    tools = make_nested()
    async with client_of(build_server(tools, max_name_length=128), MODERN, extensions=DECLARED) as (client, _):
        pending = [group["name"] for group in (await asked(client, "groups/list")).groups or []]
        found: dict[str, list[str]] = {}
        while pending:
            name = pending.pop()
            assert name not in found
            assert ALLOWED.fullmatch(name)
            contents = await contents_of(client, name)
            found[name] = [tool["name"] for tool in contents.get("tools", [])]
            pending += [group["name"] for group in contents.get("groups", [])]
        assert len(found) == len(tools.catalog.groups)
        inside = [tool for names in found.values() for tool in names]
        assert sorted(inside) == sorted(spec.name for spec in tools.catalog.tools.values() if spec.control is None)


@pytest.mark.spec("VIS-6", "NAM-6")
async def test_hidden_and_control_tools_are_not_offered_and_names_are_those_of_the_wire() -> None:
    tools = make_shop()
    tools.register("secret", lambda: "found", group="stock", hidden=True)
    tools.register("member_only", lambda: "hi", group="stock", visibility=Visibility.when(lambda view: False))
    async with client_of(build_server(tools, separator="__"), MODERN, extensions=DECLARED) as (client, _):
        names = [tool["name"] for tool in (await contents_of(client, "stock"))["tools"]]
        assert names == ["stock__count", "stock__fail", "stock__reject"]
        assert "discount" not in await names_of(client)
        assert received(await client.call_tool("stock__count", {"item": "x"})) == {"item": "x", "shelf": 1}
        assert text_of(await client.call_tool("stock__count", {})).startswith("Invalid arguments for stock__count:")


@pytest.mark.spec("SKL-2")
async def test_a_tool_that_is_shared_is_the_same_in_each_of_its_groups() -> None:
    tools = make_shop()
    tools.share_tool("stock.count", "cash")
    async with client_of(build_server(tools), MODERN, extensions=DECLARED) as (client, _):
        own, shared = [(await contents_of(client, group))["tools"] for group in ("stock", "cash")]
        assert [tool for tool in shared if tool in own] == [tool for tool in own if tool["name"] == "stock.count"] != []


async def test_grouped_tools_leave_the_lists_of_requests_that_declare_it_and_of_no_other() -> None:
    async with (
        shop_over("memory", active=["stock"]) as target,
        client_of(target, MODERN, extensions=DECLARED) as (client, _),
        client_of(target, MODERN) as (plain, _),
        client_of(target, "legacy", extensions=DECLARED) as (legacy, _),
    ):
        assert await names_of(client) == ["hello", "join", "open_everything", "open_stock"]
        assert (await client.list_prompts()).prompts == []
        assert (await client.list_resources()).resources == []
        for other in (plain, legacy):
            assert {"hello", "stock.count", "cash.activate", "call_tool"} <= set(await names_of(other))
            assert [prompt.name for prompt in (await other.list_prompts()).prompts] == ["stock.advise"]


async def test_the_tools_of_a_group_are_called_without_fetching_it_and_nothing_changes() -> None:
    notified: list[float] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        notified.append(progress)

    async with (
        shop_over("memory") as target,
        client_of(target, MODERN, extensions=DECLARED) as (client, listener),
        client_of(target, MODERN) as (plain, _),
        client_of(target, "legacy") as (legacy, _),
    ):
        clients = (client, plain, legacy)
        before = [await one.list_tools(cache_mode="bypass") for one in clients]
        groups = await asked(client, "groups/list")
        called = await client.call_tool("stock.count", {"item": "x"}, progress_callback=note)
        assert received(called) == {"item": "x", "shelf": 1}
        assert notified == [1]
        assert text_of(await client.call_tool("stock.orders.place", {"items": {"nails": 2}})) == "2"
        assert text_of(await client.call_tool("stock.fail", {})) == "the shelf is empty"
        for name in ("cash.coins", "credit.card", "cash.coins", "open_stock", "join"):
            assert not (await client.call_tool(name, {})).is_error
        with pytest.raises(MCPError, match="not today"):
            await client.call_tool("stock.reject", {})
        for group in ("stock", "cash"):
            await contents_of(client, group)
        assert [await one.list_tools(cache_mode="bypass") for one in clients] == before
        assert await asked(client, "groups/list") == groups
        assert listener.changes == 0
        with pytest.raises(MCPError, match=r"Unknown tool: stock\.count"):
            await plain.call_tool("stock.count", {"item": "x"})


@pytest.mark.spec("DEL-9")
@pytest.mark.parametrize("name", ["nothing", "stock.nothing", "stock.activate", "cash.deactivate", "call_tool"])
async def test_control_tools_and_unregistered_names_are_unknown(name: str) -> None:
    async with shop_over("memory") as target, client_of(target, MODERN, extensions=DECLARED) as (client, _):
        with pytest.raises(MCPError, match=f"Unknown tool: {name}") as refused:
            await client.call_tool(name, {})
        assert refused.value.code == types.INVALID_PARAMS


async def test_errors_are_those_of_the_protocol() -> None:
    async with shop_over("memory") as target:
        async with client_of(target, MODERN, extensions=DECLARED) as (client, _):
            for name in ("nothing", "stock.orders", "Stock", ""):
                error = await refusal_of(client, "groups/get", name=name)
                assert (error.code, error.message) == (types.INVALID_PARAMS, f"Unknown group: {name}")
            for cursor in ("", "more", "c2hvcC90b29sCmhlbGxv"):
                assert (await refusal_of(client, "groups/list", cursor=cursor)).code == types.INVALID_PARAMS
        async with client_of(target, MODERN) as (client, _):
            for method, params in (("groups/list", {}), ("groups/get", {"name": "stock"})):
                error = await refusal_of(client, method, **params)
                assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY == -32021
                assert error.data == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        async with client_of(target, "legacy", extensions=DECLARED) as (client, _):
            for method, params in (("groups/list", {}), ("groups/get", {"name": "stock"})):
                assert (await refusal_of(client, method, **params)).code == types.METHOD_NOT_FOUND


def make_lab(journal: Journal, blocked: anyio.Event | None = None) -> ToolSet:
    """Return groups with hooks that are noted: one at the start, one below another, one that excludes the first."""

    def noting(name: str) -> dict[str, Any]:
        return {
            "on_activate": lambda: journal.append(f"{name} on"),
            "on_deactivate": lambda: journal.append(f"{name} off"),
        }

    def refuse() -> None:
        raise ToolError("the key is missing")

    tools = ToolSet("lab", run_in_thread=False)
    for name in ("start", "other", "outer"):
        tools.register_group(name, **noting(name))
    tools.register_group("inner", parent="outer", **noting("inner"))
    tools.register_group("vault", on_activate=refuse)
    tools.register_exclusion("start", "other")

    @tools.tool()
    def ping(context: Context) -> str:
        return ",".join(context.session.active)

    @tools.tool(group="outer.inner")
    async def work(how: str, context: Context) -> str:
        journal.append("work")
        if how == "fail":
            raise ToolError("no")
        if how == "reject":
            raise ProtocolError(-32050, "not today")
        if how == "block":
            assert blocked is not None
            blocked.set()
            await anyio.sleep_forever()
        return ",".join(context.session.active)

    @tools.tool(group="other")
    def swap(context: Context) -> str:
        return ",".join(context.session.active)

    @tools.tool(group="outer")
    async def open_more(context: Context) -> str:
        await context.activate("other")
        return ",".join(context.session.active)

    tools.register("locked", lambda: "never", group="vault")
    return tools


AROUND = ["outer on", "inner on", "work", "inner off", "outer off"]


@pytest.mark.spec("HOOK-1", "HOOK-9")
@pytest.mark.parametrize("how", ["succeed", "fail", "reject", 5])
async def test_hooks_of_the_group_run_around_a_call_whatever_its_outcome(how: Any) -> None:
    journal = Journal()
    tools = make_lab(journal)
    async with client_of(build_server(tools), MODERN, extensions=DECLARED) as (client, _):
        if how == "reject":
            with pytest.raises(MCPError, match="not today"):
                await client.call_tool("outer.inner.work", {"how": how})
        else:
            answer = await client.call_tool("outer.inner.work", {"how": how})
            assert answer.is_error == (how != "succeed")
        assert journal == [event for event in AROUND if how != 5 or event != "work"]
        await contents_of(client, "outer-0d-inner")
        await client.call_tool("ping", {})
        assert len(journal) in (4, 5)
        assert not tools.sessions


@pytest.mark.spec("HOOK-1", "DEL-4")
async def test_groups_that_requests_begin_with_are_set_up_as_well_unless_the_called_group_excludes_them() -> None:
    journal = Journal()
    server = build_server(make_lab(journal), active=["start"])
    async with client_of(server, MODERN, extensions=DECLARED) as (client, _):
        await client.list_tools(cache_mode="bypass")
        await contents_of(client, "start")
        assert journal == []
        assert text_of(await client.call_tool("ping", {})) == "start"
        assert journal == ["start on", "start off"]
        journal.clear()
        assert text_of(await client.call_tool("outer.inner.work", {"how": ""})) == "outer,outer.inner,start"
        assert journal == ["outer on", "inner on", "start on", "work", "start off", "inner off", "outer off"]
        journal.clear()
        assert text_of(await client.call_tool("other.swap", {})) == "other"
        assert journal == ["other on", "other off"]
        journal.clear()
        assert text_of(await client.call_tool("outer.open_more", {})) == "other,outer"
        assert sorted(journal) == ["other off", "other on", "outer off", "outer on", "start off", "start on"]


@pytest.mark.spec("HOOK-4")
async def test_a_call_is_refused_where_its_group_cannot_be_set_up_and_nothing_is_left_behind() -> None:
    journal = Journal()
    tools = make_lab(journal)
    async with client_of(build_server(tools, active=["start"]), MODERN, extensions=DECLARED) as (client, _):
        refused = await client.call_tool("vault.locked", {})
        assert refused.is_error
        assert journal == ["start on", "start off"]
        assert not tools.sessions


@pytest.mark.spec("ACT-10", "DEL-4")
async def test_an_impossible_selection_is_refused() -> None:
    async with endpoint_of(build_server(make_shop())) as endpoint:
        async with endpoint.client(MODERN, "?groups=cash,credit", extensions=DECLARED) as client:
            refused = await client.call_tool("hello", {})
            assert refused.is_error
            assert "can't be open together" in text_of(refused)
            assert (await refusal_of(client, "groups/list")).code == types.INVALID_PARAMS
        async with endpoint.client(MODERN, "?groups=cash", extensions=DECLARED) as client:
            assert text_of(await client.call_tool("credit.card", {})) == "card"


# -- prompts, resources, callers ---------------------------------------------------------------------------------------


def make_library(journal: list[str]) -> ToolSet:
    tools = ToolSet("library")
    tools.register_group(
        "shelf",
        on_activate=lambda: journal.append("on"),
        on_deactivate=lambda: journal.append("off"),
    )
    tools.register_prompt("ask", lambda: "Ask.", group="shelf")
    tools.register_resource("note:///one", lambda: "first", group="shelf")
    tools.register_resource_template(
        "note:///by/{author}", lambda arguments: f"of {arguments['author']}", group="shelf"
    )
    return tools


@pytest.mark.spec("REG-9")
async def test_clients_that_declare_the_extension_use_prompts_and_resources_of_closed_groups() -> None:
    journal: list[str] = []
    server = build_server(make_library(journal))
    async with Client(server, mode=MODERN, extensions=DECLARED) as client:
        assert (await client.list_prompts()).prompts == []
        prompt = await client.get_prompt("shelf.ask")
        assert prompt.messages[0].content.text == "Ask."  # type: ignore[union-attr]
        for uri, text in (("note:///one", "first"), ("note:///by/ada", "of ada")):
            assert (await client.read_resource(uri)).contents[0].text == text  # type: ignore[union-attr]
        assert journal == ["on", "off"] * 3
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("note:///none/of/these")
    async with Client(server, mode=MODERN) as other:
        with pytest.raises(MCPError, match=r"Unknown prompt: shelf\.ask"):
            await other.get_prompt("shelf.ask")


@pytest.mark.spec("DEL-6")
async def test_declaring_the_extension_does_not_bypass_authentication() -> None:
    async with Client(build_server(make_shop(), delivery="principal"), mode=MODERN, extensions=DECLARED) as client:
        for asked in (client.list_tools, client.list_prompts, lambda: client.call_tool("stock.count", {})):
            with pytest.raises(MCPError, match="not authenticated"):
                await asked()


async def test_instructions_for_clients_that_declare_the_extension_name_no_control_tools() -> None:
    tools = make_shop()
    tools.register_group("rules", instructions="Weigh twice.", pinned=True)
    for given, expected in ((None, "Weigh twice."), ("Be brief.", "Be brief.\n\nWeigh twice.")):
        async with Client(build_server(tools, instructions=given), mode="auto", extensions=DECLARED) as client:
            assert client.instructions == expected
    for options, said in (({"instructions": "Be brief."}, "Be brief."), ({}, None)):
        async with Client(build_server(make_shop(), **options), mode="auto", extensions=DECLARED) as client:
            assert client.instructions == said
    async with Client(build_server(make_shop()), mode="auto") as other:
        assert "cash.activate" in (other.instructions or "")
