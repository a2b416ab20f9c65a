"""What one caller may hold and have done at a time, and that it never costs another caller anything (SPEC SAF-4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import PATIENCE, RawLegacy, build_server, client_of, names_of, over_http
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, text_of, through
from tests.adapters.mcp.test_stored_handles import Journal, callers_of
from toolfold import ConfigError, ToolSet
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.mcp.callers import address
from toolfold_adapters.mcp.connections import within_descriptors
from toolfold_adapters.mcp.through import HANDLE_META

pytestmark = pytest.mark.spec("SAF-4")

ERAS = ("legacy", MODERN)
ADA, BOB, EVE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
"""Three callers: addresses of this machine."""


@asynccontextmanager
async def web_from(host: str) -> AsyncGenerator[httpx2.AsyncClient]:
    """Yield an HTTP client whose requests come from an address."""
    async with httpx2.AsyncClient(transport=httpx2.AsyncHTTPTransport(local_address=host)) as http:
        yield http


@asynccontextmanager
async def client_from(host: str, url: str, era: str) -> AsyncGenerator[Client]:
    """Yield a client of an era whose requests come from an address."""
    async with web_from(host) as http, Client(streamable_http_client(url, http_client=http), mode=era) as client:
        yield client


def refused_at_once(told: str) -> Any:
    """What a client raises that can't connect: an error of the protocol, in the groups of its task groups."""
    error = pytest.RaisesExc(MCPError, match=told)
    return pytest.RaisesGroup(error, allow_unwrapped=True, flatten_subgroups=True)


class Patience(ToolSet):
    """A tool set whose tool `wait` and whose group `slow` take until they are let go."""

    def __init__(self) -> None:
        super().__init__("patience")
        self.begun = Journal()
        self.proceed = anyio.Event()
        self.register("wait", self.wait, input_schema={"type": "object"})
        self.register("ping", lambda: "pong", input_schema={"type": "object"})
        self.register_group("slow", on_activate=self.wait)
        self.register_group("lazy", on_deactivate=self.wait)
        self.register_group("quick", on_activate=lambda: None)

    async def wait(self) -> str:
        self.begun.append("begun")
        await self.proceed.wait()
        return "done"


# -- sessions ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("SES-4")
async def test_a_caller_cannot_open_the_sessions_of_others() -> None:
    limits = Limits(sessions=Limit(5, 3))
    async with over_http(make_desk(), limits=limits) as url, AsyncExitStack() as stack:
        ada, bob, eve = [await stack.enter_async_context(web_from(host)) for host in (ADA, BOB, EVE)]
        of_ada, of_bob = [RawLegacy(ada, url) for _ in range(3)], [RawLegacy(bob, url) for _ in range(2)]
        for client in (*of_ada, *of_bob):
            await client.initialize()
        for http, status, told in (
            (ada, 429, "The limit of 3 sessions of one caller is reached: end one of them, or try again in "),
            (eve, 503, "The limit of 5 sessions in all is reached: try again in "),
        ):
            refused = await http.post(url, json=INITIALIZE, headers=RawLegacy(http, url).headers)
            assert refused.status_code == status
            seconds = int(refused.headers["retry-after"])
            assert 1790 <= seconds <= 1800
            assert refused.json()["error"]["message"] == f"{told}{seconds} seconds."
        for client in (*of_ada, *of_bob):
            assert "result" in (await client.request("tools/list"))[-1]
        await of_ada[0].end()
        await RawLegacy(ada, url).initialize()
        assert (await eve.post(url, json=INITIALIZE, headers=RawLegacy(eve, url).headers)).status_code == 503


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}


async def test_the_reason_of_a_refused_session_reaches_the_client() -> None:
    async with over_http(make_desk(), limits=Limits(sessions=Limit(None, 1))) as url, client_of(url, "legacy"):
        with refused_at_once("The limit of 1 sessions of one caller is reached"):
            async with client_of(url, "legacy"):
                pass


