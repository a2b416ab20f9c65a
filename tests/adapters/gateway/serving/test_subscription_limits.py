"""What callers subscribe to is bounded, and given back when a session or a stream ends (SPEC SAF-4, STO-7)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import mcp_types as t
import pytest
from mcp import Client, MCPError
from mcp.server import Server

from tests.adapters.gateway.inprocess import House, config_of, served, wired
from tests.adapters.gateway.serving.test_resources import LIST, shops, subscribe, unsubscribe
from tests.adapters.gateway.upstream.test_upstream import until
from tests.adapters.gateway.upstreams.shop import Shop
from toolfold.spi import MAX_URI
from toolfold_adapters.gateway import Gateway
from toolfold_adapters.gateway.serving import downstream
from toolfold_adapters.mcp import Limit, request, subscriptions

pytestmark = pytest.mark.spec("SAF-4", "STO-7")

ERAS = pytest.mark.parametrize("era", ["legacy", "auto"])
LONG = "x" * (MAX_URI - 9)
LIMITS: dict[str, tuple[str, Limit, str, str]] = {
    "number": ("RESOURCES", Limit(3, 2), "", "The limit of {} resources subscribed to"),
    "characters": ("CHARACTERS", Limit(29_000, 19_000), LONG, "The limit of {} characters of subscriptions"),
}


@pytest.fixture(autouse=True)
def callers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clients be callers by their names, as principals are over HTTP."""
    for module in (request, downstream):
        monkeypatch.setattr(module, "caller_of", request.client_of)


@asynccontextmanager
async def subscribed(server: Server[Any], era: str, caller: str, uris: Sequence[str]) -> AsyncGenerator[Sequence[str]]:
    """A session or stream of a caller that subscribes to resources.

    Yields those for which that was acknowledged, or else the message of the refusal.
    """
    client_info = t.Implementation(name=caller, version="1")
    async with Client(server, mode=era, client_info=client_info) as client, AsyncExitStack() as held:
        try:
            acknowledged: Sequence[str] = uris
            if era == "legacy":
                for uri in uris:
                    await subscribe(client, uri)
            else:
                stream = await held.enter_async_context(client.listen(resource_subscriptions=[*uris]))
                acknowledged = stream.honored.resource_subscriptions or ()
        except MCPError as error:
            acknowledged = error.message
        yield acknowledged


def watched(gateway: Gateway) -> list[str]:
    (upstream,) = gateway.upstreams.values()
    return [uri for link in upstream.links for uri in link.watched]


def counts(gateway: Gateway) -> tuple[int, int]:
    room = gateway.clients.room
    return room.resources.total, room.characters.total


@ERAS
@pytest.mark.parametrize("upstream_era", ["legacy", "auto"])
@pytest.mark.parametrize("limit", LIMITS)
async def test_what_a_caller_subscribes_to_is_bounded_over_all_its_sessions_and_streams(
    era: str, upstream_era: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, bound, tail, refusal = LIMITS[limit]
    monkeypatch.setattr(subscriptions, name, bound)
    config = config_of("shop", mode=upstream_era, shared=True)
    async with served(shops("touch"), config) as (gateway, server), AsyncExitStack() as held:

        async def take(caller: str, number: int) -> Sequence[str]:
            return await held.enter_async_context(subscribed(server, era, caller, [f"shop://{number}{tail}"]))

        taken = [await take(caller, number) for number, caller in enumerate(("ada", "ada", "ada", "bob", "eve"))]
        assert [taken[n] for n in (0, 1, 3)] == [[f"shop://{n}{tail}"] for n in (0, 1, 3)]
        assert str(taken[2]).startswith(refusal.format(bound.per_caller) + " of one caller is reached: end one of them")
        assert str(taken[4]).startswith(refusal.format(bound.total) + " in all is reached: try again in")
        assert len(watched(gateway)) == 3
        await held.aclose()
        await until(lambda: not watched(gateway))
        assert counts(gateway) == (0, 0)
        async with subscribed(server, era, "ada", [f"shop://{number}" for number in range(2)]) as acknowledged:
            assert len(acknowledged) == 2
    assert counts(gateway) == (0, 0)


async def test_a_resource_that_is_subscribed_to_anew_or_no_longer_takes_no_more_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscriptions, "RESOURCES", Limit(10, 2))
    async with (
        served(House(), config_of("shop", mode="legacy")) as (gateway, server),
        Client(server, mode="legacy") as client,
    ):
        for number in (0, 1, 1, 0):
            await subscribe(client, f"shop://{number}")
        for number in (0, 0, 5):
            await unsubscribe(client, f"shop://{number}")
        await subscribe(client, "shop://2")
        assert counts(gateway) == (2, 2 * len("shop://2"))


class Choosy(Shop):
    """Lets nobody subscribe to its back room."""

    async def subscribe(self, ctx: Any, params: Any) -> t.EmptyResult:
        if str(params.uri) == "shop://back":
            raise MCPError(-32050, "not this one")
        return await super().subscribe(ctx, params)


REFUSED = {"too long": "shop://" + "x" * MAX_URI, "refused by its server": "shop://back", "twice": LIST}


@ERAS
@pytest.mark.parametrize("uri", REFUSED.values(), ids=REFUSED)
async def test_what_is_refused_is_neither_kept_nor_acknowledged(era: str, uri: str) -> None:
    async with served(House(lambda name: Choosy()), config_of("shop", mode="legacy", shared=True)) as (gateway, server):
        if era == "legacy":
            async with Client(server, mode=era) as client:
                await subscribe(client, LIST)
                if uri != LIST:
                    with pytest.raises(MCPError, match=r"has 8,\d+ characters; one may have 8,192|not this one"):
                        await subscribe(client, uri)
                assert watched(gateway) == [LIST]
                assert counts(gateway) == (1, len(LIST))
        else:
            async with subscribed(server, era, "ada", [uri, LIST]) as acknowledged:
                assert list(acknowledged) == [LIST]
                assert watched(gateway) == [LIST]
    assert counts(gateway) == (0, 0)


@pytest.mark.spec("ISO-2")
async def test_a_resource_that_no_server_can_have_is_not_acknowledged() -> None:
    async with (
        served(House(), config_of("one", "two")) as (_, server),
        subscribed(server, "auto", "ada", ["odd://thing"]) as acknowledged,
    ):
        assert not acknowledged


@ERAS
async def test_what_is_watched_for_a_client_that_has_gone_is_watched_no_longer(era: str) -> None:
    house = shops("touch")
    async with served(house, config_of("shop", mode="legacy", shared=True)) as (gateway, server):
        async with subscribed(server, era, "ada", [LIST]):
            assert house.of("shop")[-1].subscribed == [LIST]
        await until(lambda: not house.of("shop")[-1].subscribed)
        assert (watched(gateway), counts(gateway)) == ([], (0, 0))


@pytest.mark.spec("SAF-1")
async def test_all_that_a_stream_s_request_has_counts_since_all_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "CHARACTERS", Limit(10_000, None))
    more: list[dict[str, Any]] = [
        {"notifications": {"toolsListChanged": True}, "_meta": {"x": "x" * 10_000}},
        {"notifications": {"toolsListChanged": True, "x": ["x" * 10_000]}},
        {"notifications": {"resourceSubscriptions": ["x" * 10_000]}},
    ]
    async with served(House(), config_of("shop")) as (gateway, server), wired(server, "auto") as wire:
        for params in more:
            with pytest.raises(Exception, match="The limit of 10000 characters of subscriptions in all is reached"):
                await wire.request("subscriptions/listen", params)
        assert counts(gateway) == (0, 0)
