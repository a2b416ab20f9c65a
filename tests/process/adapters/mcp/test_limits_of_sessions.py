"""How many sessions one caller may have, open or stored, without affecting other callers (SPEC SES-4)."""

from __future__ import annotations

from contextlib import AsyncExitStack

import httpx2
import pytest
from mcp import Client

from tests.adapters.mcp.callers import ADA, BOB, ERAS, EVE, Patience, client_from, web_from
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.shop import make_shop
from tests.adapters.mcp.support import RawLegacy, build_server, client_of, over_http
from tests.adapters.mcp.test_handle_delivery import MODERN, opened, text_of, through
from tests.adapters.mcp.test_stored_handles import Journal
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.names import HANDLE_META

pytestmark = pytest.mark.spec("SAF-4")


# -- sessions ---------------------------------------------------------------------------------------------------------


async def test_requests_that_open_no_session_do_not_count() -> None:
    async with over_http(make_desk(), limits=Limits(sessions=Limit(1, 1))) as url, httpx2.AsyncClient() as http:
        for _ in range(3):
            for content in ("{", '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'):
                headers = {**RawLegacy(http, url).headers, "content-type": "application/json"}
                assert (await http.post(url, content=content, headers=headers)).status_code == 400
            assert (await http.get(url)).status_code >= 400
        await RawLegacy(http, url).initialize()


@pytest.mark.spec("SES-4", "SES-1")
@pytest.mark.parametrize("era", ERAS)
async def test_the_limit_of_a_tool_set_ends_only_sessions_of_the_same_caller(era: str) -> None:
    tools = make_desk(max_sessions=3, when_full="end_idlest")
    async with over_http(tools) as url, AsyncExitStack() as stack:
        bob = await stack.enter_async_context(client_from(BOB, url, era))
        handle_of_bob = await open_database(bob)
        for _ in range(5):
            await open_database(await stack.enter_async_context(client_from(ADA, url, era)))
        eve = await stack.enter_async_context(client_from(EVE, url, era))
        refused = await eve.call_tool("database.activate", {})
        assert "The limit of 3 open sessions is reached" in text_of(refused)
        assert not (await through(bob, "database.query", {"sql": "x"}, handle_of_bob)).is_error


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
async def test_a_caller_that_opens_many_handles_ends_only_its_own() -> None:
    tools = Patience()
    limits = Limits(handles=Limit(20, 5, "end_idlest"))
    async with (
        over_http(tools, limits=limits) as url,
        client_from(ADA, url, MODERN) as ada,
        client_from(BOB, url, MODERN) as bob,
    ):
        handle_of_bob = await opened(bob, "quick")
        made = [await opened(ada, "quick") for _ in range(50)]
        assert not (await through(bob, "ping", {}, handle_of_bob)).is_error
        assert [(await through(ada, "ping", {}, handle)).is_error for handle in made] == [True] * 45 + [False] * 5
        assert len(tools.sessions) == 6


@pytest.mark.spec("DEL-3")
async def test_signed_handles_do_not_count() -> None:
    limits = Limits(handles=Limit(1, 1))
    async with client_of(build_server(make_shop(), limits=limits), MODERN) as (client, _):
        for handle in [await opened(client, "stock") for _ in range(5)]:
            assert not (await through(client, "stock.count", {"item": "tea"}, handle)).is_error


@pytest.mark.spec("DEL-4", "SAF-7")
async def test_selections_count_for_their_callers_and_end_no_handle(caplog: pytest.LogCaptureFixture) -> None:
    journal = Journal()
    limits = Limits(handles=Limit(3, 1, "end_idlest"))
    tools = make_desk(journal)
    tools.register_group("other", on_activate=lambda: journal.append("other on"))
    async with over_http(tools, limits=limits) as url, client_from(BOB, url, MODERN) as bob:
        handle_of_bob = await opened(bob, "database")
        async with (
            client_from(ADA, f"{url}?groups=database", MODERN) as first,
            client_from(ADA, f"{url}?groups=other", MODERN) as second,
            client_from(EVE, f"{url}?groups=database", MODERN) as same,
        ):
            assert not (await first.call_tool("ping", {})).is_error
            assert "1 stored sessions of one caller" in text_of(await second.call_tool("ping", {}))
            (refusal,) = [text for text in caplog.messages if text.startswith("refused")]
            assert "address 127.0.0.1: The limit of 1 stored sessions of one caller is reached" in refusal
            assert not (await first.call_tool("ping", {})).is_error
            assert not (await same.call_tool("ping", {})).is_error
        assert not (await through(bob, "ping", {}, handle_of_bob)).is_error
        assert journal == ["database on"] * 2
