"""A handle that the request itself carries, and the client that carries it along (SPEC DEL-11)."""

from __future__ import annotations

from typing import Any

import pytest
from httpx2 import Response
from mcp.shared.exceptions import MCPError

from tests.adapters.gateway.upstreams.groups import DRAFT, TOOLBOX, Grouped, tool
from tests.adapters.mcp.asgi import endpoint_of
from tests.adapters.mcp.shop import make_shop, shop_over
from tests.adapters.mcp.support import build_server, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, received, text_of, through
from toolfold import GroupNotFound
from toolfold_adapters.mcp import FollowingClient
from toolfold_adapters.names import HANDLE_HEADER, HANDLE_META

pytestmark = pytest.mark.spec("DEL-11")


async def test_the_handle_of_a_call_takes_precedence_over_that_of_its_request() -> None:
    async with FollowingClient(build_server(make_shop()), mode=MODERN) as client:
        stock = await opened(client, "stock")
        client.handle = None
        cash = await opened(client, "cash")
        assert client.handle == cash
        assert (await client.call_tool("stock.orders.activate", {})).is_error
        assert received(await client.call_tool("stock.orders.activate", {"handle": stock}))["active"] == [
            "stock",
            "stock.orders",
        ]
        client.handle = cash
        assert not (await through(client, "stock.count", {"item": "x"}, stock)).is_error
        assert client.handle == cash


async def test_a_program_continues_from_an_earlier_handle_or_starts_anew() -> None:
    async with FollowingClient(build_server(make_shop()), mode=MODERN) as client:
        before = await names_of(client)
        await client.call_tool("stock.activate", {})
        trunk = client.handle
        await client.call_tool("cash.activate", {})
        branch = client.handle
        client.handle = trunk
        await client.call_tool("credit.activate", {})
        assert text_of(await client.call_tool("credit.card", {})) == "card"
        client.handle = branch
        assert text_of(await client.call_tool("cash.coins", {})) == "coins"
        client.handle = None
        assert await names_of(client) == before
        assert "cash.coins" in [tool.name for tool in (await client.list_tools(meta=_meta(branch))).tools]
    async with FollowingClient(build_server(make_shop()), mode=MODERN, handle="nonsense") as client:
        assert await names_of(client) == before


@pytest.mark.spec("DEL-3")
async def test_a_handle_that_the_server_refuses_is_discarded() -> None:
    async with shop_over("memory") as target, FollowingClient(target, mode=MODERN) as client:
        client.handle = "nonsense"
        refused = await client.call_tool("hello", {})
        assert refused.is_error
        assert "Open the groups that you need again" in text_of(refused)
        assert client.handle is None
        assert text_of(await client.call_tool("hello", {})) == "hello"
        client.handle = "nonsense"
        assert "stock.count" not in await names_of(client)
        assert client.handle is None
        good = await opened(client, "stock")
        assert (await through(client, "hello", {}, "nonsense")).is_error
        assert client.handle == good
        with pytest.raises(MCPError):
            await client.list_tools(cursor="nonsense")
        with pytest.raises(MCPError, match="Open the groups that you need again"):
            await client.list_tools(meta=_meta("nonsense"))
        assert not (await client.call_tool("stock.count", {"item": "x"})).is_error


def _meta(handle: str | None) -> Any:
    return {HANDLE_META: handle}


@pytest.mark.spec("DEL-7")
@pytest.mark.parametrize("carried", ["meta", "header"])
async def test_lists_and_direct_calls_follow_the_handle_and_requests_without_one_stay_the_same_bytes(
    carried: str,
) -> None:
    async with endpoint_of(build_server(make_shop(page_size=6))) as endpoint:

        async def send(method: str, params: dict[str, Any], handle: str | None = None) -> Response:
            if handle is None:
                return await endpoint.post(method, params)
            if carried == "meta":
                return await endpoint.post(method, {**params, "_meta": {HANDLE_META: handle}})
            return await endpoint.post(method, params, headers={HANDLE_HEADER: handle})

        plain = (await send("tools/list", {})).content

        async def names(handle: str) -> list[str]:
            found: list[str] = []
            params: dict[str, Any] = {}
            while True:
                result = (await send("tools/list", params, handle)).json()["result"]
                assert (result["ttlMs"], result["cacheScope"]) == (0, "private")
                found += [tool["name"] for tool in result["tools"]]
                if "nextCursor" not in result:
                    return found
                params = {"cursor": result["nextCursor"]}

        handle: str | None = None
        for group in ("stock", "stock.orders", "cash"):
            called = await send("tools/call", {"name": f"{group}.activate", "arguments": {}}, handle)
            handle = called.json()["result"]["_meta"][HANDLE_META]
            assert (await send("tools/list", {})).content == plain
        assert handle is not None
        listed = await names(handle)
        assert listed == sorted(listed)
        assert {"stock.count", "stock.orders.place", "cash.coins", "call_tool"} <= set(listed)
        arguments = {"name": "stock.orders.place", "arguments": {"items": {"nails": 2}}}
        placed = (await send("tools/call", arguments, handle)).json()["result"]
        assert placed["content"] == [{"type": "text", "text": "2"}]
        refused = (await send("tools/call", arguments)).json()
        assert (refused["error"]["code"], refused["error"]["message"]) == (-32602, "Unknown tool: stock.orders.place")
        for _ in range(2):
            one = (await send("tools/list", {}, handle)).content
            assert one == (await send("tools/list", {}, handle)).content
        assert (await send("tools/list", {})).content == plain


