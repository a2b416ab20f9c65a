"""Resources of upstreams: whole definitions, those that no list has, and subscriptions in the eras of both sides."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourceUpdated

from tests.adapters.gateway.inprocess import Clock, House, config_of, served, wired
from tests.adapters.gateway.upstream.test_upstream import until
from tests.adapters.gateway.upstreams.shop import Shop
from toolfold_adapters.gateway.upstream.handshake import ConnectMode

pytestmark = pytest.mark.spec("GWY-1")

ERAS = pytest.mark.parametrize("client_era", ["legacy", "auto"])
UPSTREAM_ERAS = pytest.mark.parametrize("upstream_era", ["legacy", "auto"])
LIST = "shop://list"


def shops(*tools: str) -> House:
    return House(lambda name: Shop(tools=tools))


class Listed(Shop):
    """A shop that lists other resources."""

    def __init__(self, resources: list[t.Resource], templates: list[t.ResourceTemplate] | None = None) -> None:
        super().__init__(tools=("link",))
        self.resources, self.templates = resources, templates or []

    async def list_resources(self, ctx: Any, params: Any) -> t.ListResourcesResult:
        return t.ListResourcesResult(resources=self.resources)

    async def list_templates(self, ctx: Any, params: Any) -> t.ListResourceTemplatesResult:
        return t.ListResourceTemplatesResult(resource_templates=self.templates)

    async def read(self, ctx: Any, params: t.ReadResourceRequestParams) -> t.ReadResourceResult:
        said = f"{self.resources[0].name if self.resources else 'none listed'} {params.uri}"
        return t.ReadResourceResult(contents=[t.TextResourceContents(uri=params.uri, text=said)])


WHOLE: dict[str, Any] = {
    "name": "whole",
    "title": "Whole",
    "description": "Has all that a definition may have",
    "mimeType": "text/plain",
    "annotations": {"audience": ["user"], "priority": 0.5, "lastModified": "2026-01-01T00:00:00Z"},
    "icons": [{"src": "https://example.org/i.png", "mimeType": "image/png", "sizes": ["48x48"]}],
    "_meta": {"example.org/x": [1, None]},
}


@ERAS
async def test_definitions_of_resources_and_templates_are_whole(client_era: str) -> None:
    resource = t.Resource.model_validate({**WHOLE, "uri": "a://b", "size": 4})
    template = t.ResourceTemplate.model_validate({**WHOLE, "uriTemplate": "repo://{owner}/contents{/path*}{?ref}"})
    house = House(lambda name: Listed([resource], [template]))
    async with served(house, config_of("shop")) as (_, server), Client(server, mode=client_era) as client:
        (listed,) = (await client.list_resources()).resources
        (listed_template,) = (await client.list_resource_templates()).resource_templates
        read = await client.read_resource("repo://me/contents/a/b?ref=main")
    assert listed == resource
    assert listed_template == template
    assert read.contents[0].text == "whole repo://me/contents/a/b?ref=main"  # type: ignore[union-attr]


@pytest.mark.parametrize(("client_era", "hints"), [("legacy", set()), ("auto", {"ttlMs", "cacheScope"})])
async def test_hints_for_caches_reach_clients_whose_era_has_them(client_era: ConnectMode, hints: set[str]) -> None:
    async with (
        served(House(), config_of("shop", mode="auto")) as (_, server),
        wired(server, client_era) as client,
    ):
        read = await client.request("resources/read", {"uri": LIST})
    assert read.keys() - {"_meta", "resultType"} == {"contents"} | hints


@ERAS
async def test_a_resource_that_is_in_no_list_is_read_at_the_only_upstream_with_resources(client_era: str) -> None:
    house = House(lambda name: Listed([]))
    async with served(house, config_of("shop")) as (_, server), Client(server, mode=client_era) as client:
        read = await client.read_resource("any://thing/at?all=1")
    assert read.contents[0].text == "none listed any://thing/at?all=1"  # type: ignore[union-attr]


LISTED = {"one": ["file:///data/a", "db://x"], "two": ["file:///disk/b"], "three": []}


def listed_by(name: str) -> Listed:
    return Listed([t.Resource(name=name, uri=uri) for uri in LISTED[name]])


@ERAS
@pytest.mark.parametrize(
    ("uri", "server"), [("file:///data/c", "one"), ("file:///disk/c", "two"), ("file:///", "one"), ("db://y", "one")]
)
async def test_of_several_upstreams_the_one_that_lists_what_begins_alike_is_read(
    client_era: str, uri: str, server: str
) -> None:
    async with (
        served(House(listed_by), config_of(*LISTED)) as (_, front),
        Client(front, mode=client_era) as client,
    ):
        assert (await client.read_resource(uri)).contents[0].text == f"{server} {uri}"  # type: ignore[union-attr]


@ERAS
async def test_a_resource_that_none_can_have_is_unknown(client_era: str) -> None:
    async with (
        served(House(listed_by), config_of(*LISTED)) as (_, front),
        Client(front, mode=client_era) as client,
    ):
        with pytest.raises(MCPError, match="Unknown resource: odd://thing") as caught:
            await client.read_resource("odd://thing")
    assert caught.value.code == (t.INVALID_PARAMS if client_era == "auto" else -32002)


@ERAS
async def test_a_resource_that_an_answer_linked_to_is_read_where_the_answer_came_from(client_era: str) -> None:
    async with (
        served(House(listed_by), config_of(*LISTED)) as (_, front),
        Client(front, mode=client_era) as client,
    ):
        await client.call_tool("three__link", {"item": "file:///data/linked"})
        read = await client.read_resource("file:///data/linked")
    assert read.contents[0].text == "none listed file:///data/linked"  # type: ignore[union-attr]


async def test_a_link_in_an_answer_to_one_client_decides_nothing_for_another() -> None:
    async with (
        served(House(listed_by), config_of(*LISTED)) as (_, front),
        Client(front, mode="legacy") as one,
        Client(front, mode="legacy") as other,
    ):
        await one.call_tool("three__link", {"item": "file:///data/linked"})
        read = await other.read_resource("file:///data/linked")
    assert read.contents[0].text == "one file:///data/linked"  # type: ignore[union-attr]


BOARD = "ui://b/board.html"
VIEWS: list[dict[str, Any]] = [
    {"ui": {"resourceUri": BOARD}},
    {"ui/resourceUri": BOARD},
    {"openai/outputTemplate": BOARD},
]


class Showing(Listed):
    """Has a tool that names a view in its definition, or in its answers."""

    def __init__(self, name: str, of_tool: Any, of_result: Any) -> None:
        super().__init__([t.Resource(name=name, uri=f"{name}://listed")])
        self.of_tool, self.of_result = of_tool, of_result

    async def list_tools(self, ctx: Any, params: Any) -> t.ListToolsResult:
        return t.ListToolsResult(tools=[t.Tool(name="show", input_schema={"type": "object"}, _meta=self.of_tool)])

    async def call(self, ctx: Any, params: Any) -> t.CallToolResult:
        return t.CallToolResult(content=[t.TextContent(type="text", text="see")], _meta=self.of_result)


@ERAS
@pytest.mark.parametrize("of_result", [False, True])
@pytest.mark.parametrize("meta", VIEWS)
async def test_a_view_that_only_a_tool_or_a_result_names_is_read_at_its_server_and_no_other_is(
    client_era: str, meta: dict[str, Any], of_result: bool
) -> None:
    given = (None, meta) if of_result else (meta, None)
    house = House(lambda name: Showing(name, *given) if name == "b" else Showing(name, None, None))
    async with served(house, config_of("a", "b")) as (_, front), Client(front, mode=client_era) as client:
        if of_result:
            await client.call_tool("b__show")
        read = await client.read_resource(BOARD)
        assert read.contents[0].text == f"b {BOARD}"  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="Unknown resource"):
            await client.read_resource("ui://b/other.html")


# -- subscriptions ----------------------------------------------------------------------------------------------------


async def subscribe(client: Client, uri: str) -> None:
    asked = t.SubscribeRequest(params=t.SubscribeRequestParams(uri=uri))
    await client.session.send_request(asked, t.EmptyResult)


async def unsubscribe(client: Client, uri: str) -> None:
    asked = t.UnsubscribeRequest(params=t.UnsubscribeRequestParams(uri=uri))
    await client.session.send_request(asked, t.EmptyResult)


@asynccontextmanager
async def subscribed(client: Client, updates: list[str], uri: str = LIST) -> AsyncGenerator[None]:
    """Subscribe a client of either era to a resource for the duration of the block; `updates` has what it is sent.

    A client of the legacy era needs `noting(updates)` as its message handler.
    """
    if client.session.protocol_version != "2026-07-28":
        await subscribe(client, uri)
        yield
        await unsubscribe(client, uri)
        return
    async with client.listen(resource_subscriptions=[uri]) as events, anyio.create_task_group() as tasks:

        async def note() -> None:
            async for event in events:
                assert isinstance(event, ResourceUpdated)
                updates.append(event.uri)

        tasks.start_soon(note)
        yield
        tasks.cancel_scope.cancel()


def noting(updates: list[str]) -> Any:
    async def note(message: object) -> None:
        if isinstance(message, t.ResourceUpdatedNotification):
            updates.append(str(message.params.uri))

    return note


async def touched(client: Client, updates: list[str], uri: str = LIST) -> None:
    """Have a resource updated until a client was notified: a subscription of the modern era begins in its time."""
    before = len(updates)
    while len(updates) == before:
        await client.call_tool("touch", {"item": uri})


@ERAS
@UPSTREAM_ERAS
@pytest.mark.parametrize("shared", [True, False])
async def test_a_client_is_notified_of_updates_of_a_resource_that_it_subscribed_to(
    client_era: str, upstream_era: str, shared: bool
) -> None:
    updates: list[str] = []
    config = config_of("shop", mode=upstream_era, shared=shared)
    async with (
        served(shops("touch"), config) as (gateway, server),
        Client(server, mode=client_era, message_handler=noting(updates)) as client,
    ):
        async with subscribed(client, updates):
            await touched(client, updates)
        links = [link for upstream in gateway.upstreams.values() for link in upstream.links]
        await until(lambda: not any(link.in_use for link in links))
    assert set(updates) == {LIST}


@UPSTREAM_ERAS
async def test_a_client_that_did_not_subscribe_is_not_notified(upstream_era: str) -> None:
    updates: list[str] = []
    others: list[str] = []
    async with (
        served(shops("touch"), config_of("shop", mode=upstream_era, shared=True)) as (_, server),
        Client(server, mode="legacy", message_handler=noting(updates)) as client,
        Client(server, mode="legacy", message_handler=noting(others)) as other,
    ):
        await other.call_tool("cart")
        async with subscribed(client, updates):
            await touched(other, updates)
        await other.call_tool("cart")
    assert (set(updates), others) == ({LIST}, [])


@ERAS
@pytest.mark.spec("GWY-3")
async def test_a_subscription_outlives_the_connection_and_keeps_it_from_being_idle(client_era: str) -> None:
    house, clock, updates = shops("touch"), Clock(), list[str]()
    config = config_of("shop", mode="legacy", idle_timeout=60)
    async with (
        served(house, config, clock=clock) as (gateway, server),
        Client(server, mode=client_era, message_handler=noting(updates)) as client,
        subscribed(client, updates),
    ):
        await touched(client, updates)
        (upstream,) = gateway.upstreams.values()
        clock.now += 1000
        upstream.tick(clock.now)
        assert upstream.status.state == "ready"
        await house.kill("shop")
        await until(lambda: upstream.status.state == "backing off")
        clock.now += 1000
        upstream.tick(clock.now)
        await touched(client, updates)
        assert house.of("shop")[-1].subscribed == [LIST]


async def test_an_upstream_is_asked_once_and_until_the_last_client_unsubscribes() -> None:
    house, ones, twos = shops("touch"), list[str](), list[str]()
    async with (
        served(house, config_of("shop", shared=True, mode="legacy")) as (_, server),
        Client(server, mode="legacy", message_handler=noting(ones)) as one,
        Client(server, mode="legacy", message_handler=noting(twos)) as two,
    ):
        async with subscribed(one, ones):
            async with subscribed(two, twos):
                assert house.of("shop")[-1].subscribed == [LIST]
            await touched(one, ones)
        assert house.of("shop")[-1].subscribed == []


async def test_the_refusal_of_an_upstream_is_the_answer_to_a_subscription() -> None:
    class Refusing(Shop):
        async def subscribe(self, ctx: Any, params: Any) -> t.EmptyResult:
            raise MCPError(-32050, "not this one", {"why": 1})

    async with (
        served(House(lambda name: Refusing()), config_of("shop", mode="legacy")) as (gateway, server),
        Client(server, mode="legacy") as client,
    ):
        for _ in range(2):
            with pytest.raises(MCPError, match="not this one") as caught:
                await subscribe(client, LIST)
            assert (caught.value.code, caught.value.data) == (-32050, {"why": 1})
        (upstream,) = gateway.upstreams.values()
        assert not any(link.in_use for link in upstream.links)
