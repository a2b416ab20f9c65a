"""The gateway over HTTP: many clients, apart; and upstreams over HTTP that come and go."""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import Process
from mcp import Client

from tests.adapters.gateway.inprocess import Clock, House, config_of, gateway_of
from tests.adapters.mcp.support import over_http
from tests.adapters.mcp.test_handle_delivery import text_of
from tests.process.serving import serving
from toolfold_adapters.gateway import GatewayConfig, Runtime, UpstreamConfig, open_gateway
from toolfold_adapters.gateway.stored import DefinitionCache
from toolfold_adapters.names import HANDLE_META

SECONDS = 60


@asynccontextmanager
async def gateway_over_http(house: House, config: GatewayConfig, **options: Any) -> AsyncGenerator[str]:
    gateway = gateway_of(house, config)
    with anyio.fail_after(SECONDS):
        async with gateway as tools, over_http(tools, handles="stored", extend=gateway.extend, **options) as url:
            yield url


@pytest.mark.spec("GWY-10")
async def test_clients_without_sessions_have_the_state_that_their_handle_names_and_none_without_one() -> None:
    house = House()
    config = config_of("shop", "other", mode="legacy")
    async with gateway_over_http(house, config) as url, Client(url) as one, Client(url) as two:
        handles: list[Any] = []
        for client in (one, two):
            opened = await client.call_tool("open_group", {"group": "shop"})
            handles.append((opened.meta or {})[HANDLE_META])
        add = {"name": "shop__add", "arguments": {"item": "bread"}}
        assert text_of(await one.call_tool("call_tool", {"handle": handles[0], **add})) == '["bread"]'
        cart = {"name": "shop__cart"}
        assert text_of(await two.call_tool("call_tool", {"handle": handles[1], **cart})) == "[]"
        assert text_of(await one.call_tool("call_tool", {"handle": handles[0], **cart})) == '["bread"]'


@pytest.mark.spec("GWY-10", "SAF-4")
async def test_the_connection_of_a_modern_request_without_a_handle_ends_with_it() -> None:
    house = House()
    gateway = gateway_of(house, config_of("shop", mode="legacy"))
    with anyio.fail_after(SECONDS):
        async with (
            gateway as tools,
            over_http(tools, handles="stored", extend=gateway.extend) as url,
            Client(url) as client,
        ):
            for _ in range(3):
                await client.call_tool("cart")
            while gateway.status[0].connections:
                await anyio.lowlevel.checkpoint()
            assert house.count("shop") == 4  # one asked what there is


# -- upstreams over HTTP ----------------------------------------------------------------------------------------------


SHOP = """
import sys, uvicorn
from tests.adapters.gateway.upstreams.shop import Shop
shop = Shop().server.streamable_http_app()
async def app(scope, receive, send):
    for name, value in scope.get("headers", ()):
        if name == b"mcp-session-id":
            print(value.decode(), flush=True)
    await shop(scope, receive, send)
uvicorn.run(app, port=int(sys.argv[1]), ws="none", access_log=False)
"""


def shop_over_http(port: int) -> AbstractAsyncContextManager[tuple[Process, str]]:
    """Run a shop as a process, which prints the session of each request."""
    return serving([sys.executable, "-c", SHOP, str(port)], "Uvicorn running")


@pytest.mark.spec("GWY-3")
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_an_upstream_over_http_that_was_restarted_is_used_again_without_an_error(
    free_tcp_port: int, mode: str
) -> None:
    clock = Clock()
    url = f"http://127.0.0.1:{free_tcp_port}/mcp"
    config = GatewayConfig().with_upstream(UpstreamConfig.model_validate({"url": url, "mode": mode}))
    with anyio.fail_after(SECONDS):
        async with shop_over_http(free_tcp_port):
            known = await known_at(config)
        async with (
            open_gateway(config, runtime=Runtime(clock=clock, cache=known)) as tools,
            tools.open_session(active=list(tools.catalog.index)) as session,
        ):
            for item in ("bread", "milk"):
                async with shop_over_http(free_tcp_port):
                    clock.now += 60
                    assert (await session.call("add", {"item": item})).text == f'["{item}"]'


@pytest.mark.spec("GWY-3")
async def test_a_session_that_an_upstream_over_http_has_ended_is_replaced_without_an_error(free_tcp_port: int) -> None:
    clock = Clock()
    url = f"http://127.0.0.1:{free_tcp_port}/mcp"
    config = GatewayConfig().with_upstream(UpstreamConfig.model_validate({"url": url, "mode": "legacy"}))
    with anyio.fail_after(SECONDS):
        async with (
            shop_over_http(free_tcp_port) as (process, _),
            open_gateway(config, runtime=Runtime(clock=clock)) as tools,
            tools.open_session(active=list(tools.catalog.index)) as session,
            httpx2.AsyncClient() as http,
        ):
            assert (await session.call("add", {"item": "bread"})).text == '["bread"]'
            assert process.stdout is not None
            for used in set((await process.stdout.receive()).decode().split()):
                await http.delete(url, headers={"mcp-session-id": used})
            clock.now += 60
            assert (await session.call("add", {"item": "milk"})).text == '["bread", "milk"]'


async def known_at(config: GatewayConfig) -> Any:
    """Return a cache that has what the servers of a configuration offer."""

    class Memory(DefinitionCache):
        def __init__(self) -> None:
            super().__init__()
            self.known: Any = None

        def read(self, config: UpstreamConfig) -> Any:
            return self.known

        def write(self, config: UpstreamConfig, known: Any) -> None:
            self.known = known

    cache = Memory()
    async with open_gateway(config, runtime=Runtime(clock=Clock(), cache=cache)):
        return cache
