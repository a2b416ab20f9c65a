"""Limits by caller over HTTP: nobody takes the places of others (SPEC SAF-4)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest
from attrs import frozen
from mcp.shared.exceptions import MCPError

from tests.adapters.mcp.callers import ADA, BOB, EVE, INITIALIZE, client_from, web_from
from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.support import PATIENCE, RawLegacy, over_http
from tests.adapters.mcp.test_handle_delivery import MODERN, text_of
from tests.core.test_counted_threads import Blocking
from toolfold_adapters.mcp import Limit, Limits
from toolfold_adapters.mcp.http.operation import EXEMPT

pytestmark = pytest.mark.spec("SAF-4")


@frozen
class Places:
    """What callers take of a server, until they give it back: each method yields why it is refused, or nothing."""

    url: str

    @asynccontextmanager
    async def stream(self, host: str) -> AsyncGenerator[str]:
        async with client_from(host, self.url, MODERN) as client, AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(client.listen(tools_list_changed=True))
            except MCPError as error:
                yield error.message
            else:
                yield ""

    @asynccontextmanager
    async def session(self, host: str) -> AsyncGenerator[str]:
        async with web_from(host) as http:
            client = RawLegacy(http, self.url)
            refused = await http.post(self.url, json=INITIALIZE, headers=client.headers)
            client.headers["mcp-session-id"] = refused.headers.get("mcp-session-id", "")
            yield reason(refused)
            await client.end()

    @asynccontextmanager
    async def connection(self, host: str) -> AsyncGenerator[str]:
        async with await anyio.connect_tcp("127.0.0.1", urlsplit(self.url).port or 0, local_host=host) as stream:
            await stream.send(b"GET /nothing HTTP/1.1\r\nhost: localhost:1\r\n\r\n")
            received = httpx2.Response(404)
            with suppress(anyio.EndOfStream):
                head, _, body = (await stream.receive()).partition(b"\r\n\r\n")
                status, *headers = head.decode().split("\r\n")
                fields = [(name, value) for name, _, value in (header.partition(": ") for header in headers)]
                received = httpx2.Response(int(status.split()[1]), headers=fields, content=body)
            yield "" if received.status_code == 404 else reason(received)


@asynccontextmanager
async def timely() -> AsyncGenerator[None]:
    with anyio.fail_after(PATIENCE):
        yield


def reason(response: httpx2.Response) -> str:
    """Return why a request is refused, whose status and header have to say the same; or nothing."""
    if response.status_code not in (429, 503):
        return ""
    text: str = response.json()["error"]["message"]
    assert response.status_code == (429 if "of one caller" in text else 503)
    assert int(response.headers["retry-after"]) == int(text.rpartition("try again in ")[2].partition(" ")[0])
    return text


@pytest.mark.spec("SAF-7", "SES-4", "STO-7")
@pytest.mark.parametrize(
    ("limited", "what", "take"),
    [
        ("streams", "subscriptions", Places.stream),
        ("sessions", "sessions", Places.session),
        ("connections", "connections", Places.connection),
    ],
)
async def test_an_address_that_has_its_share_is_refused_and_the_others_have_theirs(
    limited: str, what: str, take: Callable[[Places, str], AbstractAsyncContextManager[str]], caplog: Any
) -> None:
    """As in process: tests/adapters/mcp/test_limits_of_callers.py."""
    limits = Limits(**{limited: Limit(3, 2)})
    async with over_http(make_desk(), limits=limits) as url, timely(), AsyncExitStack() as taken:

        async def refusal(host: str) -> str:
            return await taken.enter_async_context(take(Places(url), host))

        own, whole = (f"The limit of {number} {what} {of}" for number, of in ((2, "of one caller"), (3, "in all")))
        assert [await refusal(ADA) for _ in range(2)] == ["", ""]
        assert (await refusal(ADA)).startswith(f"{own} is reached: end one of them, or try again in ")
        assert not await refusal(BOB)
        assert (await refusal(EVE)).startswith(f"{whole} is reached: try again in ")
        logged = {refused_by(text) for text in caplog.messages if text.startswith("refused")}
        assert logged == {(f"address {ADA}", f"{own} is reached"), (f"address {EVE}", f"{whole} is reached")}
        await taken.aclose()
        while await refusal(EVE):  # until the server has seen that they are closed
            pass


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


@pytest.mark.spec("SAF-7")
async def test_probes_and_the_ending_of_sessions_are_answered_beyond_the_limit_of_connections(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = Limits(connections=Limit(100, 2))
    async with over_http(make_desk(), limits=limits) as url, web_from(ADA) as first, AsyncExitStack() as stack:
        session = RawLegacy(first, url)
        await session.initialize()
        port = urlsplit(url).port or 0
        await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port, local_host=ADA))
        async with web_from(ADA) as second:
            for path in ("/health", "/ready"):
                probed = await second.get(url.replace("/mcp", path))
                assert (probed.status_code, probed.headers["connection"]) == (200, "close")
            assert (await second.delete(url, headers=session.headers)).status_code == 200
            assert (await second.post(url, json=INITIALIZE, headers=session.headers)).status_code == 429
        assert (await first.post(url, json=INITIALIZE, headers=session.headers)).status_code == 404
    (refusal,) = [text for text in caplog.messages if text.startswith("refused")]
    assert refused_by(refusal) == ("address 127.0.0.1", "The limit of 2 connections of one caller is reached")


@pytest.mark.spec("SAF-7")
async def test_connections_beyond_the_limit_are_few_and_the_last_are_refused_unread() -> None:
    limits = Limits(connections=Limit(100, 1))
    async with over_http(make_desk(), limits=limits) as url, AsyncExitStack() as stack:
        port = urlsplit(url).port or 0

        async def connect() -> anyio.abc.SocketStream:
            return await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port, local_host=ADA))

        for _ in range(1 + (EXEMPT.per_caller or 0)):
            await connect()
        refused = await (await connect()).receive()
        assert refused.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert b"The limit of 1 connections of one caller is reached" in refused.partition(b"\r\n\r\n")[2]


COUNTED = """
import anyio
from mcp import Client
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from toolfold import ToolSet
from toolfold_adapters.mcp import Limit, Limits, build_server

