"""What one caller may have done at a time, and that it never costs another caller anything (SPEC SAF-4)."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.callers import ADA, BOB, ERAS, EVE, INITIALIZE, Patience, client_from, refused_at_once, web_from
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, RawLegacy, build_server, client_of, names_of, over_http
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from tests.adapters.mcp.test_stored_handles import callers_of
from tests.core.test_counted_threads import Blocking
from toolfold import ConfigError
from toolfold._session.quota import Tally
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.mcp.callers import address
from toolfold_adapters.mcp.connections import ConnectionBounds, within_descriptors

pytestmark = pytest.mark.spec("SAF-4")


# -- calls ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("STO-7")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", ["wait", "slow.activate"])
async def test_a_caller_with_many_calls_under_way_takes_no_place_of_others(era: str, name: str) -> None:
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
            told = "The limit of 2 requests under way of one caller is reached"
            assert text_of(refused) == f"{told}: end one of them, or try again in 1 second."
            with pytest.raises(MCPError, match=told) as unlisted:
                await names_of(ada)
            assert unlisted.value.data == {"retryAfter": 1}
            assert text_of(await bob.call_tool("ping", {})) == "pong"
            tools.proceed.set()
        assert text_of(await ada.call_tool("ping", {})) == "pong"


async def test_a_server_that_is_busy_says_so_to_everybody() -> None:
    tools = Patience()
    async with (
        client_of(build_server(tools, limits=Limits(calls=Limit(1, None))), MODERN) as (client, _),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(client.call_tool, "wait", {})
        await tools.begun.reaches(1)
        refused = text_of(await client.call_tool("ping", {}))
        assert refused == "The limit of 1 requests under way in all is reached: try again in 1 second."
        tools.proceed.set()


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
async def test_calls_that_block_their_threads_keep_no_other_waiting_for_one() -> None:
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


# -- streams and connections ------------------------------------------------------------------------------------------


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


@pytest.mark.spec("NTF-1")
async def test_a_change_is_announced_once_to_each_stream_however_many_clients_are_connected_in_memory() -> None:
    tools = make_desk()
    server = build_server(tools)
    async with (
        client_of(server, MODERN) as (first, _),
        client_of(server, MODERN) as (second, _),
        first.listen(tools_list_changed=True, prompts_list_changed=True) as of_first,
        second.listen(tools_list_changed=True, prompts_list_changed=True) as of_second,
    ):
        tools.notify_list_changed()
        tools.notify_list_changed({"prompt"})
        for stream in (of_first, of_second):
            with anyio.fail_after(PATIENCE):
                events = [type(await anext(aiter(stream))).__name__ for _ in range(2)]
            assert events == ["ToolsListChanged", "PromptsListChanged"]


@pytest.mark.spec("STO-7", "NTF-2")
async def test_a_great_many_changes_are_announced_to_streams_a_bounded_number_of_times() -> None:
    tools = make_desk()
    async with (
        client_of(build_server(tools), MODERN) as (client, _),
        client.listen(tools_list_changed=True, prompts_list_changed=True) as stream,
    ):
        for _ in range(5000):
            tools.notify_list_changed()
        tools.notify_list_changed({"prompt"})
        with anyio.fail_after(PATIENCE):
            events = [type(await anext(aiter(stream))).__name__]
            while events[-1] != "PromptsListChanged":
                events.append(type(await anext(aiter(stream))).__name__)
        assert 1 <= events.count("ToolsListChanged") <= 16


async def test_a_caller_that_holds_connections_leaves_some_to_others() -> None:
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


def test_connections_never_take_all_the_files_that_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    import resource

    for most, expected in ((1024, 896), (100, 50), (1, 1), (1_000_000, 5000), (resource.RLIM_INFINITY, 5000)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, most=most: (most, most))
        assert within_descriptors(Limit(5000, 10)) == Limit(expected, 10)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert within_descriptors(Limit(None, 10)) == Limit(896, 10)


# -- who a caller is --------------------------------------------------------------------------------------------------


@pytest.mark.spec("SES-4")
async def test_callers_that_authenticate_are_counted_each_whatever_their_address() -> None:
    limits = Limits(sessions=Limit(None, 1), handles=Limit(None, 1))
    server = build_server(Patience(), limits=limits)
    async with callers_of(server) as target, AsyncExitStack() as stack:
        clients = {
            (name, era): await stack.enter_async_context(Client(target(name), mode=era))
            for era in ERAS
            for name in ("ada", "bob")
        }
        for client in clients.values():
            assert not (await client.call_tool("quick.activate", {})).is_error
        assert "of one caller" in text_of(await clients["ada", MODERN].call_tool("quick.activate", {}))
        with refused_at_once("of one caller"):
            async with Client(target("ada"), mode="legacy"):
                pass


async def test_an_address_that_a_request_claims_is_believed_of_named_proxies_only() -> None:
    limits = Limits(sessions=Limit(None, 1))
    for trusted, expected in ((None, [200, 429, 429]), (ADA, [200, 200, 429]), (BOB, [200, 429, 429])):
        async with over_http(make_desk(), limits=limits, forwarded_allow_ips=trusted) as url, web_from(ADA) as http:
            statuses: list[int] = []
            for claimed in ("192.0.2.1", "192.0.2.2", "192.0.2.2"):
                headers = {**RawLegacy(http, url).headers, "x-forwarded-for": claimed}
                statuses.append((await http.post(url, json=INITIALIZE, headers=headers)).status_code)
            assert statuses == expected


@pytest.mark.parametrize(
    ("host", "caller"),
    [
        ("192.0.2.1", "address 192.0.2.1"),
        ("::ffff:192.0.2.1", "address 192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "address 2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "address 2001:db8:1:2::/64"),
        ("fe80::1%eth0", "address fe80::/64"),
        ("unknown" * 100, f"address {('unknown' * 100)[:64]}"),
    ],
)
def test_the_addresses_of_one_network_are_one_caller(host: str, caller: str) -> None:
    assert address(host) == caller


@pytest.mark.spec("SES-4")
async def test_another_application_of_the_same_server_begins_to_count_anew() -> None:
    server = build_server(make_desk(), limits=Limits(sessions=Limit(1, 1)))
    for _ in range(3):
        async with callers_of(server) as target, Client(target("ada"), mode="legacy") as client:
            assert not (await client.call_tool("ping", {})).is_error


# -- settings ---------------------------------------------------------------------------------------------------------


def test_all_limits_are_finite_by_default() -> None:
    for name in ("connections", "sessions", "handles", "calls", "streams"):
        limit: Any = getattr(Limits(), name)
        assert limit.per_caller is not None
        assert limit.per_caller < limit.total


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Limit(0, 1), "at least 1, not 0"),
        (lambda: Limit(5, -1), "at least 1, not -1"),
        (lambda: Limit(5, 1, "explode"), "when_full must be one of 'refuse', 'end_idlest', not 'explode'"),  # type: ignore[arg-type]
        (lambda: Limits(calls=Limit(5, 1, "end_idlest")), "calls are not ended to make room"),
        (
            lambda: ConnectionBounds(0, 1, Tally("connections", Limit(1, 1))),
            "header_timeout must be more than 0 seconds, not 0",
        ),
        (
            lambda: ConnectionBounds(1, -1, Tally("connections", Limit(1, 1))),
            "body_timeout must be more than 0 seconds",
        ),
    ],
)
def test_a_limit_that_cannot_be_is_named(make: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()
