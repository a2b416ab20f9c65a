"""Selection: the request itself, or whoever builds the server, says which groups are active (SPEC DEL-4)."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.asgi import Endpoint, endpoint_of
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import build_server, client_of, names_of
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, received, text_of, through
from toolfold import ConfigError, ExclusionConflict, Profile, ToolSet
from toolfold.spi import Memo
from toolfold_adapters.mcp.request import REMEMBERED, Selection

ERAS = ("legacy", MODERN)
STOCK = ["stock.count", "stock.fail", "stock.reject"]

pytestmark = pytest.mark.spec("DEL-4")


def make_shop_with_profiles() -> ToolSet:
    tools = make_shop()
    tools.register_profile(Profile(name="till", active=["cash"], available=["credit"]))
    tools.register_profile(Profile(name="store", active=["stock"], available=["stock.orders"]))
    return tools


async def more_at(endpoint: Endpoint, query: str, era: str, **headers: str) -> list[str]:
    """Return the tools of groups that a client is listed."""
    async with Client(endpoint.target(query, **headers), mode=era) as client:
        groups = ("stock.", "cash.", "credit.")
        roles = (".activate", ".deactivate")
        return [name for name in await names_of(client) if name.startswith(groups) and not name.endswith(roles)]


@pytest.mark.spec("DEL-7")
@pytest.mark.parametrize("era", ERAS)
async def test_the_url_or_a_header_selects_the_active_groups_with_their_parents(era: str) -> None:
    async with endpoint_of(build_server(make_shop_with_profiles())) as endpoint:
        assert await more_at(endpoint, "", era) == []
        for query, expected in (
            ("?groups=stock", STOCK),
            ("?groups=cash,stock", ["cash.coins", *STOCK]),
            ("?groups=cash&groups=stock", ["cash.coins", *STOCK]),
            ("?groups=stock.orders", ["stock.count", "stock.fail", "stock.orders.place", "stock.reject"]),
            ("?groups=%20stock%20,,", STOCK),
            ("?groups=", []),
            ("?profile=till", ["cash.coins"]),
            ("?profile=store&groups=stock.orders", ["stock.count", "stock.fail", "stock.orders.place", "stock.reject"]),
            ("?profile=store&groups=cash", STOCK),
        ):
            for _ in range(2):
                assert await more_at(endpoint, query, era) == expected, query
        assert await more_at(endpoint, "", era, **{"toolfold-groups": "cash,stock"}) == ["cash.coins", *STOCK]
        assert await more_at(endpoint, "", era, **{"Toolfold-Profile": "till"}) == ["cash.coins"]
        assert await more_at(endpoint, "?groups=stock", era, **{"toolfold-groups": "cash"}) == STOCK


@pytest.mark.spec("DEL-7")
async def test_of_one_url_all_lists_are_the_same_bytes_and_of_two_urls_none_is_shared() -> None:
    async with endpoint_of(build_server(make_shop())) as endpoint:

        async def raw(query: str) -> bytes:
            return (await endpoint.post("tools/list", query=query)).content

        queries = ("", "?groups=stock", "?groups=cash", "?groups=stock,cash")
        first = {query: await raw(query) for query in queries}
        assert len(set(first.values())) == len(queries)
        for query in queries:
            await endpoint.post("tools/call", {"name": "credit.activate", "arguments": {}}, query)
        for query in reversed(queries):
            assert await raw(query) == first[query]
        assert await raw("?groups=cash,stock") == first["?groups=stock,cash"]


@pytest.mark.spec("CALL-4")
@pytest.mark.parametrize("era", ERAS)
async def test_selected_groups_can_be_called_and_continued_from(era: str) -> None:
    async with endpoint_of(build_server(make_shop())) as endpoint, endpoint.client(era, "?groups=stock,cash") as client:
        assert received(await client.call_tool("stock.count", {"item": "x"})) == {"item": "x", "shelf": 1}
        assert received(await through(client, "stock.count", {"item": "x"})) == {"item": "x", "shelf": 1}
        answer = received(await client.call_tool("credit.activate", {}))
        assert (answer["active"], answer["displaced"]) == (["credit", "stock"], ["cash"])
        if era == MODERN:
            assert text_of(await through(client, "credit.card", {}, answer["handle"])) == "card"
            assert "cash.coins" in await names_of(client)
        else:
            assert "cash.coins" not in await names_of(client)


@pytest.mark.spec("REG-3")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("hooks", [False, True])
async def test_an_impossible_selection_is_refused_with_both_names(hooks: bool, era: str) -> None:
    tools, both = (make_desk(), ("mode_a", "mode_b")) if hooks else (make_shop(), ("cash", "credit"))
    async with (
        endpoint_of(build_server(tools)) as endpoint,
        endpoint.client(era, f"?groups={','.join(both)}") as client,
    ):
        with pytest.raises(MCPError) as listed:
            await client.list_tools()
        assert listed.value.code == -32602
        called = await client.call_tool("ping" if hooks else "hello", {})
        assert called.is_error
        direct = await through(client, "hello")
        assert direct.is_error
        for text in (listed.value.message, text_of(called), text_of(direct)):
            assert "The groups that this request selects can't be open together." in text
            assert all(repr(name) in text for name in both)
        with pytest.raises(MCPError) as asked:
            await client.get_prompt("stock.advise")
        assert asked.value.code == -32602
    assert not tools.sessions


@pytest.mark.parametrize("era", ERAS)
async def test_a_hook_that_fails_for_a_selection_is_reported_to_the_caller(era: str) -> None:
    async with endpoint_of(build_server(make_desk())) as endpoint, endpoint.client(era, "?groups=vault") as client:
        refused = await client.call_tool("ping", {})
        assert refused.is_error
        assert "'vault'" in text_of(refused)
        assert "the key is missing" in text_of(refused)


@pytest.mark.parametrize("era", ERAS)
async def test_unknown_names_are_ignored_and_logged(era: str, caplog: pytest.LogCaptureFixture) -> None:
    async with endpoint_of(build_server(make_shop_with_profiles())) as endpoint:
        assert await more_at(endpoint, "?groups=stock,stok,stock.oders,Cash", era) == STOCK
        assert "groups that do not exist: 'stok', 'stock.oders', 'Cash'" in caplog.text
        assert await more_at(endpoint, "?profile=nobody", era) == []
        assert "the profile 'nobody', which does not exist" in caplog.text


@pytest.mark.spec("SAF-3")
async def test_log_entries_of_a_request_are_bounded_and_on_separate_lines(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with endpoint_of(build_server(make_shop_with_profiles())) as endpoint:
        groups = ["a\n\x1b[2J", *map(str, range(2000)), "x" * 2000]
        selected = {"groups": ",".join(groups), "profile": "\u2028" + "y" * 2000}
        await endpoint.post("tools/list", query=f"?{urlencode(selected)}")
    said = [record.getMessage() for record in caplog.records if record.name.startswith("toolfold")]
    assert len(said) == 2
    assert all(len(message) < 1000 and message.isprintable() for message in said)
    assert "'a\\n\\x1b[2J', '0', '1', '2'," in said[1]
    assert said[1].endswith(" and 1,992 more")


@pytest.mark.spec("PRO-1")
@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_is_bound_to_a_profile_cannot_be_widened_by_a_request(
    era: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with endpoint_of(build_server(make_shop_with_profiles(), profile="store")) as endpoint:
        assert await more_at(endpoint, "", era) == STOCK
        for query in ("?profile=till", "?groups=cash", "?profile=till&groups=cash,credit"):
            assert await more_at(endpoint, query, era) == STOCK, query
        assert "bound to 'store'" in caplog.text
        wider = "?profile=till&groups=cash"
        async with endpoint.client(era, wider) as client:
            for name in ("cash.coins", "cash.activate"):
                with pytest.raises(MCPError, match=f"Unknown tool: {name}"):
                    await client.call_tool(name, {})
                assert (await through(client, name)).is_error


@pytest.mark.spec("PRO-1", "DEL-3")
async def test_a_handle_of_a_wider_server_opens_nothing_on_one_that_is_bound_to_a_profile() -> None:
    tools, key = make_shop_with_profiles(), "a key of more than sixteen letters"
    async with (
        client_of(build_server(tools, handle_key=key), MODERN) as (wide, _),
        client_of(build_server(tools, handle_key=key, profile="store"), MODERN) as (narrow, _),
    ):
        handle = await opened(wide, "cash", await opened(wide, "stock"))
        assert (await through(narrow, "cash.coins", {}, handle)).is_error
        assert received(await through(narrow, "stock.count", {"item": "x"}, handle)) == {"item": "x", "shelf": 1}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"active": ["stock.orders"]}, ["stock.count", "stock.fail", "stock.orders.place", "stock.reject"]),
        ({"active": "stock"}, STOCK),
        ({"profile": "till"}, ["cash.coins"]),
        ({"profile": "store", "active": ["stock.orders", "nowhere"]}, [*STOCK[:2], "stock.orders.place", STOCK[2]]),
        ({"profile": Profile(name="own", active=["credit"])}, ["credit.card"]),
    ],
)
async def test_the_author_of_the_server_can_select_too(options: dict[str, Any], expected: list[str], era: str) -> None:
    server = build_server(make_shop_with_profiles(), **options)
    async with client_of(server, era) as (client, _):
        shown = [name for name in await names_of(client) if name in {*STOCK, "stock.orders.place"} or "." in name]
        assert [name for name in shown if not name.endswith("activate")] == expected
    with pytest.raises((ExclusionConflict, ConfigError)):
        build_server(make_shop_with_profiles(), active=["cash", "credit"])


@pytest.mark.spec("SAF-4", "FND-1")
def test_what_clients_select_leaves_what_others_have_computed_for_the_catalog() -> None:
    tools = ToolSet("desk")
    groups = [tools.register_group(f"g{number}").path for number in range(REMEMBERED + 1)]
    indexes = Memo[str, int](most=1)
    indexes.of(tools.catalog.memo, "the index of a search", lambda: 1)
    for group in groups:
        assert Selection(tools.catalog, groups=group).start.active == (group,)
    assert indexes.of(tools.catalog.memo, "the index of a search", lambda: 2) == 1