async def test_requests_that_open_no_session_in_the_end_take_no_place() -> None:
    async with over_http(make_desk(), limits=Limits(sessions=Limit(1, 1))) as url, httpx2.AsyncClient() as http:
        for _ in range(3):
            for content in ("{", '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'):
                headers = {**RawLegacy(http, url).headers, "content-type": "application/json"}
                assert (await http.post(url, content=content, headers=headers)).status_code == 400
            assert (await http.get(url)).status_code >= 400
        await RawLegacy(http, url).initialize()


@pytest.mark.spec("SES-4")
async def test_a_caller_whose_idlest_session_makes_room_ends_nobody_elses() -> None:
    limits = Limits(sessions=Limit(3, 2, "end_idlest"))
    async with over_http(make_desk(), limits=limits) as url, web_from(ADA) as ada, web_from(BOB) as bob:
        other = RawLegacy(bob, url)
        first, second, third = (RawLegacy(ada, url) for _ in range(3))
        for client in (other, first, second):
            await client.initialize()
        await first.request("tools/list")
        await third.initialize()
        for client, lives in ((other, True), (first, True), (second, False), (third, True)):
            assert bool(await client.request("tools/list")) is lives


@pytest.mark.spec("SES-4", "SES-1")
@pytest.mark.parametrize("era", ERAS)
async def test_the_bound_of_a_tool_set_ends_sessions_of_the_same_caller_alone(era: str) -> None:
    tools = make_desk(max_sessions=3, when_full="end_idlest")
    async with over_http(tools) as url, AsyncExitStack() as stack:
        bob = await stack.enter_async_context(client_from(BOB, url, era))
        kept = await open_database(bob)
        for _ in range(5):
            await open_database(await stack.enter_async_context(client_from(ADA, url, era)))
        eve = await stack.enter_async_context(client_from(EVE, url, era))
        refused = await eve.call_tool("database.activate", {})
        assert "The limit of 3 open sessions is reached" in text_of(refused)
        assert not (await through(bob, "database.query", {"sql": "x"}, kept)).is_error


async def open_database(client: Client) -> str | None:
    """Open a group with hooks, and return the handle, if the era has handles."""
    answer = await client.call_tool("database.activate", {})
    assert not answer.is_error
    return (answer.meta or {}).get(HANDLE_META)


@pytest.mark.spec("STO-7", "SES-3")
async def test_sessions_that_are_ending_count_until_their_hooks_have_run() -> None:
    tools = Patience()
    limits = Limits(sessions=Limit(None, 2))
    async with over_http(tools, limits=limits) as url, web_from(ADA) as ada, web_from(BOB) as bob:
        for number in range(2):
            client = RawLegacy(ada, url)
            await client.initialize()
            await client.request("tools/call", {"name": "lazy.activate", "arguments": {}})
            await client.end()
            await tools.begun.reaches(number + 1)
        waiting, other = RawLegacy(ada, url), RawLegacy(bob, url)
        for client in (waiting, other):
            await client.initialize()
        refused = (await waiting.request("tools/call", {"name": "ping", "arguments": {}}))[-1]["result"]
        assert refused["isError"]
        assert "The limit of 2 sessions of one caller is reached" in refused["content"][0]["text"]
        assert (await other.request("tools/call", {"name": "ping", "arguments": {}}))[-1]["result"]["isError"] is False
        tools.proceed.set()


# -- handles ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("DEL-3", "STO-7")
async def test_a_caller_that_opens_a_great_many_handles_ends_its_own_alone() -> None:
    tools = Patience()
    limits = Limits(handles=Limit(20, 5, "end_idlest"))
    async with (
        over_http(tools, limits=limits) as url,
        client_from(ADA, url, MODERN) as ada,
        client_from(BOB, url, MODERN) as bob,
    ):
        kept = await opened(bob, "quick")
        made = [await opened(ada, "quick") for _ in range(50)]
        assert not (await through(bob, "ping", {}, kept)).is_error
        assert [(await through(ada, "ping", {}, handle)).is_error for handle in made] == [True] * 45 + [False] * 5
        assert len(tools.sessions) == 6