# -- servers with an extension for groups -----------------------------------------------------------------------------


@pytest.mark.spec("DEL-5")
@pytest.mark.parametrize("extension", [DRAFT, TOOLBOX])
async def test_groups_that_were_fetched_are_last_in_lists_and_their_tools_are_called(extension: str) -> None:
    upstream = Grouped(
        pages=[[{"name": "desk", "description": "Lend"}, 5], [{"name": "read", "description": "Read"}]],
        answers={
            "desk": {
                "instructions": "Find first.",
                "contents": {
                    "tools": [tool("lend"), tool("find"), {"name": "no schema"}],
                    "groups": [{"name": "fines", "description": "Money"}, {}],
                },
            },
            "read": {"tools": [tool("find"), tool("hours")]},
        },
        tools=[tool("hours")],
        extension=extension,
    )
    async with FollowingClient(upstream.server, groups=True) as client:
        assert [entry["name"] for entry in await client.list_groups()] == ["desk", "read"]
        desk = await client.open_group("desk")
        assert (desk.instructions, [entry["name"] for entry in desk.groups]) == ("Find first.", ["fines"])
        assert await names_of(client) == ["hours", "lend", "find"]
        await client.open_group("read")
        assert await names_of(client) == ["hours", "lend", "find"]
        assert text_of(await client.call_tool("lend", {})) == f"lend of {extension}"
        client.close_group("desk")
        assert await names_of(client) == ["hours", "find"]
        with pytest.raises(MCPError, match="Unknown group: attic"):
            await client.open_group("attic")


@pytest.mark.spec("DEL-5")
async def test_a_client_that_did_not_declare_an_extension_or_whose_server_has_none_fetches_no_groups() -> None:
    plain = Grouped(tools=[tool("hours")], extension="com.example/other")
    for client in (FollowingClient(Grouped().server), FollowingClient(plain.server, groups=True)):
        async with client:
            assert await client.list_groups() == []
            with pytest.raises(GroupNotFound):
                await client.open_group("desk")
    assert plain.asked == []


@pytest.mark.spec("DEL-5")
async def test_fetched_tools_are_called_as_listed_ones_are(caplog: pytest.LogCaptureFixture) -> None:
    marked = {"type": "object", "properties": {"desk": {"type": "object", "x-mcp-header": "Desk"}}}
    lend = {**tool("lend"), "outputSchema": {"type": "object", "required": ["title"]}}
    contents = {"tools": [lend, {"name": "wrong", "inputSchema": marked}]}
    upstream = Grouped(pages=[[{"name": "desk"}]], answers={"desk": {"contents": contents}}, tools=[tool("hours")])
    async with FollowingClient(upstream.server, groups=True) as client:
        await client.open_group("desk")
        assert await names_of(client) == ["hours", "lend"]  # a mark that headers can't have withholds a tool
        for _ in range(2):
            await client.list_tools(cache_mode="refresh")
            with pytest.raises(RuntimeError, match="structured content"):
                await client.call_tool("lend", {})
    assert "not listed" not in caplog.text


@pytest.mark.spec("DEL-5")
async def test_a_tool_that_two_fetched_groups_define_differently_is_the_first_ones_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    answers = {
        "desk": {"contents": {"tools": [tool("find"), tool("lend")]}},
        "read": {"contents": {"tools": [{**tool("find"), "description": "Another"}, tool("lend")]}},
    }
    upstream = Grouped(pages=[[{"name": "desk"}, {"name": "read"}]], answers=answers)
    async with FollowingClient(upstream.server, groups=True) as client:
        await client.open_group("desk")
        listed = (await client.list_tools()).tools
        for _ in range(2):
            await client.open_group("read")
            assert (await client.list_tools()).tools == listed
        await client.open_group("desk")
        assert [record.getMessage() for record in caplog.records if record.name == "toolfold.mcp"] == [
            "The tool 'find' is defined differently by the groups 'desk' and 'read'; the definition in 'desk' is used."
        ] * 3
