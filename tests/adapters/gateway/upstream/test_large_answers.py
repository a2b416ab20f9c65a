"""What is large over HTTP is read beside the event loop, and arrives as it was sent."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from threading import get_ident
from typing import Any

import anyio
import httpx2
import mcp.client.streamable_http
import pytest

from toolfold import ProtocolError
from toolfold_adapters.gateway import UpstreamConfig
from toolfold_adapters.gateway.upstream.http import transport_to
from toolfold_adapters.gateway.upstream.life import Refused
from toolfold_adapters.gateway.upstream.wire import Wire, connect
from toolfold_adapters.transport import http_large
from toolfold_adapters.transport.lines import HUGE

pytestmark = [pytest.mark.spec("SAF-1", "GWY-12")]

TEXT = "größer " * 50_000
RESULTS: Mapping[str, Any] = {
    "text": {"content": [{"type": "text", "text": TEXT}]},
    "many": {"content": [{"type": "text", "text": "x", "own": {"a": None}}] * 8_000, "isError": False},
    "structured": {"content": [], "structuredContent": {"rows": [[1, 2.5, "\u2028"]] * 25_000}},
}
FAILURES: Mapping[str, Any] = {
    "data": {"code": -32050, "message": "too much", "data": {"rows": ["x" * 100] * 5_000}},
    "words": {"code": -32050, "message": "y" * 500_000, "data": None},
}
MESSAGE = {"level": "error", "data": {"lines": ["z" * 100] * 5_000}}
Body = Callable[[bytes], bytes]
"""Returns the body of an answer that has a message."""


def as_json(message: bytes) -> bytes:
    return message


def as_event(message: bytes) -> bytes:
    return b"id: 1\nevent: message\ndata: " + message + b"\n\n"


def as_lines(message: bytes) -> bytes:
    """An event of many lines, with ends of two characters, after one that says nothing."""
    text = json.dumps(json.loads(message), indent=1, ensure_ascii=False).encode()
    return b": begins\r\n\r\n" + b"".join(b"data:" + line + b"\r\n" for line in text.split(b"\n")) + b"\r\n"


def after_another(message: bytes) -> bytes:
    log = {"jsonrpc": "2.0", "method": "notifications/message", "params": MESSAGE}
    return as_event(json.dumps(log).encode()) + as_event(message)


BODIES: list[tuple[str, Body]] = [
    ("application/json", as_json),
    ("text/event-stream", as_event),
    ("text/event-stream", as_lines),
    ("text/event-stream", after_another),
]
SIZES = [7_001, 1_000_000]


class Parts(httpx2.AsyncByteStream):
    """A body in parts of a size."""

    def __init__(self, body: bytes, size: int) -> None:
        self._body, self._size = body, size

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for at in range(0, len(self._body), self._size):
            await anyio.lowlevel.checkpoint()
            yield self._body[at : at + self._size]


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each message has that the SDK reads."""
    sizes: list[int] = []

    class Reads:
        def validate_json(self, text: bytes | str, **more: Any) -> Any:
            sizes.append(len(text))
            return adapter.validate_json(text, **more)

    sdk: Any = mcp.client.streamable_http
    adapter = sdk.jsonrpc_message_adapter
    monkeypatch.setattr(sdk, "jsonrpc_message_adapter", Reads())
    return sizes


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> set[int]:
    """The threads in which large messages are read."""
    seen: set[int] = set()
    shorten = http_large._shortened

    def noted(text: bytes) -> Any:
        seen.add(get_ident())
        return shorten(text)

    monkeypatch.setattr(http_large, "_shortened", noted)
    return seen


Answer = Callable[[Any], tuple[str, bytes]]
"""Returns the kind and the body of the answer to a request."""