@pytest.mark.spec("DEL-3", "SES-4")
async def test_a_caller_without_a_handle_is_refused_when_all_are_taken() -> None:
    journal = Journal()
    tools = make_desk(journal)
    async with AsyncExitStack() as stack:
        url = await stack.enter_async_context(over_http(tools, limits=Limits(handles=Limit(2, 1)), handle_lifetime=60))
        ada, bob, eve = [await stack.enter_async_context(client_from(host, url, MODERN)) for host in (ADA, BOB, EVE)]
        kept = [(client, await opened(client, "database")) for client in (ada, bob)]
        for client, told in ((ada, "1 kept sessions of one caller"), (eve, "2 kept sessions in all")):
            refused = await client.call_tool("database.activate", {})
            assert refused.is_error
            assert f"The limit of {told} is reached: " in text_of(refused)
            assert "try again in 60 seconds." in text_of(refused)
            assert not (await client.call_tool("ping", {})).is_error
        for client, handle in kept:
            assert not (await through(client, "ping", {}, handle)).is_error
        assert journal == ["database on"] * 2


@pytest.mark.spec("DEL-3")
async def test_handles_that_are_signed_take_no_place() -> None:
    limits = Limits(handles=Limit(1, 1))
    async with client_of(build_server(make_shop(), limits=limits), MODERN) as (client, _):
        for handle in [await opened(client, "stock") for _ in range(5)]:
            assert not (await through(client, "stock.count", {"item": "tea"}, handle)).is_error


@pytest.mark.spec("DEL-4")
async def test_selections_take_places_of_those_who_make_them_and_end_nobodys_handle() -> None:
    journal = Journal()
    limits = Limits(handles=Limit(3, 1, "end_idlest"))
    tools = make_desk(journal)
    tools.register_group("other", on_activate=lambda: journal.append("other on"))
    async with over_http(tools, limits=limits) as url, client_from(BOB, url, MODERN) as bob:
        kept = await opened(bob, "database")
        async with (
            client_from(ADA, f"{url}?groups=database", MODERN) as first,
            client_from(ADA, f"{url}?groups=other", MODERN) as second,
            client_from(EVE, f"{url}?groups=database", MODERN) as same,
        ):
            assert not (await first.call_tool("ping", {})).is_error
            assert "1 kept sessions of one caller" in text_of(await second.call_tool("ping", {}))
            assert not (await first.call_tool("ping", {})).is_error
            assert not (await same.call_tool("ping", {})).is_error
        assert not (await through(bob, "ping", {}, kept)).is_error
        assert journal == ["database on"] * 2


@pytest.mark.spec("DEL-4", "SAF-2")
async def test_a_selection_whose_hooks_take_long_keeps_no_other_waiting() -> None:
    tools = Patience()
    async with over_http(tools) as url, anyio.create_task_group() as tasks:

        async def select_slow() -> None:
            async with client_from(ADA, f"{url}?groups=slow", MODERN) as client:
                assert not (await client.call_tool("ping", {})).is_error

        tasks.start_soon(select_slow)
        await tools.begun.reaches(1)
        with anyio.fail_after(PATIENCE):
            async with client_from(BOB, f"{url}?groups=quick", MODERN) as client:
                assert not (await client.call_tool("ping", {})).is_error
        tools.proceed.set()


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
        for era in ERAS:
            clients = [await stack.enter_async_context(Client(target(name), mode=era)) for name in ("ada", "bob")]
            for client in clients:
                assert not (await client.call_tool("quick.activate", {})).is_error
        assert "of one caller" in text_of(await clients[0].call_tool("quick.activate", {}))
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
    ],
)
def test_a_limit_that_cannot_be_is_named(make: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        make()
