"""The HTTP endpoint on a real socket: hosts, limits, slow clients and broken requests."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Generator
from contextlib import suppress
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from tests.adapters.mcp.desk import make_desk
from tests.adapters.mcp.faulty import BreakingStore
from tests.adapters.mcp.support import (
    CHANGED,
    PATIENCE,
    RawLegacy,
    client_of,
    modern_body,
    modern_headers,
    over_http,
)
from toolfold import ConfigError, ToolfoldError
from toolfold_adapters.mcp import serve

pytestmark = pytest.mark.spec("DEL-10")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"origin": "http://localhost:5173"}, 200),
        ({"origin": "https://evil.example"}, 403),
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:80", "origin": "http://localhost"}, 421),
    ],
)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_only_requests_for_and_from_this_machine_are_answered(
    headers: dict[str, str], status: int, era: str
) -> None:
    async with over_http(make_desk()) as url, httpx2.AsyncClient() as http:
        if era == "modern":
            body, base = modern_body("tools/list"), modern_headers("tools/list")
        else:
            base = RawLegacy(http, url).headers
            info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": info}
        response = await http.post(url, json=body, headers={**base, **headers})
        assert response.status_code == status


async def test_a_request_above_the_limit_is_refused_and_the_server_goes_on() -> None:
    async with over_http(make_desk(), max_request_bytes=2000) as url, httpx2.AsyncClient() as http:
        body = modern_body("tools/call", {"name": "ping", "arguments": {"x": "y" * 3000}})
        refused = await http.post(url, json=body, headers=modern_headers("tools/call", "ping"))
        assert refused.status_code == 413
        fine = await http.post(url, json=modern_body("tools/list"), headers=modern_headers("tools/list"))
        assert fine.status_code == 200


async def test_a_header_that_comes_twice_is_refused() -> None:
    body = json.dumps(modern_body("tools/list")).encode()
    async with over_http(make_desk()) as url:
        for named, status in (
            ("host: localhost:1", b"200"),
            ("host: localhost:1\r\nhost: localhost:1", b"400"),
            ("host: localhost:1\r\norigin: http://localhost", b"200"),
            ("host: localhost:1\r\norigin: http://localhost\r\norigin: http://localhost", b"403"),
        ):
            lines = [named, *(f"{name}: {value}" for name, value in modern_headers("tools/list").items())]
            lines += ["content-type: application/json", f"content-length: {len(body)}", "connection: close"]
            head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "", ""]).encode()
            assert (await answer(url, head + body)).split()[1] == status, named


async def test_the_log_of_a_refused_host_is_bounded_and_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async with over_http(make_desk()) as url:
        request = b"GET /mcp HTTP/1.1\r\nhost: evil\x1b[2J\xc2\x85" + b"x" * 9000 + b"\r\nconnection: close\r\n\r\n"
        assert (await answer(url, request)).split()[1] == b"421"
    [record] = caplog.records
    assert len(record.getMessage()) < 500
    assert record.getMessage().isprintable()
    assert "evil\\x1b" in record.getMessage()


HEAD = (
    b"POST /mcp HTTP/1.1\r\nhost: localhost:1\r\n"
    b"content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
)


@pytest.mark.spec("SAF-5")
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"POST /mcp HT", b"408"),
        (HEAD, b"408"),
        (HEAD + b"content-length: 1000\r\n\r\n", b"408"),
        (HEAD + b"content-length: 1000\r\n\r\n{", b"408"),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n", b"408"),
        (HEAD.replace(b"localhost", b"evil") + b"content-length: 1000\r\n\r\n{", b"421"),
        (b"GET /nothing HTTP/1.1\r\nhost: localhost:1\r\n\r\n", b"404"),
        (b"GET /nothing HTTP/1.1\r\nhost: localhost:1\r\n\r\nG", b"404"),
    ],
)
@pytest.mark.parametrize("drip", [b"", b"x"])
async def test_a_connection_whose_request_does_not_come_is_closed(sent: bytes, status: bytes, drip: bytes) -> None:
    """Whether the client says nothing more or ever so little: each part of a request has one bounded time."""
    tools = make_desk()
    async with over_http(tools, header_timeout=0.2, body_timeout=0.2) as url:
        got = await answer(url, sent, drip if b"chunked" not in sent else drip and b"1\r\nx\r\n")
        assert got[9:12] == status
        async with httpx2.AsyncClient() as http:
            fine = await http.post(url, json=modern_body("tools/list"), headers=modern_headers("tools/list"))
            assert fine.status_code == 200
    assert tools.sessions == ()


@pytest.mark.spec("SAF-5")
async def test_a_silent_connection_is_closed_without_an_answer() -> None:
    async with over_http(make_desk(), header_timeout=0.2) as url:
        assert await answer(url, b"") == b""


@pytest.mark.spec("SAF-5", "DEL-1")
@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_calls_and_streams_may_take_longer_than_the_limit_for_reading_a_request(era: str) -> None:
    tools, proceed = make_desk(), anyio.Event()

    @tools.tool()
    async def wait() -> str:
        await proceed.wait()
        return "done"

    limits = {"header_timeout": 0.5, "body_timeout": 0.5}
    async with over_http(tools, **limits) as url, client_of(url, era) as (client, listener):
        await client.list_tools()
        async with anyio.create_task_group() as tasks:

            async def call() -> None:
                assert not (await client.call_tool("wait", {})).is_error

            tasks.start_soon(call)
            for _ in range(3):  # connections that are given up one after the other: time goes by
                assert (await answer(url, b"POST"))[9:12] == b"408"
            proceed.set()
        if era == "legacy":
            tools.notify_list_changed()
            assert await listener.next() == CHANGED


@pytest.mark.spec("SAF-3")
async def test_a_client_that_leaves_before_its_request_is_complete_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tools = make_desk()
    async with over_http(tools) as url, httpx2.AsyncClient() as http:
        for _ in range(3):
            async with await anyio.connect_tcp("127.0.0.1", urlsplit(url).port or 0) as stream:
                await stream.send(HEAD + b"content-length: 1000\r\n\r\n{")
        await http.post(url, json=modern_body("tools/list"), headers=modern_headers("tools/list"))
    assert not caplog.records
    assert tools.sessions == ()


async def answer(url: str, request: bytes, drip: bytes = b"") -> bytes:
    """Send bytes, then `drip` repeatedly; return everything received until the connection is closed."""
    got = b""
    with anyio.fail_after(PATIENCE):
        async with await anyio.connect_tcp("127.0.0.1", urlsplit(url).port or 0) as stream:

            async def send() -> None:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    await stream.send(request)
                    while drip:
                        await anyio.sleep(0.02)
                        await stream.send(drip)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(send)
                with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                    while True:
                        got += await stream.receive()
                tasks.cancel_scope.cancel()
    return got


async def test_a_port_that_is_taken_is_an_error_that_names_it() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port} can't be bound"):
            await serve(make_desk(), transport="http", port=port)


@pytest.mark.spec("STO-8")
async def test_a_server_whose_background_work_has_died_ends() -> None:
    store = BreakingStore()
    with anyio.fail_after(PATIENCE), pytest.raises(ToolfoldError, match="its background work failed"):
        await serve(make_desk(), transport="http", port=0, store=store, on_ready=lambda _: store.broken.set())


@pytest.fixture
def server_log(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """The warnings of uvicorn and asyncio, whatever other tests have made of their loggers."""
    messages = list[str]()

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    loggers = [logging.getLogger(name) for name in ("uvicorn.error", "asyncio")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        monkeypatch.setattr(logger, "handlers", [Kept()])
        monkeypatch.setattr(logger, "disabled", False)
        logger.setLevel(logging.WARNING)
    yield messages
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)


@pytest.mark.spec("SAF-3")
@pytest.mark.parametrize(("host", "answered"), [("evil.example", b"421"), ("localhost", b"")])
async def test_a_malformed_chunk_closes_its_connection_and_is_one_line_in_the_log(
    host: str, answered: bytes, server_log: list[str]
) -> None:
    async with (
        over_http(make_desk()) as url,
        await anyio.connect_tcp("127.0.0.1", urlsplit(url).port or 0) as stream,
    ):
        await stream.send(f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
        got = b""
        while answered and b"\r\n\r\n{" not in got:
            got += await stream.receive()
        await stream.send(b"no size\r\n")
        with suppress(anyio.EndOfStream), anyio.fail_after(PATIENCE):
            while True:
                got += await stream.receive()
        assert (answered or b"400 Bad Request") in got.splitlines()[0]
    assert server_log == ["Invalid HTTP request received."]


async def test_a_body_that_is_not_json_is_refused() -> None:
    async with over_http(make_desk()) as url, httpx2.AsyncClient() as http:
        headers = {**modern_headers("tools/list"), "content-type": "application/json"}
        response = await http.post(url, content=b"{", headers=headers)
        assert response.status_code == 400
        assert "error" in json.loads(response.content)
