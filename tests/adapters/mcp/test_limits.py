"""What one caller may have done at a time, and that it never costs another caller anything (SPEC SAF-4)."""

from __future__ import annotations

import gc
import sys
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.server.session import ServerSession
from mcp.server.streamable_http import StreamableHTTPServerTransport

from tests.adapters.mcp.asgi import callers_of, endpoint_of
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, build_server, client_of
from tests.adapters.mcp.test_handle_delivery import MODERN
from toolfold import ConfigError, Session
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.mcp.http.operation import ConnectionBounds, within_descriptors
from toolfold_adapters.mcp.http.sessions import HttpSessions
from toolfold_adapters.mcp.request import address
from toolfold_adapters.tally import Tally

pytestmark = pytest.mark.spec("SAF-4")


# -- streams and connections ------------------------------------------------------------------------------------------


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


@pytest.mark.spec("STO-7")
async def test_a_server_without_updates_of_resources_acknowledges_no_subscription_to_one() -> None:
    async with (
        client_of(build_server(make_desk()), MODERN) as (client, _),
        client.listen(tools_list_changed=True, resource_subscriptions=["desk://drawer"]) as stream,
    ):
        assert stream.honored.resource_subscriptions is None
        assert stream.honored.tools_list_changed


def test_connections_never_take_all_the_files_that_the_process_may_open(monkeypatch: pytest.MonkeyPatch) -> None:
    if sys.platform == "win32":
        pytest.skip("there is no such limit")
    import resource

    for most, expected in (
        (1024, Limit(832, 500)),
        (500, Limit(308, 77)),
        (100, Limit(50, 12)),
        (1, Limit(1, 1)),
        (1_000_000, Limit(5000, 500)),
        (resource.RLIM_INFINITY, Limit(5000, 500)),
    ):
        monkeypatch.setattr(resource, "getrlimit", lambda _, most=most: (most, most))
        assert within_descriptors(Limit(5000, 500)) == expected  # one caller never gets all that are left
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 1024))
    assert within_descriptors(Limit(None, 10)) == Limit(832, 10)


# -- who a caller is --------------------------------------------------------------------------------------------------


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


async def test_a_session_that_its_client_ends_gives_back_its_place_at_once() -> None:
    tally = Tally("sessions", Limit(2, None))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"mcp-session-id", b"one")] if scope["method"] == "POST" else []
        await send({"type": "http.response.start", "status": 200, "headers": headers})

    server: Any = build_server(make_desk())
    sessions: Any = HttpSessions(app, server, tally, server._handlers.legacy)

    async def ask(method: str, *headers: tuple[bytes, bytes]) -> None:
        await sessions({"type": "http", "method": method, "headers": headers}, None, ignore)

    await ask("POST")
    assert tally.total == 1
    await ask("DELETE", (b"mcp-session-id", b"two"))
    assert tally.total == 1
    await ask("DELETE", (b"mcp-session-id", b"one"))
    assert tally.total == 0


async def ignore(message: Any) -> None:
    """Take a message that nobody waits for."""


@pytest.mark.spec("STO-7")
async def test_nothing_is_left_of_sessions_that_have_ended() -> None:
    kept: Any = (Session, StreamableHTTPServerTransport, ServerSession)

    def held() -> int:
        gc.collect()
        return sum(isinstance(one, kept) for one in gc.get_objects())

    gc.freeze()  # what there is already is not looked at
    server = build_server(make_desk(), limits=Limits(sessions=Limit(20, None)))
    async with endpoint_of(server) as endpoint:
        counts: list[int] = []
        for _ in range(4):  # as many at a time as there may be, again and again
            async with AsyncExitStack() as clients:
                for _ in range(20):
                    await (await clients.enter_async_context(endpoint.client("legacy"))).list_tools()
            counts.append(held())
    assert counts[1:] == counts[:1] * 3


@pytest.mark.spec("SES-4")
async def test_another_application_of_the_same_server_has_its_own_counts() -> None:
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
    ("make", "received"),
    [
        (lambda: Limit(0, 1), "at least 1, not 0"),
        (lambda: Limit(5, -1), "at least 1, not -1"),
        (lambda: Limit(5, 1, "explode"), "when_full must be one of 'refuse', 'end_idlest', not 'explode'"),  # type: ignore[arg-type]
        (lambda: Limits(calls=Limit(5, 1, "end_idlest")), "calls can't be ended to make room"),
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
def test_an_impossible_limit_is_reported_by_name(make: Any, received: str) -> None:
    with pytest.raises(ConfigError, match=received):
        make()
