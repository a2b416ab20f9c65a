"""Limits by caller over HTTP: nobody takes the places of others (SPEC SAF-4)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.callers import ADA, BOB, ERAS, EVE, INITIALIZE, Patience, client_from, web_from
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, RawLegacy, names_of, over_http
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from tests.core.test_counted_threads import Blocking
from toolfold_adapters.mcp import Limit, Limits

pytestmark = pytest.mark.spec("SAF-4")


@pytest.mark.spec("STO-7")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["wait", "slow.activate"])
async def test_a_caller_with_many_calls_in_progress_does_not_limit_others(era: str, name: str) -> None:
    tools = Patience()
    limits = Limits(calls=Limit(5, 2))
    async with (
        over_http(tools, limits=limits) as url,
        client_from(ADA, url, era) as ada,
        client_from(BOB, url, era) as bob,
    ):
        await names_of(ada)
        async with anyio.create_task_group() as tasks:
            for number in range(2):
                tasks.start_soon(ada.call_tool, name, {})
                if era == MODERN or name == "wait":  # steps of one session wait for one another
                    await tools.begun.reaches(number + 1)
            await tools.begun.reaches(1)
            with anyio.fail_after(PATIENCE):
                while not (refused := await ada.call_tool("ping", {})).is_error:
                    pass
            received = "The limit of 2 requests in progress of one caller is reached"
            assert text_of(refused) == f"{received}: end one of them, or try again in 1 second."
            with pytest.raises(MCPError, match=received) as unlisted:
                await names_of(ada)
            assert unlisted.value.data == {"retryAfter": 1}
            assert text_of(await bob.call_tool("ping", {})) == "pong"
            tools.proceed.set()
        assert text_of(await ada.call_tool("ping", {})) == "pong"


@pytest.mark.spec("SAF-2")
async def test_calls_that_are_cancelled_count_until_their_threads_end() -> None:
    tools = Blocking()
    async with (
        over_http(tools.tools, limits=Limits(calls=Limit(None, 2))) as url,
        client_from(ADA, url, MODERN) as ada,
        client_from(BOB, url, MODERN) as bob,
    ):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ada.call_tool, "block", {})
                await tools.has_begun()
                tasks.cancel_scope.cancel()
            tools.begun.clear()
        assert "of one caller is reached" in text_of(await ada.call_tool("quick", {}))
        assert text_of(await bob.call_tool("quick", {})) == "done"
        tools.proceed.set()
        with anyio.fail_after(PATIENCE):
            while (await ada.call_tool("quick", {})).is_error:
                pass


@pytest.mark.spec("SAF-2")
async def test_calls_that_block_their_threads_do_not_delay_others() -> None:
    tools = Blocking()
    many = int(anyio.to_thread.current_default_thread_limiter().total_tokens) + 1
    async with (
        over_http(tools.tools) as url,
        client_from(ADA, url, MODERN) as ada,
        client_from(BOB, url, MODERN) as bob,
        anyio.create_task_group() as tasks,
    ):
        for _ in range(many):
            tasks.start_soon(ada.call_tool, "block", {})
            await tools.has_begun()
            tools.begun.clear()
        with anyio.fail_after(PATIENCE):
            assert text_of(await bob.call_tool("quick", {})) == "done"
        tools.proceed.set()


@pytest.mark.spec("STO-7")
async def test_a_caller_that_listens_often_leaves_streams_to_others() -> None:
    tools = make_desk()
    limits = Limits(streams=Limit(3, 2))
    async with (
        over_http(tools, limits=limits) as url,
        client_from(ADA, url, MODERN) as ada,
        client_from(BOB, url, MODERN) as bob,
        ada.listen(tools_list_changed=True),
        ada.listen(tools_list_changed=True) as second,
    ):
        with pytest.raises(MCPError, match="The limit of 2 subscriptions of one caller is reached"):
            async with ada.listen(tools_list_changed=True):
                pass
        async with bob.listen(tools_list_changed=True) as stream:
            tools.notify_list_changed()
            with anyio.fail_after(PATIENCE):
                await anext(aiter(stream))
                await anext(aiter(second))


async def test_a_caller_with_many_connections_leaves_some_to_others() -> None:
    limits = Limits(connections=Limit(4, 3))
    async with over_http(make_desk(), limits=limits) as url, AsyncExitStack() as stack:
        port = urlsplit(url).port or 0

        async def connect(host: str) -> anyio.abc.SocketStream:
            return await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port, local_host=host))

        held = [await connect(ADA) for _ in range(3)]
        refused = await (await connect(ADA)).receive()
        assert refused.startswith(b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 1\r\n")
        of_bob = await connect(BOB)
        await of_bob.send(b"GET /nothing HTTP/1.1\r\nhost: localhost:1\r\n\r\n")
        assert (await of_bob.receive()).startswith(b"HTTP/1.1 404")
        assert (await (await connect(EVE)).receive()).startswith(
            b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\n"
        )
        await held[0].aclose()
        await of_bob.aclose()
        async with web_from(ADA) as http:
            with anyio.fail_after(PATIENCE):  # until the server has seen that they are closed
                while True:
                    try:
                        assert (await http.get(url.replace("/mcp", "/nothing"))).status_code == 404
                        break
                    except (AssertionError, httpx2.TransportError):
                        pass


async def test_a_claimed_address_is_trusted_only_from_named_proxies() -> None:
    limits = Limits(sessions=Limit(None, 1))
    for trusted, expected in ((None, [200, 429, 429]), (ADA, [200, 200, 429]), (BOB, [200, 429, 429])):
        async with over_http(make_desk(), limits=limits, forwarded_allow_ips=trusted) as url, web_from(ADA) as http:
            statuses: list[int] = []
            for claimed in ("192.0.2.1", "192.0.2.2", "192.0.2.2"):
                headers = {**RawLegacy(http, url).headers, "x-forwarded-for": claimed}
                statuses.append((await http.post(url, json=INITIALIZE, headers=headers)).status_code)
            assert statuses == expected
