"""A bridge from standard input and output to a server at a URL, for clients that can only start commands (SPEC GWY-10).

Messages pass as they are, in either era. What HTTP asks for beside them, its headers, follows from what passes: the
version that was agreed on, and in the modern era the method, the name and the marked arguments of each request. A
server that is restarted gets a new session, and the client is asked to list again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp.server.stdio import stdio_server
from mcp.shared.inbound import MCP_PROTOCOL_VERSION_HEADER
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
    RequestId,
)

from toolfold import ToolfoldError
from toolfold.spi import table

from .reconnecting import ReconnectingClient
from .upstream.headers import ModernHeaders
from .upstream.transports import CONNECT_SECONDS, http_transport


class ServerAway(ToolfoldError):
    """Nothing answers at the URL of a bridge, at its start."""


class Headers:
    """What goes with each message over HTTP, learned from the messages themselves.

    `list_changes` is whether the server says in a session when its tools change.
    """

    def __init__(self) -> None:
        self.list_changes = False
        self._version: str | None = None
        self._asked: dict[RequestId, str] = {}
        self._modern = ModernHeaders()

    def of(self, message: Any) -> dict[str, str]:
        """Return the headers of a message of the client, and note what it asks for."""
        if not isinstance(message, JSONRPCRequest | JSONRPCNotification):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        params = message.params or {}
        if isinstance(message, JSONRPCRequest) and message.method in ("initialize", "tools/list"):
            self._asked[message.id] = message.method
        version = (table(params.get("_meta")) or {}).get(PROTOCOL_VERSION_META_KEY)
        if not isinstance(version, str):
            return {} if self._version is None else {MCP_PROTOCOL_VERSION_HEADER: self._version}
        return self._modern.of(version, message.method, params)

    def learn(self, message: Any) -> None:
        """Take note of an answer of the server: which version it speaks, and which arguments are headers."""
        if not isinstance(message, JSONRPCResponse):
            return
        asked = self._asked.pop(message.id, None)
        if asked == "initialize":
            version = message.result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None
            capabilities = table(message.result.get("capabilities")) or {}
            self.list_changes = bool((table(capabilities.get("tools")) or {}).get("listChanged"))
        elif asked == "tools/list":
            tools: list[Any] = message.result.get("tools") or []
            for tool in map(table, tools):
                self._modern.learn(str((tool or {}).get("name")), (tool or {}).get("inputSchema"))


async def bridge(url: str, headers: Mapping[str, str], close_stdin: Callable[[], None]) -> None:
    """Pass messages between standard input and output and the server at `url`, until either ends.

    Args:
        url: The URL of the server.
        headers: More for the headers of each request.
        close_stdin: Ends the input, for which a thread waits that can't be cancelled.

    Raises:
        ServerAway: Nothing answers there.
    """
    await _knock(url)
    known = Headers()
    async with stdio_server() as (incoming, outgoing):

        async def renewed() -> None:
            """Have the client list again what a server that was restarted offers."""
            if known.list_changes:
                changed = JSONRPCNotification(jsonrpc="2.0", method="notifications/tools/list_changed")
                await outgoing.send(SessionMessage(changed))

        try:
            transport = http_transport(url, dict(headers), None, partial(ReconnectingClient, renewed))
            await _carry(incoming, outgoing, transport, known)
        finally:
            close_stdin()


async def _carry(incoming: Any, outgoing: Any, transport: Any, known: Headers) -> None:
    """Pass messages between a client's streams and a transport to a server, until either ends."""

    async def up(write: Any, tasks: TaskGroup) -> None:
        async with incoming:
            async for item in incoming:
                if isinstance(item, SessionMessage):
                    metadata = ClientMessageMetadata(headers=known.of(item.message))
                    await write.send(SessionMessage(item.message, metadata))
        tasks.cancel_scope.cancel()

    async with outgoing, transport as (read, write), anyio.create_task_group() as tasks:
        tasks.start_soon(up, write, tasks)
        async for item in read:
            if isinstance(item, SessionMessage):
                known.learn(item.message)
                await outgoing.send(SessionMessage(item.message))
        tasks.cancel_scope.cancel()


async def _knock(url: str) -> None:
    """Find out whether anything listens at a URL, before a client waits for it."""
    parsed = httpx2.URL(url)
    port = parsed.port or (443 if parsed.scheme == "https" else 80)
    try:
        with anyio.fail_after(CONNECT_SECONDS):
            await (await anyio.connect_tcp(parsed.host, port)).aclose()
    except (OSError, TimeoutError) as error:
        raise ServerAway(_away(url, error)) from error


def _away(url: str, error: BaseException) -> str:
    return f"Nothing answers at {url} ({type(error).__name__}); start it there: toolfold serve TARGET --http"
