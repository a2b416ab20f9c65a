"""Gateways of one process that share servers (SPEC GWY-14)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from attrs import define

from tests.adapters.gateway.inprocess import SECONDS, Clock, House, config_of
from toolfold import Session
from toolfold_adapters.gateway import Gateway, GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.upstream.pool import Pool

pytestmark = pytest.mark.spec("GWY-14")


@define
class User:
    """A user's process, with gateways that share what they can."""

    house: House
    pool: Pool

    @asynccontextmanager
    async def gateway(self, config: GatewayConfig, place: str = "here") -> AsyncGenerator[tuple[Gateway, Session]]:
        runtime = Runtime(clock=Clock(), transport=self.house.transport, one_user=True)
        gateway = open_gateway(config, runtime=runtime, pool=self.pool, place_of=lambda _: place)
        async with gateway as tools, tools.open_session(active=[g.path for g in tools.catalog.groups]) as session:
            yield gateway, session


@asynccontextmanager
async def user() -> AsyncGenerator[User]:
    with anyio.fail_after(SECONDS):
        async with anyio.create_task_group() as tasks:
            yield User(House(), Pool(tasks))
            tasks.cancel_scope.cancel()


async def called(session: Session) -> None:
    assert not (await session.call("shop__add", {"item": "tea"})).is_error


@pytest.mark.parametrize(
    ("other", "place", "started"),
    [
        ({}, "here", 1),
        ({}, "elsewhere", 2),
        ({"env": {"A": "1"}}, "here", 2),
    ],
    ids=["the-same", "another-folder-or-environment", "another-configuration"],
)
async def test_gateways_share_a_server_that_would_be_the_same_for_each(
    other: dict[str, Any], place: str, started: int
) -> None:
    async with user() as machine:
        one, two = config_of("shop", "more", shared=True), config_of("shop", "third", shared=True, **other)
        async with machine.gateway(one) as (_, a), machine.gateway(two, place) as (_, b):
            await called(a)
            await called(b)
            assert machine.house.count("shop") == started


async def test_sessions_that_may_not_share_a_server_have_one_each_also_in_two_gateways() -> None:
    async with user() as machine:
        config = config_of("shop", "more", mode="legacy")
        async with machine.gateway(config) as (_, a), machine.gateway(config) as (_, b):
            await called(a)
            await called(b)
            assert [shop.cart for shop in machine.house.of("shop") if shop.cart] == [["tea"], ["tea"]]


async def test_a_server_that_is_shared_ends_with_the_last_gateway_that_has_it() -> None:
    async with user() as machine:
        config = config_of("shop", "more", shared=True)
        async with machine.gateway(config) as (_, a):
            async with machine.gateway(config) as (second, b):
                await called(b)
                upstream = second.upstreams["shop"]
            await called(a)
            assert machine.house.count("shop") == 1
            assert upstream.status.state == "ready"
        assert upstream.status.state == "stopping"


async def test_every_gateway_learns_that_a_shared_server_offers_something_else() -> None:
    async with user() as machine:
        config = config_of("shop", "more", shared=True)
        async with machine.gateway(config) as (one, a), machine.gateway(config) as (two, b):
            await called(a)
            changed = [anyio.Event(), anyio.Event()]
            for gateway, event in zip((one, two), changed, strict=True):
                gateway.on_learned.append(event.set)
            assert not (await b.call("shop__grow", {"item": "grown"})).is_error
            for event in changed:
                await event.wait()
            assert "shop__grown" in a.catalog.tools
            assert "shop__grown" in b.catalog.tools


async def test_a_gateway_that_withholds_what_was_not_approved_shares_no_server() -> None:
    async with user() as machine:
        config = config_of("shop", "more", shared=True)
        strict = config.model_copy(update={"on_change": "quarantine"})
        async with machine.gateway(config) as (_, a), machine.gateway(strict) as (gateway, b):
            await called(a)
            await called(b)
            assert machine.house.count("shop") == 2
            await gateway.reconfigure(config)
            await called(b)
            assert gateway.upstreams["shop"].status.connections == 1


async def test_a_server_at_a_url_is_shared_by_the_sessions_of_one_user_unless_its_configuration_says_otherwise() -> (
    None
):
    async with user() as machine:
        for shared, expected in ((None, True), (False, False), (True, True)):
            upstream = UpstreamConfig(url="http://127.0.0.1:9/mcp", shared=shared)
            runtime = Runtime(clock=Clock(), transport=machine.house.transport, one_user=True)
            gateway = open_gateway(
                GatewayConfig().with_upstream(upstream), runtime=runtime, pool=machine.pool, wait=False
            )
            async with gateway:
                (found,) = gateway.upstreams.values()
                assert found.shared is expected