reader = InMemoryMetricReader()
metrics.set_meter_provider(MeterProvider([reader]))
tools = ToolSet("full")


@tools.tool()
async def ping(again: bool) -> str:
    return "pong" if not again else (await client.call_tool("ping", {"again": False})).content[0].text


async def main() -> None:
    global client
    async with Client(build_server(tools, limits=Limits(calls=Limit(1)))) as client:
        print((await client.call_tool("ping", {"again": True})).content[0].text)


anyio.run(main)
found = [metric for scope in reader.get_metrics_data().resource_metrics[0].scope_metrics for metric in scope.metrics]
(measured,) = [metric for metric in found if metric.name == "toolfold.refusals"]
print([(point.attributes["toolfold.limit"], point.value) for point in measured.data.data_points])
"""


@pytest.mark.spec("SAF-7")
def test_refusals_are_counted_by_limit() -> None:
    done = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, timeout=60, check=False)
    said = "The limit of 1 requests in progress in all is reached: try again in 1 second."
    assert done.stdout.splitlines() == [said, "[('requests in progress in all', 1)]"], done.stderr


def refused_by(message: str) -> tuple[str, str]:
    """Who was refused by which limit, as a message in the log has it."""
    caller, _, problem = message.removeprefix("refused ").partition(": ")
    return caller, problem.partition(":")[0]


async def test_a_claimed_address_is_trusted_only_from_named_proxies() -> None:
    limits = Limits(sessions=Limit(None, 1))
    for trusted, expected in ((None, [200, 429, 429]), (ADA, [200, 200, 429]), (BOB, [200, 429, 429])):
        async with over_http(make_desk(), limits=limits, forwarded_allow_ips=trusted) as url, web_from(ADA) as http:
            statuses: list[int] = []
            for claimed in ("192.0.2.1", "192.0.2.2", "192.0.2.2"):
                headers = {**RawLegacy(http, url).headers, "x-forwarded-for": claimed}
                statuses.append((await http.post(url, json=INITIALIZE, headers=headers)).status_code)
            assert statuses == expected
