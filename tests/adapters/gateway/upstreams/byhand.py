"""An upstream in the same process that speaks by hand: it says what it is to, when it is to, over any stream."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any, Literal

import anyio
import httpx2
from attrs import define, field
from mcp.shared.message import SessionMessage
from mcp_types import METHOD_NOT_FOUND, jsonrpc_message_adapter
from mcp_types.version import LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from toolfold_adapters.transport.http_client import http_transport

Message = dict[str, Any]
Send = Callable[[Message], None]
Carrier = Literal["pipe", "http"]

ABLE = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}
INFO = {"name": "byhand", "version": "1"}


@define(eq=False)
class Call:
    """A call of the tool `hold` that is in progress, or was: its id, its token for progress, and its stream."""

    id: Any
    token: Any
    send: Send

    def answer(self) -> None:
        content = [{"type": "text", "text": "done"}]
        self.send({"jsonrpc": "2.0", "id": self.id, "result": {"resultType": "complete", "content": content}})


@define(eq=False)
class ByHand:
    """A server with a tool `hold`, whose calls wait, and a tool `now`.

    Attributes:
        modern: Whether it is of the modern era, or of the other one.
        carrier: What it is reached over.
        calls: The calls of `hold` by who makes them, which their arguments say.
        standing: How to send over the stream that belongs to no call, of its first connection.
        connections: How many were opened.
        answers: What it was answered, by the id of the question.
        level: At which level it logs.
    """

    modern: bool
    carrier: Carrier
    calls: dict[str, Call] = field(factory=dict)
    standing: list[Send] = field(factory=list)
    connections: int = 0
    answers: dict[str, Message] = field(factory=dict)
    level: str | None = None

    def transport(self, config: Any, name: str) -> AbstractAsyncContextManager[tuple[Any, Any]]:
        """Return what carries the messages of a new connection."""
        self.connections += 1
        if self.carrier == "pipe":
            return self._pipe()
        client = partial(httpx2.AsyncClient, transport=httpx2.MockTransport(self._posted))
        return http_transport("http://upstream/mcp", {}, None, client)

    @asynccontextmanager
    async def _pipe(self) -> AsyncGenerator[tuple[Any, Any]]:
        to_server, from_client = anyio.create_memory_object_stream[SessionMessage](100)
        to_client, from_server = anyio.create_memory_object_stream[SessionMessage](100)

        def send(message: Message) -> None:
            to_client.send_nowait(SessionMessage(jsonrpc_message_adapter.validate_python(message)))

        async def serve() -> None:
            self.standing.append(send)
            async for item in from_client:
                self._take(item.message.model_dump(by_alias=True, mode="json", exclude_unset=True), send)

        async with to_server, from_client, to_client, from_server, anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield from_server, to_server
            tasks.cancel_scope.cancel()

    def _posted(self, request: httpx2.Request) -> httpx2.Response:
        if request.method == "DELETE":
            return httpx2.Response(200)
        message: Message = json.loads(request.content) if request.method == "POST" else {}
        events = _Events()
        if "id" in message and "method" in message:
            self._take(message, events.send)
        elif message:
            self._take(message, lambda _: None)
            return httpx2.Response(202)
        else:
            self.standing.append(events.send)
        headers = {"content-type": "text/event-stream", "mcp-session-id": "s"}
        return httpx2.Response(200, headers=headers, stream=events)

    def _take(self, message: Message, send: Send) -> None:
        method, id = message.get("method"), message.get("id")
        if method is None:
            self.answers[str(id)] = message
        elif id is not None:
            params = message.get("params", {})
            self.level = params.get("level", self.level)
            if method == "subscriptions/listen":
                self.standing.append(send)
                acknowledged = {"notifications": params["notifications"]}
                subscribed = "notifications/subscriptions/acknowledged"
                send({"jsonrpc": "2.0", "method": subscribed, "params": acknowledged})
            elif method == "tools/call" and params["name"] == "hold":
                self.calls[params["arguments"]["who"]] = Call(id, params.get("_meta", {}).get("progressToken"), send)
            elif (result := self._result(method)) is None:
                send({"jsonrpc": "2.0", "id": id, "error": {"code": METHOD_NOT_FOUND, "message": method}})
            else:
                send({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", **result}})

    def _result(self, method: str) -> Message | None:
        if method == "initialize" and not self.modern:
            return {"protocolVersion": LATEST_HANDSHAKE_VERSION, "capabilities": ABLE, "serverInfo": INFO}
        if method == "server/discover" and self.modern:
            return {"supportedVersions": [LATEST_MODERN_VERSION], "capabilities": ABLE}
        schema = {"type": "object"}
        results: dict[str, Message] = {
            "tools/list": {"tools": [{"name": name, "inputSchema": schema} for name in ("hold", "now")]},
            "tools/call": {"content": [{"type": "text", "text": "done"}]},
            "resources/list": {"resources": []},
            "resources/templates/list": {"resourceTemplates": []},
            "ping": {},
            "logging/setLevel": {},
        }
        return results.get(method)


class _Events(httpx2.AsyncByteStream):
    """The body of an answer: a stream of events, until who reads it has enough."""

    def __init__(self) -> None:
        self._messages = deque[Message]()
        self._more = anyio.Event()

    def send(self, message: Message) -> None:
        self._messages.append(message)
        self._more.set()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self._more = anyio.Event()
            while self._messages:
                yield f"event: message\ndata: {json.dumps(self._messages.popleft())}\n\n".encode()
            await self._more.wait()