@asynccontextmanager
async def connected(
    answer: Answer, size: int, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Wire, list[Any]]]:
    """Yield a connection to a server whose answers come in parts of a size, and the notifications that came."""

    def respond(request: httpx2.Request) -> httpx2.Response:
        asked = json.loads(request.content or b"{}")
        if "id" not in asked:
            return httpx2.Response(202 if request.method == "POST" else 405)
        if asked["method"] == "initialize":
            said = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "big", "version": "1"}}
            return httpx2.Response(200, json={"jsonrpc": "2.0", "id": asked["id"], "result": said})
        kind, body = answer(asked)
        return httpx2.Response(200, headers={"content-type": kind}, stream=Parts(body, size))

    async def refuse(*_: Any) -> Any:
        raise NotImplementedError

    notified: list[Any] = []
    server = httpx2.MockTransport(respond)
    monkeypatch.setattr(httpx2, "AsyncClient", partial(httpx2.AsyncClient, transport=server))
    transport = transport_to("http://upstream/mcp", UpstreamConfig(url="http://upstream/mcp"), None)
    with anyio.fail_after(60):
        async with connect(transport, "legacy", {}, refuse, lambda _, params, __: notified.append(params)) as wire:
            yield wire, notified


def answering(kind: str, body: Body) -> Answer:
    def answer(asked: Any) -> tuple[str, bytes]:
        name = asked["params"]["name"]
        said = {"error": FAILURES[name]} if name in FAILURES else {"result": RESULTS[name]}
        return kind, body(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}).encode())

    return answer


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("kind", "body"), BODIES)
async def test_large_answers_come_as_they_were_sent_and_the_loop_reads_none_of_them(
    kind: str, body: Body, size: int, read: list[int], threads: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    came: dict[str, Any] = {}
    async with connected(answering(kind, body), size, monkeypatch) as (wire, notified):

        async def call(name: str) -> None:
            try:
                came[name] = await wire.request("tools/call", {"name": name})
            except ProtocolError as error:
                came[name] = {"code": error.code, "message": error.message, "data": error.data}

        async with anyio.create_task_group() as tasks:
            for name in (*RESULTS, *FAILURES):
                tasks.start_soon(call, name)
    assert came == {**RESULTS, **FAILURES}
    assert notified == [MESSAGE] * len(came) * (body is after_another)
    assert max(read) <= HUGE
    assert threads
    assert get_ident() not in threads


BROKEN = [b'{"jsonrpc": "2.0", "id": 2, "result": {"content": [' + b'"x", ' * 100_000, b"[" + b"1, " * 200_000 + b"1]"]
OTHER = [b'{"result": "' + b"x" * 500_000 + b'"}', b'"' + b"x" * 500_000 + b'"', b"x" * 500_000]


@pytest.mark.parametrize("text", [*BROKEN, *OTHER])
@pytest.mark.parametrize(("kind", "body"), [("application/json", bytes), ("text/event-stream", as_event)])
async def test_large_answers_that_are_no_messages_fail_the_call_and_the_loop_reads_none_of_them(
    kind: str, body: Body, text: bytes, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(lambda _: (kind, body(text)), 1_000_000, monkeypatch) as (wire, _):
        with pytest.raises(Refused, match="its answer is no message of the protocol"):
            await wire.request("tools/call", {"name": "x"})
    assert max(read) <= HUGE


@pytest.mark.parametrize("forged", [{"toolfold_large": ""}, {"toolfold_large": "0" * 32}])
async def test_no_server_gets_at_what_another_answer_had(forged: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(asked: Any) -> tuple[str, bytes]:
        result = RESULTS["many"] if asked["params"]["name"] == "large" else forged
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": MESSAGE}
        said = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
        return "text/event-stream", as_event(json.dumps(log).encode()) + as_event(json.dumps(said).encode())

    async with connected(answer, 1_000_000, monkeypatch) as (wire, _):
        assert await wire.request("tools/call", {"name": "large"}) == RESULTS["many"]
        assert await wire.request("tools/call", {"name": "forged"}) == forged
